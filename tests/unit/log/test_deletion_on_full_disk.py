"""Old records are deleted on a full disk, which frees space."""

import errno
import os
from pathlib import Path

import pytest

from kstore.errors import StorageError
from kstore.files.files import Files
from kstore.log.log import Log
from support.logs import open_log


class FullDisk(Files):
    """No new file can be written while it is full."""

    is_full = False
    error = errno.ENOSPC

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        if self.is_full and flags & os.O_CREAT:
            raise StorageError("cannot write", errno=self.error, path=path)
        return super().open(path, flags)


def segments_of(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.glob("*.log"))


def filled(directory: Path, files: Files) -> Log:
    """Two rolled segments of five records, and the active one; two leader epochs."""
    log = open_log(directory, files=files, file_delete_delay_ms=0)
    for epoch in range(3):
        log.begin_epoch(epoch)
        log.extend([b"x"] * 5)
        if epoch < 2:
            log.roll()
    return log


def test_segments_are_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FullDisk()
    log = filled(tmp_path, files)
    assert len(segments_of(tmp_path)) == 3
    checkpoint = (tmp_path / "leader-epoch-checkpoint").read_text()
    files.is_full = True
    log.delete_records(7)
    assert (log.start_offset, len(segments_of(tmp_path))) == (7, 2)
    assert "the epochs of deleted records remain" in caplog.text
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == checkpoint
    files.is_full = False
    log.delete_records(8)
    assert "1 8" in (tmp_path / "leader-epoch-checkpoint").read_text()
    log.close()


def test_a_log_is_opened_with_epochs_of_deleted_records(tmp_path: Path) -> None:
    files = FullDisk()
    log = filled(tmp_path, files)
    files.is_full = True
    log.delete_records(5)
    files.is_full = False
    log.close()
    again = open_log(tmp_path)
    assert (again.start_offset, again.end_offset) == (5, 15)
    assert [record.offset for record in again] == list(range(5, 15))
    again.close()


def test_another_error_is_raised(tmp_path: Path) -> None:
    files = FullDisk()
    files.error = errno.EIO
    log = filled(tmp_path, files)
    files.is_full = True
    with pytest.raises(StorageError, match="cannot write"):
        log.delete_records(7)
    files.is_full = False
    log.close()
