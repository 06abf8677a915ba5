"""``kstore spark recompress``, ``convert``: what one machine writes, whatever dies on the way."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.files.filenames import REWRITE_PREFIX
from kstore.files.files import DISK
from kstore.maintenance.rewrite import RewriteTarget, rewrite_log
from kstore.spark.jobs import partition_job, task_runner
from kstore.spark.jobs import rewrite as job
from kstore.spark.jobs.recompress import recompress
from oracle.writer import message
from support.jobs import batches, driver_dies_in_swap, logs, make_store, side_files
from support.stores import QUIET, snapshot


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "LEAST_TASK", 15_000)
    monkeypatch.setattr(task_runner, "MOST_TASK", 15_000)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    make_store(tmp_path / "data", partitions=1)
    return tmp_path / "data"


def on_one_machine(log_dir: Path, copy: Path, target: RewriteTarget) -> Path:
    shutil.copytree(log_dir, copy)
    with kstore.open(copy, config=QUIET) as store:
        for name in store:
            for log in store[name]:
                assert not rewrite_log(log, target, files=DISK).damages
    return copy


def have_same_files(log_dir: Path, other: Path) -> bool:
    return logs(log_dir) == logs(other) and side_files(log_dir) == side_files(other)


def retired(log_dir: Path) -> list[Path]:
    return [
        *log_dir.rglob(REWRITE_PREFIX + "*"),
        *log_dir.rglob("*.cleaned"),
        *log_dir.rglob("*.swap"),
    ]


def test_recompress_writes_the_same_files_as_on_one_machine(
    spark: Any, log_dir: Path, tmp_path: Path, capsys: Any
) -> None:
    alone = on_one_machine(log_dir, tmp_path / "alone", RewriteTarget("zstd", force=True))
    words = ["--compression", "zstd", "--force", "--log-dir", str(log_dir)]
    assert main(["spark", "recompress", "--dry-run", *words]) == 0
    assert "rolled segments, " in capsys.readouterr().out
    assert main(["spark", "recompress", "--json", *words]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["ok"]
    assert have_same_files(log_dir, alone)
    assert not retired(log_dir)
    assert all(each["rewritten"] for each in tree["partitions"])
    before = logs(log_dir)
    again = recompress(spark, log_dir, "zstd", force=True)
    assert [each.rewritten for each in again] == [0, 0]
    assert logs(log_dir) == before
    with kstore.open(log_dir, "r") as store:
        reports = [log.verify() for name in store for log in store[name]]
    assert all(each.ok and each.unsealed_segments == 1 for each in reports)


def test_the_active_segment_too_and_old_messages(
    spark: Any, log_dir: Path, tmp_path: Path, capsys: Any
) -> None:
    with kstore.open(log_dir, config=QUIET) as store:
        log = store.create_topic("old")[0]
        for n in range(300):
            log.append_as_follower(message(n, b"k", b"v%d" % n, magic=n % 2, timestamp=n))
    words = ["spark", "convert", "--topic", "old", "--log-dir", str(log_dir)]
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("0 tasks would rewrite 0 rolled segments")
    assert main([*words, "--roll", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("1 task would rewrite 1 segment,")
    assert main([*words, "--roll"]) == 0
    assert "1 of 1 segment rewritten" in capsys.readouterr().out
    found = batches(log_dir)["old-0"]
    assert [(each.magic, each.base_offset) for each in found] == [(2, n) for n in range(300)]
    assert [record.value for each in found for record in each.records] == [
        b"v%d" % n for n in range(300)
    ]


def fail_once(task: Any) -> Any:
    """The first attempt of each task dies when a part of its work is staged."""
    mark = Path(task.paths[0]).parent / f"failed-{task.units[0].path[-1]}"
    mark = mark.with_name(f"{mark.name}-{task.units[0].key}")
    if not mark.exists():
        mark.touch()
        job._rewrite_one(task.files, task.units[0], task.options)
        raise RuntimeError("this attempt dies")
    return job._rewrite_task(task)


def test_a_retried_task_leaves_the_same_files(
    spark: Any, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = on_one_machine(log_dir, tmp_path / "alone", RewriteTarget("gzip", force=True))
    original = partition_job.run_tasks

    def run(spark: Any, tasks: Any, given: Any, description: str) -> Any:
        return original(
            spark, tasks, fail_once if given is job._rewrite_task else given, description
        )

    monkeypatch.setattr(partition_job, "run_tasks", run)
    assert all(each.ok for each in recompress(spark, log_dir, "gzip", force=True))
    assert list(tmp_path.glob("failed-*"))
    assert have_same_files(log_dir, alone)
    assert not retired(log_dir)


def fail_always(task: Any) -> Any:
    raise RuntimeError("never")


def test_a_job_that_fails_changes_nothing(
    spark: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = logs(log_dir)
    original = partition_job.run_tasks
    monkeypatch.setattr(
        partition_job,
        "run_tasks",
        lambda spark, tasks, work, text: original(spark, tasks, fail_always, text),
    )
    with pytest.raises(Exception, match="never"):
        recompress(spark, log_dir, "gzip", force=True)
    assert logs(log_dir) == before


def test_a_driver_killed_between_two_swaps(
    spark: Any, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill leaves it: copied away in the middle of the third swap, between two renames."""
    alone = on_one_machine(log_dir, tmp_path / "alone", RewriteTarget("lz4", force=True))
    records = {name: [b.records for b in found] for name, found in batches(log_dir).items()}
    crash = tmp_path / "crash"
    with driver_dies_in_swap(monkeypatch, 3, log_dir, crash):
        recompress(spark, log_dir, "lz4", force=True)
    with kstore.open(crash, "r") as store:  # a reader beside what the driver left
        assert all(log.verify().batches for name in store for log in store[name])
        for name in store:
            for log in store[name]:
                last = -1
                for record in log:
                    assert record.offset > last
                    last = record.offset
    assert all(each.ok for each in recompress(spark, crash, "lz4", force=True))
    assert {name: [b.records for b in found] for name, found in batches(crash).items()} == records
    assert logs(crash) == logs(alone)
    assert not retired(crash)


def test_locks_and_mistakes(log_dir: Path, capsys: Any) -> None:
    before = snapshot(log_dir)
    assert main(["spark", "recompress", "--log-dir", str(log_dir)]) != 0
    assert "--compression" in capsys.readouterr().err
    with kstore.open(log_dir, config=QUIET):
        words = ["--lock-timeout", "0.1", "--master", "local[1]", "--log-dir", str(log_dir)]
        assert main(["spark", "convert", *words]) == 1
    assert "100 ms" in capsys.readouterr().err
    assert {name: data for name, (data, _) in snapshot(log_dir).items()} == {
        name: data for name, (data, _) in before.items()
    }
