"""Batch reads and exports over lost segments fail, or warn with failOnDataLoss=false."""

from pathlib import Path

import pytest

import kstore
from kstore import LogConfig
from kstore.errors import CorruptRecordError, KStoreError
from kstore.spark import plan
from kstore.spark.jobs import export as job
from kstore.spark.jobs.export_target import Exported, Target
from kstore.spark.source.data_loss import LostOffsets
from kstore.spark.source.offset_ranges import Plan
from kstore.spark.source.options import SourceOptions
from kstore.store.topic_identity import TopicIdentity
from support.ranges import run
from support.stores import MARKER, QUIET

pytestmark = pytest.mark.usefixtures("no_stores_from_elsewhere")
T0 = 1_700_000_000_000
SEGMENTS, EACH = 5, 10
ADVICE = "set failOnDataLoss to false"


def fill(root: Path) -> Path:
    with kstore.open(root, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(index_interval_bytes=100))[0]
        for n in range(SEGMENTS * EACH):
            if n and n % EACH == 0:
                log.roll()
            log.append(b"v%d" % n, timestamp=T0 + n)
    return root / "t-0"


def lose(folder: Path, number: int) -> str:
    """Remove a segment's log; what a report says of it."""
    (folder / f"{number * EACH:020}.log").unlink()
    return f"records at offsets {number * EACH} to {number * EACH + EACH - 1} are lost"


def bounds(start: int, stop: int) -> dict[str, str]:
    return {
        "startingOffsets": f'{{"t": {{"0": {start}}}}}',
        "endingOffsets": f'{{"t": {{"0": {stop}}}}}',
    }


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize("number", [0, 2])
def test_a_batch_read_over_a_lost_segment_fails_and_warns_where_it_may_continue(
    tmp_path: Path, number: int, is_noted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer has noted the loss in ``kstore.lost``, or only the files show it."""
    folder = fill(tmp_path)
    assert plan(tmp_path, topics="t").offsets == 50
    sentence = lose(folder, number)
    if is_noted:
        kstore.open(tmp_path, config=QUIET).close()
        with kstore.open(tmp_path, config=QUIET) as store:
            assert store["t"][0].recovery is not None
    with pytest.raises(CorruptRecordError, match=rf"{sentence}.*{ADVICE}") as caught:
        plan(tmp_path, topics="t")
    assert caught.value.offset == number * EACH
    caplog.clear()
    found = plan(tmp_path, topics="t", failOnDataLoss=False)
    assert "failOnDataLoss is false" in caplog.text
    assert sentence in caplog.text
    seen = [offset for offset, _ in run(tmp_path, found, failOnDataLoss=False)]
    assert seen == [n for n in range(50) if n // EACH != number]


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_batch_read_over_an_emptied_segment_fails_after_a_kill_too(
    tmp_path: Path, is_noted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path)
    (tmp_path / MARKER).unlink()
    (folder / f"{2 * EACH:020}.log").write_bytes(b"")
    if is_noted:
        with kstore.open(tmp_path, config=QUIET) as store:
            assert store["t"][0].recovery is not None
    sentence = "records at offsets 20 to 29 are lost"
    with pytest.raises(CorruptRecordError, match=rf"{sentence}.*{ADVICE}"):
        plan(tmp_path, topics="t")
    found = plan(tmp_path, topics="t", failOnDataLoss=False)
    assert sentence in caplog.text
    seen = [offset for offset, _ in run(tmp_path, found, failOnDataLoss=False)]
    assert seen == [n for n in range(50) if n // EACH != 2]


@pytest.mark.parametrize(
    ("start", "stop", "fails"),
    [(0, 20, False), (0, 21, True), (29, 50, True), (30, 50, False), (-2, -1, True)],
)
def test_only_a_read_whose_offsets_are_lost_fails(
    tmp_path: Path, start: int, stop: int, fails: bool
) -> None:
    lose(fill(tmp_path), 2)
    if fails:
        with pytest.raises(CorruptRecordError, match="are lost"):
            plan(tmp_path, topics="t", **bounds(start, stop))
    else:
        assert plan(tmp_path, topics="t", **bounds(start, stop)).offsets == stop - start


def test_a_read_from_the_offset_behind_a_lost_beginning_does_not_fail(tmp_path: Path) -> None:
    """From the earliest offset it does: the log would start in front of it."""
    lose(fill(tmp_path), 0)
    assert plan(tmp_path, topics="t", **bounds(10, -1)).offsets == 40
    for start in (0, -2):
        with pytest.raises(KStoreError, match=ADVICE):
            plan(tmp_path, topics="t", **bounds(start, -1))


def test_a_read_by_time_that_a_lost_segment_may_answer_fails_or_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = lose(fill(tmp_path), 2)
    for times in ({"since": T0 + 23}, {"until": T0 + 23}):
        with pytest.raises(CorruptRecordError, match=rf"{sentence}.*{ADVICE}"):
            plan(tmp_path, topics="t", **times)
        caplog.clear()
        found = plan(tmp_path, topics="t", failOnDataLoss=False, **times)
        assert sentence in caplog.text
        wanted = range(30, 50) if "since" in times else range(20)
        assert [n for n, _ in run(tmp_path, found, failOnDataLoss=False)] == list(wanted)
    assert plan(tmp_path, topics="t", since=T0 + 33).offsets == 17


def test_a_loss_that_is_not_certain_or_was_accepted_fails_no_read(tmp_path: Path) -> None:
    doubtful, accepted = tmp_path / "doubtful", tmp_path / "accepted"
    lose(fill(doubtful), 0)
    (doubtful / MARKER).unlink()
    folder = fill(accepted)
    lose(folder, 0)
    with kstore.open(accepted, config=QUIET) as store:
        assert store["t"][0].end_offset == 50
    (folder / "kstore.lost").unlink()
    for path in doubtful, accepted:
        assert len(run(path, plan(path, topics="t"))) == 40


def plan_export(path: Path, lake: Path, fail: bool) -> tuple[Plan, list[LostOffsets]]:
    source = job._source((str(path),), "t", None, None, "read_uncommitted", fail)
    return job._plan(source, Exported(str(lake)), 1, 1 << 20)


@pytest.mark.parametrize("number", [0, 2])
def test_an_export_over_a_lost_segment_fails_and_says_how_to_go_on(
    tmp_path: Path, number: int
) -> None:
    path = tmp_path / "data"
    sentence = lose(fill(path), number)
    with pytest.raises(CorruptRecordError, match=rf"{sentence}.*{ADVICE}") as caught:
        plan_export(path, tmp_path / "lake", fail=True)
    assert caught.value.offset == number * EACH


@pytest.mark.parametrize("number", [0, 2])
def test_lost_offsets_do_not_count_as_exported(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning and the report name them in this run and the next; a restored segment is new."""
    path, lake = tmp_path / "data", tmp_path / "lake"
    sentence = lose(fill(path), number)
    first = number * EACH
    for wanted in [n for n in range(50) if n // EACH != number], []:
        caplog.clear()
        found, lost = plan_export(path, lake, fail=False)
        assert sentence in caplog.text
        assert lost == [LostOffsets("t", 0, first, first + EACH)]
        assert f"offsets {first} to {first + 9} are lost" in job.lost_lines(lost)[0]
        assert [offset for offset, _ in run(path, found, failOnDataLoss=False)] == wanted
        with Target(str(lake)) as target:
            for task in found.tasks:
                target.publish(job._exported(task, lost), [])
    assert Exported(str(lake)).left("t", find_identity(path), 0, (0, 50), 50) == [
        (first, first + EACH)
    ]


def find_identity(path: Path) -> TopicIdentity:
    with kstore.open(path, "r") as store:
        return store._manager.identities.find("t")


def test_an_export_names_offsets_that_retention_deletes_under_it(tmp_path: Path) -> None:
    path = tmp_path / "data"
    fill(path)
    found, lost = plan_export(path, tmp_path / "lake", fail=False)
    assert lost == []
    with kstore.open(path, config=QUIET) as store:
        store["t"][0].delete_records(10)
    tasks = [job._Task(parse(path), task, str(tmp_path), "run", "snappy") for task in found.tasks]
    assert [each for task in tasks for each in job._export_task(task)[1]] == [
        LostOffsets("t", 0, 0, 10)
    ]


def parse(path: Path) -> SourceOptions:
    return job._source((str(path),), "t", None, None, "read_uncommitted", False)
