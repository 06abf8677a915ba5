"""A whole run: the environment and the noise first, then every workload in a folder of its own."""

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from types import FrameType

from kstore.bench import noise, peers, results
from kstore.bench.contest import Contest
from kstore.bench.environment import (
    Environment,
    available_memory,
    environment,
    in_memory,
)
from kstore.bench.environment import peers as absent
from kstore.bench.runner import run
from kstore.bench.workload import LEVELS, Setting, Workload
from kstore.errors import KStoreError

PREFIX = "kstore-bench-"
SECONDS = {"quick": 90.0, "default": 540.0, "full": 3600.0}  # of a whole run, set-up included
WITHOUT_FILES = ("sockets",)  # groups whose figures do not hang on the file system
SPARE = 256 << 20  # bytes that stay free
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
IN_MEMORY = 3  # times its size that a workload may take of memory, its files' pages not counted
ROUNDS = {"quick": 7, "default": 15, "full": 25}  # of the noise


@contextmanager
def workspace(parent: Path, needed: int) -> Iterator[Path]:
    """A new folder below ``parent``, gone in the end, whatever ends it (Ctrl-C, SIGTERM, a
    closed terminal).

    Nothing outside this folder is written. KStoreError where the directory is not there, cannot be
    written, or has not room for so many bytes.
    """
    if not parent.is_dir():
        raise KStoreError(f"there is no directory {parent}; --dir names one on the disk to test")
    free = shutil.disk_usage(parent).free
    if free < needed + SPARE:
        raise KStoreError(
            f"{parent} has {free:,} bytes free and {needed + SPARE:,} are needed; --dir names "
            "another disk, --quick takes less, and groups can be chosen"
        )
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
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
    """What is to be run, and where."""

    workloads: Sequence[Workload]
    directory: Path
    level: str = "default"
    rounds: int | None = None
    listener: Listener = field(default_factory=Listener)
    tree: results.Tree = field(default_factory=dict)

    def run(self) -> results.Tree:
        """Everything; what came of it, as ``kstore bench --json`` writes it.

        ``tree`` has what is done so far: after an interrupt too, with its name as ``ended_by``.
        """
        with workspace(self.directory, needed(self.workloads, self.level)) as folder:
            started = datetime.now(UTC)
            found = environment(folder.parent)
            self.listener.progress("the same thing against itself: the noise of this machine")
            noises = noise.measure(folder, ROUNDS[self.level] if self.rounds is None else 5)
            self.listener.begun(found, noises)
            self.tree = tree = {
                "kstore_bench": results.FORMAT,
                "started": started.isoformat(timespec="seconds"),
                "command": sys.argv[1:],
                "level": self.level,
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
        began = perf_counter()
        weights = sum(each.weight for each in self.workloads)
        for number, workload in enumerate(self.workloads):
            left = SECONDS[self.level] - (perf_counter() - began)
            share = max(left, 0.0) * workload.weight / weights
            weights -= workload.weight
            self._one(folder / f"{number}", workload, share, tree)

    def _one(self, folder: Path, workload: Workload, seconds: float, tree: results.Tree) -> None:
        """One workload; a failure is told and ends this workload only."""
        folder.mkdir()
        before, tempfile.tempdir = tempfile.tempdir, str(folder)  # where workloads make the rest
        peers.missing.clear()
        setting = Setting(folder, workload.size(self.level), self.level)
        until = perf_counter() + seconds
        try:
            if workload.in_memory and (reason := short_of_memory(setting.size)):
                raise KStoreError(reason)
            contests = workload.contests(setting)
            expected = workload.count[LEVELS.index(self.level)]
            for number, contest in enumerate(contests):
                left = (until - perf_counter()) / max(1, expected - number)
                result = self._contest(workload, contest, max(left, 0.0))
                tree["results"].append(result)
                self.listener.finished(result)
        except Exception as error:  # a figure less, not a run less
            reason = f"{type(error).__name__}: {error}"
            tree["failed"].append({"workload": workload.title, "reason": reason})
            self.listener.failed(workload.title, reason)
        finally:
            tempfile.tempdir = before
            for name, reason in (setting.missing | peers.missing).items():
                tree["missing"][f"{workload.title}: {name}"] = reason
            shutil.rmtree(folder, ignore_errors=True)

    def _contest(self, workload: Workload, contest: Contest, seconds: float) -> results.Tree:
        title = f"{workload.title}: {contest.name}"
        self.listener.progress(title)

        def progress(done: int, wanted: int) -> None:
            self.listener.progress(f"{title}, round {done + 1} of {wanted}")

        outcome = run(contest, rounds=self.rounds, seconds=seconds, progress=progress)
        result = results.as_tree(workload, outcome)
        if workload.group not in WITHOUT_FILES and self.tree["medium"] != "disk":
            result["medium"] = f"files in memory ({self.tree['medium']}), NO DISK"
        return result
