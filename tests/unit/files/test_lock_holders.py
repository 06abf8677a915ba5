"""Who holds a lock of a file: locks of open files (kstore), and of processes (Java)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kstore.files.files import DISK
from kstore.files.lock_holders import LockHolder, is_locked_by_this_process, lock_holders

OWN = """
import sys
from kstore.files.files import DISK
lock = DISK.lock(sys.argv[1], 10, 5)
print(flush=True)
input()
"""
JAVA = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 5, 10)
    print(flush=True)
    input()
"""


@contextmanager
def process(code: str, path: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        other.stdout.readline()
        yield other.pid
        other.communicate("\n", timeout=60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "lock").touch()
    return tmp_path / "lock"


@pytest.mark.parametrize("code", [OWN, JAVA], ids=["open file", "process"])
def test_a_lock_has_a_holder(path: Path, code: str) -> None:
    with process(code, path) as pid:
        (found,) = lock_holders(str(path))
        assert found.pid == pid
        assert "import" in found.command
        assert str(found).startswith(f"process {pid} (")


@pytest.mark.parametrize("code", [OWN, JAVA], ids=["open file", "process"])
@pytest.mark.parametrize(
    ("start", "size", "count"), [(0, 10, 0), (0, 11, 1), (14, 1, 1), (15, 1, 0), (15, 0, 0)]
)
def test_only_locks_of_those_bytes_count(
    path: Path, code: str, start: int, size: int, count: int
) -> None:
    with process(code, path):
        assert len(lock_holders(str(path), start, size)) == count


def test_an_open_file_is_no_lock(path: Path) -> None:
    with path.open():
        assert lock_holders(str(path)) == []
    assert lock_holders(str(path.parent / "none")) == []


def test_this_process_is_called_that(path: Path) -> None:
    with DISK.lock(path):
        (found,) = lock_holders(str(path))
    assert str(found) == "this process"
    assert found.pid == os.getpid()
    assert str(LockHolder(1, "")) == "process 1"


def test_a_lock_of_this_process_is_known(path: Path) -> None:
    assert not is_locked_by_this_process(str(path))
    lock = DISK.lock(path)
    assert is_locked_by_this_process(str(path))
    lock.release()
    with process(OWN, path):
        assert not is_locked_by_this_process(str(path))
    assert not is_locked_by_this_process(str(path / "missing"))
