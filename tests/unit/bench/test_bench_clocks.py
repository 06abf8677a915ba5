"""Where the clocks of contests stand: around the same work for every contestant.

A contestant that opens or maps its files before its clock starts, or closes and unmaps them after
it stops, is compared only with contestants that do so, too. The test inspects this process at the
first and the last reading of the clock of each contestant: which files of the contest are open,
and how many are mapped. A contestant without a clock of its own is timed by its complete call.
"""

import mmap
import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, perf_counter_ns

import pytest

from engine import clock
from engine.workloads import WORKLOADS
from kstore.bench.contest import Contest, Timed
from kstore.bench.workload import Setting, workloads
from kstore.files.filenames import DELETED_SUFFIX

CLOCKS = {"perf_counter": perf_counter, "perf_counter_ns": perf_counter_ns}

FEW = 50  # readings; of more, from a clock for each call, one in so many is noted
# Contestants that have no file below the folder, and why.
ELSEWHERE = {
    "confluent-kafka": "its mock broker keeps messages in memory",
    "random memory": "items of memory stand beside items of a file",
    "sequential memory": "the same",
}


@dataclass(frozen=True)
class Held:
    """What this process has of a folder's files: whether any is open, how many are mapped.

    Replaced segments (``.deleted``) do not count: a log keeps them mapped until it deletes them,
    and those of an earlier run are unmapped when the garbage collector comes by.
    """

    is_open: bool
    maps: int


def held(folder: Path) -> Held:
    inside = f"{folder}{os.sep}"
    targets = []
    for number in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    maps = Path("/proc/self/maps").read_text().splitlines()
    return Held(
        any(target.startswith(inside) for target in targets),
        len(
            {
                line.split(maxsplit=5)[-1]
                for line in maps
                if inside in line and DELETED_SUFFIX not in line
            }
        ),
    )


class Watch:
    """Notes what is held at each reading of a clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.readings: list[Held] = []
        self.count = 0
        for name, module in list(sys.modules.items()):
            if name.startswith(("engine.", "kstore.bench.")) and module is not None:
                for clock, real in CLOCKS.items():
                    if getattr(module, clock, None) is real:
                        monkeypatch.setattr(module, clock, self._noting(real))

    def _noting(self, real: Callable[[], float]) -> Callable[[], float]:
        def read() -> float:
            self.count += 1
            if self.count <= FEW or self.count % FEW == 0:
                self.readings.append(held(self.folder))
            return real()

        return read

    def timed_part(self, call: Callable[[], object]) -> tuple[Held, Held] | None:
        """What is held at the start and the end of what a contestant times; None where its figure
        comes from elsewhere: another process, or a goal."""
        self.readings.clear()
        self.count = 0
        before = held(self.folder)
        result = call()
        if not isinstance(result, Timed):
            return before, held(self.folder)
        return (self.readings[0], self.readings[-1]) if self.readings else None


def clock_problems(contest: Contest, watch: Watch) -> list[str]:
    """Contestants whose clock stands elsewhere than that of the first one."""
    found: dict[str, tuple[Held, Held]] = {}
    for name, call in contest.calls.items():
        if name.startswith(tuple(ELSEWHERE)):
            continue
        call()  # the first call may open what stays open
        part = watch.timed_part(call)
        if part is not None:
            found[name] = part
    problems: list[str] = []
    if not found:
        return problems
    (first, (start, end)), *others = found.items()
    for name, (own_start, own_end) in others:
        for when, (one, two) in {"starts": (start, own_start), "stops": (end, own_end)}.items():
            if one.is_open != two.is_open:
                has, lacks = (first, name) if one.is_open else (name, first)
                problems.append(
                    f"{contest.name}: when the clock {when}, {has!r} has files open, {lacks!r} none"
                )
        if (end.maps > start.maps) != (own_end.maps > own_start.maps):
            leaves, other = (first, name) if end.maps > start.maps else (name, first)
            problems.append(
                f"{contest.name}: {leaves!r} leaves files mapped when the clock stops, {other!r} "
                "does not"
            )
    return problems


def test_a_clock_that_starts_after_an_opening_is_found(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 16))

    def opens_before() -> Timed:
        with file.open("rb") as data:
            return clock.time_call(data.read)

    contest = Contest(name="reads", calls={"all": file.read_bytes, "part": opens_before})
    assert clock_problems(contest, Watch(tmp_path, monkeypatch)) == [
        "reads: when the clock starts, 'part' has files open, 'all' none",
        "reads: when the clock stops, 'part' has files open, 'all' none",
    ]


def test_a_clock_that_stops_before_an_unmapping_is_found(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 16))

    def maps(fd: int) -> mmap.mmap:
        return mmap.mmap(fd, 0, prot=mmap.PROT_READ)

    def unmaps(fd: int) -> None:
        maps(fd).close()

    def opened(work: Callable[[int], object]) -> Timed:
        with file.open("rb") as data:
            return clock.time_call(lambda: work(data.fileno()))

    calls = {"all": lambda: opened(unmaps), "less": lambda: opened(maps)}
    problems = clock_problems(Contest(name="reads", calls=calls), Watch(tmp_path, monkeypatch))
    assert problems == ["reads: 'less' leaves files mapped when the clock stops, 'all' does not"]


MACHINE_GROUPS = ("disk", "memory", "page-cache", "sockets")  # those with contests
SLOW = ("engine/stream",)  # its batches of 1 MiB are 200,000 records at least


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(each, id=each.title, marks=[pytest.mark.slow] * (each.title in SLOW))
        for each in (*WORKLOADS, *workloads(MACHINE_GROUPS))
    ],
)
def test_the_clocks_of_a_contest_stand_around_the_same_work(workload, tmp_path, monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.0005")
    monkeypatch.setattr("engine.peers.kafka._provider", None)
    for why in ("why_not", "why_not_synced"):
        monkeypatch.setattr(f"engine.peers.brokers.{why}", lambda name: "not now")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    setting = Setting(tmp_path, workload.size("full"), "full")
    problems = []
    with closing(workload.contests(setting)) as contests:
        problems += clock_problems(next(contests), watch := Watch(tmp_path, monkeypatch))
        for contest in contests:
            problems += clock_problems(contest, watch)
    assert problems == []
