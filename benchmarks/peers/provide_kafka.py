"""Real Kafka as a peer of the contests; if it is missing, a message says so, and CI fails."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.peers.kafka import KafkaProvider, provide_kafka
from peers.broker import Served, served
from peers.kafka import VERSION, KafkaLog, KafkaMissingError, prepare, required


class MissingError(RuntimeError):
    """A peer of a suite is not on this machine; the text says what to install."""


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


def tool(name: str) -> list[str] | None:
    """How one of Kafka's tools is run, or None where Java or its jars are missing."""
    libs, missing = prepare(VERSION)
    if missing is None and shutil.which("java") is None:
        missing = "java is missing"
    if missing is None:
        return ["java", "-Xmx1g", "-cp", f"{libs}/*", name]
    if required():
        raise RuntimeError(missing)
    print(f"without Kafka: {missing}", file=sys.stderr)
    return None


@contextmanager
def broker(store: Path, topic: str, partitions: int, root: Path) -> Iterator[Served | None]:
    """A broker over a closed store's partitions, or None where Java or its jars are missing."""
    if tool("kafka.Kafka") is None:
        yield None
        return
    with served(store, topic, partitions, root) as peer:
        yield peer


provide_kafka(KafkaProvider(kafka_log, tool, broker))
