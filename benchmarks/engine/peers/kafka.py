"""Apache Kafka as a peer. Only a checkout can provide it: its jars are not part of the package."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from kstore.bench.contest import Timed
from kstore.bench.peers.availability import enter_peer, failed, missing
from kstore.bench.runner.estimate import has_tail

T = TypeVar("T")
Result = dict[str, float | int | str]
IN_A_CHECKOUT = "takes part in a checkout: see benchmarks/README.md"
MISSING = "Java 17 or Kafka's jars are missing: see benchmarks/README.md"


class KafkaLog(Protocol):
    """Apache Kafka's log layer in a warm JVM: see ``benchmarks/peers/kafka.py``."""

    def append(self, records: int, size: int) -> Result: ...
    def fill(self, name: str, records: int, size: int) -> Result: ...
    def read(self, name: str, count: int, seed: int = 1) -> Result: ...
    def iterate(self, name: str) -> Result: ...
    def fetch(self, name: str) -> Result: ...
    def recover(self, name: str) -> Result: ...
    def partitions(
        self, count: int, *, name: str = "partitions", records: int = 1, size: int = 0
    ) -> Result: ...
    def load(self, name: str = "partitions") -> Result: ...
    def clean(self, *partitions: Path, threads: int = 1) -> Result: ...
    def lookup(
        self, index: Path, base_offset: int, offsets: Sequence[int], count: int
    ) -> Result: ...
    def crc(self, path: Path, count: int) -> Result: ...


class KafkaBroker(Protocol):
    """A broker of Apache Kafka: one KRaft node over a log dir of its own."""

    log_dir: Path

    def serve(self, heap: str) -> Result:
        """Start the broker with this heap, wait until it reports every end offset, and stop it.

        The result has ``seconds`` until then, ``port`` (seconds until the broker accepts
        connections), ``memory`` (peak in MiB), ``partitions``, and the sum of ``end_offsets``.
        """
        ...


@dataclass(frozen=True)
class KafkaProvider:
    """How to start Apache Kafka; each function returns None if Java or the jars are missing.

    Attributes
    ----------
    log
        From a directory to Kafka's log layer over logs below it.
    tool
        From the class name of one of Kafka's tools to the command that runs it.
    broker
        From a closed store, its topic, the partition count, and an empty folder to a broker.
    """

    log: Callable[[Path], AbstractContextManager[KafkaLog | None]]
    tool: Callable[[str], list[str] | None]
    broker: Callable[[Path, str, int, Path], AbstractContextManager[KafkaBroker | None]]


_provider: KafkaProvider | None = None


def provide_kafka(provider: KafkaProvider) -> None:
    """Let Apache Kafka take part; ``benchmarks/peers`` calls this in a checkout."""
    global _provider
    _provider = provider


def kafka_tool(name: str) -> list[str] | None:
    """The command of one of Kafka's tools; None, recorded in ``missing``, if there is none."""
    command = None if _provider is None else _provider.tool(name)
    if command is None:
        missing["Apache Kafka's tools"] = IN_A_CHECKOUT if _provider is None else MISSING
    return command


@contextmanager
def kafka_log(directory: Path) -> Iterator[KafkaLog | None]:
    """Kafka's log layer over logs below a directory; None, recorded in ``missing``, without it."""
    peer = None if _provider is None else _provider.log(directory)
    with _started("Apache Kafka", peer) as log:
        yield log


@contextmanager
def kafka_broker(store: Path, topic: str, count: int, root: Path) -> Iterator[KafkaBroker | None]:
    """A broker over the partitions of a closed store; None, recorded in ``missing``, without it."""
    peer = None if _provider is None else _provider.broker(store, topic, count, root)
    with _started("Apache Kafka's broker", peer) as broker:
        yield broker


@contextmanager
def _started(name: str, peer: AbstractContextManager[T | None] | None) -> Iterator[T | None]:
    with ExitStack() as running:
        if peer is None:
            missing[name] = IN_A_CHECKOUT
            yield None
            return
        found = enter_peer(running, name, peer)
        if found is None and name not in failed:
            missing[name] = MISSING
        yield found


def timed(result: Result, *, is_single: bool = False) -> Timed:
    """A figure by the JVM's clock, per call; ``is_single``: the median of calls timed singly."""
    count = int(result["count"])
    also = {
        name: float(result[key]) / 1e9
        for name, key in (("p99", "p99_ns"), ("p99.9", "p999_ns"))
        if key in result and is_single and has_tail(count, float(name[1:]))
    }
    seconds = float(result["p50_ns"]) / 1e9 if is_single else float(result["seconds"]) / count
    return Timed(seconds, result=count, also=also)
