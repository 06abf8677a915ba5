"""Real kills: a child works on a store and dies at one change to its disk, by SIGKILL.

The parent has everything imported and forks for each death; the child tells by a pipe what it
asked and what was answered. What it left is opened and checked as after a mere kill: everything
that had returned is there.
"""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from typing import Any

from kstore.log.files import Files
from support.recording import CHANGES
from torture.checks import check, expect
from torture.parts import Budget, Figures, quietly, scratch, share
from torture.scenarios import SCENARIOS
from torture.world import Event, Witness, World

GOAL = ("kills", 20_000)
HOWS = ("before", "torn", "after")


class DeadlyDisk(Files):
    """Dies before, within or after its at-th change; -1 lives. Syncs nothing: kills lose nothing.

    ``share``: of a torn write, the part that is written.
    """

    native = False

    def __init__(self, at: int, how: str, share: float) -> None:
        self.at, self.how, self.share = at, how, share
        self.count = 0

    def _strike(self, how: str) -> None:
        if self.count == self.at and self.how == how:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, fd: int, *buffers: Any) -> int:
        self._strike("before")
        if self.count == self.at and self.how == "torn":
            data = b"".join(bytes(buffer) for buffer in buffers)
            os.write(fd, data[: int(len(data) * self.share)])
            self._strike("torn")
        size = super().write(fd, *buffers)
        self._strike("after")
        self.count += 1
        return size


def _deadly(name: str) -> Callable[..., Any]:
    original = getattr(Files, name)
    syncs = name in ("fdatasync", "fsync", "sync_directory")

    def call(self: DeadlyDisk, *arguments: Any, **named: Any) -> Any:
        if name == "open" and not (len(arguments) > 1 and arguments[1] & os.O_CREAT):
            return original(self, *arguments, **named)
        self._strike("before")
        self._strike("torn")  # what is not a write is whole or not at all
        found = None if syncs else original(self, *arguments, **named)
        self._strike("after")
        self.count += 1
        return found

    return call


for _name in CHANGES:
    if _name != "write":
        setattr(DeadlyDisk, _name, _deadly(_name))


def live(
    root: str, name: str, at: int, how: str, share: float, say: Callable[[Event], None]
) -> int:
    """Run a scenario on a deadly disk; returns the number of changes, if it lives."""
    disk = DeadlyDisk(at, how, share)
    SCENARIOS[name].run(World(root, disk, say))
    return disk.count


def die(root: str, name: str, at: int, how: str, share: float) -> tuple[Witness, bool]:
    """Let a child live and die; what it had said, and whether it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            live(root, name, at, how, share, lambda event: _tell(writing, event))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    died = os.WIFSIGNALED(status)
    expect(died or status == 0, "the child failed with status", status)
    expect(not died or os.WTERMSIG(status) == signal.SIGKILL, "the child died by", status)
    return Witness(_events(said)), died


def _tell(fd: int, event: Event) -> None:
    data = pickle.dumps(event)
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(fd, data) :]


def _events(said: bytes) -> Iterator[Event]:
    while len(said) >= 4:
        size = 4 + int.from_bytes(said[:4], "big")
        if len(said) < size:
            return  # it died while it told this; the deed had not begun
        yield pickle.loads(said[4:size])
        said = said[size:]


def kill_all(
    budget: Budget, *, names: list[str] | None = None, most: int = 1 << 60, stride: int = 1
) -> Figures:
    """Every scenario at every change, in each way, round after round with other tears."""
    chosen = list(SCENARIOS) if names is None else names

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            os.mkdir(f"{base}/state")
            changes = {
                name: live(f"{base}/whole-{at}", name, -1, "", 0, lambda event: None)
                for at, name in enumerate(chosen)
            }
            points = [
                (name, at, how) for name in chosen for at in range(changes[name]) for how in HOWS
            ]
            budget.random("kills").shuffle(points)
            points = points[::stride]
            random = budget.random("tears", number)
            for turn in range(most):
                for point in points[number :: budget.jobs]:
                    if budget.ended(figures):
                        return figures
                    _one(f"{base}/state/data", point, random.random(), turn, figures)
        return figures

    with quietly():
        return share(budget.jobs, work)


def _one(root: str, point: tuple[str, int, str], share: float, turn: int, figures: Figures) -> None:
    counts = figures.counts
    try:
        _clear(root)
        witness, died = die(root, *point, share)
        counts["kills"] += died
        counts["lived"] += not died
        if os.path.isdir(root):
            check(root, witness, power=False, deep=sum(counts.values()) % 8 == 0)
        counts["scenario_points"] += turn == 0
    except Exception as error:  # whatever it is, it is a finding
        figures.violated(*point, f"{share:.3f}", type(error).__name__, error)


def _clear(root: str) -> None:
    import shutil

    shutil.rmtree(root, ignore_errors=True)
