"""``kstore spark reindex``: the files that one machine makes, whatever dies on the way."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.files.filenames import REWRITE_PREFIX
from kstore.spark.jobs import partition_job, task_runner
from kstore.spark.jobs import reindex as job
from kstore.spark.jobs.partition_job import Task
from support.damage import write_damaged
from support.jobs import logs, lose_side_files, make_store, rebuilt_by_recovery, side_files
from support.stores import QUIET, snapshot


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A store, and what recovery makes of it."""
    root = tmp_path_factory.mktemp("template")
    make_store(root / "data")
    return root / "data", rebuilt_by_recovery(root / "data", root / "copy")


@pytest.fixture
def log_dir(template: tuple[Path, dict[str, bytes]], tmp_path: Path) -> Path:
    shutil.copytree(template[0], tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def expected(template: tuple[Path, dict[str, bytes]]) -> dict[str, bytes]:
    return template[1]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "LEAST_TASK", 9000)
    monkeypatch.setattr(task_runner, "MOST_TASK", 9000)


def test_the_files_that_recovery_makes(
    spark: Any, log_dir: Path, expected: dict[str, bytes]
) -> None:
    before = logs(log_dir)
    lose_side_files(log_dir)
    seen: list[int] = []
    reports = job.reindex(spark, log_dir, progress=lambda done, total, name: seen.append(done))
    assert side_files(log_dir) == expected
    assert logs(log_dir) == before
    assert not list(log_dir.rglob(REWRITE_PREFIX + "*"))
    assert [(each.topic, each.partition) for each in reports] == [
        ("clicks", 0), ("clicks", 1), ("orders", 0), ("orders", 1),
    ]  # fmt: skip
    assert all(each.ok for each in reports)
    written = [f"{Path(each.path).name}/{name}" for each in reports for name in each.written]
    assert sorted(written) == sorted(expected)
    assert seen[-1] == sum(map(len, before.values()))
    assert (log_dir / ".kafka_cleanshutdown").exists()


def test_a_store_that_was_not_closed(spark: Any, log_dir: Path, expected: dict[str, bytes]) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    lose_side_files(log_dir)
    assert all(each.ok for each in job.reindex(spark, log_dir))
    assert side_files(log_dir) == expected


def test_damage_and_the_command(spark: Any, log_dir: Path, capsys: Any) -> None:
    chosen = sorted((log_dir / "clicks-1").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[90] ^= 1
    write_damaged(chosen, data)
    assert main(["spark", "reindex", "--log-dir", str(log_dir)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(
        line.startswith(f"  unchanged: {chosen} position 0 offset {int(chosen.stem)}: ")
        for line in lines
    )
    assert lines[-1] == "4 partitions: 1 not ok"
    assert main(["spark", "reindex", "--json", "--topic", "orders", "--log-dir", str(log_dir)]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["ok"]
    assert [each["written"] for each in tree["partitions"]] == [[], []]


def fail_once(task: Task) -> Any:
    """The first attempt of each task dies when half of its work is staged."""
    first = task.units[0]
    mark = Path(task.paths[0]).parent / f"failed-{first.number}-{first.key}"
    if not mark.exists():
        mark.touch()
        job._index_one(task.files, first)
        raise RuntimeError("this attempt dies")
    return job._index_task(task)


def fail_always(task: Any) -> Any:
    raise RuntimeError("never")


def test_a_retried_task_leaves_the_same_files(
    spark: Any,
    log_dir: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lose_side_files(log_dir)
    with monkeypatch.context() as patched:
        patched.setattr(partition_job, "run_tasks", replacing(fail_once))
        assert all(each.ok for each in job.reindex(spark, log_dir))
    assert side_files(log_dir) == expected
    assert not list(log_dir.rglob(REWRITE_PREFIX + "*"))  # what the attempts left that died
    assert list(tmp_path.glob("failed-*"))


def replacing(work: Any) -> Any:
    """run_tasks with other work for the first wave."""
    original = partition_job.run_tasks

    def run(spark: Any, tasks: Any, given: Any, description: str) -> Any:
        return original(spark, tasks, work if given is job._index_task else given, description)

    return run


def test_a_job_that_fails_leaves_the_store_as_it_was(
    spark: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(log_dir)
    monkeypatch.setattr(partition_job, "run_tasks", replacing(fail_always))
    with pytest.raises(Exception, match="never"):
        job.reindex(spark, log_dir)
    assert snapshot(log_dir) == before


def test_a_driver_that_dies_between_two_partitions(
    spark: Any, log_dir: Path, expected: dict[str, bytes], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    lose_side_files(log_dir)
    done: list[Path] = []
    original = job.finish_partition

    def finish(files: Any, directory: str, *rest: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(Path(directory))
        return original(files, directory, *rest)

    state = tmp_path / "state.json"
    with monkeypatch.context() as patched:
        patched.setattr(job, "finish_partition", finish)
        with pytest.raises(KeyboardInterrupt):
            job.reindex(spark, log_dir, resume=str(state))
    template = side_files(log_dir)
    assert template == {
        name: data for name, data in expected.items() if name.startswith(done[0].name + "/")
    }
    assert list(log_dir.rglob(REWRITE_PREFIX + "*"))
    seen: set[str] = set()
    reports = job.reindex(
        spark, log_dir, resume=str(state), progress=lambda done, total, name: seen.add(name)
    )
    assert done[0].name not in seen
    assert len(seen) == 3
    assert all(each.ok and each.written for each in reports)
    assert side_files(log_dir) == expected
    assert not list(log_dir.rglob(REWRITE_PREFIX + "*"))


def test_dry_run_locks_and_mistakes(log_dir: Path, tmp_path: Path, capsys: Any) -> None:
    before = snapshot(log_dir)
    assert main(["spark", "reindex", "--dry-run", "--log-dir", str(log_dir)]) == 0
    assert "segments and rebuild their files" in capsys.readouterr().out
    with kstore.open(log_dir, config=QUIET):
        words = ["--lock-timeout", "0.1", "--master", "local[1]", "--log-dir", str(log_dir)]
        assert main(["spark", "reindex", *words]) == 1
    said = capsys.readouterr().err
    assert "100 ms" in said
    assert "--lock-timeout" in said
    other = tmp_path / "other.json"
    other.write_text('{"job": {"name": "compact"}, "done": {}}')
    assert main(["spark", "reindex", "--resume", str(other), "--log-dir", str(log_dir)]) == 1
    assert "belongs to another job" in capsys.readouterr().err
    assert {name: data for name, (data, _) in snapshot(log_dir).items()} == {
        name: data for name, (data, _) in before.items()
    }
