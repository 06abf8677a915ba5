"""Clocks whose time passes only when a test says so."""


class Clock:
    """Called, it returns ``now``, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
