"""A complete run: the environment, then every workload in its own folder."""

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count as counted
from math import inf
from pathlib import Path
from time import perf_counter
from types import FrameType

from kstore.bench.contest import Contest, describe_error, scale
from kstore.bench.machine import figures, sockets
from kstore.bench.machine.figures import Figure
from kstore.bench.peers import availability
from kstore.bench.report import results
from kstore.bench.runner.environment import (
    Environment,
    available_memory,
    environment,
    in_memory,
)
from kstore.bench.runner.rounds import NO_TIME, run
from kstore.bench.workload import LEVELS, Setting, Workload
from kstore.errors import KStoreError
from kstore.signals import raising_terminated

PREFIX = "kstore-bench-"
# Seconds of a run, set-up included. A quick and a default run keep to it however slow the machine
# is: the call that is running at the end is stopped a little later. A full run makes three rounds.
SECONDS = {"quick": 100.0, "default": 540.0, "full": 3600.0}
STRICT = {"quick": 10.0, "default": 40.0}  # seconds until the running call is stopped
LATE = 1.5  # times its time, after which a workload starts no further contest
PATIENCE = 3  # times its time, after which a contest starts no further call
# The disk comes first: its contests get their rounds before another group starts, which keeps at
# least this fraction of a run's time.
FIRST = ("verdict", "disk")
RESERVED = 0.2
LEAST_SIZE = 0.1  # fraction of its size that a workload has at least in a late run
WITHOUT_FILES = ("sockets",)  # groups whose figures do not depend on the file system
SPARE = 256 << 20  # bytes that are left free
IN_MEMORY = 3  # times its size that a workload may use of memory, page cache not counted


@contextmanager
def workspace(parent: Path, needed: int) -> Iterator[Path]:
    """A new folder below ``parent`` that is deleted at the end, also after Ctrl-C, SIGTERM or a
    closed terminal.

    Its path is absolute, since programs are started in other directories. Nothing outside of it
    is written. KStoreError if the directory does not exist, is not writable, or is too small.
    """
    if not parent.is_dir():
        raise KStoreError(f"there is no directory {parent}; --dir names one on the disk to test")
    free = shutil.disk_usage(parent).free
    if free < needed + SPARE:
        raise KStoreError(
            f"{parent} has {free:,} bytes free and {needed + SPARE:,} are needed; --dir names "
            "another disk, --quick takes less, and groups can be chosen"
        )
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent.resolve()))
    with raising_terminated():
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class TimeUp(BaseException):
    """The time of a run is over, and so is the grace period of the running call."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeUp after so many seconds, in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def left_behind(parent: Path) -> list[Path]:
    """Folders of killed runs. They are reported, never deleted: another run may be using them."""
    return sorted(path for path in parent.glob(f"{PREFIX}*") if path.is_dir())


def needed(workloads: Sequence[Workload], level: str) -> int:
    """Bytes of disk space that the largest of the workloads needs."""
    return max(int(each.size(level) * each.copies) for each in workloads)


def short_of_memory(size: int) -> str:
    """Why a workload of so many bytes is not started, or an empty string.

    Without memory the kernel would kill it, or another process.
    """
    free = available_memory()
    if 0 < free < IN_MEMORY * size + SPARE:
        return (
            f"{free:,} bytes of memory are available and {IN_MEMORY * size + SPARE:,} may be "
            "needed; --quick takes less"
        )
    return ""


@dataclass
class Listener:
    """Callbacks of a run; each does nothing by default."""

    on_start: Callable[[Environment], None] = lambda found: None
    on_progress: Callable[[str], None] = lambda text: None
    on_result: Callable[[results.Tree], None] = lambda result: None
    on_failure: Callable[[str, str], None] = lambda title, reason: None


@dataclass
class Suite:
    """What to run, and where.

    ``seconds``: about how long the run may take, instead of the level's time. ``absent``: peers
    that are not installed, and how to install each. ``chosen``: selects the contests to run, by
    default all.
    """

    workloads: Sequence[Workload]
    directory: Path
    level: str = "default"
    rounds: int | None = None
    seconds: float | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    chosen: Callable[[Contest], bool] = lambda contest: True
    listener: Listener = field(default_factory=Listener)
    tree: results.Tree = field(default_factory=dict)
    _until: float = 0.0

    def run(self) -> results.Tree:
        """Run everything and return the results as ``kstore bench --json`` writes them.

        ``tree`` has the results so far, also after an interrupt, whose name is ``ended_by``.
        """
        # A named one that the kernel refuses is an error before anything runs.
        congestion = sockets.congestion()
        with workspace(self.directory, needed(self.workloads, self.level)) as folder:
            started = datetime.now(UTC)
            self._until = perf_counter() + self._seconds
            found = environment(folder.parent, congestion)
            self.listener.on_start(found)
            self.tree = tree = {
                "kstore_bench": results.FORMAT,
                "started": started.isoformat(timespec="seconds"),
                "command": sys.argv[1:],
                "level": self.level,
                "scale": scale(),
                "environment": found,
                "figures": {},
                "results": [],
                "medium": in_memory(folder.parent) or "disk",
                "missing": {f"peer {name}": reason for name, reason in self.absent.items()},
                "failed": [],
            }
            try:
                self._all(folder, tree)
            except BaseException as error:
                tree["ended_by"] = type(error).__name__
                raise
            finally:
                tree["seconds"] = round((datetime.now(UTC) - started).total_seconds(), 1)
        return tree

    def _all(self, folder: Path, tree: results.Tree) -> None:
        """Run all workloads, until the time is over if the level limits it."""
        if not self._strict:
            self._in_turn(folder, tree)
            return
        try:
            with alarm(self._until + STRICT[self.level] - perf_counter()):
                self._in_turn(folder, tree)
        except TimeUp:
            tree["missing"]["the workload in progress, and the rest"] = NO_TIME

    def _in_turn(self, folder: Path, tree: results.Tree) -> None:
        weights = total = sum(each.weight for each in self.workloads)
        for number, workload in enumerate(self.workloads):
            share = max(self._until - perf_counter(), 0.0) * workload.weight / weights
            planned = self._seconds * workload.weight / total
            weights -= workload.weight
            self._one(folder / f"{number}", workload, Budget(planned, share), tree)

    @property
    def _seconds(self) -> float:
        return SECONDS[self.level] if self.seconds is None else self.seconds

    @property
    def _strict(self) -> bool:
        """Whether the level limits the time. Rounds given by ``--rounds`` are always made."""
        return self.level in STRICT and self.rounds is None

    def _one(self, folder: Path, workload: Workload, budget: "Budget", tree: results.Tree) -> None:
        """Run one workload; a failure is reported and ends this workload only."""
        folder.mkdir()
        before, tempfile.tempdir = tempfile.tempdir, str(folder)  # for other temporary files
        availability.missing.clear()
        availability.failed.clear()
        part = budget.part if self._strict else 1.0
        expected = workload.count[LEVELS.index(self.level)]
        seconds = budget.share / expected if self._strict else inf
        size = workload.size(self.level, part)
        setting = Setting(folder, size, self.level, part, seconds)
        until = self._latest(workload)
        began = perf_counter()
        contests = iter(workload.contests(setting))
        try:
            if workload.in_memory and (reason := short_of_memory(setting.size)):
                raise KStoreError(reason)
            self._measure(workload, setting, budget.share)
            for number in counted():
                taken = inf if perf_counter() > until else perf_counter() - began
                late = LATE * budget.share if workload.group not in FIRST else until - began
                if self._strict and taken > late:
                    if number < expected:
                        setting.missing["further contests" if number else "all of it"] = NO_TIME
                    break
                if part < 1 and number == 0:
                    setting.missing["its full size"] = f"{part:.0%} of it: the run is late"
                if (contest := next(contests, None)) is None:
                    break
                if not self.chosen(contest):
                    continue
                left = budget.share - (perf_counter() - began)
                seconds = max(left / max(1, expected - number), budget.share / expected / 3)
                most = until - perf_counter()
                if workload.group not in FIRST:
                    most = min(most, PATIENCE * seconds)
                self._contest(workload, contest, (seconds, most), setting)
        except Exception as error:  # the run continues
            self._failed(workload, describe_error(error))
        finally:
            if isinstance(contests, Generator):
                contests.close()  # stops its servers now, also after an interrupt
            tempfile.tempdir = before
            for name, reason in availability.failed.items():
                self._failed(workload, f"{name}: {reason}")
            for name, reason in (setting.missing | availability.missing).items():
                tree["missing"][f"{workload.title}: {name}"] = reason
            shutil.rmtree(folder, ignore_errors=True)

    def _measure(self, workload: Workload, setting: Setting, seconds: float) -> None:
        """Take the measurements of a workload; one that fails leaves figures without a value."""
        for each in workload.measurements(setting):
            self.listener.on_progress(f"{workload.title}: {each.name}")
            left = self._until - perf_counter() if self._strict else seconds
            reason = NO_TIME
            found: list[Figure] = []
            try:
                if left > 0:
                    found = each.take(min(seconds * each.part, left))
            except Exception as error:  # the run continues
                reason = describe_error(error)
                self._failed(workload, f"{each.name}: {reason}")
            found = found or [Figure(name, None, note=reason) for name in each.figures]
            self.tree["figures"] |= figures.as_tree(found)

    def _failed(self, workload: Workload, reason: str) -> None:
        self.tree["failed"].append({"workload": workload.title, "reason": reason})
        self.listener.on_failure(workload.title, reason)

    def _contest(
        self, workload: Workload, contest: Contest, time: tuple[float, float], setting: Setting
    ) -> None:
        """Run one contest; its failures are reported.

        ``time``: the seconds that it should take, and at most.
        """
        title = f"{workload.title}: {contest.name}"
        self.listener.on_progress(title)

        def on_progress(done: int, wanted: int) -> None:
            self.listener.on_progress(f"{title}, round {done + 1} of {wanted}")

        seconds, most = time
        outcome = run(
            contest,
            rounds=self.rounds,
            seconds=seconds if self.rounds is None else None,
            most=most if self._strict else None,
            on_progress=on_progress,
            keep_going=True,
        )
        for name, reason in outcome.failed.items():
            self._failed(workload, f"{contest.name}: {name}: {reason}")
        for name, reason in outcome.left_out.items():
            setting.missing[f"{contest.name}: {name}"] = reason
        if not outcome.times:
            return
        result = results.as_tree(workload.group, workload.title, outcome) | {
            "scale": scale(),
            "part": setting.part,
        }
        if workload.group not in WITHOUT_FILES and self.tree["medium"] != "disk":
            result["medium"] = f"files in memory ({self.tree['medium']}), NO DISK"
        self.tree["results"].append(result)
        self.listener.on_result(result)

    def _latest(self, workload: Workload) -> float:
        """When a workload ends at the latest: the first groups leave time for the others."""
        is_first = workload.group in FIRST and self.workloads[-1].group not in FIRST
        return self._until - (RESERVED * self._seconds if is_first else 0.0)


@dataclass(frozen=True)
class Budget:
    """Seconds of a workload: its planned time, and its share of the remaining time."""

    planned: float
    share: float

    @property
    def part(self) -> float:
        """The fraction of its size that it gets: below 1 in a late run."""
        return min(1.0, max(LEAST_SIZE, self.share / self.planned)) if self.is_short else 1.0

    @property
    def is_short(self) -> bool:
        return self.share < 0.9 * self.planned
