"""What a file to resume from holds is taken for done only as long as the partition is as it was.

Tasks run here, one after the other. One partition stays damaged, so that the file is kept.
"""

import os
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.log.writer_state import WriterState
from kstore.spark.jobs import compact as compaction
from kstore.spark.jobs import partition_job, rewrite
from kstore.spark.jobs import reindex as reindexing
from kstore.spark.jobs import stats as surveying
from kstore.spark.jobs import verify as verifying
from kstore.spark.jobs.recompress import recompress
from kstore.spark.jobs.resume_file import ResumeFile
from support.damage import write_damaged
from support.stores import QUIET
from support.tasks_here import NO_SPARK, use_tasks_here
from support.transactions import WHEN


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (partition_job, compaction, reindexing, verifying, surveying)
    use_tasks_here(monkeypatch, *modules)


def append(log_dir: Path, partition: int, count: int, first: int = 0) -> None:
    with kstore.open(log_dir, config=QUIET) as store:
        log = store["accounts"][partition]
        for n in range(first, first + count):
            log.append(b"balance %d" % n * 9, key=b"%d" % (n % 5), timestamp=WHEN + n)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Of three partitions the last is damaged in a rolled segment."""
    path = tmp_path / "data"
    config = kstore.LogConfig(
        segment_bytes=4000, file_delete_delay_ms=0, cleanup_policy="compact",
        index_interval_bytes=300,
    )  # fmt: skip
    with kstore.open(path, config=QUIET) as store:
        store.create_topic("accounts", 3, config=config)
    for partition in range(3):
        append(path, partition, 200)
    damage(sorted((path / "accounts-2").glob("*.log"))[0])
    return path


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    write_damaged(path, data)


def names(reports: Any) -> list[int]:
    """The partitions that were worked on, not taken from the file."""
    return [each.partition for each in reports if each.from_file is None]


def test_compact_continues_with_partitions_that_have_new_records(
    log_dir: Path, tmp_path: Path
) -> None:
    state = str(tmp_path / "state.json")
    first = compaction.compact(NO_SPARK, log_dir, resume=state)
    assert [each.ok for each in first] == [True, True, False]
    again = compaction.compact(NO_SPARK, log_dir, resume=state)
    assert names(again) == [2]
    assert again == first
    append(log_dir, 0, 200, 200)
    before = sum(path.stat().st_size for path in (log_dir / "accounts-0").glob("*.log"))
    then = compaction.compact(NO_SPARK, log_dir, resume=state)
    assert names(then) == [0, 2]
    assert then[0].report.end_offset > first[0].report.end_offset
    assert then[0].report.records_read > then[0].report.records_kept
    assert sum(path.stat().st_size for path in (log_dir / "accounts-0").glob("*.log")) < before
    assert then[1] == first[1]


def test_a_resumed_compact_includes_partitions_that_only_time_made_due(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was appended: a lag has passed."""
    with kstore.open(log_dir, config=QUIET) as store:
        store.alter_topic("accounts", config={"min.compaction.lag.ms": 86_400_000})
    append(log_dir, 0, 1, 200)
    state = str(tmp_path / "state.json")
    monkeypatch.setattr(WriterState, "now_ms", lambda self: WHEN + 1000)
    with monkeypatch.context() as stopped:  # all of them are ok: keep the file, as a stop would
        stopped.setattr(ResumeFile, "end", ResumeFile.close)
        first = compaction.compact(NO_SPARK, log_dir, resume=state)
    assert [each.report.passes for each in first] == [0, 0, 0]
    kept = Path(state).read_bytes()
    assert names(compaction.compact(NO_SPARK, log_dir, resume=state)) == []
    Path(state).write_bytes(kept)
    monkeypatch.setattr(WriterState, "now_ms", lambda self: WHEN + 86_400_000 + 1000)
    then = compaction.compact(NO_SPARK, log_dir, resume=state)
    assert names(then) == [0, 1, 2]
    assert [each.report.passes for each in then] == [1, 1, 0]


def test_recompress_continues_with_segments_rolled_since(log_dir: Path, tmp_path: Path) -> None:
    state = str(tmp_path / "state.json")
    first = recompress(NO_SPARK, log_dir, "zstd", resume=state, roll=True)
    assert [each.ok for each in first] == [True, True, False]
    again = recompress(NO_SPARK, log_dir, "zstd", resume=state, roll=True)
    assert names(again) == [2]
    assert again[:2] == first[:2]
    append(log_dir, 1, 100, 200)
    then = recompress(NO_SPARK, log_dir, "zstd", resume=state, roll=True)
    assert names(then) == [1, 2]
    assert then[1].segments > first[1].segments
    assert then[1].rewritten > 0


def test_reindex_continues_with_indexes_lost_since(log_dir: Path, tmp_path: Path) -> None:
    state = str(tmp_path / "state.json")
    first = reindexing.reindex(NO_SPARK, log_dir, resume=state)
    assert [each.ok for each in first] == [True, True, False]
    assert names(reindexing.reindex(NO_SPARK, log_dir, resume=state)) == [2]
    lost = sorted((log_dir / "accounts-1").glob("*.index"))[0]
    intact = lost.read_bytes()
    with lost.open("r+b") as file:
        file.write(b"?" * len(intact))  # no file came or went
    assert lost.read_bytes() != intact
    append(log_dir, 0, 1, 200)
    then = reindexing.reindex(NO_SPARK, log_dir, resume=state)
    assert names(then) == [0, 1, 2]
    assert then[1].written == (lost.name,)
    assert lost.read_bytes() == intact


@pytest.mark.parametrize("suffix", [".log", ".index"])
@pytest.mark.parametrize("keeps_mtime", [False, True])
def test_verify_and_stats_read_again_what_was_changed_in_place(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, keeps_mtime: bool
) -> None:
    """A file with the size and inode it had is believed only with the times it had."""
    monkeypatch.setattr(ResumeFile, "end", ResumeFile.close)  # stopped just before its end
    checked, walked = str(tmp_path / "checked.json"), str(tmp_path / "walked.json")
    first = verifying.verify(NO_SPARK, log_dir, resume=checked)
    before = surveying.stats(NO_SPARK, log_dir, resume=walked)
    assert names(verifying.verify(NO_SPARK, log_dir, resume=checked)) == []
    assert names(surveying.stats(NO_SPARK, log_dir, resume=walked)) == []
    changed = sorted((log_dir / "accounts-0").glob(f"*{suffix}"))[0]
    about = changed.stat()
    with changed.open("r+b") as file:
        file.seek(7)
        (byte,) = file.read(1)
        file.seek(7)
        file.write(bytes([byte ^ 1]))
    if keeps_mtime:
        os.utime(changed, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert (changed.stat().st_ino, changed.stat().st_size) == (about.st_ino, about.st_size)
    then = verifying.verify(NO_SPARK, log_dir, resume=checked)
    assert names(then) == [0]
    assert first[0].ok
    assert not then[0].ok
    again = surveying.stats(NO_SPARK, log_dir, resume=walked)
    is_log = suffix == ".log"  # of an index only the size is reported
    assert names(again) == ([0] if is_log else [])
    assert (again[0].stats == before[0].stats) == (not is_log)


def test_results_from_the_resume_file_are_reported_as_such(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state.json")
    for job, describe in (
        (lambda: compaction.compact(NO_SPARK, log_dir, resume=state), compaction.report_lines),
        (lambda: recompress(NO_SPARK, log_dir, "lz4", resume=state), rewrite.report_lines),
        (lambda: reindexing.reindex(NO_SPARK, log_dir, resume=state), reindexing.report_lines),
    ):
        assert not any("from the file" in line for line in describe(job()))
        assert any("2 of them were done by an earlier run" in line for line in describe(job()))
        Path(state).unlink()
    compaction.compact(NO_SPARK, log_dir, resume=state)
    words = ["spark", "compact", "--dry-run", "--resume", state, "--log-dir", str(log_dir)]
    assert main(words) == 0
    assert "1 task would compact" in capsys.readouterr().out
    append(log_dir, 0, 1, 200)
    assert main(words) == 0
    assert "2 tasks would compact" in capsys.readouterr().out
