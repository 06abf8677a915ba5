"""Keeps a copy to a rate."""

import time
from collections.abc import Callable

_STEP = 0.2  # seconds of sleep at a time
_CREDIT = 1.0  # seconds of an idle time that are made up for


class Pace:
    """How fast to copy. ``bytes_per_second`` None: as fast as it goes. Used by one thread."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._due = time.monotonic()  # when what was copied so far has had its time

    def keep(self, size: int, stop: Callable[[], bool]) -> None:
        """Wait until so many bytes more have had their time, or until ``stop()``."""
        if self._rate is None:
            return
        self._due = max(self._due, time.monotonic() - _CREDIT) + size / self._rate
        while (ahead := self._due - time.monotonic()) > 0 and not stop():
            time.sleep(min(ahead, _STEP))
