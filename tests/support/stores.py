"""Helpers of store tests: snapshots of directories, child processes, a failing disk."""

import gc
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from kstore import Log, StoreConfig
from kstore.errors import StorageError
from kstore.files.files import Files

MARKER = ".kafka_cleanshutdown"
QUIET = StoreConfig(background=False)


def snapshot(path: Path) -> dict[str, tuple[bytes, int]]:
    """All files with their contents and modification times."""
    return {
        str(each.relative_to(path)): (each.read_bytes(), each.stat().st_mtime_ns)
        for each in path.rglob("*")
        if each.is_file()
    }


def make_kafkas_partition(path: Path, topic: str, partition: int = 0) -> Path:
    """Create an empty partition like Kafka before 2.8, without a topic id."""
    folder = path / f"{topic}-{partition}"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").touch()
    return folder


def leave_to_kafka(path: Path) -> Path:
    """Make a store's directory look as if a Kafka broker had created everything in it."""
    (path / "kstore.topics").unlink(missing_ok=True)
    (path / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAABAA\n"
    )
    return path


def copy_as_killed(live: Path, killed: Path) -> None:
    """Copy the directory of an open store as a kill would leave it.

    Temporary files are omitted: a checkpoint that is written in the background may be renamed
    before it is copied.
    """
    shutil.copytree(live, killed, ignore=shutil.ignore_patterns(".lock", "*.tmp"))


def scanned(log: Log) -> int:
    """The number of segments that recovery read."""
    return 0 if log.recovery is None else log.recovery.segments_scanned


def python(code: str, *arguments: object, status: int = 0) -> str:
    """Run code in another process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr if status else done.stdout


class Broken(Files):
    """A disk whose syncs fail once it is switched on."""

    failing = False

    def fdatasync(self, fd: int) -> None:
        if self.failing:
            raise StorageError("cannot sync", errno=5)
        super().fdatasync(fd)


def drop(kept: list[Any]) -> None:
    kept.clear()
    gc.collect()
