"""The long tests in named parts: each ends in time and says in one line what it did."""

import logging
import mmap
import os
import pickle
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

_MOST_TOLD = 20
_MEMORY = "/dev/shm"
MOUNT_TABLE = "/proc/self/mounts"


@dataclass
class Budget:
    """How long a part may take, on how many processors, from which seed."""

    seconds: float
    seed: int = 1
    jobs: int = 1
    until_violation: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        return time.monotonic() - self.started >= self.seconds

    def ended(self, figures: "Figures") -> bool:
        """Whether to stop: the time is over, or what was looked for was found."""
        return self.over or (self.until_violation and figures.violation_count > 0)

    def random(self, *names: object) -> random.Random:
        return random.Random(f"{self.seed} {names}")


@dataclass
class Figures:
    """What a part did: counts by name, and what must not have happened.

    ``seen``: digests of what must not be counted twice, and under which name each counts; added
    up over processes it is a union.
    """

    counts: Counter[str] = field(default_factory=Counter)
    seen: dict[int, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    violation_count: int = 0

    def violated(self, *what: object) -> None:
        self.violation_count += 1
        if len(self.violations) < _MOST_TOLD:
            self.violations.append(" | ".join(map(str, what)))

    def add(self, other: "Figures") -> None:
        self.counts.update(other.counts)
        self.seen = {**other.seen, **self.seen}
        self.violation_count += other.violation_count
        self.violations += other.violations[: _MOST_TOLD - len(self.violations)]

    def line(self, part: str, budget: Budget, goal: tuple[str, int] | None) -> str:
        words = [f"{name}={count}" for name, count in self.counts.items()]
        words.append(f"violations={self.violation_count}")
        words.append(f"seconds={time.monotonic() - budget.started:.0f} seed={budget.seed}")
        if goal is not None:
            name, wanted = goal
            words.append(f"goal: {self.counts[name] / wanted:.1%} of {wanted:,} {name}")
        return f"{part}: " + " ".join(words)


@contextmanager
def scratch(*, memory: bool = True) -> Iterator[str]:
    """A directory in memory where there is one, or (``memory`` off) on a disk: TMPDIR's."""
    there = os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK)
    base = _MEMORY if memory and there else None
    path = tempfile.mkdtemp(prefix="kstore-torture-", dir=base)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@cache
def file_system(path: str) -> str:
    """The kind of the file system on which a directory is: ``tmpfs``, ``ext4``.

    ``unlisted`` in a chroot, whose table of mounts may lack the root.
    """
    try:
        with open(MOUNT_TABLE) as file:
            mounts = [line.split(" ")[1:3] for line in file]
    except FileNotFoundError:
        return "unlisted"
    path = os.path.realpath(path)
    over = [(len(at), kind) for at, kind in mounts if f"{path}/".startswith(at.rstrip("/") + "/")]
    return max(over, default=(0, "unlisted"))[1]


@contextmanager
def quietly() -> Iterator[None]:
    """Without kstore's own log: it reports every recovery."""
    logger = logging.getLogger("kstore")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


_doing = mmap.mmap(-1, 512)  # shared with the parent, which reports it if this process dies


def doing(what: str) -> None:
    """What this process is about: reported if it dies of it."""
    _doing[:] = what.encode(errors="replace")[:512].ljust(512, b"\0")


def share(jobs: int, work: Callable[[int], Figures]) -> Figures:
    """Run work(0) to work(jobs - 1), each in a process of its own; the sum of their figures."""
    if jobs == 1:
        return work(0)
    children = [_start(work, number) for number in range(jobs)]
    total = Figures()
    for child, reading, about in children:
        with open(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if status or not answer:
            last = about[:].rstrip(b"\0").decode(errors="replace")
            total.violated(f"a process of the part ended with status {status}", last)
            continue
        total.add(pickle.loads(answer))
    return total


def _start(work: Callable[[int], Figures], number: int) -> tuple[int, int, mmap.mmap]:
    global _doing
    reading, writing = os.pipe()
    about = mmap.mmap(-1, 512)
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading, about
    _doing = about
    status = 1
    try:
        os.close(reading)
        answer = pickle.dumps(work(number))
        with open(writing, "wb") as pipe:
            pipe.write(answer)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
