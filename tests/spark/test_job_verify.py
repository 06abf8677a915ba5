"""``kstore spark verify``: what one machine's verify says, from tasks; damage is named."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cli import main
from kstore.spark.jobs import partition_job, task_runner
from kstore.spark.jobs import verify as job
from kstore.spark.jobs.task_runner import run_tasks
from support.damage import write_damaged
from support.jobs import folder_goes_once_planned, overwrite, read_resume_file
from support.stores import QUIET, snapshot

NO_SPARK: Any = None  # tasks run in this process


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with kstore.open(path, config=QUIET) as store:
        for name in ("orders", "clicks"):
            topic = store.create_topic(name, 2, config=kstore.LogConfig(segment_bytes=4000))
            for n in range(400):
                topic.append(b"value %d" % n * 4, key=b"%d" % n, partition=n % 2)
    return path


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "LEAST_TASK", 5000)
    monkeypatch.setattr(task_runner, "MOST_TASK", 5000)


def single(path: Path) -> list[dict[str, Any]]:
    with kstore.open(path, "r") as store:
        return [asdict(log.verify()) for name in sorted(store) for log in store[name]]


def damage(path: Path) -> tuple[Path, int]:
    """Flip a bit of a record in the middle; its file and the batch's position."""
    chosen = sorted((path / "orders-1").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    data[70] ^= 1
    write_damaged(chosen, data)
    return chosen, int(chosen.stem)


def test_the_same_as_on_one_machine(spark: Any, log_dir: Path) -> None:
    before = snapshot(log_dir)
    reports = job.verify(spark, log_dir)
    assert [asdict(each.report) for each in reports] == single(log_dir)
    assert [(each.topic, each.partition) for each in reports] == [
        ("clicks", 0), ("clicks", 1), ("orders", 0), ("orders", 1),
    ]  # fmt: skip
    assert all(each.ok and each.report.segments > 3 for each in reports)
    assert snapshot(log_dir) == before


def test_damage_is_named_and_the_job_continues(spark: Any, log_dir: Path, capsys: Any) -> None:
    chosen, offset = damage(log_dir)
    assert main(["spark", "verify", "--log-dir", str(log_dir)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(f"batch: {chosen} position 0 offset {offset}: " in line for line in lines)
    assert lines[-1].startswith("4 partitions: 1 not ok")
    assert [asdict(each.report) for each in job.verify(spark, log_dir)] == single(log_dir)


def test_json_is_that_of_the_tool(spark: Any, log_dir: Path, capsys: Any) -> None:
    damage(log_dir)
    words = ["verify", "--json", "--log-dir", str(log_dir), "--topic", "orders"]
    assert main(["spark", *words]) == 1
    ours = json.loads(capsys.readouterr().out)
    assert main(words) == 1
    assert json.loads(capsys.readouterr().out) == ours


def stop_after(name: str) -> Any:
    """Progress that ends the driver when this partition is done, and noted."""

    def progress(done: int, total: int, now: str) -> None:
        if now == name:
            raise KeyboardInterrupt

    return progress


def test_resume_does_not_look_again(
    spark: Any, log_dir: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(log_dir)
    for name in ("LEAST_TASK", "MOST_TASK"):  # one task: its partitions come in order
        monkeypatch.setattr(task_runner, name, 1 << 20)
    complete = job.verify(spark, log_dir)
    state = tmp_path / "state.json"
    with pytest.raises(KeyboardInterrupt):
        job.verify(spark, log_dir, resume=str(state), progress=stop_after("orders-0"))
    left = [each for each in complete if each.path not in read_resume_file(state)]
    assert 0 < len(left) < 4
    words = ["spark", "verify", "--resume", str(state), "--log-dir", str(log_dir)]
    assert main([*words, "--dry-run"]) == 0
    size = sum(each.report.bytes for each in left)
    assert f"would verify {size:,} bytes" in capsys.readouterr().out
    seen: set[str] = set()
    again = job.verify(
        spark, log_dir, resume=str(state), progress=lambda done, total, name: seen.add(name)
    )
    assert again == complete
    assert seen == {f"{each.topic}-{each.partition}" for each in left}
    assert not state.exists()  # everything is done
    state.write_bytes(b"{}")
    assert main(words) == 1
    assert "is not a resume file" in capsys.readouterr().err


def test_a_partition_that_differs_from_the_resume_file_is_verified_again(
    log_dir: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_job, "check_executors", lambda *_: None)
    for module in (job, partition_job):
        monkeypatch.setattr(module, "cores", lambda spark: 2)
    monkeypatch.setattr(
        partition_job,
        "run_tasks",
        lambda spark, tasks, work, text: (each for each in enumerate(map(work, tasks))),
    )
    monkeypatch.setattr(partition_job.ResumeFile, "end", lambda self: None)
    state = str(tmp_path / "state")
    complete = job.verify(NO_SPARK, log_dir, resume=state)
    with kstore.open(log_dir, config=QUIET) as store:
        store["orders"][1].append(b"more")
    overwrite(log_dir / "clicks-0")  # of the same size, in the same file
    reports = job.verify(NO_SPARK, log_dir, resume=state)
    assert not reports[0].ok
    assert reports[1:3] == complete[1:3]
    assert reports[3].report.batches == complete[3].report.batches + 1
    assert [each.from_file is None for each in reports] == [True, False, False, True]
    assert any(
        "2 of them were done by an earlier run" in line for line in job.report_lines(reports)
    )


def test_a_partition_whose_directory_is_removed_meanwhile_is_reported_missing(
    spark: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_goes_once_planned(monkeypatch, job, log_dir / "clicks-1")
    reports = job.verify(spark, log_dir)
    (missing,) = [each for each in reports if not each.ok]
    assert "clicks-1" in str(missing)


def test_dry_run_and_mistakes(log_dir: Path, capsys: Any) -> None:
    assert main(["spark", "verify", "--dry-run", "--log-dir", str(log_dir)]) == 0
    assert "tasks would verify" in capsys.readouterr().out
    assert main(["spark", "verify", "--log-dir", str(log_dir / "no")]) == 1
    assert "sees no such log directory" in capsys.readouterr().err
    assert main(["spark", "verify", "--dry-run", "--topic", "x", "--log-dir", str(log_dir)]) == 1
    assert "topics: clicks, orders" in capsys.readouterr().err
    assert main(["spark", "verify", "--help"]) == 0
    assert "spark-submit" in capsys.readouterr().out


def test_without_pyspark(log_dir: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    assert main(["spark", "verify", "--log-dir", str(log_dir)]) == 1
    assert "pip install 'kstore[spark]'" in capsys.readouterr().err


def fail_at_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number * 2


def test_results_as_they_come_and_errors(spark: Any) -> None:
    doubled = dict(run_tasks(spark, [5, 6, 7, 8, 9, 10], fail_at_three, "test"))
    assert doubled == {0: 10, 1: 12, 2: 14, 3: 16, 4: 18, 5: 20}
    with pytest.raises(Exception, match="three"):
        list(run_tasks(spark, [1, 2, 3, 4], fail_at_three, "test"))
