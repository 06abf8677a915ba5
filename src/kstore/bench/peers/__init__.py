"""Which peers take part in a run."""
