"""Count, sum and recent quantiles of durations, in constant memory."""

from collections.abc import Callable, Iterable
from time import monotonic

WINDOW_SECONDS = 60.0
_FINE = 16  # buckets of each power of two: a quantile is at most a sixteenth too large
_FINE_BITS = 4
_BUCKETS = (32 - _FINE_BITS + 1) * _FINE
_LONGEST = (1 << 32) - 1  # microseconds: 71 minutes


class TimeSummary:
    """Summarizes durations in seconds. One thread adds; any thread reads.

    ``count`` and ``total`` increase forever, as Prometheus requires. The quantiles are those of the
    last one to two minutes, or since the quantiles were asked for before, if that is longer.
    """

    __slots__ = ("_before", "_clock", "_since", "_window", "count", "total")

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.count = 0
        self.total = 0.0
        self._clock = clock
        self._since = clock()
        self._window = [0] * _BUCKETS
        self._before = [0] * _BUCKETS

    def add(self, seconds: float, count: int = 1) -> None:
        """Add a duration ``count`` times."""
        self.count += count
        self.total += seconds * count
        self._window[_bucket(int(seconds * 1_000_000))] += count

    def quantiles(self, wanted: Iterable[float]) -> list[float]:
        """These quantiles of the recent durations in seconds; NaN if there are none."""
        recent = [one + other for one, other in zip(self._window, self._before, strict=True)]
        self._begin_window()
        total = sum(recent)
        return [_upper_bound(recent, share * total) if total else float("nan") for share in wanted]

    def _begin_window(self) -> None:
        now = self._clock()
        if now - self._since >= WINDOW_SECONDS:
            self._since = now
            self._before, self._window = self._window, [0] * _BUCKETS


def _bucket(microseconds: int) -> int:
    if not 0 <= microseconds <= _LONGEST:
        microseconds = 0 if microseconds < 0 else _LONGEST
    shift = microseconds.bit_length() - _FINE_BITS - 1
    if shift <= 0:
        return microseconds
    return shift * _FINE + (microseconds >> shift)


def _upper_bound(counts: list[int], rank: float) -> float:
    seen = 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            shift = max(0, bucket // _FINE - 1)
            return ((bucket - shift * _FINE + 1) << shift) / 1_000_000
    raise AssertionError("the counts add up to the total")
