"""The A/A noise of a machine: how much a contestant differs from itself."""

import os
from collections.abc import Callable
from pathlib import Path

from kstore._native.bench import memory_loops
from kstore._native.format.crc import crc32c
from kstore.bench.contest import Contest, scaled
from kstore.bench.data.raw_files import block_of, fresh
from kstore.bench.runner.estimate import paired
from kstore.bench.runner.rounds import run

MIB = 1 << 20
LARGEST = 64 * MIB  # more data does not change the noise
# Kinds of noise that apply to a group's figures.
KINDS = {
    "disk": ("disk",),
    "memory": ("memory",),
    "page-cache": ("memory",),
    "sockets": ("cpu", "memory"),
    "engine": ("cpu", "memory", "disk"),
}
# Workloads with other kinds than their group: those that only read memory, and those of the page
# cache that wait for the disk.
SINGLE = dict.fromkeys(
    (f"engine/{name}" for name in ("checksum", "segments", "records", "index", "jit")),
    ("cpu", "memory"),
) | dict.fromkeys(("page-cache/cold", "page-cache/tail"), ("memory", "disk"))


def measure(directory: Path, rounds: int) -> dict[str, float]:
    """By kind of work, how far the ratio of a contestant and itself is from 1 (0.02: 2 %).

    The farther end of the bootstrap interval of the median of the rounds' ratios.
    """
    small, large = block_of(64 << 10), block_of(min(scaled(64 * MIB, MIB), LARGEST))
    block = block_of(min(scaled(4 * MIB, 4096), LARGEST) // 4096 * 4096)

    def write() -> int:
        with fresh(directory / "noise") as fd:
            written = os.pwrite(fd, block, 0)
            os.fdatasync(fd)
        return written

    works: dict[str, Callable[[], object]] = {
        "cpu": lambda: crc32c(small),
        "memory": lambda: memory_loops.read_all(large),
        "disk": write,
    }
    found = {}
    for kind, work in works.items():
        outcome = run(Contest(name=f"A/A, {kind}", calls={"A": work, "B": work}, rounds=rounds))
        ratio = paired(outcome.times["A"], outcome.times["B"])
        found[kind] = max(abs(ratio.low - 1), abs(ratio.high - 1))
    return found


def of_workload(noise: dict[str, float], title: str) -> float:
    """The noise that applies to a workload's figures."""
    kinds = SINGLE.get(title) or KINDS.get(title.partition("/")[0], tuple(noise))
    return max((noise.get(kind, 0.0) for kind in kinds), default=0.0)
