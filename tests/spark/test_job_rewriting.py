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
def place(tmp_path: Path) -> Path:
    make_store(tmp_path / "data", partitions=1)
    return tmp_path / "data"


def on_one_machine(place: Path, copy: Path, target: RewriteTarget) -> Path:
    shutil.copytree(place, copy)
    with kstore.open(copy, config=QUIET) as store:
        for name in store:
            for log in store[name]:
                assert not rewrite_log(log, target, files=DISK).damages
    return copy


def same(place: Path, other: Path) -> bool:
    return logs(place) == logs(other) and side_files(place) == side_files(other)


def retired(place: Path) -> list[Path]:
    return [*place.rglob(REWRITE_PREFIX + "*"), *place.rglob("*.cleaned"), *place.rglob("*.swap")]


def test_what_one_machine_writes(spark: Any, place: Path, tmp_path: Path, capsys: Any) -> None:
    alone = on_one_machine(place, tmp_path / "alone", RewriteTarget("zstd", force=True))
    words = ["--compression", "zstd", "--force", "--log-dir", str(place)]
    assert main(["spark", "recompress", "--dry-run", *words]) == 0
    assert "sealed segments anew" in capsys.readouterr().out
    assert main(["spark", "recompress", "--json", *words]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["ok"]
    assert same(place, alone)
    assert not retired(place)
    assert all(each["rewritten"] for each in tree["partitions"])
    before = logs(place)
    again = recompress(spark, place, "zstd", force=True)
    assert [each.rewritten for each in again] == [0, 0]
    assert logs(place) == before
    with kstore.open(place, "r") as store:
        reports = [log.verify() for name in store for log in store[name]]
    assert all(each.ok and each.unsealed_segments == 1 for each in reports)


def test_the_active_segment_too_and_old_messages(
    spark: Any, place: Path, tmp_path: Path, capsys: Any
) -> None:
    with kstore.open(place, config=QUIET) as store:
        log = store.create_topic("old")[0]
        for n in range(300):
            log.append_as_follower(message(n, b"k", b"v%d" % n, magic=n % 2, timestamp=n))
    words = ["spark", "convert", "--topic", "old", "--log-dir", str(place)]
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("0 tasks would write 0 sealed segments")
    assert main([*words, "--roll", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("1 tasks would write 1 segments")
    assert main([*words, "--roll"]) == 0
    assert "1 of 1 segments rewritten" in capsys.readouterr().out
    found = batches(place)["old-0"]
    assert [(each.magic, each.base_offset) for each in found] == [(2, n) for n in range(300)]
    assert [record.value for each in found for record in each.records] == [
        b"v%d" % n for n in range(300)
    ]


def fail_once(task: Any) -> Any:
    """The first attempt of each task dies when a part of its work is staged."""
    mark = Path(task.paths[0]).parent / f"failed-{task.pieces[0].path[-1]}"
    mark = mark.with_name(f"{mark.name}-{task.pieces[0].key}")
    if not mark.exists():
        mark.touch()
        job._rewrite_one(task.files, task.pieces[0], task.options)
        raise RuntimeError("this attempt dies")
    return job._work(task)


def test_a_task_that_is_tried_again(
    spark: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = on_one_machine(place, tmp_path / "alone", RewriteTarget("gzip", force=True))
    original = partition_job.run_tasks

    def run(spark: Any, tasks: Any, given: Any, description: str) -> Any:
        return original(spark, tasks, fail_once if given is job._work else given, description)

    monkeypatch.setattr(partition_job, "run_tasks", run)
    assert all(each.ok for each in recompress(spark, place, "gzip", force=True))
    assert list(tmp_path.glob("failed-*"))
    assert same(place, alone)
    assert not retired(place)


def fail_always(task: Any) -> Any:
    raise RuntimeError("never")


def test_a_job_that_fails_changes_nothing(
    spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = logs(place)
    original = partition_job.run_tasks
    monkeypatch.setattr(
        partition_job,
        "run_tasks",
        lambda spark, tasks, work, text: original(spark, tasks, fail_always, text),
    )
    with pytest.raises(Exception, match="never"):
        recompress(spark, place, "gzip", force=True)
    assert logs(place) == before


def test_a_driver_killed_between_two_swaps(
    spark: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill leaves it: copied away in the middle of the third swap, between two renames."""
    alone = on_one_machine(place, tmp_path / "alone", RewriteTarget("lz4", force=True))
    records = {name: [b.records for b in found] for name, found in batches(place).items()}
    crash = tmp_path / "crash"
    with driver_dies_in_swap(monkeypatch, 3, place, crash):
        recompress(spark, place, "lz4", force=True)
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


def test_locks_and_mistakes(place: Path, capsys: Any) -> None:
    before = snapshot(place)
    assert main(["spark", "recompress", "--log-dir", str(place)]) != 0
    assert "--compression" in capsys.readouterr().err
    with kstore.open(place, config=QUIET):
        words = ["--lock-timeout", "0.1", "--master", "local[1]", "--log-dir", str(place)]
        assert main(["spark", "convert", *words]) == 1
    assert "100 ms" in capsys.readouterr().err
    assert {name: data for name, (data, _) in snapshot(place).items()} == {
        name: data for name, (data, _) in before.items()
    }
