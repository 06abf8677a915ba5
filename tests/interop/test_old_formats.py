"""Message formats v0 and v1 from the brokers of their days, and logs that mix formats.

0.8.2.2 writes v0, 0.10.2.2 v1 (and v0 when configured), 0.11.0.3 the first batches v2, 2.8.2 all
three. Only `make interop-all` runs these: the other interop tests need two versions of Kafka,
these need six.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from interop.ancient_clients import AncientClients
from interop.clients import Clients, clients
from interop.compare_with_kafka import (
    Judged,
    as_expected,
    assert_same_producers,
    assert_same_records,
    assert_same_transactions,
)
from interop.kafka_jars import libs
from interop.old_node import OldNode
from kafka_files.data_sets import ExpectedPartition
from kstore.config import CODECS
from oracle.reader import read_log

pytestmark = pytest.mark.all_versions

T0 = 1_600_000_000_000
OLD_CODECS = ("none", "gzip", "snappy", "lz4")


def fields(seed: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values: null, empty, short, long enough to compress."""
    random = Random(seed)
    return [
        (
            (None, b"", b"key-%d" % random.randrange(9))[random.randrange(3)],
            (None, b"", b"value", b"long " * random.randrange(90))[random.randrange(4)],
        )
        for _ in range(count)
    ]


def magics_of(folder: Path) -> set[int]:
    return {
        batch.magic
        for path in folder.glob("*.log")
        for batch in read_log(path.read_bytes(), decode=False).batches
    }


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], OldNode]]:
    """Start a broker of a version; closed at the end."""
    nodes = []

    def started(version: str) -> OldNode:
        libs(version)
        nodes.append(OldNode(version, tmp_path))
        nodes[-1].start()
        return nodes[-1]

    yield started
    for node in nodes:
        node.close()


def agree(
    node: OldNode, consumed: dict[str, Judged], copy: Path, *, modes: tuple[str, ...]
) -> dict[str, set[int]]:
    """Open a copy of what the stopped or killed broker left; returns the formats of each log."""
    shutil.copytree(node.log_dir, copy)
    written = False
    for mode in modes:
        written = written or mode == "a"
        with kstore.open(copy, mode=mode) as store:
            for name, partition in consumed.items():
                topic, _, number = name.rpartition("-")
                log = store[topic][int(number)]
                assert_same_records(log, partition)
                assert_same_transactions(log, partition)
                assert_same_producers(log, partition, written=written)
                log.verify().raise_if_corrupt()
    return {name: magics_of(copy / name) for name in consumed}


# --- 0.8.2.2, by its own clients -----------------------------------------------------------------


def assert_reads(
    copy: Path, consumed: dict[str, ExpectedPartition], modes: tuple[str, ...]
) -> None:
    for mode in modes:
        with kstore.open(copy, mode=mode) as store:
            for name, plain in consumed.items():
                log = store[plain.topic][0]
                ends = (log.start_offset, log.end_offset)
                assert ends == (plain.beginning_offset, plain.end_offset), name
                assert tuple(as_expected(record) for record in log) == plain.records, name
                log.verify().raise_if_corrupt()


def test_messages_v0_of_0_8_2(start: Callable[[str], OldNode], tmp_path: Path) -> None:
    """Both producers, each codec; stopped, killed; and the broker starts on what kstore closed."""
    node = start("0.8.2.2")
    topics = [f"old-{codec}" for codec in OLD_CODECS[:3]] + [f"new-{c}" for c in OLD_CODECS]
    for topic in topics:
        node.create_topic(topic, segment_bytes=5000, index_interval_bytes=300)
    java = AncientClients(node, tmp_path)
    try:
        for seed in range(6):
            for topic in topics:
                kind, codec = topic.split("-")
                java.send(kind, topic, codec, fields(seed, 12))
        consumed = java.look(topics)
        node.stop()
        assert all(len(partition.records) == 72 for partition in consumed.values())
        shutil.copytree(node.log_dir, tmp_path / "stopped")
        assert_reads(tmp_path / "stopped", consumed, ("r", "a"))
        for topic in topics:
            assert magics_of(tmp_path / "stopped" / f"{topic}-0") == {0}

        # kstore closed it: 0.8.2 starts on that, and appends.
        shutil.rmtree(node.log_dir)
        shutil.copytree(tmp_path / "stopped", node.log_dir)
        node.start()
        assert java.look(topics) == consumed
        for topic in topics:
            java.send("new", topic, "gzip", fields(99, 20))
        node.kill()
        shutil.copytree(node.log_dir, tmp_path / "killed")
        node.start()
        consumed = java.look(topics)
        node.stop()
        assert all(len(partition.records) == 92 for partition in consumed.values())
        assert_reads(tmp_path / "killed", consumed, ("a", "r"))
    finally:
        java.close()


# --- 0.10.2.2, 0.11.0.3, 2.8.2, by newer clients -------------------------------------------------


def topics_of(version: str) -> dict[str, dict[str, object]]:
    """The topics to make, with their settings, and the codec as the name's end."""
    if version == "0.10.2.2":
        return {
            **{f"create-{codec}": {} for codec in OLD_CODECS},
            **{f"append-{c}": {"message_timestamp_type": "LogAppendTime"} for c in OLD_CODECS},
            **{f"v0-{codec}": {"message_format_version": "0.8.2"} for codec in OLD_CODECS},
        }
    if version == "0.11.0.3":
        return {f"v2-{codec}": {} for codec in OLD_CODECS}
    return {
        **{f"v0-{codec}": {"message_format_version": "0.8.2"} for codec in OLD_CODECS},
        **{f"v1-{codec}": {"message_format_version": "0.10.0"} for codec in OLD_CODECS},
        **{f"v2-{codec}": {} for codec in CODECS},
        **{f"mixed-{codec}": {} for codec in OLD_CODECS},
    }


# Ends in formats with timestamps: of a topic set to v0 no broker answers offsets by time.
MIXED = ("0.8.2", "2.8", "0.10.0", "0.8.2", "2.8", "0.10.0", "2.8")
MAGIC_OF = {"create": {1}, "append": {1}, "v0": {0}, "v1": {1}, "v2": {2}, "mixed": {0, 1, 2}}


@pytest.mark.parametrize("version", ["0.10.2.2", "0.11.0.3", "2.8.2"])
def test_kstore_reads_the_formats_of_old_brokers(
    version: str, start: Callable[[str], OldNode], tmp_path: Path
) -> None:
    node = start(version)
    topics = topics_of(version)
    small = {"segment_bytes": 4000, "index_interval_bytes": 300}
    with clients("3.9.2", tmp_path) as java:
        java.use(node)
        for topic, settings in topics.items():
            java.create_topic(topic, **small, **settings)

        def send(seed: int) -> None:
            for topic in topics:
                codec = topic.split("-")[1]
                if topic.startswith("mixed"):
                    java.alter_topic(topic, message_format_version=MIXED[seed])
                idempotent = str(topic.startswith("v2")).lower()
                java.producer(
                    "p", compression_type=codec, batch_size=1500, enable_idempotence=idempotent
                )
                for n, (key, value) in enumerate(fields(seed, 25)):
                    when = T0 + seed * 1000 + (n * 37) % 50
                    java.send("p", topic, value, key=key, timestamp=when)
                java.flush("p")
                java.drop("p")

        for seed in range(6):
            send(seed)
        if version != "0.10.2.2":
            transactions(java)
        names = sorted(p.name for p in node.log_dir.iterdir() if p.is_dir())
        consumed = java.look(names)
        node.stop()
        found = agree(node, consumed, tmp_path / "stopped", modes=("r", "a"))
        for topic in topics:
            assert found[f"{topic}-0"] == MAGIC_OF[topic.split("-")[0]], topic
            assert len(consumed[f"{topic}-0"].records) == 150, topic

        # What kstore opened and closed, the broker starts on; then it is killed.
        shutil.rmtree(node.log_dir)
        shutil.copytree(tmp_path / "stopped", node.log_dir)
        node.start()
        java.use(node)
        again = java.look(names)
        for name in names:
            assert again[name].records == consumed[name].records, name
        send(6)
        node.kill()
        shutil.copytree(node.log_dir, tmp_path / "left")
        node.start()
        java.use(node)
        consumed = java.look(names)
        node.kill()
        shutil.rmtree(node.log_dir)
        shutil.copytree(tmp_path / "left", node.log_dir)
        agree(node, consumed, tmp_path / "killed", modes=("a", "r"))


def transactions(java: Clients) -> None:
    java.create_topic("tx", segment_bytes=3000)
    for name in ("one", "two"):
        java.producer(name, transactional_id=name, transaction_timeout_ms=600_000)
    for number in range(8):
        for name in ("one", "two"):
            java.begin(name)
            for n in range(5):
                java.send(name, "tx", b"%d-%d" % (number, n), key=name.encode())
            java.flush(name)
        java.commit("one")
        (java.abort if number % 2 else java.commit)("two")
    java.begin("one")
    java.send("one", "tx", b"left open")
    java.flush("one")
    java.drop("one")
    java.drop("two")
