"""What can be measured: workloads by group, each defined once, here and nowhere else.

A workload names what it measures, what its results are divided by, who stands beside it and how
much data it takes; its contests are made only when it runs. The faces (``kstore bench``,
pytest-benchmark, the table of ratios) all run these definitions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from kstore.bench.contest import Contest, scale

LEVELS = ("quick", "default", "full")
# group: the modules whose WORKLOADS belong to it
GROUPS: dict[str, tuple[str, ...]] = {
    "disk": ("disk",),
    "memory": ("memory",),
    "page-cache": ("page_cache",),
    "sockets": ("sockets",),
    "engine": ("engine", "latency"),
}
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """Where a workload runs, and how large.

    Attributes
    ----------
    directory
        A folder of its own for the workload's files.
    size
        Bytes that one contestant handles in one round, at most.
    level
        One of ``LEVELS``.
    part
        Of the level's size, what ``size`` is: less where the time is short.
    missing
        Contestants that could not take part, each with the reason: workloads add to it.
    """

    directory: Path
    size: int
    level: str = "default"
    part: float = 1.0
    missing: dict[str, str] = field(default_factory=dict)

    def pick(self, quick: T, default: T, full: T) -> T:
        """The one of the three that belongs to the level."""
        return (quick, default, full)[LEVELS.index(self.level)]

    def blocks(self, block: int, most: int) -> int:
        """How many blocks fit into the size, between 1 and so many."""
        return max(1, min(most, self.size // block))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One thing that is measured.

    Attributes
    ----------
    group, name
        ``group`` is one of ``GROUPS``; together they are unique.
    about
        What it measures, in a sentence.
    ceiling
        What results are a fraction of.
    shows
        Methods and sizes that are told apart: parts of the names of its contests, contestants or
        figures, as ``--list`` tells them. One may be missing on a machine.
    kernels
        What of the compiled half its contests call, as ``module.name``: a test holds them to it,
        and that none is forgotten.
    peers
        What stands beside it and may be missing.
    sizes
        Bytes that a contestant handles a round: quick, default, full.
    contests
        Makes the contests, one after the other; what one made is gone when the next is asked for.
    copies
        How many times its size the directory must be able to hold.
    weight
        Its part of the time, beside others.
    in_memory
        Whether its data are in memory as well as, or instead of, on disk.
    count
        About how many contests: quick, default, full. They share the workload's time.
    """

    group: str
    name: str
    about: str
    ceiling: str
    sizes: tuple[int, int, int]
    contests: Callable[[Setting], Iterator[Contest]]
    shows: Sequence[str] = ()
    kernels: Sequence[str] = ()
    peers: Sequence[str] = ()
    copies: float = 2.0
    weight: float = 1.0
    count: tuple[int, int, int] = (1, 1, 1)
    in_memory: bool = False

    @property
    def title(self) -> str:
        return f"{self.group}/{self.name}"

    def size(self, level: str, part: float = 1.0) -> int:
        """Bytes at a level, multiplied by ``KSTORE_BENCH_SCALE``; at least 64 KiB. A part of it is
        whole mebibytes, where it has some."""
        size = int(self.sizes[LEVELS.index(level)] * scale() * part)
        whole = size >> 20 << 20 if part < 1 else size
        return max(1 << 16, whole or size)


def workloads(words: Sequence[str] = ()) -> list[Workload]:
    """The workloads of groups (``disk``) or single ones (``disk/commit``); all without words.

    ValueError names a word that is neither.
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
