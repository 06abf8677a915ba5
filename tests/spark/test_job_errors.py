"""What a task of a job raises arrives in the driver as what it was."""

import base64
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import CorruptRecordError, KStoreError, StorageError
from kstore.spark.jobs import verify
from kstore.spark.jobs.command import main
from kstore.spark.jobs.task_runner import run_tasks


def full(task: int) -> None:
    raise StorageError("the disk is full", errno=28, path="/data/t-0", position=task)


def astray(task: int) -> None:
    raise ZeroDivisionError(f"task {task}\nand more of it")


def damaged(task: int) -> None:
    raise CorruptRecordError("no such magic").at(path="/data/t-0", offset=task)


def test_an_error_of_kstore_arrives_as_itself(spark: Any) -> None:
    with pytest.raises(StorageError, match="the disk is full") as caught:
        list(run_tasks(spark, [7], full, "kstore tests"))
    assert caught.value.errno == 28
    assert (caught.value.path, caught.value.position) == ("/data/t-0", 7)
    with pytest.raises(CorruptRecordError, match="no such magic") as found:
        list(run_tasks(spark, [8], damaged, "kstore tests"))
    assert (found.value.path, found.value.offset) == ("/data/t-0", 8)


def posing(task: int) -> None:
    false = base64.b64encode(b'{"other": "all is well"}').decode()
    raise StorageError("no such file", path=f"/data/<kstore:{false}>")


def test_a_file_s_name_does_not_pass_for_an_error(spark: Any) -> None:
    with pytest.raises(StorageError, match="no such file"):
        list(run_tasks(spark, [7], posing, "kstore tests"))


def test_any_other_names_the_task_in_one_line(spark: Any) -> None:
    with pytest.raises(KStoreError) as caught:
        list(run_tasks(spark, [7], astray, "kstore tests"))
    assert str(caught.value) == "kstore tests (1 of 1) failed: ZeroDivisionError: task 7"


@pytest.mark.parametrize("work", [full, astray])
def test_a_job_that_fails_in_a_task_prints_one_line(
    spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    def run(arguments: Namespace, progress: Any) -> int:
        return len(list(run_tasks(spark, [7], work, "kstore tests")))

    monkeypatch.setattr(verify, "describe", lambda parser: None)
    monkeypatch.setattr(verify, "run", run)
    assert main("verify", []) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.startswith("verify: ")]) == 1
    assert not [line for line in lines if "Traceback" in line]


def test_an_invalid_master_is_reported_in_a_line(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders")[0].append(b"x")
    run = "import sys; from kstore.cli import main; sys.exit(main())"
    job = [sys.executable, "-c", run, "spark", "verify", "--master", "bogus"]
    done = subprocess.run(
        [*job, "--log-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if "Spark did not start a session" in line]
    assert len(lines) == 1
    assert "bogus" in lines[0]
    assert "local[N]" in lines[0]
