"""Detects I/O failures of a disk and reports them; ``LogDir.fail`` takes the directory offline.

Each log directory has a detector between itself and the real disk. A full disk, a lack of
descriptors or a missing file is no failure; an input/output error or a disk that vanished
is. Kafka's counterpart is LogDirFailureChannel, where any IOException counts.
"""

import errno
import os
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kstore.errors import StorageError
from kstore.files.file_lock import Lock
from kstore.files.files import Files

if TYPE_CHECKING:
    from kstore._native.files.file_map import FileMap

Path = str | os.PathLike[str]
Method = TypeVar("Method", bound=Callable[..., Any])

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


def _reporting(method: Method) -> Method:
    """The same method of the other disk; its failures are reported before they are raised."""
    name = method.__name__

    @wraps(method)
    def call(self: "FailureDetectingFiles", *values: Any, **options: Any) -> Any:
        try:
            return getattr(self.inner, name)(*values, **options)
        except StorageError as error:
            self._report(error)
            raise

    return cast(Method, call)


class FailureDetectingFiles(Files):
    """Passes every call to another ``Files``; reports each failure of the disk first.

    The calls of appends, flushes and rolls are written out: one function for all of them took
    17 bytecodes and 6 allocations more in an append with its flush.
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

    def fdatasync_each(self, fds: Sequence[int]) -> list[StorageError | None]:
        errors = self.inner.fdatasync_each(fds)
        for error in errors:
            if error is not None:
                self._report(error)
        return errors

    def fsync(self, fd: int) -> None:
        try:
            self.inner.fsync(fd)
        except StorageError as error:
            self._report(error)
            raise

    def map(self, fd: int, size: int) -> "FileMap":
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

    def disk_space(self, path: Path) -> tuple[int, int]:
        try:
            return self.inner.disk_space(path)
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

    def listdir(self, path: Path) -> list[str]:
        try:
            return self.inner.listdir(path)
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

    def lock(self, path: Path, start: int = 0, size: int = 0) -> Lock:
        try:
            return self.inner.lock(path, start, size)
        except StorageError as error:
            self._report(error)
            raise

    modified_ms = _reporting(Files.modified_ms)
    only_zeros = _reporting(Files.only_zeros)
    raise_errno = _reporting(Files.raise_errno)
    modified_ns = _reporting(Files.modified_ns)
    set_modified_ns = _reporting(Files.set_modified_ns)
    copy = _reporting(Files.copy)
    write_all_atomically = _reporting(Files.write_all_atomically)
    write_private = _reporting(Files.write_private)
    probe = _reporting(Files.probe)
    locked_range = _reporting(Files.locked_range)
    prefault = _reporting(Files.prefault)
    remove_directory = _reporting(Files.remove_directory)
    list_own_directories = _reporting(Files.list_own_directories)
    list_directories = _reporting(Files.list_directories)
