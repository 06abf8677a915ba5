"""Stores for jobs that change them: several codecs and formats, and open transactions."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kstore
from kstore.config import LogConfig
from kstore.files.filenames import REWRITE_PREFIX
from kstore.files.files import DISK, Files
from kstore.log.log import Log
from kstore.maintenance.reindex import ReindexReport, finish_partition, index_segment
from kstore.recovery.loader import base_offsets
from oracle.plain import PlainBatch
from oracle.reader import read_log
from support.stores import QUIET
from support.transactions import WHEN, TransactionWriter

SIDE_FILES = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "kstore.seal.*")
MARKER = ".kafka_cleanshutdown"
CHECKPOINTS = ("recovery-point-offset-checkpoint",)


def fill(log: Log, rounds: int) -> None:
    """Append committed and aborted transactions, interleaved, and one that stays open."""
    teller = TransactionWriter(log)
    for n in range(rounds):
        teller.data(-1, 3, codec=n % 5)
        teller.data(1000 + n % 3, 4, codec=(n + 2) % 5)
        if n % 4 == 3:
            teller.end(1000 + n % 3, commit=n % 8 == 3)
    teller.data(7, 2)


def make_store(log_dir: Path, *, partitions: int = 2, rounds: int = 60) -> None:
    """``orders`` has producers and transactions, ``clicks`` plain records."""
    config = kstore.LogConfig(segment_bytes=4000, index_interval_bytes=300, file_delete_delay_ms=0)
    with kstore.open(log_dir, config=QUIET) as store:
        orders = store.create_topic("orders", partitions, config=config)
        clicks = store.create_topic("clicks", partitions, config=config)
        for number in range(partitions):
            fill(orders[number], rounds + 7 * number)
            for n in range(150):
                clicks[number].append(
                    b"value %d" % n * 4,
                    key=b"%d" % (n % 40),
                    headers=[("n", b"%d" % n), ("none", None)],
                    timestamp=WHEN + 10 * n,
                )
            for log in (orders[number], clicks[number]):
                log.flush()


def lose_side_files(log_dir: Path) -> None:
    """Remove all files that can be rebuilt from the logs."""
    for pattern in SIDE_FILES:
        for each in log_dir.rglob(pattern):
            each.unlink()


def side_files(log_dir: Path) -> dict[str, bytes]:
    """Names and contents of the files beside the logs; of header checksums, only the part that does
    not depend on the inode."""
    found = {}
    for pattern in SIDE_FILES:
        for each in log_dir.rglob(pattern):
            if each.name.startswith(REWRITE_PREFIX):
                continue
            data = each.read_bytes()
            if each.name.startswith("kstore.seal."):
                data = data[data.index(b"\n") + 1 : -4]
            found[str(each.relative_to(log_dir))] = data
    return found


def batches(log_dir: Path) -> dict[str, list[PlainBatch]]:
    """The batches of each partition, as the oracle reads them."""
    return {
        folder.name: [
            batch
            for each in sorted(folder.glob("*.log"))
            for batch in read_log(each.read_bytes()).batches
        ]
        for folder in sorted(log_dir.iterdir())
        if folder.is_dir()
    }


def logs(log_dir: Path) -> dict[str, bytes]:
    return {str(each.relative_to(log_dir)): each.read_bytes() for each in log_dir.rglob("*.log")}


def rebuilt_by_recovery(log_dir: Path, copy: Path) -> dict[str, bytes]:
    """The files that recovery rebuilds in a copy that has only the logs."""
    shutil.copytree(log_dir, copy)
    lose_side_files(copy)
    for name in (MARKER, *CHECKPOINTS):
        (copy / name).unlink(missing_ok=True)
    with kstore.open(copy, config=QUIET) as store:
        for name in store:
            for log in store[name]:
                log.seal()
    assert logs(copy) == logs(log_dir)
    return side_files(copy)


def read_resume_file(state: Path) -> dict[str, Any]:
    """The contents of a resume file, by key; its first line names the job, others add to it."""
    found: dict[str, Any] = {}
    for line in state.read_text().splitlines()[1:]:
        found |= json.loads(line)["done"]
    return found


def overwrite(partition: str | Path) -> None:
    """Overwrite the files without changing their sizes, so that every reader finds corruption."""
    for path in sorted(Path(partition).glob("*.log"))[:-1]:
        with path.open("r+b") as file:
            file.write(b"?" * min(path.stat().st_size, 100))


class DeadDriverError(BaseException):
    """Simulates the death of the driver: none of its code runs, not even its finally blocks."""


@contextmanager
def driver_dies_in_swap(
    monkeypatch: pytest.MonkeyPatch, number: int, log_dir: Path, crash: Path
) -> Iterator[None]:
    """Copy the store and end the driver between two renames of the n-th swap."""
    original, count = DISK.rename, 0

    def rename(source: Any, target: Any) -> None:
        nonlocal count
        original(source, target)
        count += str(target).endswith(".log.deleted")
        if count == number and not crash.exists():
            shutil.copytree(log_dir, crash)
            raise DeadDriverError

    with monkeypatch.context() as patched:
        patched.setattr(DISK, "rename", rename)
        with pytest.raises(DeadDriverError):
            yield
    (crash / ".kafka_cleanshutdown").unlink(missing_ok=True)
    assert list(crash.rglob("*.swap"))


def folder_goes_once_planned(
    monkeypatch: pytest.MonkeyPatch, job: ModuleType, folder: Path
) -> None:
    """Rename a partition's folder as soon as a job has listed the partitions."""
    found = job._partitions

    def with_one_that_goes(*planned: Any) -> Any:
        partitions = found(*planned)
        folder.rename(folder.with_name("clicks-9"))
        return partitions

    monkeypatch.setattr(job, "_partitions", with_one_that_goes)


def reindex_partition(files: Files, directory: str, config: LogConfig) -> ReindexReport:
    """Reindex a closed partition, segment by segment, without prior recovery."""
    bases = base_offsets(files, directory)
    segments = [
        index_segment(files, directory, base, config, last=base == bases[-1]) for base in bases
    ]
    return finish_partition(files, directory, segments, 0, config)
