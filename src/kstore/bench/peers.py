"""Who stands beside kstore where they are installed; who is missing is named."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar
from warnings import catch_warnings, simplefilter

from kstore.bench.contest import Timed, in_words
from kstore.bench.statistic import has_tail

Result = dict[str, float | int | str]
missing: dict[str, str] = {}  # since it was last emptied: who, and why
failed: dict[str, str] = {}  # the same of those that are here and broke before their contest


class KafkaLog(Protocol):
    """Apache Kafka's own log layer, in a JVM that stays warm: see ``benchmarks/peers/kafka.py``."""

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
    """A whole broker of Apache Kafka's: one KRaft node over a log directory of its own."""

    log_dir: Path

    def serve(self, heap: str) -> Result:
        """Start it with so large a heap, until it tells every partition's end offset; stop it.

        ``seconds`` of that, ``port`` until it takes connections, ``memory`` the most MiB that the
        process had, ``partitions`` and the sum of their ``end_offsets``.
        """
        ...


Kafka = Callable[[Path], AbstractContextManager[KafkaLog | None]]
# a closed store, its topic, how many partitions, a folder: the broker has those partitions
Broker = Callable[[Path, str, int, Path], AbstractContextManager[KafkaBroker | None]]
Tool = Callable[[str], list[str] | None]  # a class of Kafka's tools to the command that runs it
_kafka: list[Kafka] = []
_tools: list[Tool] = []
_brokers: list[Broker] = []
IN_A_CHECKOUT = "takes part in a checkout: see benchmarks/README.md"
NOT_HERE = "Java 17 or its jars are not here: see benchmarks/README.md"


def optional(module: str, package: str) -> Any:
    """A module of a peer, or None where its package is not installed."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)  # some load their own files in old ways
        try:
            return import_module(module)
        except ImportError:
            missing[package] = f"not installed: pip install {package}"
            return None


T = TypeVar("T")


def attempt(name: str, call: Callable[[], T]) -> T | None:
    """What a peer's preparation gives, or None where it fails, which is told: the others go on."""
    try:
        return call()
    except Exception as error:
        failed[name] = in_words(error)
        return None


def standing(running: ExitStack, name: str, peer: AbstractContextManager[T]) -> T | None:
    """A peer that stands as long as ``running``, or None where it does not come to stand."""
    return attempt(name, lambda: running.enter_context(peer))


def provide_kafka(make: Kafka, tool: Tool, broker: Broker) -> None:
    """Let Apache Kafka take part: what a checkout's ``benchmarks/peers`` calls."""
    _kafka[:], _tools[:], _brokers[:] = [make], [tool], [broker]


def kafka_tool(name: str) -> list[str] | None:
    """The command of one of Kafka's tools, or None where nobody provides it."""
    command = _tools[0](name) if _tools else None
    if command is None:
        missing["Apache Kafka's tools"] = NOT_HERE if _tools else IN_A_CHECKOUT
    return command


@contextmanager
def kafka_log(directory: Path) -> Iterator[KafkaLog | None]:
    """Kafka's log layer over logs below directory, or None where nobody provides it."""
    if not _kafka:
        missing["Apache Kafka"] = IN_A_CHECKOUT
        yield None
        return
    with ExitStack() as running:
        peer = standing(running, "Apache Kafka", _kafka[0](directory))
        if peer is None and "Apache Kafka" not in failed:
            missing["Apache Kafka"] = NOT_HERE
        yield peer


@contextmanager
def kafka_broker(store: Path, topic: str, count: int, root: Path) -> Iterator[KafkaBroker | None]:
    """A broker over the partitions of a closed store, or None where nobody provides it."""
    name = "Apache Kafka's broker"
    if not _brokers:
        missing[name] = IN_A_CHECKOUT
        yield None
        return
    with ExitStack() as running:
        peer = standing(running, name, _brokers[0](store, topic, count, root))
        if peer is None and name not in failed:
            missing[name] = NOT_HERE
        yield peer


def timed(result: Result, *, single: bool = False) -> Timed:
    """A figure of the JVM's own clock, a piece of the work; single: the median of calls."""
    count = int(result["count"])
    also = {
        name: float(result[key]) / 1e9
        for name, key in (("p99", "p99_ns"), ("p99.9", "p999_ns"))
        if key in result and single and has_tail(count, float(name[1:]))
    }
    seconds = float(result["p50_ns"]) / 1e9 if single else float(result["seconds"]) / count
    return Timed(seconds, result=count, also=also)
