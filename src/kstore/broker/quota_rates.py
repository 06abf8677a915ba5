"""Rates and token buckets of quotas, with the time as a parameter (Kafka's Rate, TokenBucket)."""

from collections import deque


class WindowedRate:
    """Amounts of the last windows, a second each, and their rate.

    As Kafka's Rate: of ``windows`` samples the oldest that counts is ``windows`` seconds old, and
    the time that the rate divides by is never less than all windows but one.
    """

    __slots__ = ("_samples", "_total", "_windows")

    def __init__(self, windows: int) -> None:
        self._windows = windows
        self._samples: deque[list[float]] = deque()  # start and amount
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        samples = self._samples
        if not samples or now - samples[-1][0] >= 1.0:
            samples.append([now, 0.0])
        samples[-1][1] += amount
        self._total += amount

    def _forget_old(self, now: float) -> None:
        samples = self._samples
        while samples and now - samples[0][0] >= self._windows:
            self._total -= samples.popleft()[1]
        if not samples:
            self._total = 0.0

    def throttle_seconds(self, limit: float, now: float) -> float:
        """How long to wait until the rate is the limit; 0 for a rate within it."""
        self._forget_old(now)
        if not self._samples:
            return 0.0
        elapsed = now - self._samples[0][0]
        full = int(elapsed)
        least = self._windows - 1
        seconds = elapsed + (least - full if full < least else 0)
        rate = self._total / seconds
        return 0.0 if rate <= limit else (rate - limit) / limit * seconds

    def is_idle(self, now: float) -> bool:
        """Whether nothing counts any more."""
        self._forget_old(now)
        return not self._samples


class TokenBucket:
    """Tokens that come back at a rate, as many as ``seconds`` of it at most.

    Kafka's TokenBucket (KIP-599): what is taken may go below zero; the next has to wait.
    """

    __slots__ = ("_limit", "_seconds", "_tokens", "_when")

    def __init__(self, limit: float, seconds: float, now: float) -> None:
        self._limit = limit  # that counted last
        self._seconds = seconds
        self._tokens = limit * seconds
        self._when = now

    def _refill(self, limit: float, now: float) -> None:
        self._tokens = min(limit * self._seconds, self._tokens + (now - self._when) * limit)
        self._when, self._limit = now, limit

    def take(self, amount: float, limit: float, now: float) -> None:
        self._refill(limit, now)
        self._tokens -= amount

    def throttle_seconds(self, limit: float, now: float) -> float:
        """How long until there are no fewer than no tokens."""
        self._refill(limit, now)
        return max(0.0, -self._tokens / limit)

    def is_full(self, now: float) -> bool:
        """Whether a new bucket would be the same."""
        self._refill(self._limit, now)
        return self._tokens >= self._limit * self._seconds
