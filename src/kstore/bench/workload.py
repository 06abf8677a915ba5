"""Workloads by group: what each one measures, its ceiling, its peers, and its sizes.

The contests of a workload are made only when it runs. The workloads of the engine are in a checkout
(``benchmarks/engine``) and use these definitions and the same runner.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from kstore.bench.contest import Contest, scale
from kstore.bench.measurement import Measurement

LEVELS = ("quick", "default", "full")
ENGINE_ELSEWHERE = (
    "the engine's contests are in a checkout of kstore, not in the installed package: "
    "PYTHONPATH=benchmarks python -m engine {}"
)
T = TypeVar("T")


@dataclass(frozen=True)
class Catalog:
    """The workloads that a command can run.

    Attributes
    ----------
    groups
        From a group's name to the module that has its tuple ``WORKLOADS``.
    peers
        Packages and programs that the workloads compare with, and how to install each.
    for_developers
        Whether each contest is printed in full, with the ratios that are wanted of it.
    """

    groups: Mapping[str, str]
    peers: Sequence[tuple[str, str]] = ()
    for_developers: bool = False


MACHINE = Catalog(
    {
        "verdict": "kstore.bench.machine.log_figures",
        "disk": "kstore.bench.machine.disk",
        "memory": "kstore.bench.machine.memory",
        "page-cache": "kstore.bench.machine.page_cache",
        "sockets": "kstore.bench.machine.sockets",
    }
)


@dataclass(frozen=True)
class Setting:
    """Where a workload runs, and with how much data.

    Attributes
    ----------
    directory
        An empty folder for the workload's files.
    size
        Bytes that one contestant handles in one round, at most.
    level
        One of ``LEVELS``.
    part
        The fraction of the level's size that ``size`` is: below 1 in a late run.
    seconds
        How long a contest should take, rounds included; infinite without a limit.
    in_turns
        Whether each call is followed by the same call of another installation: calls are short,
        so that both meet the same neighbours, and their lengths do not depend on a probe, so that
        both do the same work.
    missing
        Contestants that cannot take part, each with the reason; workloads add to it.
    """

    directory: Path
    size: int
    level: str = "default"
    part: float = 1.0
    seconds: float = inf
    in_turns: bool = False
    missing: dict[str, str] = field(default_factory=dict)

    def pick(self, quick: T, default: T, full: T) -> T:
        """The value for the level."""
        return (quick, default, full)[LEVELS.index(self.level)]

    def blocks(self, block: int, most: int) -> int:
        """How many blocks fit into the size, at least 1 and at most ``most``."""
        return max(1, min(most, self.size // block))


def _nothing(setting: Setting) -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A named set of contests or of measurements.

    Attributes
    ----------
    group, name
        ``group`` is one of a :class:`Catalog`; together they are unique.
    about
        What it measures, in a sentence.
    ceiling
        What the results are fractions of.
    shows
        Methods and sizes that it distinguishes, separated by semicolons: parts of the names of its
        contests, contestants or figures, for ``--list``. Some may be missing on a machine.
    peers
        What it is compared with; peers may be missing.
    sizes
        Bytes that a contestant handles in a round: quick, default, full.
    contests
        Makes the contests one by one; the files of one are deleted before the next is made.
    measurements
        Makes the measurements, which come before the contests.
    copies
        The space that it needs on disk, as a multiple of its size.
    weight
        Its share of the time, relative to other workloads.
    in_memory
        Whether its data are in memory, in addition to or instead of on disk.
    count
        About how many contests it has: quick, default, full. They share its time.
    """

    group: str
    name: str
    about: str
    ceiling: str
    sizes: tuple[int, int, int]
    contests: Callable[[Setting], Iterator[Contest]] = _nothing
    measurements: Callable[[Setting], Iterator[Measurement]] = _nothing
    shows: str = ""
    peers: Sequence[str] = ()
    copies: float = 2.0
    weight: float = 1.0
    count: tuple[int, int, int] = (1, 1, 1)
    in_memory: bool = False

    @property
    def title(self) -> str:
        return f"{self.group}/{self.name}"

    def size(self, level: str, part: float = 1.0) -> int:
        """Bytes at a level, multiplied by ``KSTORE_BENCH_SCALE``; at least 64 KiB. A fraction is
        rounded down to mebibytes if it has at least one."""
        size = int(self.sizes[LEVELS.index(level)] * scale() * part)
        in_mebibytes = size >> 20 << 20 if part < 1 else size
        return max(1 << 16, in_mebibytes or size)


def workloads(words: Sequence[str] = (), catalog: Catalog = MACHINE) -> list[Workload]:
    """The workloads of groups (``disk``) or single ones (``disk/commit``); by default all.

    ValueError names a word that is neither a group nor a workload.
    """
    groups = catalog.groups
    wanted = {word.partition("/")[0] for word in words} or set(groups)
    unknown = wanted - set(groups)
    if "engine" in unknown:
        engine = " ".join(word for word in words if word.partition("/")[0] == "engine")
        raise ValueError(ENGINE_ELSEWHERE.format(engine))
    if unknown:
        raise ValueError(f"no group {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
    found: list[Workload] = []
    for group, module in groups.items():
        if group in wanted:
            found += import_module(module).WORKLOADS
    known = {workload.title for workload in found}
    for word in words:
        if "/" in word and word not in known:
            raise ValueError(f"no workload {word}; there are {', '.join(sorted(known))}")
    complete = {word for word in words if "/" not in word}
    return [
        workload
        for workload in found
        if not words or workload.group in complete or workload.title in words
    ]
