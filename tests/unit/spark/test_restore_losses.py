"""A restore whose source has lost records fails, or warns with fail_on_data_loss=False.

Tasks run here, one after the other.
"""

from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.errors import CorruptRecordError, OffsetOutOfRangeError
from kstore.spark.jobs import restore as job
from kstore.spark.jobs import restore_driver, restore_plan
from support.stores import QUIET
from support.tasks_here import NO_SPARK, use_tasks_here

SEGMENTS, EACH = 5, 10
ADVICE = "set failOnDataLoss to false"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    use_tasks_here(monkeypatch, job, restore_driver, restore_plan)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "source", config=QUIET) as store:
        log = store.create_topic("t")[0]
        for n in range(SEGMENTS * EACH):
            if n and n % EACH == 0:
                log.roll()
            log.append(b"%d" % n)
    return tmp_path / "source"


def lose(source: Path, number: int) -> None:
    (source / "t-0" / f"{number * EACH:020}.log").unlink()


def values(to: Path) -> list[int]:
    with kstore.open(to, "r") as store:
        return [int(record.value) for record in store["t"][0]] if "t" in store else []


@pytest.mark.parametrize("keep_offsets", [False, True])
@pytest.mark.parametrize("number", [0, 2])
def test_lost_segments_fail_a_restore_or_are_named_in_a_warning(
    source: Path, tmp_path: Path, number: int, keep_offsets: bool, caplog: Any
) -> None:
    lose(source, number)
    options = {"log_dirs": source, "keep_offsets": keep_offsets, "resume": str(tmp_path / "state")}
    lost = f"offsets {number * EACH} to {number * EACH + EACH - 1} are lost"
    with pytest.raises(CorruptRecordError, match=f"{lost}.*{ADVICE}"):
        job.restore(NO_SPARK, tmp_path / "to", **options)
    assert values(tmp_path / "to") == []
    caplog.clear()
    (report,) = job.restore(NO_SPARK, tmp_path / "to", **options, fail_on_data_loss=False)
    expected = [n for n in range(50) if n // EACH != number]
    assert report.records == len(expected)
    assert values(tmp_path / "to") == expected
    assert sum(lost in each.getMessage() for each in caplog.records if "skips" in each.msg) == 1


def test_only_a_restore_of_lost_offsets_fails(source: Path, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    (complete,) = job.restore(NO_SPARK, tmp_path / "to", log_dirs=source, resume=state)
    lose(source, 2)
    assert job.restore(NO_SPARK, tmp_path / "to", log_dirs=source, resume=state) == [complete]
    for start, stop, fails in (("0", "20", False), ("29", "50", True), ("30", "50", False)):
        words = ["spark", "restore", "--from", str(source), "--log-dir", str(tmp_path / start)]
        wanted = job.Filter(start=int(start), stop=int(stop))
        if fails:
            with pytest.raises(CorruptRecordError, match="are lost"):
                job.restore(NO_SPARK, tmp_path / start, log_dirs=source, chosen=wanted)
        else:
            job.restore(NO_SPARK, tmp_path / start, log_dirs=source, chosen=wanted)
            assert values(tmp_path / start) == list(range(int(start), int(stop)))
        assert main([*words, "--fail-on-data-loss", "false", "--dry-run"]) == 0


def test_offsets_that_retention_deletes_during_a_restore_fail_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = restore_driver.encode

    def encode_late(task: Any) -> Any:
        with kstore.open(source, config=QUIET) as store:
            store["t"][0].delete_records(25)
        return encode(task)

    monkeypatch.setattr(restore_driver, "encode", encode_late)
    with pytest.raises(OffsetOutOfRangeError, match=f"the log has 25 to 50.*{ADVICE}"):
        job.restore(NO_SPARK, tmp_path / "to", log_dirs=source)
    assert values(tmp_path / "to") == []
    with kstore.open(tmp_path / "source", config=QUIET) as store:
        store["t"][0].append(b"50")
    (report,) = job.restore(NO_SPARK, tmp_path / "to", log_dirs=source)
    assert report.records == 26
    assert values(tmp_path / "to") == list(range(25, 51))


@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_a_publication_that_finished_is_not_repeated_from_a_source_with_fewer_records(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_on_loss: bool
) -> None:
    """The run was killed after the records showed, before the resume file had the entry."""
    publish = restore_driver.publish

    def killed(*arguments: Any, **options: Any) -> None:
        publish(*arguments, **options)
        raise KeyboardInterrupt

    to, state = tmp_path / "to", str(tmp_path / "state")
    monkeypatch.setattr(restore_driver, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        job.restore(NO_SPARK, to, log_dirs=source, resume=state)
    monkeypatch.setattr(restore_driver, "publish", publish)
    before = values(to)
    assert before == list(range(SEGMENTS * EACH))
    with kstore.open(source, config=QUIET) as store:
        store["t"][0].delete_records(15)
    options = {"log_dirs": source, "resume": state, "fail_on_data_loss": fails_on_loss}
    job.restore(NO_SPARK, to, **options)
    assert values(to) == before
    with kstore.open(source, config=QUIET) as store:
        store["t"][0].append(b"50")
    job.restore(NO_SPARK, to, **options)
    assert values(to) == [*before, SEGMENTS * EACH]
