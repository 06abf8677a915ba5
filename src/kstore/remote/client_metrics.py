"""What a client counts and measures, under the names of Kafka's clients.

Totals count from the beginning; rates, averages and maxima are those of the last minute, as
``metrics.num.samples`` and ``metrics.sample.window.ms`` set by default in Kafka.
"""

import threading
from time import monotonic

_INTERVAL = 30.0  # seconds of a sample
_SAMPLES = 2
_CONNECTIONS = "metrics"  # the group of what Kafka's clients count for all of their connections
_Key = tuple[str, str, tuple[tuple[str, str], ...]]  # group, name, tags


class _Sample:
    __slots__ = ("count", "largest", "start", "sum")

    def __init__(self, start: float) -> None:
        self.start = start
        self.count = 0
        self.sum = 0.0
        self.largest = float("nan")


class _Window:
    """The values of the last two samples (Kafka's SampledStat and Rate)."""

    __slots__ = ("_samples",)

    def __init__(self, now: float) -> None:
        self._samples = [_Sample(now)]

    def record(self, value: float, now: float) -> None:
        sample = self._kept(now)[-1]
        if now - sample.start >= _INTERVAL:
            sample = _Sample(now)
            self._samples.append(sample)
        sample.count += 1
        sample.sum += value
        sample.largest = value if sample.count == 1 else max(sample.largest, value)

    def rate(self, now: float) -> float:
        """A second; as in Kafka the time is one sample longer before the first one is complete."""
        samples = self._kept(now)
        elapsed = now - samples[0].start
        return sum(each.sum for each in samples) / (
            elapsed if elapsed >= _INTERVAL else elapsed + _INTERVAL
        )

    def average(self, now: float) -> float:
        samples = self._kept(now)
        count = sum(each.count for each in samples)
        return sum(each.sum for each in samples) / count if count else float("nan")

    def largest(self, now: float) -> float:
        found = [each.largest for each in self._kept(now) if each.count]
        return max(found, default=float("nan"))

    def _kept(self, now: float) -> list[_Sample]:
        oldest = now - _SAMPLES * _INTERVAL
        self._samples = [each for each in self._samples if each.start > oldest] or [_Sample(now)]
        return self._samples


class ClientMetrics:
    """Totals, rates, averages and maxima by name. Thread safe.

    A ``group`` is Kafka's without the kind of client, such as ``topic-metrics`` of
    ``producer-topic-metrics``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[_Key, float] = {}
        self._rates: dict[_Key, _Window] = {}
        self._averages: dict[_Key, _Window] = {}
        self._largest: dict[_Key, _Window] = {}

    # --- counting ---------------------------------------------------------------------------

    def count(
        self, name: str, amount: float = 1, *, group: str = _CONNECTIONS, **tags: str
    ) -> None:
        """Add to ``NAME-total`` and ``NAME-rate``."""
        key, now = (group, name, tuple(tags.items())), monotonic()
        with self._lock:
            self._totals[key] = self._totals.get(key, 0.0) + amount
            self._record(self._rates, key, amount, now)

    def add(self, name: str, amount: float, *, group: str = _CONNECTIONS) -> None:
        """Add to ``NAME-total``."""
        with self._lock:
            key = (group, name, ())
            self._totals[key] = self._totals.get(key, 0.0) + amount

    def measure(self, name: str, value: float, *, group: str = _CONNECTIONS, **tags: str) -> None:
        """Note a value of ``NAME-avg`` and ``NAME-max``."""
        key, now = (group, name, tuple(tags.items())), monotonic()
        with self._lock:
            self._record(self._averages, key, value, now)
            self._record(self._largest, key, value, now)

    def average(self, name: str, value: float, *, group: str = _CONNECTIONS, **tags: str) -> None:
        """Note a value of ``NAME-avg``."""
        with self._lock:
            self._record(self._averages, (group, name, tuple(tags.items())), value, monotonic())

    def largest(self, name: str, value: float, *, group: str = _CONNECTIONS) -> None:
        """Note a value of ``NAME-max``."""
        with self._lock:
            self._record(self._largest, (group, name, ()), value, monotonic())

    def request(self, size: int) -> None:
        """Count a request of this many bytes."""
        self.count("request")
        self.count("network-io")
        self.count("outgoing-byte", size)
        self.measure("request-size", size)

    def response(self, size: int) -> None:
        """Count a response of this many bytes."""
        self.count("response")
        self.count("network-io")
        self.count("incoming-byte", size)

    @staticmethod
    def _record(windows: dict[_Key, _Window], key: _Key, value: float, now: float) -> None:
        window = windows.get(key)
        if window is None:
            window = windows[key] = _Window(now)
        window.record(value, now)

    # --- reading ----------------------------------------------------------------------------

    def values(self, client: str, client_id: str) -> dict[str, float]:
        """All metrics by ``GROUP:NAME:{TAGS}``, as of a ``producer`` or a ``consumer``."""
        now = monotonic()
        with self._lock:
            found = {(*key, "total"): value for key, value in self._totals.items()}
            found |= {(*key, "rate"): each.rate(now) for key, each in self._rates.items()}
            found |= {(*key, "avg"): each.average(now) for key, each in self._averages.items()}
            found |= {(*key, "max"): each.largest(now) for key, each in self._largest.items()}
        shown = {}
        for (group, name, tags, kind), value in found.items():
            pairs = ", ".join(f"{tag}={of}" for tag, of in (("client-id", client_id), *tags))
            shown[f"{client}-{group}:{name}-{kind}:{{{pairs}}}"] = value
        return shown
