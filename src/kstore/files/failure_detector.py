"""Detects I/O failures of a disk and takes its log directory offline, while others continue.

Each log directory has a detector between itself and the real disk. A full disk, a lack of
descriptors or a missing file is no failure; an input/output error or a disk that vanished
is. Kafka's counterpart is LogDirFailureChannel, where any IOException counts.
"""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from kstore.errors import StorageError
from kstore.files.file_lock import Lock
from kstore.files.files import Files

if TYPE_CHECKING:
    import mmap

Path = str | os.PathLike[str]

_FAILURES = frozenset(
    {
        errno.EIO,
        errno.ENXIO,
        errno.ENODEV,
        errno.ENOMEDIUM,
        errno.EREMOTEIO,
        errno.EROFS,  # file systems turn read-only when their disk fails
        errno.ESTALE,
        errno.EUCLEAN,  # "structure needs cleaning": corrupt metadata
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
    }
)
_OUR_OWN = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EINTR}
)


def is_failure(error: StorageError) -> bool:
    """Whether the disk is at fault, not the file or the process."""
    return error.errno in _FAILURES


def keeps_from_opening(error: StorageError) -> bool:
    """Whether a directory that gives this error when it is opened is skipped.

    More than a failure: a missing or forbidden directory is skipped, too.
    """
    return error.errno not in _OUR_OWN


class FailureDetectingFiles(Files):
    """Passes every call to another ``Files``; reports each failure of the disk first.

    The calls are written out: one function for all of them took 17 bytecodes and 6 allocations
    more in an append with its flush.
    """

    def __init__(self, files: Files, on_failure: Callable[[StorageError], None]) -> None:
        self.inner = files
        self.native = files.native
        self._on_failure = on_failure

    def _report(self, error: StorageError) -> None:
        if is_failure(error):
            self._on_failure(error)

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        try:
            return self.inner.open(path, flags)
        except StorageError as error:
            self._report(error)
            raise

    def close(self, fd: int) -> None:
        try:
            self.inner.close(fd)
        except StorageError as error:
            self._report(error)
            raise

    def duplicate(self, fd: int) -> int:
        try:
            return self.inner.duplicate(fd)
        except StorageError as error:
            self._report(error)
            raise

    def size(self, fd: int) -> int:
        try:
            return self.inner.size(fd)
        except StorageError as error:
            self._report(error)
            raise

    def stamp(self, fd: int) -> tuple[int, int, int]:
        try:
            return self.inner.stamp(fd)
        except StorageError as error:
            self._report(error)
            raise

    def modified_ms(self, fd: int) -> int:
        try:
            return self.inner.modified_ms(fd)
        except StorageError as error:
            self._report(error)
            raise

    def pread(self, fd: int, size: int, position: int) -> bytes:
        try:
            return self.inner.pread(fd, size, position)
        except StorageError as error:
            self._report(error)
            raise

    def preadv_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        try:
            return self.inner.preadv_into(fd, buffer, position)
        except StorageError as error:
            self._report(error)
            raise

    def only_zeros(self, fd: int, start: int, end: int) -> bool:
        try:
            return self.inner.only_zeros(fd, start, end)
        except StorageError as error:
            self._report(error)
            raise

    def write(self, fd: int, *buffers: bytes | bytearray | memoryview) -> int:
        try:
            return self.inner.write(fd, *buffers)
        except StorageError as error:
            self._report(error)
            raise

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        try:
            return self.inner.pwrite(fd, data, position)
        except StorageError as error:
            self._report(error)
            raise

    def truncate(self, fd: int, size: int) -> None:
        try:
            self.inner.truncate(fd, size)
        except StorageError as error:
            self._report(error)
            raise

    def allocate(self, fd: int, size: int) -> None:
        try:
            self.inner.allocate(fd, size)
        except StorageError as error:
            self._report(error)
            raise

    def start_writing(self, fd: int, position: int, size: int) -> None:
        try:
            self.inner.start_writing(fd, position, size)
        except StorageError as error:
            self._report(error)
            raise

    def fdatasync(self, fd: int) -> None:
        try:
            self.inner.fdatasync(fd)
        except StorageError as error:
            self._report(error)
            raise

    def fsync(self, fd: int) -> None:
        try:
            self.inner.fsync(fd)
        except StorageError as error:
            self._report(error)
            raise

    def map(self, fd: int, size: int) -> "mmap.mmap":
        try:
            return self.inner.map(fd, size)
        except StorageError as error:
            self._report(error)
            raise

    def read_ahead(self, fd: int, position: int, size: int) -> None:
        try:
            self.inner.read_ahead(fd, position, size)
        except StorageError as error:
            self._report(error)
            raise

    def prefault(self, mapped: "mmap.mmap", position: int, size: int, fd: int) -> None:
        try:
            self.inner.prefault(mapped, position, size, fd)
        except StorageError as error:
            self._report(error)
            raise

    def raise_errno(self, code: int, path: Path, position: int) -> None:
        try:
            self.inner.raise_errno(code, path, position)
        except StorageError as error:
            self._report(error)
            raise

    def exists(self, path: Path) -> bool:
        try:
            return self.inner.exists(path)
        except StorageError as error:
            self._report(error)
            raise

    def kind(self, path: Path) -> str | None:
        try:
            return self.inner.kind(path)
        except StorageError as error:
            self._report(error)
            raise

    def read(self, path: Path, limit: int = 1 << 28) -> bytes:
        try:
            return self.inner.read(path, limit)
        except StorageError as error:
            self._report(error)
            raise

    def about(self, path: Path) -> os.stat_result:
        try:
            return self.inner.about(path)
        except StorageError as error:
            self._report(error)
            raise

    def modified_ns(self, path: Path) -> int:
        try:
            return self.inner.modified_ns(path)
        except StorageError as error:
            self._report(error)
            raise

    def set_modified_ns(self, path: Path, when: int) -> None:
        try:
            self.inner.set_modified_ns(path, when)
        except StorageError as error:
            self._report(error)
            raise

    def identity_of(self, path: Path) -> tuple[int, int] | None:
        try:
            return self.inner.identity_of(path)
        except StorageError as error:
            self._report(error)
            raise

    def size_of(self, path: Path) -> int:
        try:
            return self.inner.size_of(path)
        except StorageError as error:
            self._report(error)
            raise

    def copy(self, source: Path, target: Path, size: int) -> None:
        try:
            self.inner.copy(source, target, size)
        except StorageError as error:
            self._report(error)
            raise

    def listdir(self, path: Path) -> list[str]:
        try:
            return self.inner.listdir(path)
        except StorageError as error:
            self._report(error)
            raise

    def list_directories(self, path: Path) -> list[str]:
        try:
            return self.inner.list_directories(path)
        except StorageError as error:
            self._report(error)
            raise

    def list_own_directories(self, path: Path) -> list[str]:
        try:
            return self.inner.list_own_directories(path)
        except StorageError as error:
            self._report(error)
            raise

    def scan(self, path: Path) -> tuple[list[str], list[str]]:
        try:
            return self.inner.scan(path)
        except StorageError as error:
            self._report(error)
            raise

    def make_directory(self, path: Path) -> None:
        try:
            self.inner.make_directory(path)
        except StorageError as error:
            self._report(error)
            raise

    def remove(self, path: Path) -> None:
        try:
            self.inner.remove(path)
        except StorageError as error:
            self._report(error)
            raise

    def remove_directory(self, path: Path) -> None:
        try:
            self.inner.remove_directory(path)
        except StorageError as error:
            self._report(error)
            raise

    def rename(self, source: Path, target: Path) -> None:
        try:
            self.inner.rename(source, target)
        except StorageError as error:
            self._report(error)
            raise

    def sync_directory(self, path: Path) -> None:
        try:
            self.inner.sync_directory(path)
        except StorageError as error:
            self._report(error)
            raise

    def sync_all(
        self, fds: Sequence[int], directories: Collection[str] = (), *, only_data: bool = False
    ) -> None:
        try:
            self.inner.sync_all(fds, directories, only_data=only_data)
        except StorageError as error:
            self._report(error)
            raise

    def write_atomically(self, path: Path, data: bytes) -> None:
        try:
            self.inner.write_atomically(path, data)
        except StorageError as error:
            self._report(error)
            raise

    def write_all_atomically(
        self, contents: Sequence[tuple[Path, bytes]], beside: Sequence[int] = ()
    ) -> None:
        try:
            self.inner.write_all_atomically(contents, beside)
        except StorageError as error:
            self._report(error)
            raise

    def lock(self, path: Path, start: int = 0, size: int = 0) -> Lock:
        try:
            return self.inner.lock(path, start, size)
        except StorageError as error:
            self._report(error)
            raise

    def probe(self, path: Path, start: int = 0, size: int = 0) -> bool:
        try:
            return self.inner.probe(path, start, size)
        except StorageError as error:
            self._report(error)
            raise

    def locked_range(self, path: Path, start: int = 0, size: int = 0) -> tuple[int, int] | None:
        try:
            return self.inner.locked_range(path, start, size)
        except StorageError as error:
            self._report(error)
            raise
