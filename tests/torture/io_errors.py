"""Every call to the disk fails, once or forever, while each scenario continues as well as it can.

Errors come out as kstore's own and nothing else; what an answer promised exists when the
directory is opened again, and after a power cut too: what a failed sync had before it is taken
for lost, whatever a later sync of the same file says.
"""

import errno
import os
import shutil
from collections.abc import Callable
from typing import Any

from kstore.errors import StorageError
from support.recording_disk import CHANGES, READS, Op, Recorder
from torture.checks import check, expect, materialise
from torture.crash_disk import CrashDisk
from torture.parts import Budget, Figures, quietly, scratch, share
from torture.scenarios import SCENARIOS
from torture.world import World

GOAL = None
CUTS = 6  # power cuts tried behind each failure
SHORT = -1  # no error: write(2) takes less than it was given
FAILURES = [
    (code, sticky)
    for code in (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS)
    for sticky in (False, True)
] + [(SHORT, False), (SHORT, True)]


class FailingDisk(Recorder):
    """Records, and fails at its at-th call, or from there on."""

    def __init__(self, root: str, at: int = -1, code: int = 0, *, sticky: bool = False) -> None:
        super().__init__(root)
        self.at, self.code, self.sticky = at, code, sticky
        self.count = 0
        self.depth = 0

    def due(self) -> bool:
        if self.depth:
            return False  # a call within a call: it counts once
        number, self.count = self.count, self.count + 1
        return number == self.at or (self.sticky and 0 <= self.at < number)

    def fail(self, path: object) -> None:
        where = path if isinstance(path, str | os.PathLike) else None
        raise StorageError("injected", errno=self.code, path=where)

    def write(self, fd: int, *buffers: Any) -> int:
        if not self.due():
            return super().write(fd, *buffers)
        if self.code == SHORT:
            return self._write_short(fd, *buffers)
        start = os.fstat(fd).st_size
        data = b"".join(bytes(buffer) for buffer in buffers)
        os.write(fd, data[: len(data) // 2])
        self._written(fd, start)
        self.fail(None)
        raise AssertionError

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        if not self.due():
            self.depth += 1
            try:
                return super().pwrite(fd, data, position)
            finally:
                self.depth -= 1
        if self.code == SHORT:
            return self._pwrite_short(fd, data, position)
        part = bytes(data)
        super().pwrite(fd, part[: len(part) // 2], position)
        self.fail(None)
        raise AssertionError

    def _pwrite_short(self, fd: int, data: Any, position: int) -> int:
        pwrite = os.pwrite

        def less(fd: int, data: Any, position: int) -> int:
            return pwrite(fd, memoryview(data).cast("B")[: (len(data) + 1) // 2], position)

        os.pwrite = less
        try:
            return super().pwrite(fd, data, position)
        finally:
            os.pwrite = pwrite

    def _write_short(self, fd: int, *buffers: Any) -> int:
        """The kernel takes half of what it is given; Files has to write the rest."""
        write, writev = os.write, os.writev

        def less(fd: int, data: Any) -> int:
            return write(fd, memoryview(data).cast("B")[: (len(data) + 1) // 2])

        def fewer(fd: int, parts: Any) -> int:
            return less(fd, b"".join(bytes(part) for part in parts))

        os.write, os.writev = less, fewer
        try:
            return super().write(fd, *buffers)
        finally:
            os.write, os.writev = write, writev

    def _sync_failed(self, fd: int) -> None:
        node = self._file(fd)
        if node is not None:
            self._record(Op("lost", node, position=len(self.ops)))


def _failing(name: str) -> Callable[..., Any]:
    original = getattr(Recorder, name)

    def call(self: FailingDisk, *arguments: Any, **named: Any) -> Any:
        if self.due() and self.code != SHORT:
            # Without a descriptor nothing was asked of the disk.
            if name in ("fdatasync", "fsync") and self.code != errno.EMFILE:
                self._sync_failed(arguments[0])
            if name == "close":
                original(self, *arguments)  # a descriptor is closed, whatever close says
            self.fail(arguments[0] if arguments else None)
        self.depth += 1
        try:
            return original(self, *arguments, **named)
        finally:
            self.depth -= 1

    return call


for _name in (*CHANGES, *READS):
    if _name not in ("write", "pwrite"):
        setattr(FailingDisk, _name, _failing(_name))


def run(root: str, name: str, disk: FailingDisk) -> World:
    """A scenario that continues behind errors, and ends in a close that may fail too."""
    world = World(root, disk, lambda event: disk.note(*event), tolerant=True)
    SCENARIOS[name].run(world)
    return world


def fail_all(
    budget: Budget, *, names: list[str] | None = None, stride: int = 1, cuts: int = CUTS
) -> Figures:
    """Every scenario, every call, every failure; once round, or until the time is over."""
    chosen = list(SCENARIOS) if names is None else names

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            os.mkdir(f"{base}/run")
            points = []
            for at, name in enumerate(chosen):
                disk = FailingDisk(f"{base}/run/{at}")
                expect(not run(disk.root, name, disk).errors, name, "fails by itself")
                points += [(name, n, *how) for n in range(disk.count) for how in FAILURES]
            budget.random("errors").shuffle(points)
            points = points[::stride]
            os.mkdir(f"{base}/state")
            for turn, (name, at, code, sticky) in enumerate(points[number :: budget.jobs]):
                if budget.ended(figures):
                    break
                where = f"{name}, call {at}, {errno.errorcode.get(code, 'short')}"
                where += ", from then on" if sticky else ""
                shutil.rmtree(f"{base}/state/data", ignore_errors=True)
                disk = FailingDisk(f"{base}/state/data", at, code, sticky=sticky)
                try:
                    fail_one(disk, name, cuts, budget.random(turn, number), figures)
                except Exception as error:  # whatever it is, it is a finding
                    figures.violated(where, type(error).__name__, error)
            figures.counts["of"] = len(points) if number == 0 else 0
        return figures

    with quietly():
        return share(budget.jobs, work)


def fail_one(disk: FailingDisk, name: str, cuts: int, random: Any, figures: Figures) -> None:
    """One scenario on one failing disk; a Violation is raised."""
    root = disk.root
    world = run(root, name, disk)
    figures.counts["failures"] += 1
    figures.counts["raised"] += bool(world.errors)
    if not os.path.isdir(root):
        return
    computed = CrashDisk(disk.trace)
    for index, op in enumerate(disk.ops):
        computed.apply(index, op)
    check(root, world.witness, power=False, deep=False)
    for tree, _ in zip(computed.states("hostile", cuts, random, None), range(cuts), strict=False):
        materialise(tree, root)
        check(root, world.witness, power=True, deep=False)
        figures.counts["power_cuts"] += 1
