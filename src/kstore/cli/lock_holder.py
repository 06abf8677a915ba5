"""Which process has a log directory open for writing, in a shell's words."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kstore.errors import StoreLockedError
from kstore.partition_files import LockHolder, filenames, lock_holders

_SHOWN = 120  # characters of a command line
_BESIDE = "'kstore topics --list', 'console-consumer', 'get-offsets' and 'verify' work beside it"


@contextmanager
def naming_lock_holder() -> Iterator[None]:
    """Rephrase a StoreLockedError of a log directory: the holder, and what to do."""
    try:
        yield
    except StoreLockedError as error:
        path = error.path
        if path is None or os.path.basename(path) != filenames.LOCK:
            raise
        raise StoreLockedError(explain(path, find_lock_holder(path))) from error


def explain(path: str, holder: LockHolder | None) -> str:
    """A sentence about the lock file of a log directory."""
    directory = os.path.dirname(path)
    if holder is None:
        return (
            f"another process has {directory} open for writing: a kstore program or a Kafka "
            f"broker, of another user or on another machine ('sudo fuser -v {path}' shows it on "
            f"this one); stop it first. {_BESIDE}"
        )
    command = f" ({holder.command})" if holder.command else ""
    return (
        f"process {holder.pid}{command} has {directory} open for writing: wait for its end, or "
        f"stop it with 'kill {holder.pid}'. {_BESIDE}"
    )


def find_lock_holder(path: str) -> LockHolder | None:
    """A process that holds a lock of a file; None if this system does not show it.

    Linux shows the locks of kstore to the same user and root only, those of Java to everybody:
    they are locks of a process, and in ``/proc/locks``.
    """
    return next(iter(lock_holders(path)), None) or _holder_of_process_lock(path)


def _holder_of_process_lock(path: str) -> LockHolder | None:
    """Of lines such as ``1: POSIX  ADVISORY  WRITE 4711 08:02:1234 0 EOF``."""
    with suppress(OSError):
        status = os.stat(path)
        for line in _read("/proc/locks").splitlines():
            fields = line.split()
            if len(fields) != 8:  # a process that waits for the lock
                continue
            major, minor, inode = fields[5].split(":")
            device = os.makedev(int(major, 16), int(minor, 16))
            if (device, int(inode)) == (status.st_dev, status.st_ino) and int(fields[4]) > 0:
                return LockHolder(int(fields[4]), _command(fields[4]))
    return None


def _command(pid: str) -> str:
    try:
        return " ".join(_read(f"/proc/{pid}/cmdline").replace("\0", " ").split())[:_SHOWN]
    except OSError:
        return ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
