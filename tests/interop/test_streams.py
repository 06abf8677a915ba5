"""Kafka Streams' word count with exactly_once_v2: killed, and started again without its state.

Each count of a word is written, so the committed counts of a word are 1, 2, 3, ...: a record that
is counted twice or not at all shows, and so does an output that was written twice.
"""

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kafka_jars import STREAMS, compiled, java_command
from interop.kstore_node import KstoreNode, kstore_node
from interop.node import die_with_parent

LINES, COUNTS, PARTITIONS = "lines", "counts", 2
WORDS = ("log", "offset", "segment", "batch", "epoch")
# A killed instance is missed, and its transaction is aborted, after a few seconds.
SETTINGS = (
    "session.timeout.ms=6000", "heartbeat.interval.ms=500", "commit.interval.ms=100",
    "producer.transaction.timeout.ms=3000", "num.stream.threads=2",
)  # fmt: skip
PATIENCE = 90.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[KstoreNode]:
    with kstore_node(tmp_path / "served", group_initial_rebalance_delay_ms=0) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = [NewTopic(LINES, PARTITIONS), NewTopic(COUNTS, PARTITIONS)]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield broker


def write(served: KstoreNode, first: int, count: int) -> Counter[str]:
    """Write lines of three words; returns how often each word is in them."""
    producer = Producer({"bootstrap.servers": served.address})
    found: Counter[str] = Counter()
    for n in range(first, first + count):
        words = [WORDS[(n * step + step) % len(WORDS)] for step in (1, 2, 3)]
        producer.produce(LINES, " ".join(words), key=f"{n}", partition=n % PARTITIONS)
        found.update(words)
    assert producer.flush(30) == 0
    return found


@contextlib.contextmanager
def word_count(served: KstoreNode, state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The running application; what it says is in a file beside its state."""
    state.mkdir()
    words = (served.address, LINES, COUNTS, state, *SETTINGS)
    classes = compiled(STREAMS, "WordCount")
    with state.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            java_command(STREAMS, "WordCount", *words, classes=classes, level="warn"),
            stdin=subprocess.PIPE, stdout=log, stderr=log, preexec_fn=die_with_parent,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


class Counts:
    """The committed counts of each word, in order."""

    def __init__(self, served: KstoreNode) -> None:
        self.found: dict[str, list[int]] = {}
        settings = {"bootstrap.servers": served.address, "group.id": "judge"}
        settings |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(COUNTS, n, 0) for n in range(PARTITIONS)])

    def wait(self, expected: Counter[str], log: Path) -> None:
        """Read until there are as many counts as expected of each word."""
        until = time.monotonic() + PATIENCE
        while any(len(self.found.get(word, ())) < count for word, count in expected.items()):
            assert time.monotonic() < until, (self.found, log.read_text(errors="replace")[-3000:])
            record = self._consumer.poll(0.5)
            if record is not None:
                assert record.error() is None, record.error()
                counts = self.found.setdefault((record.key() or b"").decode(), [])
                counts.append(int(record.value() or b""))

    def close(self) -> None:
        self._consumer.close()


def test_each_word_is_counted_exactly_once(served: KstoreNode, tmp_path: Path) -> None:
    """The second instance restores its state from the changelog, which the first one wrote."""
    counts = Counts(served)
    with contextlib.closing(counts):
        first, second = tmp_path / "first", tmp_path / "second"
        with word_count(served, first) as process:
            expected = write(served, 0, 200)
            counts.wait(Counter(dict.fromkeys(expected, 20)), first.with_suffix(".log"))
            process.kill()  # in the midst of a transaction, or between two
        with word_count(served, second) as process:
            expected += write(served, 200, 100)
            counts.wait(expected, second.with_suffix(".log"))
            process.communicate(timeout=PATIENCE)  # the end of its input: it closes
            assert process.returncode == 0
    assert counts.found == {word: list(range(1, n + 1)) for word, n in expected.items()}
