"""Real Kafka as a peer of the contests: where it is missing that is said, and fails only in CI."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstore.bench.peers import provide_kafka
from peers.kafka import KafkaLog, KafkaMissingError, required


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


provide_kafka(kafka_log)
