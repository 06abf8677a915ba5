"""Opening 10,000 clean partitions against Kafka's log manager with two threads; and a thousand by
whole programs, start and memory included, against a broker of Kafka's over the same directory."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import log_open
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.contests.verify import python
from kstore.bench.log_open import MEMORY
from kstore.bench.peers import KafkaBroker, attempt, kafka_broker, kafka_log

PARTITIONS = 10_000
FIRST_USE = 0.050  # seconds
SERVED = 1000  # partitions of a broker
HEAPS = {"1 GB heap": "1g", "256 MB heap": "256m"}  # the first as kafka-server-start.sh has it
TOPIC = "many"
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


def contests() -> Iterator[Contest]:
    yield from in_process()
    yield from whole_programs()


def in_process() -> Iterator[Contest]:
    count = scaled(PARTITIONS, 10)
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        calls: Calls = {
            "kstore": partial(
                log_open.open_and_use, log_open.make(Path(path) / "kstore", count), count
            ),
            "50 ms": lambda: Timed(FIRST_USE, result=count),
        }
        bars: Bars = [("kstore", "50 ms", 1.0)]
        theirs = "Kafka, all loaded"
        if peer is not None and attempt("Kafka", partial(peer.partitions, count)) is not None:

            def by_kafka() -> Timed:
                result = peer.load()
                assert result["end_offsets"] == count  # one record each
                also = {MEMORY: float(result["memory"]), "live heap, MiB": float(result["live"])}
                return Timed(float(result["seconds"]), result=int(result["count"]), also=also)

            calls[theirs] = by_kafka
            bars.append(("kstore all end offsets", theirs, 1.0))
            bars.append((f"kstore {MEMORY}", f"{theirs} {MEMORY}", None))
        yield Contest(
            name=f"open {count} clean partitions, {log_open.FILES} descriptors; first use",
            calls=calls,
            bars=tuple(bars),
            targets=frozenset(["50 ms"]),
            rounds=7,
        )


def whole_programs() -> Iterator[Contest]:
    """From the start of a program on: Kafka's until it serves, kstore's until it has ended."""
    count = scaled(SERVED, 10)
    with TemporaryDirectory() as path:
        root = Path(path)
        store = log_open.make(root / "kstore", count)
        with kafka_broker(store, TOPIC, count, root / "kafka") as broker:
            directory = store if broker is None else broker.log_dir
            ours = "kstore, the whole program"
            calls: Calls = {ours: partial(used, directory, count, root / "output")}
            bars: Bars = []
            for name, heap in HEAPS.items():
                if broker is None:
                    break
                theirs = f"Kafka's broker, {name}"
                calls[theirs] = partial(served, broker, heap)
                bars.append((ours, theirs, None))
                bars.append((f"{ours} {MEMORY}", f"{theirs} {MEMORY}", None))
            yield Contest(
                name=f"start on {count} clean partitions until every end offset is known",
                calls=calls,
                bars=tuple(bars),
                expected=count,
                rounds=5,
            )


def used(directory: Path, count: int, output: Path) -> Timed:
    """Imports, open, an append to one partition and a read of it, every end offset, close."""
    timed = python(["-c", log_open.program(directory, TOPIC)], output)
    log_open.checked(output.read_text(encoding="utf-8"), count)
    return Timed(timed.seconds, result=count, also=timed.also)


def served(broker: KafkaBroker, heap: str) -> Timed:
    result = broker.serve(heap)
    if int(result["end_offsets"]) < int(result["partitions"]):
        raise AssertionError(f"a partition without its record: {result}")
    also = {"port open": float(result["port"]), MEMORY: float(result["memory"])}
    return Timed(float(result["seconds"]), result=int(result["partitions"]), also=also)
