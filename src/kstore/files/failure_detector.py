"""Detects I/O failures of a disk and takes its log directory offline, while others continue.

Each log directory has a detector between itself and the real disk. A full disk, a lack of
descriptors or a missing file is no failure; an input/output error or a disk that vanished
is. Kafka's counterpart is LogDirFailureChannel, where any IOException counts.
"""

import errno
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from kstore.errors import StorageError
from kstore.files.files import Files

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
    """Passes every call to another ``Files``; reports each failure of the disk first."""

    def __init__(self, files: Files, on_failure: Callable[[StorageError], None]) -> None:
        self.inner = files
        self.native = files.native
        self._on_failure = on_failure

    def _report(self, error: StorageError) -> None:
        if is_failure(error):
            self._on_failure(error)

    open = _reporting(Files.open)
    close = _reporting(Files.close)
    duplicate = _reporting(Files.duplicate)
    size = _reporting(Files.size)
    stamp = _reporting(Files.stamp)
    modified_ms = _reporting(Files.modified_ms)
    pread = _reporting(Files.pread)
    preadv_into = _reporting(Files.preadv_into)
    only_zeros = _reporting(Files.only_zeros)
    write = _reporting(Files.write)
    pwrite = _reporting(Files.pwrite)
    truncate = _reporting(Files.truncate)
    allocate = _reporting(Files.allocate)
    start_writing = _reporting(Files.start_writing)
    fdatasync = _reporting(Files.fdatasync)
    fsync = _reporting(Files.fsync)
    map = _reporting(Files.map)
    read_ahead = _reporting(Files.read_ahead)
    prefault = _reporting(Files.prefault)
    raise_errno = _reporting(Files.raise_errno)
    exists = _reporting(Files.exists)
    kind = _reporting(Files.kind)
    read = _reporting(Files.read)
    about = _reporting(Files.about)
    modified_ns = _reporting(Files.modified_ns)
    set_modified_ns = _reporting(Files.set_modified_ns)
    identity_of = _reporting(Files.identity_of)
    size_of = _reporting(Files.size_of)
    copy = _reporting(Files.copy)
    listdir = _reporting(Files.listdir)
    list_directories = _reporting(Files.list_directories)
    list_own_directories = _reporting(Files.list_own_directories)
    scan = _reporting(Files.scan)
    make_directory = _reporting(Files.make_directory)
    remove = _reporting(Files.remove)
    remove_directory = _reporting(Files.remove_directory)
    rename = _reporting(Files.rename)
    sync_directory = _reporting(Files.sync_directory)
    sync_all = _reporting(Files.sync_all)
    write_atomically = _reporting(Files.write_atomically)
    write_all_atomically = _reporting(Files.write_all_atomically)
    lock = _reporting(Files.lock)
    probe = _reporting(Files.probe)
