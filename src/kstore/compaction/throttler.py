"""Limits the bytes per second of compactions and moves (Kafka's Throttler)."""

import math
import threading
import time
from collections.abc import Callable

NO_LIMIT = math.inf
_LONGEST_SLEEP = 0.1  # seconds between two checks whether the work is to end


class Throttler:
    """Limits a byte rate by sleeping after each chunk. Threads that share one share its rate."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = -math.inf
        self._changes = 0  # of the rate
        self._lock = threading.Lock()

    def set_rate(self, bytes_per_second: float) -> None:
        """Limit what passes from now on to another rate, and end sleeps that the old one asks."""
        with self._lock:
            if bytes_per_second != self._rate:
                self._rate, self._free_at = bytes_per_second, -math.inf
                self._changes += 1

    def passed(self, size: int, check: Callable[[], None] = lambda: None) -> None:
        """Account for ``size`` bytes and sleep to keep the rate; ``check`` may raise meanwhile."""
        if self._rate == NO_LIMIT:
            return
        with self._lock:
            until = self._free_at = max(self._free_at, self._clock()) + size / self._rate
            changes = self._changes
        # A shorter sleep is not worth a system call; a longer one would delay a store's close.
        while (left := until - self._clock()) > 0.001 and changes == self._changes:
            check()
            self._sleep(min(left, _LONGEST_SLEEP))
