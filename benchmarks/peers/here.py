"""Which peers are here: one that is missing is named, and fails only in CI."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstore.bench.contest import Timed
from peers.kafka import KafkaLog, KafkaMissingError, Result, required


class MissingError(RuntimeError):
    """What a suite compares with is not on this machine; the text says what to install."""


@contextmanager
def kafka_log(directory: Path) -> Iterator[KafkaLog | None]:
    """Kafka's log layer over logs below directory, or None where Java or its jars are missing."""
    try:
        peer = KafkaLog(directory)
    except KafkaMissingError as missing:
        if required():
            raise
        print(f"without Kafka: {missing}", file=sys.stderr)
        yield None
        return
    with peer:
        yield peer


def timed(result: Result, *, single: bool = False) -> Timed:
    """A figure of the JVM's own clock, a piece of the work; single: the median of calls."""
    count = int(result["count"])
    also = {
        name: float(result[key]) / 1e9
        for name, key in (("p99", "p99_ns"), ("p99.9", "p999_ns"))
        if key in result and single
    }
    seconds = float(result["p50_ns"]) / 1e9 if single else float(result["seconds"]) / count
    return Timed(seconds, result=count, also=also)
