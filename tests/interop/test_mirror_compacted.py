"""A compacted topic is mirrored while a transaction is open, and again when Kafka's cleaner has
removed its records and emptied, or removed, its marker. Kafka's consumer is the judge."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from interop.clients import Clients, clients
from interop.compare_with_kafka import Judged, batches_of
from interop.node import Node, node
from kstore.cli import main
from oracle.plain import PlainBatch
from support.stores import QUIET

COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": 4000,
    "min_cleanable_dirty_ratio": 0.01,
    "delete_retention_ms": 1,
}
LATER = "900000"
ABORTED = 20
EMPTY = 61  # bytes of a batch without records


@pytest.fixture
def stage(kafka: str, tmp_path: Path) -> Iterator[tuple[Node, Clients]]:
    settings = {"log_cleaner_backoff_ms": 100}
    with node(kafka, tmp_path, **settings) as broker, clients(kafka, tmp_path) as java:
        java.use(broker)
        yield broker, java


def mirror(node: Node, target: Path) -> int:
    where = ["--bootstrap-server", node.address, "--log-dir", str(target)]
    return main(["mirror", *where, "--topic", "t"])


def fill(java: Clients, prefix: str, count: int) -> None:
    """Records of one key each, in small batches: the cleaner leaves them all."""
    for n in range(count):
        java.send("plain", "t", b"v" * 60, key=f"{prefix}-{n}".encode())
        if n % 10 == 9:
            java.flush("plain")
    java.flush("plain")


def unchanging(node: Node) -> list[tuple[PlainBatch, bytes]]:
    """The batches on disk; a segment may go between its listing and its opening."""
    for _ in range(50):
        try:
            return batches_of(node.log_dir / "t-0")
        except FileNotFoundError:  # the cleaner put another in its stead
            time.sleep(0.1)
    raise AssertionError("the cleaner swaps segments all the time")


def marker_at(node: Node, offset: int) -> PlainBatch | None:
    """The marker on disk; read until two listings agree, as the cleaner may swap a segment."""
    directory = node.log_dir / "t-0"
    for _ in range(50):
        before = sorted(directory.glob("*.log*"))
        found = [b for b, _ in unchanging(node) if b.control]
        time.sleep(0.2)  # the broker is another process, and announces no swap
        if sorted(directory.glob("*.log*")) == before:
            return next((batch for batch in found if batch.base_offset == offset), None)
    raise AssertionError("the cleaner swaps segments all the time")


def clean_until(node: Node, java: Clients, offset: int, *, gone: bool) -> None:
    """Have the broker's cleaner run until the marker is empty, or does not exist."""
    deadline = time.monotonic() + 90
    turn = 0
    while True:
        batch = marker_at(node, offset)
        if batch is None if gone else batch is not None and batch.size == EMPTY:
            return
        assert batch is not None, "the marker went at once"
        assert time.monotonic() < deadline, batch
        turn += 1
        fill(java, f"turn-{turn}", 40)  # something new to be cleaned
        time.sleep(0.3)


def committed(path: Path) -> tuple[int, ...]:
    with kstore.open(path, "r", config=QUIET) as store:
        log = store["t"][0]
        assert log.last_stable_offset == log.end_offset
        report = log.verify()
        assert (report.findings, report.warnings) == ([], [])
        return tuple(record.offset for record in log.view(isolation="read_committed"))


def copied_while_open(node: Node, java: Clients, copy: Path) -> int:
    """A transaction is copied open, then aborted by its coordinator; the marker's offset."""
    java.create_topic("t", 1, **COMPACTED)
    java.producer("plain", linger_ms=0)
    fill(java, "before", 30)
    java.producer("tx", transactional_id="tx", transaction_timeout_ms=LATER)
    java.begin("tx")
    for n in range(ABORTED):
        java.send("tx", "t", b"never", key=b"aborted-%d" % n)
    java.flush("tx")
    assert mirror(node, copy) == 0
    java.drop("tx")
    java.producer("again", transactional_id="tx", transaction_timeout_ms=LATER)
    java.flush("again")
    fill(java, "after", 150)
    (marker,) = [b for b, _ in unchanging(node) if b.control]
    return marker.base_offset


def assert_as_kafka_says(consumed: Judged, copy: Path, *, extra: int) -> None:
    """The committed records are those of Kafka's consumer; ``extra`` others exist, too."""
    assert committed(copy) == consumed.committed
    with kstore.open(copy, "r", config=QUIET) as store:
        assert sum(1 for _ in store["t"][0]) == len(consumed.records) + extra


def assert_same_batches(node: Node, root: Path) -> None:
    """A new copy has every batch of the source as it is; the cleaner may run meanwhile."""
    for turn in range(20):
        before = [data for _, data in unchanging(node)]
        assert mirror(node, root / f"same-{turn}") == 0
        if [data for _, data in unchanging(node)] == before:
            assert [data for _, data in batches_of(root / f"same-{turn}" / "t-0")] == before
            return
    raise AssertionError("the cleaner runs all the time")


@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "continues"])
def test_a_copy_continues_after_a_marker_whose_batch_was_emptied(
    stage: tuple[Node, Clients], tmp_path: Path, capsys: pytest.CaptureFixture[str], goes_on: bool
) -> None:
    node, java = stage
    marker = copied_while_open(node, java, tmp_path / "copy")
    clean_until(node, java, marker, gone=False)
    if goes_on:
        java.begin("again")
        for n in range(3):
            java.send("again", "t", b"shown", key=b"committed-%d" % n)
        java.commit("again")
    capsys.readouterr()
    assert mirror(node, tmp_path / "copy") == 3
    assert "its outcome is unknown" in capsys.readouterr().out
    consumed = java.look(["t-0"])["t-0"]
    assert consumed.committed is not None
    assert len(consumed.committed) == len(consumed.records)
    assert_as_kafka_says(consumed, tmp_path / "copy", extra=ABORTED)
    assert mirror(node, tmp_path / "copy") == 0
    assert_same_batches(node, tmp_path)
    assert mirror(node, tmp_path / "fresh") == 0
    consumed = java.look(["t-0"])["t-0"]
    assert_as_kafka_says(consumed, tmp_path / "fresh", extra=0)


def test_a_removed_marker(stage: tuple[Node, Clients], tmp_path: Path) -> None:
    """The producer continued, so not even an empty batch of the marker is left."""
    node, java = stage
    marker = copied_while_open(node, java, tmp_path / "copy")
    java.begin("again")
    for n in range(3):
        java.send("again", "t", b"shown", key=b"committed-%d" % n)
    java.commit("again")
    clean_until(node, java, marker, gone=True)
    assert mirror(node, tmp_path / "copy") == 3
    consumed = java.look(["t-0"])["t-0"]
    assert_as_kafka_says(consumed, tmp_path / "copy", extra=ABORTED)
    assert mirror(node, tmp_path / "copy") == 0
