"""Finds the processes that hold a lock of a file, for error messages."""

import os
from contextlib import suppress
from typing import NamedTuple

_COMMAND_LENGTH = 120  # characters


class LockHolder(NamedTuple):
    """A process that holds a lock, and its command line (empty if it cannot be read)."""

    pid: int
    command: str

    def __str__(self) -> str:
        if self.pid == os.getpid():
            return "this process"
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


def lock_holders(path: str, start: int = 0, size: int = 0) -> list[LockHolder]:
    """The processes that hold a lock on those bytes of a file (size 0: up to any position).

    Linux shows the holder of a lock of an open file (kstore) in the holder's ``fdinfo``, to the
    same user and root, and that of a process's lock (Java) in ``/proc/locks``, to everybody. Takes
    milliseconds. Thread-safe.
    """
    end = None if size == 0 else start + size - 1
    try:
        own = os.stat(path)
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    found = [LockHolder(int(pid), _command(pid)) for pid in pids if _holds(pid, own, start, end)]
    return found or _holders_of_process_locks(own, start, end)


def is_locked_by_this_process(path: str) -> bool:
    """Whether this process holds a lock of a file; False where the system does not show it."""
    with suppress(OSError):
        return _holds("self", os.stat(path), 0, None)
    return False


def _holds(pid: str, file: os.stat_result, start: int, end: int | None) -> bool:
    """Whether an open file of a process has a lock on those bytes (end None: any position)."""
    with suppress(OSError):  # of another user, or ended meanwhile
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # closed meanwhile
                other = os.stat(f"/proc/{pid}/fd/{number}")
                if os.path.samestat(file, other) and _has_lock(pid, number, start, end):
                    return True
    return False


def _holders_of_process_locks(own: os.stat_result, start: int, end: int | None) -> list[LockHolder]:
    """Of lines such as ``1: POSIX  ADVISORY  WRITE 4711 08:02:1234 0 EOF``."""
    found = []
    with suppress(OSError):
        for line in _read("/proc/locks").splitlines():
            fields = line.split()
            if "->" in fields or len(fields) != 8:  # a process that waits for the lock
                continue
            major, minor, inode = fields[5].split(":")
            device = os.makedev(int(major, 16), int(minor, 16))
            is_same = (device, int(inode)) == (own.st_dev, own.st_ino)
            if is_same and int(fields[4]) > 0 and _overlaps(fields, start, end):
                found.append(LockHolder(int(fields[4]), _command(fields[4])))
    return found


def _overlaps(fields: list[str], start: int, end: int | None) -> bool:
    """Whether the lock of such a line has one of those bytes (end None: any position)."""
    first, last = fields[-2:]
    return (end is None or int(first) <= end) and (last == "EOF" or int(last) >= start)


def _has_lock(pid: str, number: str, start: int, end: int | None) -> bool:
    """Parses lines such as ``lock:  1: OFDLCK  ADVISORY  WRITE -1 08:02:1234 0 EOF``."""
    for line in _read(f"/proc/{pid}/fdinfo/{number}").splitlines():
        fields = line.split()
        if fields and fields[0] == "lock:" and _overlaps(fields, start, end):
            return True
    return False


def _command(pid: str) -> str:
    with suppress(OSError):
        text = " ".join(_read(f"/proc/{pid}/cmdline").replace("\0", " ").split())
        return text if len(text) <= _COMMAND_LENGTH else f"{text[:_COMMAND_LENGTH]}..."
    return ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
