"""A disk that is watched: whoever cares is told when it fails, so that one of several can go.

Each log directory has one of these between itself and the real disk. A full disk, a lack of
descriptors or a missing file is nobody's failure; an input/output error or a disk that vanished
is. Which errors count is Kafka's question too (LogDirFailureChannel: any IOException there).
"""

import errno
from collections.abc import Callable
from typing import Any

from kstore.errors import StorageError
from kstore.log.files import Files

_FAILURES = frozenset(
    {
        errno.EIO,
        errno.ENXIO,
        errno.ENODEV,
        errno.ENOMEDIUM,
        errno.EREMOTEIO,
        errno.EROFS,  # file systems turn read-only when their disk fails
        errno.ESTALE,
        errno.EUCLEAN,  # "structure needs cleaning": damaged metadata
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
    }
)
_OUR_OWN = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EINTR}
)


def is_failure(error: StorageError) -> bool:
    """Whether the error says that the disk, not the file or the process, is at fault."""
    return error.errno in _FAILURES


def keeps_from_opening(error: StorageError) -> bool:
    """Whether a directory that gives this error while it is opened is left out.

    More than a failure: a directory that is missing or forbidden is not there for us, either.
    """
    return error.errno not in _OUR_OWN


class WatchedFiles(Files):
    """Hands every call on to another ``Files``, and tells ``failed`` of each failure first."""

    def __init__(self, files: Files, failed: Callable[[StorageError], None]) -> None:
        self.inner = files
        self.native = files.native
        self._failed = failed


def _watched(name: str) -> Callable[..., Any]:
    def call(self: WatchedFiles, *arguments: Any, **named: Any) -> Any:
        try:
            return getattr(self.inner, name)(*arguments, **named)
        except StorageError as error:
            if is_failure(error):
                self._failed(error)
            raise

    return call


for _name, _value in vars(Files).items():
    if callable(_value) and not _name.startswith("_"):
        setattr(WatchedFiles, _name, _watched(_name))
