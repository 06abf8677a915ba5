"""How a contest is run: rounds, estimates from them, the environment."""
