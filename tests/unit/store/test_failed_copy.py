"""A move whose copy could not be synced: the next attempt does not trust the page cache."""

import os
from pathlib import Path

import pytest

from kstore import LogConfig, Store
from kstore.errors import StorageError
from kstore.files.files import Files
from support.stores import QUIET

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=100, file_delete_delay_ms=0)


class OneFailingCopySync(Files):
    """Fails the first sync of a log file of the copy; counts what is written to such files."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.fails = True
        self.written = 0

    def _is_copy(self, fd: int) -> bool:
        path = os.readlink(f"/proc/self/fd/{fd}")
        return path.startswith(self.directory) and path.endswith(".log")

    def fsync(self, fd: int) -> None:
        if self.fails and self._is_copy(fd):
            self.fails = False
            raise StorageError("cannot sync", errno=28)
        super().fsync(fd)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        if self._is_copy(fd):
            self.written += len(data)
        return super().pwrite(fd, data, position)


def test_a_copy_whose_sync_failed_is_written_again(tmp_path: Path) -> None:
    """Its bytes are in the page cache, and the disk may lack them."""
    first, second = tmp_path / "d1", tmp_path / "d2"
    files = OneFailingCopySync(second)
    with Store([first, second], config=QUIET, files=files) as store:
        log = store.create_topic("t", config=SMALL)[0]
        assert log.path == str(first / "t-0")
        for n in range(60):  # a batch each
            log.append(b"value %d" % n)
        size = sum(view.size for view in log.segments.views)
        with pytest.raises(StorageError, match="cannot sync"):
            store.move("t", 0, second)
        files.written = 0
        store.move("t", 0, second)
        assert files.written == size
        assert [record.value for record in store["t"][0]] == [b"value %d" % n for n in range(60)]
        assert not (second / "t-0" / "kstore.unsynced").exists()
