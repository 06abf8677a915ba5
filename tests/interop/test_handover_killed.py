"""Handovers to real brokers that were killed and are run again, and what brokers served at last."""

import os
import shutil
from pathlib import Path

import kstore
from interop.node import Node
from kstore import LogConfig
from kstore.handover import hand_over, plan_handover
from support.killing_disk import DeadlyDisk
from support.stores import QUIET
from support.transactions import TransactionWriter

KILLS = 6  # topics, each killed at another part of its way
SEGMENTS = LogConfig(segment_bytes=2000, index_interval_bytes=200)
T0 = 1_700_000_000_000


def create_and_stop(node: Node, topics: dict[str, int]) -> None:
    node.start()
    for topic, partitions in topics.items():
        node.create_topic(topic, partitions)
    node.stop()


def killed(own: Path, target: Path, topic: str, at: int) -> int:
    """Hand a topic over in a child that SIGKILL ends at a change of the disk; all changes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        disk = DeadlyDisk(at, "before")
        hand_over(own, target, topics=[topic], files=disk)
        os.write(writing, disk.changes().to_bytes(4, "big"))
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with open(reading, "rb") as said:
        count = int.from_bytes(said.read(), "big")
    assert os.waitstatus_to_exitcode(status) == (0 if at < 0 else -9)
    return count


def test_a_broker_started_after_a_kill_and_the_handover_run_again(
    node: Node, tmp_path: Path
) -> None:
    own, topics = tmp_path / "own", {f"t{n}": 2 for n in range(KILLS)}
    with kstore.open(own, config=QUIET) as store:
        for name in topics:
            topic = store.create_topic(name, 2, config=SEGMENTS)
            for n in range(120):
                topic[n % 2].append(b"value-%d" % n, key=b"k%d" % n)
    create_and_stop(node, topics)
    shutil.copytree(node.log_dir, tmp_path / "copy")
    steps = killed(own, tmp_path / "copy", "t0", -1)
    assert steps > 60
    for number, name in enumerate(topics):
        killed(own, node.log_dir, name, steps * (number + 1) // (KILLS + 1))
    for name in ("t0", "t1", "t2"):  # at once, with no broker in between
        assert hand_over(own, node.log_dir, topics=[name]).executed
    node.start()
    node.stop()
    assert not list(node.log_dir.glob("*-stray"))
    report = hand_over(own, node.log_dir)
    assert report.executed
    assert sum(plan.is_already_copied for plan in report.partitions) >= 6
    node.start()
    for name in topics:
        assert node.end_offsets(name) == {0: 60, 1: 60}
        found = node.consume(name, 120)
        assert [r.value for r in found] == [f"value-{n}" for p in (0, 1) for n in range(p, 120, 2)]
    node.produce("t5", [(f"k{n}", "and on") for n in range(20)])
    assert sum(node.end_offsets("t5").values()) == 140
    node.stop()


def test_an_open_transaction_does_not_hold_consumers_back(node: Node, tmp_path: Path) -> None:
    own = tmp_path / "own"
    with kstore.open(own, config=QUIET) as store:
        teller = TransactionWriter(store.create_topic("t")[0])
        teller.data(-1, 5)
        teller.data(4001, 3)
        teller.data(-1, 5)
    create_and_stop(node, {"t": 1})
    assert not plan_handover(own, node.log_dir).ok
    assert hand_over(own, node.log_dir, abort_open_transactions=True).executed
    node.start()
    found = node.consume("t", 10, "read_committed")
    assert [record.offset for record in found] == [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]
    node.stop()


def test_messages_v0_and_v1_are_served(node: Node, tmp_path: Path) -> None:
    """One partition for each codec; 4.x reads them too, though it writes them no more."""
    own, codecs = tmp_path / "own", ("none", "gzip", "snappy", "lz4")
    formats = {"v0": ("0.8.2",), "v1": ("0.10.2",), "mixed": ("0.8.2", "0.10.2", "3.9")}
    written: dict[str, list[list[kstore.Record]]] = {}
    with kstore.open(own, config=QUIET) as store:
        for name, versions in formats.items():
            topic = store.create_topic(name, len(codecs))
            for version in versions:
                for log, codec in zip(topic, codecs, strict=True):
                    log.configure(
                        LogConfig(
                            segment_bytes=5000,
                            message_format_version=version,
                            batch_compression=codec,
                        )
                    )
                    end = log.end_offset
                    log.extend(
                        kstore.Record(0, T0 + n, b"k%d" % n, b"value-%d" % n)
                        for n in range(end, end + 100)
                    )
            written[name] = [list(log) for log in topic]
    create_and_stop(node, dict.fromkeys(formats, len(codecs)))
    assert hand_over(own, node.log_dir).executed
    node.start()
    for name, logs in written.items():
        expected = [(p, r.offset, r.value) for p, log in enumerate(logs) for r in log]
        found = node.consume(name, len(expected))
        assert [(r.partition, r.offset, (r.value or "").encode()) for r in found] == expected, name
        assert node.end_offsets(name) == {p: len(log) for p, log in enumerate(logs)}
        if name != "v0":
            assert max(r.timestamp for r in found) == T0 + len(logs[0]) - 1
        node.produce(name, [(f"k{n}", "and on") for n in range(40)])
    recovered = [line for line in node.lines() if "Recovering" in line or "rebuil" in line]
    node.stop()
    assert recovered == []
    with kstore.open(node.log_dir, "r") as store:
        for name, logs in written.items():
            ours = [list(log) for log in store[name]]
            for log, before in zip(ours, logs, strict=True):
                assert [(r.offset, r.value) for r in log[: len(before)]] == [
                    (r.offset, r.value) for r in before
                ]
            assert sum(map(len, ours)) == sum(map(len, logs)) + 40
