"""An error, not a kill, at every step behind the rename that makes a staged file a segment."""

import errno
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from kstore.errors import KStoreError, StorageError
from kstore.files.files import Files
from kstore.spark.sink.commit import publish
from kstore.spark.sink.options import Staged, parse_sink
from kstore.spark.sink.stager import stage
from kstore.spark.sink.write_identity import of_query
from support.disks import FaultyDisk

OLD = 1_400_000_000_000
ROWS = [b"value %d" % n for n in range(300)]
ISOLATIONS = ("read_uncommitted", "read_committed")
ERRORS: dict[str, Callable[[], BaseException]] = {
    "full": lambda: StorageError("planted", errno=errno.ENOSPC),
    "descriptors": lambda: StorageError("planted", errno=errno.EMFILE),
    "interrupt": KeyboardInterrupt,
}


class Tripping(FaultyDisk):
    """Fails at a step behind the first adoption, and calls ``removed`` when the manifest went."""

    def __init__(self, at: int, error: Callable[[], BaseException], *, sticky: bool) -> None:
        super().__init__()
        self.plan = (at, error, sticky)
        self.adopted = False
        self.removed: Callable[[], None] = lambda: None

    def rename(self, source: Any, target: Any) -> None:
        if not self.adopted and str(target).endswith(".log") and "kstore.staged." in str(source):
            Files.rename(self, source, target)
            self.adopted = True
            at, error, sticky = self.plan
            self.arm(at, error, sticky=sticky)
            return
        super().rename(source, target)
        if "kstore.published." in str(target):
            self._decided()

    def remove(self, path: Any) -> None:
        super().remove(path)
        if "kstore.publishing." in str(path):
            self._decided()
            self.removed()

    def _decided(self) -> None:
        """From here on the store closes; who interrupts that keeps it locked, as he asked."""
        if self.plan[1] is KeyboardInterrupt:
            self.fail_at = -1

    def close(self, fd: int) -> None:
        super().close(fd)  # a descriptor is closed, whatever close says
        self.step("close", None)

    def _concerns(self, where: Any) -> bool:
        return True


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Staged | None]]:
    path = tmp_path_factory.mktemp("prepared") / "store"
    with kstore.open(path) as store:
        store.create_topic("orders", 1, config=kstore.LogConfig(segment_bytes=4096))
        store["orders"][0].append(b"before", timestamp=OLD)
    return path, staged(path, "job")


def options(log_dir: Path) -> Any:
    return parse_sink({"path": str(log_dir), "topic": "orders", "lockTimeout": "5s",
                       "batchSize": "500"})  # fmt: skip


def staged(log_dir: Path, job: str) -> list[Staged | None]:
    rows = {
        "value": ROWS,
        "partition": pa.array([0] * len(ROWS), pa.int32()),
        "timestamp": pa.array([OLD * 1000] * len(ROWS), pa.timestamp("us", "UTC")),
    }
    return [stage(options(log_dir), job, [pa.RecordBatch.from_pydict(rows)])]


def read_values(log_dir: Path) -> list[bytes | None]:
    """What a reader in another store shows; the same with both isolations, and by its end."""
    with kstore.open(log_dir, mode="r") as store:
        log = store["orders"][0]
        seen = [[r.value for r in log.view(isolation=each)] for each in ISOLATIONS]
        assert seen[0] == seen[1]
        assert log.end_offset == len(seen[0])
        return seen[0]


def one_failure(
    base: Path, prepared: tuple[Path, list[Staged | None]], disk: Tripping, where: object
) -> bool:
    """Publish on a disk that fails; False where it did not come to the failure."""
    source, messages = prepared
    log_dir, killed = base / "store", base / "killed"
    shutil.copytree(source, log_dir)

    def removed() -> None:
        if not (log_dir / "kstore.published.q").exists():
            assert read_values(log_dir) == [b"before"], where
            shutil.copytree(log_dir, killed)  # what a kill leaves at this moment

    disk.removed = removed
    try:
        try:
            assert publish(options(log_dir), "job", messages, of_query("q", 0), files=disk)
        finally:
            disk.fail_at = -1
    except (KStoreError, OSError, KeyboardInterrupt):
        failed = True
    else:
        failed = False
    switched = (log_dir / "kstore.published.q").exists()
    expected = [b"before", *ROWS] if switched else [b"before"]
    assert read_values(log_dir) == expected, where
    for each in (log_dir, killed):
        if not each.exists():
            continue
        if each == killed:
            assert not switched
        with kstore.open(each) as store:
            log = store["orders"][0]
            assert [record.value for record in log] == expected, where
            assert len(log.segments.views) == len(list(each.glob("orders-0/*.log"))), where
        assert read_values(each) == expected, where
        again = staged(each, "again")
        assert publish(options(each), "again", again, of_query("q", 0)) != switched, where
        values = read_values(each)
        assert values == [b"before", *ROWS], (where, Counter(values).most_common(3))
        with kstore.open(each) as store:
            assert store["orders"][0].verify().ok
    return failed


@pytest.mark.parametrize(
    ("error", "sticky"),
    [(error, sticky) for error in ERRORS for sticky in (False, True)][:-1],  # one Ctrl-C
)
def test_an_error_behind_the_rename_shows_nothing(
    tmp_path: Path, prepared: tuple[Path, list[Staged | None]], error: str, sticky: bool
) -> None:
    failures = 0
    every = 1 if error == "full" and not sticky else 5  # each step once; the rest in samples
    for at in range(0, 400, every):
        disk = Tripping(at, ERRORS[error], sticky=sticky)
        base = tmp_path / str(at)
        base.mkdir()
        failures += one_failure(base, prepared, disk, (error, at, disk.calls))
        shutil.rmtree(base)
        assert disk.adopted
        if len(disk.calls) <= at:
            break
    assert len(disk.calls) <= at
    assert failures > 20 // every
