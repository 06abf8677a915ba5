"""Logs that brokers compacted, compacted by kstore once more: only what is shadowed may go."""

import os
import shutil
import time
from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import ExpectedPartition, ExpectedRecord, as_expected
from kafka_files.test_store import contents
from kstore.compaction.compaction_report import CompactionReport
from oracle.plain import PlainBatch
from oracle.reader import read_log

COMPACTED = {
    "kraft-3.9.2-clean": ("", "-idempotent", "-lz4", "-tombstones-gone", "-transactions"),
    "kraft-4.3.0-clean": ("", "-idempotent", "-lz4", "-tombstones-gone", "-transactions"),
    "zk-0.10.2.2": ("-lz4", "-none"),
    "zk-0.11.0.3": ("-idempotent", "-transactions"),
    "zk-0.8.2.2": ("",),
    "zk-2.8.2": ("-0.10.0", "-0.8.2", "-2.8"),
}
CASES = [
    (broker_set, f"compacted{rest}-0") for broker_set, names in COMPACTED.items() for rest in names
]
CHECKPOINT = "cleaner-offset-checkpoint"


@pytest.fixture
def copy(broker_set, tmp_path) -> Path:
    target = tmp_path / "log-dir"
    shutil.copytree(broker_set.log_dir, target)
    for path in target.glob("compacted*/*.log"):
        os.utime(path)  # by a file's age tombstones of v0 and v1 go: here they are all young
    return target


def compact(copy: Path, name: str, *, roll: bool = False) -> CompactionReport:
    topic, _, number = name.rpartition("-")
    with kstore.open(copy) as store:
        config = {"cleanup.policy": "compact", "file.delete.delay.ms": 0}
        store.alter_topic(topic, config=config)
        log = store[topic][int(number)]
        if roll:
            log.roll()
        report = log.compact()
        log.verify().raise_if_corrupt()
        return report


def batches_of(folder: Path) -> list[PlainBatch]:
    paths = sorted(folder.glob("*.log"))
    return [batch for path in paths for batch in read_log(path.read_bytes()).batches]


def over(folder: Path, now: int) -> set[int]:
    """Offsets of the tombstones whose horizon, written by the broker, is past."""
    return {
        record.offset
        for batch in batches_of(folder)
        if batch.delete_horizon is not None and batch.delete_horizon <= now
        for record in batch.records
        if record.value is None
    }


def left_of(
    partition: ExpectedPartition, end: int, tombstones: set[int]
) -> tuple[ExpectedRecord, ...]:
    """The rule, applied to what Kafka's consumer got: below end, the latest of each key."""
    committed = set(partition.committed_offsets)
    latest = {
        record.key: record.offset
        for record in partition.records
        if record.offset < end and record.offset in committed
    }
    return tuple(
        record
        for record in partition.records
        if record.offset >= end
        or (latest.get(record.key) == record.offset and record.offset not in tombstones)
    )


@pytest.mark.parametrize("all_segments", [False, True], ids=["as-found", "all-segments"])
@pytest.mark.parametrize(("broker_set", "name"), CASES, indirect=["broker_set"])
def test_compaction_removes_only_shadowed_records_and_old_tombstones(
    broker_set, copy, name, all_segments
):
    """As the broker left it, and with its last segment rolled and everything taken for dirty."""
    (partition,) = (each for each in broker_set.partitions if each.name == name)
    tombstones = over(copy / name, int(time.time() * 1000))
    if all_segments:
        (copy / CHECKPOINT).unlink(missing_ok=True)
    report = compact(copy, name, roll=all_segments)
    assert report.passes > 0 or not all_segments
    end = report.end_offset if report.passes else partition.beginning_offset
    expected = left_of(partition, end, tombstones)
    if all_segments:
        stable = partition.last_stable_offset
        assert report.end_offset == stable or stable < partition.end_offset
    assert {r.key for r in expected} | {r.key for r in partition.records if r.value is None} >= {
        r.key for r in partition.records if r.offset in set(partition.committed_offsets)
    }
    with kstore.open(copy, mode="r") as store:
        log = store[partition.topic][partition.partition]
        assert (log.start_offset, log.end_offset) == (
            partition.beginning_offset,
            partition.end_offset,
        )
        assert log.last_stable_offset == partition.last_stable_offset
        epochs = broker_set.name != "zk-0.8.2.2"
        found = [
            as_expected(r, r.leader_epoch if epochs and r.leader_epoch >= 0 else None) for r in log
        ]
        assert tuple(found) == expected
        committed = [record.offset for record in log.view(isolation="read_committed")]
        allowed = set(partition.committed_offsets)
        assert committed == [record.offset for record in expected if record.offset in allowed]
    stored = [r for batch in batches_of(copy / name) if not batch.control for r in batch.records]
    assert [(r.offset, r.key, r.value) for r in stored] == [
        (r.offset, r.key, r.value) for r in expected
    ]


@pytest.mark.parametrize(("broker_set", "name"), CASES, indirect=["broker_set"])
def test_a_second_compaction_changes_nothing(broker_set, copy, name):
    """Neither where the checkpoint says that nothing is dirty, nor where all is read again.

    Only markers whose transaction the first run emptied get their horizon in the second, as by
    Kafka's cleaner; a third changes no byte.
    """
    (copy / CHECKPOINT).unlink(missing_ok=True)
    assert compact(copy, name, roll=True).passes > 0
    pattern = f"{name}/*.log"
    before, batches = contents(copy, pattern), batches_of(copy / name)
    assert compact(copy, name).passes == 0
    assert contents(copy, pattern) == before
    for turn in (2, 3):
        (copy / CHECKPOINT).unlink()
        again = compact(copy, name)
        assert again.passes > 0
        assert again.records_kept == again.records_read
        assert [undated(batch) for batch in batches_of(copy / name)] == list(map(undated, batches))
        if turn == 3 or not any(batch.control for batch in batches):
            assert contents(copy, pattern) == before
        before = contents(copy, pattern)


def undated(batch: PlainBatch) -> object:
    """A batch without its offset, and of a marker without the horizon."""
    if batch.control:
        return batch.base_offset, batch.last_offset, batch.producer_id, batch.records
    return batch._replace(position=0)


def test_the_sets_contain_every_compacted_topic(broker_set):
    found = {each.name for each in broker_set.partitions if each.topic.startswith("compacted")}
    assert found == {name for owner, name in CASES if owner == broker_set.name}


def test_the_sets_give_the_cleaner_work(broker_set, copy):
    """Else the tests above would show nothing."""
    dropped = 0
    for owner, name in CASES:
        if owner == broker_set.name:
            (copy / CHECKPOINT).unlink(missing_ok=True)
            report = compact(copy, name, roll=True)
            dropped += report.records_read - report.records_kept
    assert dropped > 0
