"""Limits the bytes per second that compactions read and write (Kafka's Throttler)."""

import math
import threading
import time
from collections.abc import Callable

NO_LIMIT = math.inf
_LONGEST_SLEEP = 0.1  # seconds between two checks whether the compaction is to end


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
        self._lock = threading.Lock()

    def set_rate(self, bytes_per_second: float) -> None:
        """Limit what passes from now on to another rate."""
        with self._lock:
            self._rate, self._free_at = bytes_per_second, -math.inf

    def passed(self, size: int, check: Callable[[], None] = lambda: None) -> None:
        """Account for ``size`` bytes and sleep to keep the rate; ``check`` may raise meanwhile."""
        if self._rate == NO_LIMIT:
            return
        with self._lock:
            until = self._free_at = max(self._free_at, self._clock()) + size / self._rate
        # A shorter sleep is not worth a system call; a longer one would delay a store's close.
        while (left := until - self._clock()) > 0.001:
            check()
            self._sleep(min(left, _LONGEST_SLEEP))
