"""A whole run: the environment and the noise first, then every workload in a folder of its own."""

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count as counted
from pathlib import Path
from time import perf_counter
from types import FrameType

from kstore.bench import noise, peers, results, sockets
from kstore.bench.contest import Contest, in_words, scale
from kstore.bench.environment import (
    Environment,
    available_memory,
    environment,
    in_memory,
)
from kstore.bench.environment import peers as absent
from kstore.bench.runner import NO_TIME, run
from kstore.bench.workload import LEVELS, Setting, Workload
from kstore.errors import KStoreError

PREFIX = "kstore-bench-"
# Of a whole run, set-up included. A quick and a default run keep to it however slow the machine
# is: what is under way in the end is stopped a little later. A full one makes three rounds.
SECONDS = {"quick": 100.0, "default": 540.0, "full": 3600.0}
STRICT = {"quick": 10.0, "default": 40.0}  # seconds until what is under way is stopped
LATE = 1.5  # times its time, after which a workload begins no further contest
PATIENCE = 3  # times its time, after which a contest begins nothing more
LEAST_SIZE = 0.1  # part of its size that a workload has in a run that is late
WITHOUT_FILES = ("sockets",)  # groups whose figures do not hang on the file system
SPARE = 256 << 20  # bytes that stay free
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
IN_MEMORY = 3  # times its size that a workload may take of memory, its files' pages not counted
ROUNDS = {"quick": 7, "default": 15, "full": 25}  # of the noise


@contextmanager
def workspace(parent: Path, needed: int) -> Iterator[Path]:
    """A new folder below ``parent``, gone in the end, whatever ends it (Ctrl-C, SIGTERM, a
    closed terminal).

    Its path is absolute: programs are started in other directories. Nothing outside this folder is
    written. KStoreError where the directory is not there, cannot be written, or has not room for so
    many bytes.
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
    before = {number: signal.getsignal(number) for number in ENDINGS}

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if main:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup
                signal.signal(number, stop)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if main:
            for number, handler in before.items():
                signal.signal(number, handler)


class TimeUp(BaseException):
    """The time of a run is over by more than what it allows to whatever is under way."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """TimeUp is raised within, after so many seconds; in the main thread only."""
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
    """Folders of earlier runs that were killed: named, never removed, they might be in use."""
    return sorted(path for path in parent.glob(f"{PREFIX}*") if path.is_dir())


def needed(workloads: Sequence[Workload], level: str) -> int:
    """Bytes of the disk that the largest of the workloads takes."""
    return max(int(each.size(level) * each.copies) for each in workloads)


def short_of_memory(size: int) -> str:
    """Why a workload of so many bytes is not begun, or an empty string.

    It would be killed, or have a neighbour killed.
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
    """Who is told what happens; each does nothing unless it is given."""

    begun: Callable[[Environment, dict[str, float]], None] = lambda found, noise: None
    progress: Callable[[str], None] = lambda text: None
    finished: Callable[[results.Tree], None] = lambda result: None
    failed: Callable[[str, str], None] = lambda title, reason: None


@dataclass
class Suite:
    """What is to be run, and where.

    ``seconds``: about how long all of it may take, instead of the level's. ``chosen``: which
    contests are run, all unless it is given.
    """

    workloads: Sequence[Workload]
    directory: Path
    level: str = "default"
    rounds: int | None = None
    seconds: float | None = None
    chosen: Callable[[Contest], bool] = lambda contest: True
    listener: Listener = field(default_factory=Listener)
    tree: results.Tree = field(default_factory=dict)
    _until: float = 0.0

    def run(self) -> results.Tree:
        """Everything; what came of it, as ``kstore bench --json`` writes it.

        ``tree`` has what is done so far: after an interrupt too, with its name as ``ended_by``.
        """
        sockets.congestion()  # one that was named and is refused is known before anything is run
        with workspace(self.directory, needed(self.workloads, self.level)) as folder:
            started = datetime.now(UTC)
            self._until = perf_counter() + self._seconds
            found = environment(folder.parent)
            self.listener.progress("the same thing against itself: the noise of this machine")
            noises = noise.measure(folder, ROUNDS[self.level] if self.rounds is None else 5)
            self.listener.begun(found, noises)
            self.tree = tree = {
                "kstore_bench": results.FORMAT,
                "started": started.isoformat(timespec="seconds"),
                "command": sys.argv[1:],
                "level": self.level,
                "scale": scale(),
                "environment": found,
                "noise": noises,
                "results": [],
                "medium": in_memory(folder.parent) or "disk",
                "missing": {f"peer {name}": told for name, told in absent().items()},
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
        """All workloads; where time is short by rule, until it is over."""
        if not self._strict:
            self._in_turn(folder, tree)
            return
        try:
            with alarm(self._until + STRICT[self.level] - perf_counter()):
                self._in_turn(folder, tree)
        except TimeUp:
            tree["missing"]["what was under way, and the rest"] = NO_TIME

    def _in_turn(self, folder: Path, tree: results.Tree) -> None:
        weights = total = sum(each.weight for each in self.workloads)
        for number, workload in enumerate(self.workloads):
            share = max(self._until - perf_counter(), 0.0) * workload.weight / weights
            meant = self._seconds * workload.weight / total
            weights -= workload.weight
            self._one(folder / f"{number}", workload, Budget(meant, share), tree)

    @property
    def _seconds(self) -> float:
        return SECONDS[self.level] if self.seconds is None else self.seconds

    @property
    def _strict(self) -> bool:
        """Whether time is short by rule. Rounds that were asked for by number are made."""
        return self.level in STRICT and self.rounds is None

    def _one(self, folder: Path, workload: Workload, budget: "Budget", tree: results.Tree) -> None:
        """One workload; a failure is told and ends this workload only."""
        folder.mkdir()
        before, tempfile.tempdir = tempfile.tempdir, str(folder)  # where workloads make the rest
        peers.missing.clear()
        peers.failed.clear()
        part = budget.part if self._strict else 1.0
        setting = Setting(folder, workload.size(self.level, part), self.level, part)
        began = perf_counter()
        contests = iter(workload.contests(setting))
        try:
            if workload.in_memory and (reason := short_of_memory(setting.size)):
                raise KStoreError(reason)
            expected = workload.count[LEVELS.index(self.level)]
            for number in counted():
                if self._strict and budget.is_over(perf_counter() - began, self._until):
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
                self._contest(workload, contest, seconds, setting)
        except Exception as error:  # a figure less, not a run less
            self._failed(workload, in_words(error))
        finally:
            if isinstance(contests, Generator):
                contests.close()  # its servers end now, after an interrupt too
            tempfile.tempdir = before
            for name, reason in peers.failed.items():
                self._failed(workload, f"{name}: {reason}")
            for name, reason in (setting.missing | peers.missing).items():
                tree["missing"][f"{workload.title}: {name}"] = reason
            shutil.rmtree(folder, ignore_errors=True)

    def _failed(self, workload: Workload, reason: str) -> None:
        self.tree["failed"].append({"workload": workload.title, "reason": reason})
        self.listener.failed(workload.title, reason)

    def _contest(
        self, workload: Workload, contest: Contest, seconds: float, setting: Setting
    ) -> None:
        """One contest; whoever fails in it is told."""
        title = f"{workload.title}: {contest.name}"
        self.listener.progress(title)

        def progress(done: int, wanted: int) -> None:
            self.listener.progress(f"{title}, round {done + 1} of {wanted}")

        most = min(PATIENCE * seconds, self._until - perf_counter())
        outcome = run(
            contest,
            rounds=self.rounds,
            seconds=seconds if self.rounds is None else None,
            most=most if self._strict else None,
            progress=progress,
            careful=True,
        )
        result = results.as_tree(workload, outcome) | {"scale": scale(), "part": setting.part}
        if workload.group not in WITHOUT_FILES and self.tree["medium"] != "disk":
            result["medium"] = f"files in memory ({self.tree['medium']}), NO DISK"
        self.tree["results"].append(result)
        self.listener.finished(result)
        for name, reason in outcome.failed.items():
            self._failed(workload, f"{contest.name}: {name}: {reason}")
        for name, reason in outcome.left_out.items():
            setting.missing[f"{contest.name}: {name}"] = reason


@dataclass(frozen=True)
class Budget:
    """Seconds of a workload: what it was meant to have, and its share of what is left."""

    meant: float
    share: float

    @property
    def part(self) -> float:
        """Of its size, what it gets: as little as there is time, where a run is late."""
        return min(1.0, max(LEAST_SIZE, self.share / self.meant)) if self.is_short else 1.0

    @property
    def is_short(self) -> bool:
        return self.share < 0.9 * self.meant

    def is_over(self, taken: float, until: float) -> bool:
        """Whether no further contest may begin: after its own time, or the run's."""
        return taken > LATE * self.share or perf_counter() > until
