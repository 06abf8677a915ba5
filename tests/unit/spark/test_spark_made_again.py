"""Spark's batch reads and the export know a topic without an id by its creation stamp."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import InvalidConfigError, StorageError, UnknownTopicOrPartitionError
from kstore.spark import Plan, plan
from kstore.spark.jobs import export as job
from kstore.spark.jobs.export_target import Target
from kstore.spark.source.batch_plan import plan_batch
from kstore.spark.source.options import SourceOptions, parse_source
from kstore.spark.source.range_reader import RangeReader, open_store
from kstore.spark.source.snapshot import take_snapshot
from support.ranges import planned_ranges, run
from support.stores import QUIET
from support.topics_without_id import WAYS, assign_id, forget_stamps, make_topic, make_topic_again

pytestmark = pytest.mark.usefixtures("no_stores_from_elsewhere")


def options(path: Path, **given: object) -> SourceOptions:
    texts = {name: str(value) for name, value in given.items()}
    return parse_source({"path": str(path), "subscribe": "t", **texts})


@pytest.mark.parametrize(("has_stamp", "by_kstore"), WAYS)
def test_a_batch_read_reports_a_topic_without_id_recreated_since_the_load(
    tmp_path: Path, has_stamp: bool, by_kstore: bool, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(tmp_path, 10)
    if not has_stamp:
        forget_stamps(tmp_path)
    wanted = options(tmp_path)
    snapshot = take_snapshot(open_store(wanted.paths), wanted)
    assert plan_batch(wanted, snapshot, 1).offsets == 10
    make_topic_again(tmp_path, 50, by_kstore=by_kstore)
    with pytest.raises(UnknownTopicOrPartitionError, match="deleted and recreated"):
        plan_batch(wanted, snapshot, 1)
    assert plan_batch(options(tmp_path, failOnDataLoss=False), snapshot, 1).offsets == 0
    assert "deleted and recreated" in caplog.text


def test_a_topic_that_gets_a_stamp_or_an_id_stays_the_same_topic(tmp_path: Path) -> None:
    make_topic(tmp_path, 10)
    forget_stamps(tmp_path)
    wanted = options(tmp_path)
    snapshots = [take_snapshot(open_store(wanted.paths), wanted)]
    found = plan(tmp_path, topics="t")
    make_topic(tmp_path / "elsewhere", 1)
    (tmp_path / "kstore.topics").write_bytes((tmp_path / "elsewhere/kstore.topics").read_bytes())
    snapshots.append(take_snapshot(open_store(wanted.paths), wanted))
    assign_id(tmp_path)
    for snapshot in snapshots:
        assert plan_batch(wanted, snapshot, 1).offsets == 10
    assert len(run(tmp_path, found)) == 10


@pytest.mark.parametrize(("has_stamp", "by_kstore"), WAYS)
def test_no_task_reads_a_recreated_topic_without_id(
    tmp_path: Path, has_stamp: bool, by_kstore: bool
) -> None:
    """Neither by its offsets, nor where its file looks like the planned one."""
    make_topic(tmp_path, 10)
    if not has_stamp:
        forget_stamps(tmp_path)
    found = plan(tmp_path, topics="t", parallelism=1)
    make_topic_again(tmp_path, 50, by_kstore=by_kstore)
    with pytest.raises(StorageError, match="another topic 't' than the"):
        run(tmp_path, found, failOnDataLoss=False)
    now = planned_ranges(plan(tmp_path, topics="t", parallelism=1))
    (each,) = found.tasks[0]
    alike = Plan(((replace(each, spans=tuple(now)),),), 1, 1, 0)
    with pytest.raises(StorageError, match="another topic 't' than the"):
        run(tmp_path, alike, failOnDataLoss=False)


def test_no_aborted_record_is_visible_if_its_topic_is_recreated_during_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task reads the old file; the later log does not know which records were aborted."""
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t")
        producer = store.transactional_producer("id")
        producer.begin_transaction()
        producer.send("t", b"aborted")
        producer.flush()
        producer.abort_transaction()
    given = {"isolation": "read_committed"}
    found = plan(tmp_path, topics="t", parallelism=1, **given)
    assert (found.offsets, run(tmp_path, found, **given)) == (2, [])
    confirm = RangeReader._confirm

    def overtaken(self: RangeReader, *of: Any) -> int | None:
        opened = confirm(self, *of)
        monkeypatch.undo()
        make_topic_again(tmp_path, 50, by_kstore=True)
        return opened

    monkeypatch.setattr(RangeReader, "_confirm", overtaken)
    with pytest.raises(StorageError, match="another topic 't' than the"):
        run(tmp_path, found, **given)


# --- the export -------------------------------------------------------------------------------


def export_plan(path: Path, target: Path) -> Plan:
    """Plan an export, and note it as done."""
    source = job._source((str(path),), "t", None, None, "read_uncommitted", True)
    with Target(str(target)) as exported:
        found, lost = job._plan(source, exported, 1, 1 << 20)
        for task in found.tasks:
            exported.publish(job._exported(task, lost), [])
    return found


@pytest.mark.parametrize(("has_stamp", "by_kstore"), WAYS)
def test_an_export_refuses_a_recreated_topic_without_id(
    tmp_path: Path, has_stamp: bool, by_kstore: bool
) -> None:
    path, target = tmp_path / "data", tmp_path / "lake"
    make_topic(path, 10)
    if not has_stamp:
        forget_stamps(path)
    assert export_plan(path, target).offsets == 10
    assert export_plan(path, target).offsets == 0
    make_topic_again(path, 50, by_kstore=by_kstore)
    with pytest.raises(InvalidConfigError, match="another topic 't'"):
        export_plan(path, target)


def test_an_export_continues_where_a_topic_got_an_id(tmp_path: Path) -> None:
    path, target = tmp_path / "data", tmp_path / "lake"
    make_topic(path, 10)
    assert export_plan(path, target).offsets == 10
    assign_id(path)
    assert export_plan(path, target).offsets == 0
    with kstore.open(path) as store:
        store["t"].append(b"more", partition=0)
    assert export_plan(path, target).offsets == 1
