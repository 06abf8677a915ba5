"""A disk that kills its own process: before, after or in the middle of its n-th change.

Run as a program (``python -m support.killing_disk DIRECTORY SCENARIO AT HOW``), it opens a log in a
directory, runs a scenario, and prints a line for each acknowledged value and each flush. It kills
itself (SIGKILL) at the n-th change. With AT -1 it survives, and the last line is the number of
changes.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstore.files.files import Files
from kstore.log.log import Log
from support.disks import CHANGES
from support.logs import open_log

SETTINGS = {
    "segment_bytes": 1500,
    "index_interval_bytes": 200,
    "segment_index_bytes": 1000,
    "file_delete_delay_ms": 0,
    "batch_size": 500,
}
HOWS = ("before", "half", "after")


class DeadlyDisk(Files):
    native = False

    def __init__(self, at: int, how: str) -> None:
        self.at = at
        self.how = how
        self.real_sync = False
        self._numbers = itertools.count()  # one for each change, in any thread

    def changes(self) -> int:
        """The number of changes. Call it once, at the end."""
        return next(self._numbers)

    def begin(self, half: Callable[[], object] = lambda: None) -> int:
        """The number of the change that begins; kill the process if it is due."""
        number = next(self._numbers)
        if number == self.at and self.how != "after":
            if self.how == "half":
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    def end(self, number: int) -> None:
        if number == self.at and self.how == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, fd: int, *buffers: Any) -> int:
        data = b"".join(bytes(buffer) for buffer in buffers)
        number = self.begin(half=lambda: os.write(fd, data[: max(1, len(data) // 2)]))
        size = super().write(fd, *buffers)
        self.end(number)
        return size


def _deadly(name: str) -> Callable[..., Any]:
    original = getattr(Files, name)

    def call(self: DeadlyDisk, *arguments: Any, **named: Any) -> Any:
        if name == "open" and not (len(arguments) > 1 and arguments[1] & os.O_CREAT):
            return original(self, *arguments, **named)
        number = self.begin()
        syncs = name in ("fdatasync", "fsync", "sync_directory") and not self.real_sync
        found = None if syncs else original(self, *arguments, **named)
        self.end(number)
        return found

    return call


for _name in CHANGES:
    if _name not in ("write", "write_atomically"):  # which consists of the others
        setattr(DeadlyDisk, _name, _deadly(_name))


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def _append(log: Log, count: int, size: int = 60) -> None:
    for _ in range(count):
        offset = log.end_offset
        say("trying", offset, offset + 1)
        say("in", log.append(value_at(offset, size)), log.end_offset)


def _extend(log: Log, count: int) -> None:
    first = log.end_offset
    say("trying", first, first + count)
    log.extend([value_at(first + n, 40) for n in range(count)])
    say("in", first, log.end_offset)


def _flush(log: Log) -> None:
    log.flush()
    say("flushed", log.recovery_point)


def _truncate(log: Log, offset: int) -> None:
    say("cutting", offset)
    log.truncate_to(offset)
    say("cut", log.end_offset)


def appends(log: Log) -> None:
    _append(log, 25)
    _extend(log, 30)
    _flush(log)
    log.roll()
    _append(log, 10, 200)


def cuts(log: Log) -> None:
    _append(log, 40)
    _flush(log)
    _truncate(log, 33)
    _append(log, 6, 90)
    _truncate(log, 20)
    _extend(log, 20)
    _truncate(log, 20)
    _append(log, 3)


def deletes(log: Log) -> None:
    _append(log, 40)
    say("deleting", 25)
    log.delete_records(25)
    _append(log, 10)
    _flush(log)
    say("deleting", 50)
    log.delete_records(-1)
    _append(log, 10)


SCENARIOS = {"appends": appends, "cuts": cuts, "deletes": deletes}


def value_at(offset: int, size: int) -> bytes:
    return b"%d:" % offset + b"v" * size


def run(directory: Path, scenario: str, at: int, how: str) -> None:
    disk = DeadlyDisk(at, how)
    log = open_log(directory, files=disk, clean=False, **SETTINGS)
    SCENARIOS[scenario](log)
    clean = log.close()
    say("closed", clean)
    say("changes", disk.changes())


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
