"""After a failed sync the next writer writes the bytes again: the page cache is not the disk."""

import os
from pathlib import Path

import pytest

import kstore
from kstore.errors import LogFailedError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.recovery import failed_sync
from support.stores import QUIET


class OneFailingSync(Files):
    """Fails one sync of a log file; counts the bytes that are written in place, by file name."""

    def __init__(self) -> None:
        self.fails = False
        self.again: dict[str, int] = {}
        self.synced: set[str] = set()

    @staticmethod
    def _name(fd: int) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))

    def fdatasync(self, fd: int) -> None:
        if self.fails and self._name(fd).endswith(".log"):
            self.fails = False
            raise StorageError("cannot sync", errno=5)
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self.synced.add(self._name(fd))
        super().fsync(fd)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        self.again[self._name(fd)] = self.again.get(self._name(fd), 0) + len(data)
        return super().pwrite(fd, data, position)


def leave_unsynced(path: Path) -> bytes:
    """A log whose flush failed, closed; its bytes."""
    files = OneFailingSync()
    with kstore.Store([str(path)], config=QUIET, files=files) as store:
        log = store.create_topic("t")[0]
        log.extend([b"flushed"] * 3)
        log.flush()
        log.append(b"not flushed")
        files.fails = True
        with pytest.raises(StorageError):
            log.flush()
        with pytest.raises((LogFailedError, kstore.errors.LogDirOfflineError)):
            log.append(b"refused")
        with pytest.raises(kstore.errors.LogDirOfflineError):
            store.close()
    return (path / "t-0" / filenames.log_name(0)).read_bytes()


@pytest.mark.parametrize("same_process", [True, False])
def test_bytes_whose_sync_failed_are_written_again_before_the_log_is_opened(
    tmp_path: Path, same_process: bool
) -> None:
    data = leave_unsynced(tmp_path)
    marker = tmp_path / "t-0" / filenames.UNSYNCED
    assert marker.read_bytes() == b""
    if same_process:
        marker.unlink()  # as if the failing disk had refused it
    else:
        failed_sync._REMEMBERED.clear()
    modified = (tmp_path / "t-0" / filenames.log_name(0)).stat().st_mtime_ns
    files = OneFailingSync()
    with kstore.Store([str(tmp_path)], config=QUIET, files=files) as store:
        log = store["t"][0]
        assert [record.value for record in log] == [b"flushed"] * 3 + [b"not flushed"]
        assert files.again[filenames.log_name(0)] == len(data)
        assert {filenames.log_name(0), filenames.index_name(0)} <= files.synced
        assert (tmp_path / "t-0" / filenames.log_name(0)).stat().st_mtime_ns == modified
    assert not marker.exists()


def test_once_written_again_a_log_opens_as_any_other(tmp_path: Path) -> None:
    leave_unsynced(tmp_path)
    kstore.Store([str(tmp_path)], config=QUIET).close()
    with kstore.Store([str(tmp_path)], config=QUIET) as store:
        list(store["t"][0])
    files = OneFailingSync()
    with kstore.Store([str(tmp_path)], config=QUIET, files=files) as store:
        assert store["t"][0].end_offset == 4
    assert files.again == {}


def test_a_clean_stop_does_not_hide_a_failed_sync(tmp_path: Path) -> None:
    with kstore.Store([str(tmp_path)], config=QUIET) as store:
        store.create_topic("t").append(b"1")
    failed_sync.note_failed_sync(Files(), str(tmp_path / "t-0"))
    files = OneFailingSync()
    with kstore.Store([str(tmp_path)], config=QUIET, files=files) as store:
        assert store["t"][0].end_offset == 1
    assert files.again[filenames.log_name(0)] > 0
