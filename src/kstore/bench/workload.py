"""Workloads by group: what each one measures, its ceiling, its peers, and its sizes.

The contests of a workload are made only when it runs. ``kstore bench``, ``benchmarks/ratios.py``
and ``benchmarks/goals.py`` all run these definitions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from kstore.bench.contest import Contest, scale

LEVELS = ("quick", "default", "full")
# group: modules with a tuple WORKLOADS
GROUPS: dict[str, tuple[str, ...]] = {
    "disk": ("machine.disk",),
    "memory": ("machine.memory",),
    "page-cache": ("machine.page_cache",),
    "sockets": ("machine.sockets",),
    "engine": ("engine_workloads",),
}
T = TypeVar("T")


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
    missing
        Contestants that cannot take part, each with the reason; workloads add to it.
    """

    directory: Path
    size: int
    level: str = "default"
    part: float = 1.0
    missing: dict[str, str] = field(default_factory=dict)

    def pick(self, quick: T, default: T, full: T) -> T:
        """The value for the level."""
        return (quick, default, full)[LEVELS.index(self.level)]

    def blocks(self, block: int, most: int) -> int:
        """How many blocks fit into the size, at least 1 and at most ``most``."""
        return max(1, min(most, self.size // block))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A named set of contests.

    Attributes
    ----------
    group, name
        ``group`` is one of ``GROUPS``; together they are unique.
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
    contests: Callable[[Setting], Iterator[Contest]]
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


def workloads(words: Sequence[str] = ()) -> list[Workload]:
    """The workloads of groups (``disk``) or single ones (``disk/commit``); by default all.

    ValueError names a word that is neither a group nor a workload.
    """
    wanted = {word.partition("/")[0] for word in words} or set(GROUPS)
    if unknown := wanted - set(GROUPS):
        raise ValueError(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    found: list[Workload] = []
    for group, modules in GROUPS.items():
        for module in modules if group in wanted else ():
            found += import_module(f"kstore.bench.{module}").WORKLOADS
    known = {workload.title for workload in found}
    for word in words:
        if "/" in word and word not in known:
            raise ValueError(f"no workload {word}; there are {', '.join(sorted(known))}")
    groups = {word for word in words if "/" not in word}
    return [
        workload
        for workload in found
        if not words or workload.group in groups or workload.title in words
    ]
