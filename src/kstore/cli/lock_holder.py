"""Which process has a log directory open for writing, in a shell's words."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kstore.errors import StoreLockedError
from kstore.partition_files import filenames

_SHOWN = 120  # characters of a command line
_BESIDE = "'kstore topics --list', 'console-consumer', 'get-offsets' and 'verify' work beside it"


class LockHolder(NamedTuple):
    """A process that holds a lock, and its command line (empty if it cannot be read)."""

    pid: int
    command: str


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
    """The process that holds a lock of a file; None if this system does not show it.

    Linux shows the holder of a lock of an open file (kstore) in the holder's ``fdinfo``, to the
    same user and root; that of a process's lock (Java) in ``/proc/locks``, to everybody.
    """
    try:
        status = os.stat(path)
        names = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return None
    for name in names:
        with suppress(OSError):  # of another user, or ended meanwhile
            for number in os.listdir(f"/proc/{name}/fd"):
                found = os.stat(f"/proc/{name}/fd/{number}")
                is_same = (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
                if is_same and "lock:" in _read(f"/proc/{name}/fdinfo/{number}"):
                    return LockHolder(int(name), _command(name))
    return _holder_of_process_lock(status)


def _holder_of_process_lock(status: os.stat_result) -> LockHolder | None:
    """Of lines such as ``1: POSIX  ADVISORY  WRITE 4711 08:02:1234 0 EOF``."""
    with suppress(OSError):
        for line in _read("/proc/locks").splitlines():
            fields = line.split()
            if "->" in fields or len(fields) != 8:  # a process that waits for the lock
                continue
            major, minor, inode = fields[5].split(":")
            device = os.makedev(int(major, 16), int(minor, 16))
            if (device, int(inode)) == (status.st_dev, status.st_ino) and int(fields[4]) > 0:
                return LockHolder(int(fields[4]), _command(fields[4]))
    return None


def _command(pid: str) -> str:
    try:
        text = " ".join(_read(f"/proc/{pid}/cmdline").replace("\0", " ").split())
    except OSError:
        return ""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
