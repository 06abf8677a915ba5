"""Opening 10,000 clean partitions against Kafka's log manager with two threads."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import log_open
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import attempt, kafka_log

PARTITIONS = 10_000
FIRST_USE = 0.050  # seconds


def contests() -> Iterator[Contest]:
    count = scaled(PARTITIONS, 10)
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        calls: dict[str, Callable[[], object]] = {
            "kstore": partial(
                log_open.open_and_use, log_open.make(Path(path) / "kstore", count), count
            ),
            "50 ms": lambda: Timed(FIRST_USE, result=count),
        }
        bars: list[tuple[str, str, float | None]] = [("kstore", "50 ms", 1.0)]
        if peer is not None and attempt("Kafka", partial(peer.partitions, count)) is not None:

            def by_kafka() -> Timed:
                result = peer.load()
                assert result["end_offsets"] == count  # one record each
                return Timed(float(result["seconds"]), result=int(result["count"]))

            calls["Kafka, all loaded"] = by_kafka
            bars.append(("kstore all end offsets", "Kafka, all loaded", 1.0))
        yield Contest(
            name=f"open {count} clean partitions, {log_open.FILES} descriptors; first use",
            calls=calls,
            bars=tuple(bars),
            targets=frozenset(["50 ms"]),
            rounds=7,
        )
