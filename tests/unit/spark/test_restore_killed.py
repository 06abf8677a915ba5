"""A restore with --resume that is killed at each of its steps, and then run again."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import StorageError
from kstore.files.files import Files
from kstore.spark.jobs import restore as job
from kstore.spark.jobs import restore_driver

# One process that has everything imported makes a child for each step.
CHILD = """
import json, os, shutil, sys, logging
logging.getLogger("kstore").setLevel(logging.CRITICAL)
import kstore
from kstore.files.files import Files
from kstore.spark.jobs import restore as job, restore_driver, restore_tasks

restore_driver.run_tasks = lambda spark, tasks, work, what: (
    (n, work(task)) for n, task in enumerate(tasks)
)
job.check_executors = lambda *_: None

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def restore():
    for _ in job.restore(None, "to", log_dirs="source", resume="state.json"):
        pass

def deadly(step):
    left = step
    Files.native = False
    def made(real):
        def call(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(9)
            return real(self, *arguments)
        return call
    for name in ("write", "pwrite", "fdatasync", "fsync", "rename", "remove", "sync_directory"):
        setattr(Files, name, made(getattr(Files, name)))
    restore()

def ends(mode):
    def look():
        with kstore.open("to", mode) as store:
            found = [log.end_offset for log in store["orders"]] if "orders" in store else []
            with open("ends", "w") as file:
                json.dump(found, file)
    assert child(look) == 0
    with open("ends") as file:
        return json.load(file)

for step in range(1, 1000):
    shutil.rmtree("to", ignore_errors=True)
    if os.path.exists("state.json"):
        os.remove("state.json")
    os.mkdir("to")
    status = child(lambda: deadly(step))
    seen = ends("r") if os.path.exists("to/.lock") else []
    again = child(restore)
    now = ends("a")
    left = [name for name in os.listdir("to") if "publishing" in name or "staged" in name]
    print(json.dumps([step, status, seen, again, now, left]))
    if status == 0:
        break
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "source") as store:
        topic = store.create_topic("orders", 2)
        for number in range(100):
            topic[number % 2].append(b"value %d" % number)
    return tmp_path


def test_killed_at_every_step_and_run_again(source: Path) -> None:
    """Everything comes once: also where the next run finds an interrupted publication."""
    env = {**os.environ, "PYTHONPATH": str(Path(kstore.__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=source, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    steps = [json.loads(line) for line in ran.stdout.splitlines()]
    shown = set()
    for step, status, seen, again, ends, left in steps:
        assert status in (9, 0), ran.stderr
        assert seen in ([], [0], [0, 0], [50, 50]), step
        shown.add(tuple(seen))
        assert again == 0, (step, ran.stderr)
        assert ends == [50, 50], step
        assert left == [], step
    assert steps[-1][1] == 0
    assert len(steps) > 20
    assert {(0, 0), (50, 50)} <= shown


def test_a_publication_that_cannot_be_undone_now_is_undone_by_the_next_writer(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch fails, and so does undoing, on a full disk: the next writer undoes all of it."""
    monkeypatch.setattr(
        restore_driver,
        "run_tasks",
        lambda spark, tasks, work, what: (each for each in enumerate(map(work, tasks))),
    )
    monkeypatch.setattr(job, "check_executors", lambda *_: None)
    full = False
    with monkeypatch.context() as patched:

        def rename(self: Files, old: Any, new: Any, *, real: Any = Files.rename) -> None:
            nonlocal full
            full = full or "kstore.published" in str(new)
            if full:
                raise StorageError("planted: the disk is full", errno=28)
            real(self, old, new)

        patched.setattr(Files, "rename", rename)
        with pytest.raises(StorageError, match="planted"):
            job.restore(
                None, source / "to", log_dirs=source / "source", resume=str(source / "state.json")
            )
    assert list((source / "to").glob("kstore.publishing.*"))
    assert list((source / "to").glob("kstore.staged.*"))
    with kstore.open(source / "to") as store:
        assert [log.end_offset for log in store["orders"]] == [0, 0]
