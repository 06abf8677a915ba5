"""Real kills: a child works on a store and dies by SIGKILL.

The parent has everything imported and forks for each death; the child reports by a pipe what it
asked and what was answered. Three deaths:

by change
    before, in (torn at a random byte) or after the n-th change to the disk;
by time
    at a random moment, on the real disk layer: its syncs, its threads and the native append too;
in a recovery
    what a first death left is opened by a second child, which dies at one of its changes.

The work is a scenario of the table or a wandering one. Every second round is on a real file
system. What was left is opened and checked as after a mere kill: everything that had returned is
there.
"""

import itertools
import os
import pickle
import select
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple

from kstore import Store
from kstore.files.files import DISK, Files
from support.recording_disk import CHANGES
from torture.checks import check, expect
from torture.parts import Budget, Figures, file_system, quietly, scratch, share
from torture.random_workload import wander
from torture.scenarios import SCENARIOS
from torture.witness import Event, Witness
from torture.world import QUIET, World, paths_of

GOAL = ("kills", 20_000)
HOWS = ("before", "torn", "after")
BY_TIME = "by time"
WANDERING = ""  # a name that no scenario has
AGAIN = 0.2  # of the deaths by a change: the recovery dies too


class DeadlyDisk(Files):
    """Dies before, within or after its at-th change; -1 lives. Syncs nothing: kills lose nothing.

    ``share``: of a torn write, the part that is written.
    """

    native = False

    def __init__(self, at: int, how: str, share: float) -> None:
        self.at, self.how, self.share = at, how, share
        self._numbers = itertools.count()  # one for each change, whichever thread makes it

    def changes(self) -> int:
        """How many changes there were; to be asked once, at the end."""
        return next(self._numbers)

    def _strike(self, number: int, how: str) -> None:
        if number == self.at and self.how == how:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, fd: int, *buffers: Any) -> int:
        number = next(self._numbers)
        self._strike(number, "before")
        if number == self.at and self.how == "torn":
            data = b"".join(bytes(buffer) for buffer in buffers)
            os.write(fd, data[: int(len(data) * self.share)])
            self._strike(number, "torn")
        size = super().write(fd, *buffers)
        self._strike(number, "after")
        return size

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        number = next(self._numbers)
        self._strike(number, "before")
        if number == self.at and self.how == "torn":
            part = bytes(data)
            os.pwrite(fd, part[: int(len(part) * self.share)], position)
            self._strike(number, "torn")
        size = super().pwrite(fd, data, position)
        self._strike(number, "after")
        return size


def _deadly(name: str) -> Callable[..., Any]:
    original = getattr(Files, name)
    syncs = name in ("fdatasync", "fsync", "sync_directory")

    def call(self: DeadlyDisk, *arguments: Any, **named: Any) -> Any:
        if name == "open" and not (len(arguments) > 1 and arguments[1] & os.O_CREAT):
            return original(self, *arguments, **named)
        number = next(self._numbers)
        self._strike(number, "before")
        self._strike(number, "torn")  # what is not a write is done completely or not at all
        found = None if syncs else original(self, *arguments, **named)
        self._strike(number, "after")
        return found

    return call


for _name in CHANGES:
    if _name not in ("write", "pwrite"):
        setattr(DeadlyDisk, _name, _deadly(_name))


class Point(NamedTuple):
    """One way to die. ``at``: the number of the change; ``number``: which wandering work."""

    name: str
    how: str
    at: int = -1
    number: int = 0


Say = Callable[[Event], None]


def live(root: str, point: Point, share: float, say: Say) -> int:
    """Work on a disk that is deadly at a point; returns the number of changes, if it lives."""
    disk = DISK if point.how == BY_TIME else DeadlyDisk(point.at, point.how, share)
    world = World(root, disk, say)
    if point.name == WANDERING:
        wander(world, point.number)
    else:
        SCENARIOS[point.name].run(world)
    return disk.changes() if isinstance(disk, DeadlyDisk) else 0


def recover(root: str, dirs: int, at: int, how: str, share: float) -> None:
    """Open what a death left, read it and close it, on a deadly disk."""
    with Store(paths_of(root, dirs), config=QUIET, files=DeadlyDisk(at, how, share)) as store:
        for topic in store:
            for partition in store[topic].partitions:
                list(store[topic][partition])


def die(work: Callable[[Say], object], seconds: float | None = None) -> tuple[list[Event], bool]:
    """Let a child work and die, if not by itself then in so many seconds.

    Returns what it had said, and whether it died.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            work(lambda event: _report(writing, event))
            status = 0
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            _report(writing, ("failed", type(error).__name__, str(error), where.name, where.lineno))
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:
        received = b"" if seconds is None else _hear_until(pipe, time.monotonic() + seconds)
        if seconds is not None:
            os.kill(child, signal.SIGKILL)  # one that has ended exists until it is waited for
        received += pipe.readall()
    _, status = os.waitpid(child, 0)
    died = os.WIFSIGNALED(status)
    events = list(_events(received))
    expect(died or status == 0, "the child ended with status", status, events[-1:])
    expect(not died or os.WTERMSIG(status) == signal.SIGKILL, "the child died by", status)
    return events, died


def _hear_until(pipe: Any, end: float) -> bytes:
    received = b""
    heard = select.poll()  # select() knows no descriptor above 1023
    heard.register(pipe, select.POLLIN)
    while heard.poll(1000 * max(0.0, end - time.monotonic())):
        more = pipe.read(1 << 16)
        if not more:
            break
        received += more
    return received


def _report(fd: int, event: Event) -> None:
    data = pickle.dumps(event)
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(fd, data) :]


def _events(received: bytes) -> Iterator[Event]:
    while len(received) >= 4:
        size = 4 + int.from_bytes(received[:4], "big")
        if len(received) < size:
            return  # it died while it reported this; the operation had not begun
        yield pickle.loads(received[4:size])
        received = received[size:]


class Known(NamedTuple):
    """How often the scenarios change something, and how long they take without a death."""

    changes: dict[str, int]
    seconds: dict[str, float]


def measure(base: str, names: list[str]) -> Known:
    known = Known({}, {})
    for at, name in enumerate(names):
        point = Point(name, "")
        known.changes[name] = live(f"{base}/uninterrupted-{at}", point, 0, lambda event: None)
        started = time.monotonic()
        live(f"{base}/timed-{at}", Point(name, BY_TIME), 0, lambda event: None)
        known.seconds[name] = time.monotonic() - started
    return known


def points_of(known: Known, random: Random) -> list[Point]:
    """Every change in each way; a third as many moments; as many wanderings as moments."""
    points = [
        Point(name, how, at)
        for name, count in known.changes.items()
        for at in range(count)
        for how in HOWS
    ]
    timed = [Point(name, BY_TIME) for name, n in known.changes.items() for _ in range(n // 3)]
    lost = [
        Point(WANDERING, random.choice((*HOWS, BY_TIME)), int(300 ** random.random()))
        for _ in timed
    ]
    return [*points, *timed, *lost]


def kill_all(
    budget: Budget, *, names: list[str] | None = None, most: int = 1 << 60, stride: int = 1
) -> Figures:
    """Every scenario at every change, in each way, round after round with other tears."""
    chosen = list(SCENARIOS) if names is None else names

    def work(number: int) -> Figures:
        figures = Figures()
        with ExitStack() as stack:
            bases = [stack.enter_context(scratch(memory=memory)) for memory in (True, False)]
            for base in bases:
                os.mkdir(f"{base}/state")
            known = measure(bases[0], chosen)
            points = points_of(known, budget.random("wandering"))
            budget.random("kills").shuffle(points)
            points = points[::stride]
            random = budget.random("tears", number)
            for turn in range(most):
                for at, point in enumerate(points[number :: budget.jobs]):
                    if budget.ended(figures):
                        return figures
                    point = point._replace(number=random.randrange(1 << 30))
                    base = bases[(turn + at // 50) % 2]
                    _one(f"{base}/state/data", point, known, random, figures)
        return figures

    with quietly():
        return share(budget.jobs, work)


def _one(root: str, point: Point, known: Known, random: Random, figures: Figures) -> None:
    counts = figures.counts
    share, again = random.random(), random.random() < AGAIN
    try:
        shutil.rmtree(root, ignore_errors=True)
        seconds = None
        if point.how == BY_TIME:
            longest = known.seconds.get(point.name, 0.1)
            seconds = random.random() * longest
        events, died = die(lambda say: live(root, point, share, say), seconds)
        witness = Witness(events)
        _count(counts, point, root, died)
        if died and again and os.path.isdir(root):
            at, how = int(60 ** random.random()), random.choice(HOWS)
            _, again = die(lambda say: recover(root, witness.dirs, at, how, share))
            counts["kills"] += again
            counts["in_recovery"] += again
        if os.path.isdir(root):
            deep = sum(counts.values()) % 8 == 0
            check(root, witness, power=False, deep=deep, again=died and again)
    except Exception as error:  # whatever it is, it is a finding
        figures.violated(*point, f"{share:.3f}", type(error).__name__, error)


def _count(counts: Counter[str], point: Point, root: str, died: bool) -> None:
    if not died:
        planned = point.how != BY_TIME and point.name != WANDERING
        counts["lived" if planned else "ended_before"] += 1
        return
    counts["kills"] += 1
    counts["by_time" if point.how == BY_TIME else "by_change"] += 1
    counts["wandering"] += point.name == WANDERING
    counts[f"on_{file_system(os.path.dirname(root))}"] += 1
