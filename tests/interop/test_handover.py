"""What kstore wrote is handed over to real brokers, served, appended to, and handed back."""

import contextlib
import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

import kstore
from interop.handover_checks import refusals
from interop.node import Node
from interop.old_node import OldNode
from interop.test_brokers import fill_codecs
from kstore import LogConfig
from kstore.cli import main
from kstore.config import CODECS
from kstore.errors import UnknownTopicOrPartitionError
from kstore.handover import check_broker, hand_over, plan_handover
from kstore.mirror import Mirror
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import EARLIEST, LATEST


def test_a_directory_goes_to_a_broker_and_returns(node: Node, tmp_path: Path) -> None:
    own = tmp_path / "own"
    with kstore.open(own) as store:
        codecs = store.create_topic("codecs", len(CODECS), config=LogConfig(segment_bytes=20_000))
        for log, codec in zip(codecs, CODECS, strict=True):
            fill_codecs(log, codec)
        codecs[0].delete_records(100)
        written = [list(log) for log in codecs]
    before = plan_handover(own, node.log_dir)
    assert any("has used this directory" in each or "no such" in each for each in refusals(before))

    node.start()
    node.create_topic("codecs", len(CODECS))
    assert any(
        "the broker, or a kstore writer, is running" in each
        for each in refusals(check_broker(node.log_dir))
    )
    node.stop()
    report = plan_handover(own, node.log_dir)
    assert report.ok, report.findings
    assert report.kind == "KRaft"
    assert [each.end_offset for each in report.partitions] == [694] * len(CODECS)
    assert hand_over(own, node.log_dir).executed

    node.start()
    expected = [one for records in written for one in records]
    found = node.consume("codecs", len(expected))
    assert [(r.partition, r.offset) for r in found] == [
        (number, record.offset) for number, records in enumerate(written) for record in records
    ]
    assert [r.value for r in found] == [
        None if r.value is None else r.value.decode() for r in expected
    ]
    assert node.end_offsets("codecs") == dict.fromkeys(range(len(CODECS)), 694)
    recovered = [line for line in node.lines() if "Recovering" in line or "rebuil" in line]
    assert recovered == []  # taken for cleanly closed, which it is
    node.produce("codecs", [(f"k{n}", "and on") for n in range(50)])
    node.stop()
    assert not list(node.log_dir.glob("*-stray"))
    assert any("not empty" in each for each in refusals(plan_handover(own, node.log_dir)))

    assert check_broker(node.log_dir).ok
    with kstore.open(node.log_dir) as store:
        logs = list(store["codecs"])
        assert sum(log.end_offset for log in logs) == 694 * len(CODECS) + 50
        for log, records in zip(logs, written, strict=True):
            assert list(log)[: len(records)] == records
            log.append(b"back again")
        after = [list(log) for log in logs]
    node.start()
    found = node.consume("codecs", sum(map(len, after)))
    assert len(found) == sum(map(len, after))
    node.stop()


def test_a_refused_partition_would_not_be_served_by_the_broker(node: Node, tmp_path: Path) -> None:
    """The dry run's word on each is what the broker does with it."""
    own = tmp_path / "own"
    with kstore.open(own) as store:
        store.create_topic("unknown").append(b"v")
        store.create_topic("nameless").append(b"v")
    node.start()
    node.create_topic("nameless")
    node.stop()
    (node.log_dir / "nameless-0" / "partition.metadata").unlink()
    reasons = refusals(plan_handover(own, node.log_dir))
    assert sum("-stray" in each for each in reasons) == 2

    # Done all the same, by hand.
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(kstore.open(node.log_dir))
        store.create_topic("unknown").append(b"v")
    node.start()
    node.stop()
    strays = {path.name.split(".")[0] for path in node.log_dir.glob("*-stray")}
    assert strays == {"unknown-0", "nameless-0"}
    assert any("stray replica" in each.sentence for each in check_broker(node.log_dir).findings)

    unrecognized = node.log_dir / "lost+found"
    epochs = node.log_dir / "nameless-0" / "leader-epoch-checkpoint"
    for damage, undo in (
        (unrecognized.mkdir, unrecognized.rmdir),
        (lambda: epochs.write_text("0\n7\n"), epochs.unlink),
    ):
        damage()
        assert any("not start" in each for each in refusals(check_broker(node.log_dir)))
        with pytest.raises(AssertionError, match="did not start"):
            node.start()
        undo()


def test_zookeeper_adopts(tmp_path: Path) -> None:
    """The last broker with ZooKeeper: folders first, the topic created later."""
    own = tmp_path / "own"
    with kstore.open(own) as store:
        log = store.create_topic("adopted")[0]
        log.extend([b"value-%d" % number for number in range(500)])
    (tmp_path / "node").mkdir()
    broker = OldNode("3.9.2", tmp_path / "node")
    try:
        broker.start()
        broker.stop()
        report = hand_over(own, broker.log_dir)
        assert (report.kind, report.executed) == ("ZooKeeper", True)
        broker.start()
        with pytest.raises(UnknownTopicOrPartitionError):
            mirror_end(broker.address, "adopted")
        admin = KafkaAdminClient(bootstrap_servers=broker.address)
        admin.create_topics({"adopted": {"num_partitions": 1, "replication_factor": 1}})
        admin.close()
        assert mirror_end(broker.address, "adopted") == (0, 500)
        broker.stop()
        assert not list(broker.log_dir.glob("*-stray"))

        # And back: what the broker serves is taken over, gone on with, and served again.
        arguments = ["--from", str(broker.log_dir), "--adopt", "adopted", "--execute"]
        assert main(["handover", *arguments, "--config", "retention.ms=-1"]) == 0
        assert check_broker(broker.log_dir).kind == "ZooKeeper"
        with kstore.open(broker.log_dir) as store:
            assert store["adopted"].config.retention_ms == -1
            log = store["adopted"][0]
            assert [record.value for record in log] == [b"value-%d" % n for n in range(500)]
            log.extend([b"more-%d" % number for number in range(20)])
        broker.start()
        assert end_when_known(broker.address, "adopted") == (0, 520)
        with (
            KafkaSource(broker.address, "adopted") as source,
            kstore.open(tmp_path / "copy") as store,
        ):
            Mirror(store, source).run()
            assert store["adopted"][0][519].value == b"more-19"
        broker.stop()
        assert not list(broker.log_dir.glob("*-stray"))
        recovered = [line for line in broker.said().splitlines() if "Recovering" in line]
        assert recovered == []
    finally:
        broker.close()


def mirror_end(address: str, topic: str) -> tuple[int, int]:
    """The offsets of partition 0: the earliest, the latest."""
    with KafkaSource(address, topic, patience=15) as source:
        source.describe()
        return source.offsets([0], EARLIEST)[0], source.offsets([0], LATEST)[0]


def end_when_known(address: str, topic: str) -> tuple[int, int]:
    """After a start: the controller of these versions sends a broker its topics a moment later."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return mirror_end(address, topic)
        except UnknownTopicOrPartitionError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
