"""Topics of brokers from 0.8.2 to 2.8 are mirrored: messages v0 and v1, wrappers, mixed logs.

What lies in the broker's files is the judge, byte for byte. Only `make interop-all` runs these.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from interop.ancient_clients import AncientClients
from interop.clients import clients
from interop.compare_with_kafka import assert_same_records, assert_same_transactions
from interop.old_node import OldNode
from interop.test_old_formats import (
    MIXED,
    OLD_CODECS,
    T0,
    assert_reads,
    fields,
    topics_of,
    transactions,
)
from interop.test_old_formats import start as start
from kstore.mirror import Mirror, MirrorReport
from kstore.mirror.source import KafkaSource
from support.stores import QUIET

pytestmark = pytest.mark.all_versions


def mirror(node: OldNode, topic: str, target: Path) -> MirrorReport:
    with (
        KafkaSource(node.address, topic, patience=10) as source,
        kstore.open(target, config=QUIET) as store,
    ):
        return Mirror(store, source).run()


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def assert_same_bytes(node: OldNode, target: Path, topics: list[str]) -> None:
    for topic in topics:
        assert bytes_of(target / f"{topic}-0") == bytes_of(node.log_dir / f"{topic}-0"), topic


def test_messages_v0_of_0_8_2(start: Callable[[str], OldNode], tmp_path: Path) -> None:
    node, copy = start("0.8.2.2"), tmp_path / "copy"
    topics = [f"old-{codec}" for codec in OLD_CODECS[:3]] + [f"new-{c}" for c in OLD_CODECS]
    for topic in topics:
        node.create_topic(topic, segment_bytes=5000, index_interval_bytes=300)
    java = AncientClients(node, tmp_path)
    try:
        for turn in range(2):
            for topic in topics:
                kind, codec = topic.split("-")
                for seed in range(3):
                    java.send(kind, topic, codec, fields(3 * turn + seed, 12))
            consumed = java.look(topics)
            for topic in topics:
                report = mirror(node, topic, copy)
                assert report.created == (turn == 0)
                assert report.partitions[0].first_offset == 36 * turn
            assert_same_bytes(node, copy, topics)
            assert_reads(copy, consumed, ("r", "a"))
            assert mirror(node, topics[1], copy).bytes == 0
    finally:
        java.close()


@pytest.mark.parametrize("version", ["0.10.2.2", "0.11.0.3", "2.8.2"])
def test_topics_of_old_brokers_are_mirrored_byte_for_byte(
    version: str, start: Callable[[str], OldNode], tmp_path: Path
) -> None:
    node, copy = start(version), tmp_path / "copy"
    topics = topics_of(version)
    small = {"segment_bytes": 4000, "index_interval_bytes": 300}
    with clients("3.9.2", tmp_path) as java:
        java.use(node)
        for topic, settings in topics.items():
            java.create_topic(topic, **small, **settings)

        def send(seed: int) -> None:
            for topic in topics.keys() - {"tx"}:
                if topic.startswith("mixed"):
                    java.alter_topic(topic, message_format_version=MIXED[seed])
                idempotent = str(topic.startswith("v2")).lower()
                java.producer(
                    "p",
                    compression_type=topic.split("-")[1],
                    batch_size=1500,
                    enable_idempotence=idempotent,
                )
                for n, (key, value) in enumerate(fields(seed, 25)):
                    when = T0 + seed * 1000 + (n * 37) % 50
                    java.send("p", topic, value, key=key, timestamp=when)
                java.flush("p")
                java.drop("p")

        done = 0
        for turns in (range(3), range(3, 7)):
            for seed in turns:
                send(seed)
            if version != "0.10.2.2" and turns[0] == 0:
                transactions(java)
                topics["tx"] = {}
            for topic in topics:
                report = mirror(node, topic, copy)
                if topic != "tx":
                    assert report.partitions[0].first_offset == done
            done = 25 * turns.stop
            assert_same_bytes(node, copy, list(topics))
        consumed = java.look([f"{topic}-0" for topic in topics])
        with kstore.open(copy, "r") as store:
            for name, partition in consumed.items():
                log = store[name[:-2]][0]
                assert_same_records(log, partition)
                assert_same_transactions(log, partition)
                report = log.verify()
                assert (report.findings, report.warnings) == ([], [])
