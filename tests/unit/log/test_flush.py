"""What a flush syncs, and what it may claim afterwards."""

import os
import shutil
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig
from kstore.errors import LogDirOfflineError, StorageError
from kstore.files.files import Files
from kstore.store.store import Store
from support.stores import MARKER, QUIET, Broken, scanned

CONFIG = LogConfig(segment_bytes=1000, segment_index_bytes=4096)
RECORD = bytes(300)


class Noting(Files):
    """A disk that notes which files and directories were synced."""

    def __init__(self) -> None:
        self.synced: set[str] = set()

    def fdatasync(self, fd: int) -> None:
        self.synced.add(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        super().fdatasync(fd)

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        self.synced.add(os.path.basename(path))
        super().sync_directory(path)


def kill(store: Store, path: Path) -> None:
    """Leave a store as a kill does; the copy of its directory has no clean shutdown file."""
    shutil.copytree(store.paths[0], path)


def rolled(log: Log) -> list[int]:
    return [view.base_offset for view in log.segments.views[:-1]]


def flush_rolled(log: Log) -> None:
    log._require_writer().flusher.flush_rolled()


def test_rolled_segments_are_synced_up_to_the_active_one(tmp_path: Path) -> None:
    files = Noting()
    with Store(tmp_path, config=QUIET, files=files) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(8):
            log.append(RECORD)
        assert len(rolled(log)) >= 2
        assert log.recovery_point == 0
        files.synced.clear()
        flush_rolled(log)
        assert log.recovery_point == log.segments.views[-1].base_offset < log.end_offset
        for base in rolled(log):
            for kind in ("log", "index", "timeindex"):
                assert f"{base:020}.{kind}" in files.synced
            assert (tmp_path / f"t-0/kstore.seal.{base:020}").exists()
        assert "t-0" in files.synced
        assert os.path.basename(log.segments.views[-1].path) not in files.synced
        files.synced.clear()
        flush_rolled(log)
        assert files.synced == set()
        log.flush()
        assert log.recovery_point == log.end_offset
        assert f"{0:020}.log" not in files.synced


def test_a_failed_sync_of_a_rolled_segment_claims_nothing(tmp_path: Path) -> None:
    files = Broken()
    store = Store(tmp_path, config=QUIET, files=files)
    log = store.create_topic("t", config=CONFIG)[0]
    for _ in range(5):
        log.append(RECORD)
    files.failing = True
    with pytest.raises(StorageError):
        flush_rolled(log)
    files.failing = False
    assert log.recovery_point == 0
    with pytest.raises(LogDirOfflineError):
        log.append(RECORD)
    with pytest.raises(LogDirOfflineError):
        flush_rolled(log)
    assert log.recovery_point == 0
    with pytest.raises(StorageError, match="from offset 0 to 4"):
        store.close()


def test_rolled_segments_of_a_parked_log_are_synced_without_opening_it(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(5):
            log.append(RECORD)
        writer = log._require_writer()
        assert writer.park()
        writer.flusher.flush_rolled()
        assert writer.active_segment.opened is None
        assert log.recovery_point == log.segments.views[-1].base_offset


def test_a_truncation_behind_a_sync_lowers_the_recovery_point(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(8):
            log.append(RECORD)
        flush_rolled(log)
        log.truncate_to(2)
        assert log.recovery_point == 2
        flush_rolled(log)
        assert log.recovery_point == 2


def test_the_first_flush_after_a_kill_syncs_the_segments_that_were_recovered(
    tmp_path: Path,
) -> None:
    """A killed writer leaves them in the page cache only; a power cut would lose them."""
    with kstore.open(tmp_path / "live", config=QUIET) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(3):
            log.append(RECORD)
        log.flush()
        store.checkpoint()
        synced = log.segments.views[-1].base_offset
        for _ in range(8):
            log.append(RECORD)
        kill(store, tmp_path / "killed")
    files = Noting()
    with Store(tmp_path / "killed", config=QUIET, files=files) as store:
        log = store["t"][0]
        assert scanned(log) > 2
        assert log.recovery_point == 3
        files.synced.clear()
        log.flush()
        assert log.recovery_point == log.end_offset == 11
        for base in rolled(log):
            assert (f"{base:020}.log" in files.synced) == (base >= synced), base


def test_header_checksums_of_a_recovered_segment_are_kept(tmp_path: Path) -> None:
    """They may contradict the segment: a new file would hide that."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=CONFIG)[0]
        for _ in range(8):
            log.append(RECORD)
        log.seal()
    (tmp_path / MARKER).unlink()  # as after a kill
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    found = list(tmp_path.glob("t-0/kstore.seal.*"))
    before = {path: path.stat().st_ino for path in found}
    assert before
    with kstore.open(tmp_path, config=QUIET) as store:
        assert scanned(store["t"][0]) > 2
        store["t"][0].flush()
    assert {path: path.stat().st_ino for path in found} == before
