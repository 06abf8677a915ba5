"""How a contest is run: rounds, estimates from them, the environment.

Modules:

- environment: The environment of a run: machine, kernel, disk, versions. Printed before any figure
- estimate: Medians with bootstrap intervals, and percentiles
- interleave: Two installations measured in one run: their rounds take turns
- rounds: Run a contest: check the results first, then time interleaved rounds
- turns: The contests of one installation, a round at a time: what ``interleave`` starts twice
"""
