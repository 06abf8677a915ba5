"""Memory beside the disk: at which item size a sequential disk is faster than random memory.

The memory is twice as large as the largest cache of the processor, in pages of the default size; if
there is too little memory for that, the contest's name says that a cache may hold it. The disk is
measured in the same rounds and shown for items of the same size.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

import numpy as np

from kstore._native.bench import disk_loops, memory_loops
from kstore.bench.contest import Contest, Timed, scale
from kstore.bench.data.raw_files import (
    Positions,
    block_of,
    check_stamps,
    drop,
    fresh,
    opened,
    prewrite,
    refusal,
    sequential,
    shuffled,
)
from kstore.bench.machine.sizes import KIB, MIB, size_text
from kstore.bench.runner.environment import available_memory, in_memory, last_level_cache
from kstore.bench.workload import Setting, Workload

ITEMS = (4, 8, 16, 32, 64, 128, 1024, 4096)
MOST_ITEMS = 2_000_000  # per round
BESIDE_CACHE = 2  # times the largest cache: what no cache holds
Calls = dict[str, Callable[[], object]]


def _store(memory: mmap.mmap, item: int, positions: Positions) -> Timed:
    block = block_of(item)
    started = perf_counter()
    disk_loops.store_at(memory, block, positions)
    seconds = perf_counter() - started
    for position in positions[:: max(1, len(positions) // 64)].tolist():
        if memory[position : position + item] != block:
            raise AssertionError(f"the item at {position} is not what was stored")
    return Timed(seconds / len(positions), result=item)


def _load(memory: mmap.mmap, item: int, positions: Positions, ordered: Positions) -> Timed:
    """Load in random order; loaded in sequential order, untimed, the items have the same sum."""
    started = perf_counter()
    found = disk_loops.load_at(memory, item, positions)
    seconds = perf_counter() - started
    if disk_loops.load_at(memory, item, ordered) != found:
        raise AssertionError("other items were read")
    return Timed(seconds / len(positions), result=item)


def _store_all(memory: mmap.mmap, item: int) -> Timed:
    """Store into all of the memory, since less of it would stay in a cache."""
    block = block_of(item)
    started = perf_counter()
    count = disk_loops.store_all(memory, block)
    seconds = perf_counter() - started
    if count != len(memory) // item or memory[(count - 1) * item : count * item] != block:
        raise AssertionError("not everything was stored")
    return Timed(seconds / count, result=item)


def _load_all(memory: mmap.mmap, item: int) -> Timed:
    started = perf_counter()
    found = memory_loops.read_all(memory)
    seconds = perf_counter() - started
    half = len(memory) // 16 * 8
    with memoryview(memory) as view:
        if memory_loops.read_all(view[:half]) ^ memory_loops.read_all(view[half:]) != found:
            raise AssertionError("other bytes were read")
    return Timed(seconds / (len(memory) // item), result=item)


class Disk:
    """A sequential write and a sequential read of the disk, past the cache if possible."""

    def __init__(self, setting: Setting) -> None:
        self.size = max(min(setting.size, 256 * MIB) // MIB, 1) * MIB
        self.flags = 0 if refusal(setting.directory, os.O_DIRECT) else os.O_DIRECT
        self.block = block_of(MIB)
        self.written = setting.directory / "written"
        self.read_file = prewrite(setting.directory / "read", self.size, zeros=False)
        self.positions = sequential(self.size // MIB, MIB)

    def write(self, item: int) -> Timed:
        """Write blocks of 1 MiB into a new file and sync; seconds for ``item`` bytes of it."""
        with fresh(self.written, self.flags) as fd:
            started = perf_counter()
            disk_loops.write_at(fd, self.block, self.positions)
            os.fdatasync(fd)
            seconds = perf_counter() - started
            if os.fstat(fd).st_size != self.size:
                raise AssertionError("not everything was written")
            check_stamps(self.written, self.positions, 0, 16)
        return Timed(seconds * item / self.size, result=item)

    def read(self, item: int) -> Timed:
        """Read blocks of 1 MiB of a file that is not cached; seconds for ``item`` bytes of it."""
        with opened(self.read_file, os.O_RDONLY | self.flags) as fd:
            drop(fd)
            started = perf_counter()
            disk_loops.read_at(fd, self.block, self.positions)
            seconds = perf_counter() - started
        with opened(self.read_file, os.O_RDONLY) as fd:
            if os.pread(fd, MIB, self.size - MIB) != self.block:
                raise AssertionError("other bytes were read")
        return Timed(seconds * item / self.size, result=item)


def memory_size(size: int, cache: int, available: int) -> tuple[int, str]:
    """How many bytes of memory to measure, and what to add to a name if a cache may hold them.

    ``cache`` and ``available`` are bytes of the largest cache and of available memory, 0 if
    unknown. ``KSTORE_BENCH_SCALE`` applies to the cache as well: a run of less data is no figure.
    """
    if not cache:
        return size, " beside caches of unknown size"
    wanted = BESIDE_CACHE * cache
    if size < wanted <= available // 4 and scale() >= 1:
        return wanted, ""
    return size, "" if size >= wanted else f" that the cache of {size_text(cache)} may hold"


def items(setting: Setting) -> Iterator[Contest]:
    """Items of one size stored and read in sequential and random order, beside the disk."""
    disk = Disk(setting)
    medium = in_memory(setting.directory) or "disk"
    writes, reads = f"sequential {medium} writes, durable", f"sequential {medium} reads, cold"
    size, held = memory_size(setting.size, last_level_cache(), available_memory())
    with mmap.mmap(-1, size) as memory:
        for start in range(0, size, MIB):  # touches every page
            memory[start : start + MIB] = bytes(min(MIB, size - start))
        for item in setting.pick((4, 64, 1024), ITEMS, ITEMS):
            count = min(size // item, MOST_ITEMS)
            scattered = shuffled(count, item, size)
            calls: Calls = {
                "random memory writes": partial(_store, memory, item, scattered),
                "sequential memory writes": partial(_store_all, memory, item),
                "random memory reads": partial(_load, memory, item, scattered, np.sort(scattered)),
                "sequential memory reads": partial(_load_all, memory, item),
                writes: partial(disk.write, item),
                reads: partial(disk.read, item),
            }
            yield Contest(
                name=f"items of {size_text(item)} in {size_text(size)} of memory{held}, "
                f"and {medium}",
                calls=calls,
                amount=item,
                size=item,
                bars=(
                    (writes, "random memory writes", None),
                    (reads, "random memory reads", None),
                ),
                rounds=setting.pick(5, 5, 9),
            )


def bandwidth(setting: Setting) -> Iterator[Contest]:
    """Reading and copying memory, by its size: the ceilings of everything else."""
    for size in setting.pick(
        (32 * KIB, MIB, 64 * MIB),
        (32 * KIB, 256 * KIB, MIB, 64 * MIB),
        (32 * KIB, 256 * KIB, MIB, 8 * MIB, 64 * MIB, 512 * MIB),
    ):
        if size > setting.size:
            continue
        source, target = block_of(size), block_of(size)
        yield Contest(
            name=f"{size_text(size)} of memory, again and again",
            calls={
                "read every byte": partial(memory_loops.read_all, source),
                "memcpy": partial(memory_loops.copy, target, source),
            },
            unchecked=frozenset(["read every byte"]),
            amount=size,
            size=size,
            rounds=setting.pick(5, 9, 15),
        )


WORKLOADS = (
    Workload(
        group="memory",
        name="bandwidth",
        about="reading and copying memory, by its size",
        ceiling="the best of the run",
        shows="read every byte; memcpy",
        sizes=(64 * MIB, 256 * MIB, 1024 * MIB),
        contests=bandwidth,
        in_memory=True,
        count=(3, 4, 6),
        copies=0,
        weight=0.5,
    ),
    Workload(
        group="memory",
        name="items",
        about="items of 4 B to 4 KiB in memory, sequential and random, beside a sequential disk",
        ceiling="the best of the run",
        shows="random memory writes; sequential memory writes; random memory reads; "
        "sequential memory reads; writes, durable; reads, cold",
        sizes=(64 * MIB, 512 * MIB, 2048 * MIB),
        contests=items,
        in_memory=True,
        count=(3, 8, 8),
        weight=2,
    ),
)
