"""The workloads, and kstore's targets relative to Kafka."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from load import frames
from load.brokers import Broker, Topics, anonymous_memory, cpu_seconds
from load.programs import Generator, Measured

MIB, GB = 1 << 20, 1_000_000_000
WARM = 50  # requests of a connection before the clock starts
Sample = dict[str, float]  # a figure by its name

RATE, REQUESTS, CPU = "MB/s", "requests/s", "CPU s/GB"
P50, P99, OWN_CPU = "p50 us", "p99 us", "generator CPU s/GB"
CPU_REQUEST = "CPU us/request"


class Bench:
    """One broker and the state for measuring it."""

    def __init__(self, broker: Broker, generator: Generator, scale: float) -> None:
        self.broker = broker
        self.generator = generator
        self.scale = scale
        self.topics = Topics(broker)
        self.received = 0  # bytes of Produce requests since the broker started
        self._topics_made = 0

    def scaled(self, count: int) -> int:
        return max(8, int(count * self.scale))

    def new_topic(self, partitions: int) -> str:
        """Create a topic with a new name; all names have the same length."""
        self._topics_made += 1
        topic = f"load-{self._topics_made:06}"
        self.topics.create(topic, partitions)
        return topic

    def measure(self, mode: str, *requests: frames.Frame, **options: int) -> tuple[Measured, float]:
        """The generator's results, and the broker's CPU seconds, including the warm-up."""
        before = cpu_seconds(self.broker.pid)
        found = self.generator.run(mode, self.broker.port, requests, **options)
        return found, cpu_seconds(self.broker.pid) - before

    def check_ends(self, topic: str, expected: list[int]) -> None:
        """Assert that the log end offsets equal the acknowledged records."""
        if self.broker.keeps_records:
            found = self.topics.ends(topic)
            assert found == expected, f"{self.broker.name}: ends {found}, sent {expected}"


@dataclass(frozen=True)
class Workload:
    """A workload. ``wanted``: by figure, the minimum (positive) or maximum (negative) ratio of
    kstore to Kafka."""

    name: str
    run: Callable[[Bench], Sample]
    wanted: Mapping[str, float] = field(default_factory=dict)


def _produce(size: int, connections: int, in_flight: int, count: int) -> Callable[[Bench], Sample]:
    """Send ``count`` batches of one size, with one partition for each connection."""

    def run(bench: Bench) -> Sample:
        topic = bench.new_topic(connections)
        batch = frames.batch(size)
        requests = [frames.produce(topic, each, batch) for each in range(connections)]
        warm = WARM if in_flight > 1 else 10 * WARM
        total_count = (bench.scaled(count) // connections + warm) * connections
        found, cpu = bench.measure(
            "send", *requests, in_flight=in_flight, count=total_count, warm=warm
        )
        total = sum(found.sent) * len(requests[0].data)
        bench.received += total
        bench.check_ends(topic, [each * frames.record_count(batch) for each in found.sent])
        bench.topics.delete(topic)
        return {
            RATE: found.bytes / found.seconds / 1e6,
            REQUESTS: found.requests / found.seconds,
            P50: found.p50 * 1e6,
            P99: found.p99 * 1e6,
            CPU: cpu / (total / GB),
            CPU_REQUEST: cpu / sum(found.sent) * 1e6,
            OWN_CPU: found.cpu / (found.bytes / GB),
        }

    return run


@dataclass
class _Filled:
    topic: str
    end: int


_FILLED: dict[int, _Filled] = {}  # by process id of the broker
_PARTITIONS = 4


def _filled(bench: Bench) -> _Filled:
    """A topic with four partitions of identical records, created at the first use."""
    if bench.broker.pid not in _FILLED:
        topic = bench.new_topic(_PARTITIONS)
        batch = frames.batch(16384)
        requests = [frames.produce(topic, each, batch) for each in range(_PARTITIONS)]
        count = max(256, bench.scaled(16384)) * _PARTITIONS
        found, _ = bench.measure("send", *requests, in_flight=5, count=count)
        end = found.sent[0] * frames.record_count(batch)
        bench.check_ends(topic, [end] * _PARTITIONS)
        bench.received += count * len(batch)
        _FILLED[bench.broker.pid] = _Filled(topic, end)
    return _FILLED[bench.broker.pid]


def _fetch(connections: int, count: int) -> Callable[[Bench], Sample]:
    """Fetch 1 MiB at a time, one partition for each connection; restart at the partition's end."""

    def run(bench: Bench) -> Sample:
        filled = _filled(bench)
        requests = [frames.fetch(filled.topic, each) for each in range(connections)]
        total_count = (max(16, bench.scaled(count)) // connections + 4) * connections
        found, cpu = bench.measure("fetch", *requests, end=filled.end, count=total_count, warm=4)
        assert found.bytes > found.requests * MIB * 0.7, f"{bench.broker.name}: {found}"
        total = found.bytes * sum(found.sent) / found.requests
        return {
            RATE: found.bytes / found.seconds / 1e6,
            CPU: cpu / (total / GB),
            OWN_CPU: found.cpu / (found.bytes / GB),
        }

    return run


def _parked(bench: Bench) -> Sample:
    """Produce single records to a partition while a Fetch waits at its end."""
    topic = bench.new_topic(1)
    sent = frames.produce(topic, 0, frames.batch(1))
    count, warm = bench.scaled(3000), 200
    found, _ = bench.measure(
        "parked",
        frames.fetch(topic, 0),
        sent,
        count=count,
        warm=warm,
        produce_error_at=sent.error_at,
    )
    bench.check_ends(topic, [count + warm])
    bench.topics.delete(topic)
    return {P50: found.p50 * 1e6, P99: found.p99 * 1e6}


def memory_mb(bench: Bench) -> float:
    """The broker's current anonymous memory in MB."""
    return anonymous_memory(bench.broker.pid) / 1e6


WORKLOADS = (
    Workload("produce 16 KB, 4x5", _produce(16384, 4, 5, 65536), {RATE: 3, CPU: -1 / 3}),
    Workload("produce 16 KB, 1x5", _produce(16384, 1, 5, 32768)),
    Workload("produce 1 KB, 4x5", _produce(1024, 4, 5, 100_000), {REQUESTS: 4}),
    Workload("produce 1 record, 4x5", _produce(1, 4, 5, 100_000), {REQUESTS: 4}),
    Workload("produce one at a time", _produce(1, 1, 1, 20_000), {P50: -0.5}),
    Workload("fetch 1 MiB, 1 connection", _fetch(1, 2048), {RATE: 1.2, CPU: -0.5}),
    Workload("fetch 1 MiB, 4 connections", _fetch(4, 4096), {RATE: 1.2, CPU: -0.5}),
    Workload("produce to a parked fetch", _parked, {P50: -0.5}),
)
