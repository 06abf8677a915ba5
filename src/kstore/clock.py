"""The clock of records, commits and reports. Tests set the time by ``tests/support/clock.py``."""

from time import time_ns


def now_ms() -> int:
    """Unix time in ms. Any thread."""
    return time_ns() // 1_000_000
