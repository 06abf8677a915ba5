"""Bounds on what one call may take: time, memory, descriptors, files outside."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from torture.checks import expect

TICKS = 30  # seconds that the process was let run
MEMORY = 512 << 20  # bytes beyond what was allocated before
Stamp = tuple[str, int, int, int, int]


class TookTooLongError(BaseException):
    """Not an Exception: nothing on the way may take it for an answer."""


@contextmanager
def in_time(ticks: int = TICKS) -> Iterator[None]:
    """Raise in the main thread when the work takes so many seconds.

    Counted by signals, one a second, of which none gather while the process is stopped.
    """
    left = ticks

    def tick(number: int, frame: FrameType | None) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise TookTooLongError(f"more than {ticks} seconds")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def in_memory(most: int = MEMORY) -> Iterator[None]:
    """The resident memory does not grow by more than ``most`` bytes at any moment."""
    _forget_peak()
    before = _resident("VmRSS")
    yield
    peak = _resident("VmHWM")
    expect(peak - before <= most, f"took {(peak - before) >> 20} MiB of memory")


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _resident(name: str) -> int:
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith(name + ":"))
    return int(line.split()[1]) << 10


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """As many descriptors behind the work as before it."""
    before = os.listdir("/proc/self/fd")
    yield
    if len(os.listdir("/proc/self/fd")) > len(before):
        gc.collect()
    left = sorted(set(os.listdir("/proc/self/fd")) - set(before))
    expect(len(os.listdir("/proc/self/fd")) <= len(before), "left open:", *map(_target, left))


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return fd


def stamps(root: str) -> list[Stamp]:
    """Everything below root as a reader must leave it."""
    found = []
    for directory, folders, names in os.walk(root):
        for name in (*folders, *names):
            about = os.lstat(f"{directory}/{name}")
            found.append(
                (f"{directory}/{name}", about.st_mode, about.st_ino, about.st_size,
                 about.st_mtime_ns)
            )  # fmt: skip
    return sorted(found)
