"""Sizes of blocks, and how many bytes of them fit into the time of a contest."""

import os
from dataclasses import replace
from math import isinf
from time import perf_counter

from kstore._native.bench import disk_loops
from kstore.bench.data.raw_files import block_of, fresh, sequential
from kstore.bench.workload import Setting

KIB, MIB = 1 << 10, 1 << 20
LEAST = 4 * MIB  # bytes of a call, however slow the disk is
PROBED = 16 * MIB
BESIDE_CALLS = 1.5  # times the timed seconds that a call takes with its files made and deleted


def size_text(size: int) -> str:
    """``512 B``, ``4 KiB``, ``1 MiB``."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def fitted(setting: Setting, contestants: int, rounds: int) -> Setting:
    """The setting with as many bytes as every call can write to this disk, so that the warm-up and
    all rounds end in the time of a contest.

    It is unchanged without a limit. A disk that is too slow even for ``LEAST`` bytes gets these.
    """
    if isinf(setting.seconds):
        return setting
    call = setting.seconds / (contestants * (rounds + 1)) / BESIDE_CALLS
    size = int(_written_per_second(setting) * call) // MIB * MIB
    return replace(setting, size=min(setting.size, max(size, LEAST)))


def _written_per_second(setting: Setting) -> float:
    """Durable bytes a second of a second file; the first one warms up."""
    size = min(setting.size // MIB * MIB, PROBED) or MIB
    block, found = block_of(MIB), 0.0
    for _ in range(2):
        with fresh(setting.directory / "probe") as fd:
            started = perf_counter()
            disk_loops.write_at(fd, block, sequential(size // MIB, MIB))
            os.fdatasync(fd)
            found = size / (perf_counter() - started)
    return found
