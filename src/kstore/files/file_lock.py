"""Locks on files and on ranges of their bytes, which all processes of the machine see."""

import errno
import fcntl
import os
import struct

from kstore._native.files.owned_descriptor import OwnedDescriptor
from kstore.errors import StorageError, StoreLockedError

# struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid; length 0 = entire file.
_FLOCK = struct.Struct("hhqqi4x")


class Lock:
    """An exclusive lock on a file or ranges of it, until :meth:`release` or the process ends.

    An *open file description* lock: Java's ``FileChannel.lock`` (Kafka) and every other process
    see it, a second open in this process too, and closing another descriptor of the file does
    not drop it. A forked child shares it and must not use the store.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._file = OwnedDescriptor(fd)  # which releases the lock with this object

    @property
    def held(self) -> bool:
        return self._file.fd >= 0

    def add(self, start: int = 0, size: int = 0) -> None:
        """Lock these bytes, too (size 0: up to any position); never waits.

        Raises StoreLockedError where another process, or another ``Lock`` of this one, has a lock.
        """
        try:
            _set_lock(self._file.fd, fcntl.F_WRLCK, start, size)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise StoreLockedError(
                    "another process has this directory open for writing (kstore or a Kafka "
                    "broker); stop it, or open with mode='r'",
                    path=self.path,
                ) from None
            raise _lock_error("cannot lock", self.path, error) from error

    def drop(self, start: int, size: int) -> None:
        """Release these bytes only. Not in a forked child, whose parent would lose them."""
        try:
            _set_lock(self._file.fd, fcntl.F_UNLCK, start, size)
        except OSError as error:
            raise _lock_error("cannot unlock", self.path, error) from error

    def release(self) -> None:
        """Release the lock; a second call does nothing. The file stays, as with Kafka."""
        fd = self._file.take()
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def find_lock(
    fd: int, path: str | os.PathLike[str], start: int, size: int
) -> tuple[int, int] | None:
    """Start and size of a lock that keeps these bytes from being locked, None without one."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, size, 0)
    try:
        found = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    except OSError as error:
        raise _lock_error("cannot ask for the lock of", path, error) from error
    return None if found[0] == fcntl.F_UNLCK else (found[2], found[3])


def _set_lock(fd: int, kind: int, start: int, size: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, size, 0))


def _lock_error(doing: str, path: str | os.PathLike[str], error: OSError) -> StorageError:
    code = error.errno or errno.EIO
    return StorageError(f"{doing}: {os.strerror(code)}", errno=code, path=path)
