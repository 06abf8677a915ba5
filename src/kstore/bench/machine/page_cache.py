"""Reading files that are in the page cache, and that are not.

Contestants compute the exclusive or of all words that they read, so that a mapping pays for its
page faults and results can be compared. In a contest either all of them open the file (and map it)
and close it again within their time, or none does.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter

import numpy as np

from kstore._native.bench import disk_loops, memory_loops
from kstore.bench.contest import Contest, Timed
from kstore.bench.data.raw_files import (
    PAGE,
    block_of,
    kept_pages,
    opened,
    prewrite,
    refusal,
    sequential,
    shuffled,
    why_not_cold,
)
from kstore.bench.machine.sizes import KIB, MIB, fitted, size_text
from kstore.bench.runner.environment import last_level_cache
from kstore.bench.workload import Setting, Workload

AHEAD = 8 * MIB  # how far ahead a reader asks the kernel to fetch
Calls = dict[str, Callable[[], object]]


HUGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped")  # of /proc/self/smaps


def huge_bytes(mapping: mmap.mmap) -> int:
    """How many bytes of a mapping are in huge pages."""
    address = int(np.frombuffer(mapping, np.uint8).ctypes.data)
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
        return huge_in(file, address)


def huge_in(smaps: Iterable[str], address: int) -> int:
    """The same from the text of such a file; 0 if no mapping starts at the address."""
    here, found = False, 0
    for line in smaps:
        name, _, rest = line.partition(":")
        if "-" in name.split(" ")[0]:  # the first line of a mapping
            start, _, stop = name.split(" ")[0].partition("-")
            here = int(start, 16) <= address < int(stop, 16)
        elif here and name in HUGE:
            found += int(rest.split()[0]) << 10
    return found


class Reading:
    """A file of random bytes, read by any method; results are the exclusive or of its words."""

    def __init__(self, setting: Setting) -> None:
        self.size = setting.size // MIB * MIB or MIB
        self.path = prewrite(setting.directory / "read", self.size, zeros=False)
        self._buffers: dict[int, memoryview] = {}
        self.words = self.mapped()

    def buffer(self, size: int) -> memoryview:
        """The buffer for reads of so many bytes, made by the check before the first round: filling
        it would take longer than the read."""
        if size not in self._buffers:
            self._buffers[size] = block_of(size)
        return self._buffers[size]

    def warm(self) -> None:
        """Bring every page into the cache."""
        with opened(self.path, os.O_RDONLY) as fd:
            disk_loops.read_at(fd, self.buffer(MIB), sequential(self.size // MIB, MIB))
            with mmap.mmap(fd, self.size, prot=mmap.PROT_READ) as mapping:
                found = disk_loops.resident(mapping, PAGE)
        if found < self.size // PAGE:
            raise AssertionError(f"{found} of {self.size // PAGE} pages are in the cache")

    def cool(self, fd: int) -> None:
        """Drop the file from the cache; AssertionError if too much of it stays there."""
        if reason := kept_pages(fd, self.size):
            raise AssertionError(reason)

    def pread(self, fd: int, block: int, iovecs: int = 1) -> int:
        """preadv of blocks of a descriptor into one buffer, every byte summed."""
        positions = sequential(self.size // block, block)
        return disk_loops.read_at(fd, self.buffer(block), positions, summed=True, iovecs=iovecs)

    def opened_and_read(self, block: int) -> int:
        """Open the file, read it by pread, close it."""
        with opened(self.path, os.O_RDONLY) as fd:
            return self.pread(fd, block)

    def mapped(self, flags: int = mmap.MAP_SHARED, advice: int | None = None) -> int:
        """Open the file, map it, read every byte, faults included, unmap and close it."""
        with (
            opened(self.path, os.O_RDONLY) as fd,
            mmap.mmap(fd, self.size, flags=flags, prot=mmap.PROT_READ) as mapping,
        ):
            if advice is not None:
                mapping.madvise(advice)
            return memory_loops.read_all(mapping)

    def why_not_huge(self, advice: int) -> str:
        """Why a mapping has no huge pages after this advice, or an empty string: most file systems
        accept the advice without effect."""
        try:
            with (
                opened(self.path, os.O_RDONLY) as fd,
                mmap.mmap(fd, self.size, prot=mmap.PROT_READ) as mapping,
            ):
                mapping.madvise(advice)
                memory_loops.read_all(mapping)
                huge = huge_bytes(mapping)
        except OSError as error:
            return str(error)
        return "" if huge else "the advice is taken and no huge page comes (/proc/self/smaps)"

    def cold(self, call: Callable[[int], int], flags: int = 0) -> Timed:
        """Read from a descriptor after the file is dropped from the cache."""
        with opened(self.path, os.O_RDONLY | flags) as fd:
            self.cool(fd)
            started = perf_counter()
            found = call(fd)
            seconds = perf_counter() - started
        if found != self.words:
            raise AssertionError("other bytes were read")
        return Timed(seconds, result=found)

    def blocks(self, fd: int, block: int, advice: int | None = None) -> int:
        """preads of a descriptor, every byte summed."""
        if advice is not None:
            os.posix_fadvise(fd, 0, 0, advice)
        positions = sequential(self.size // block, block)
        return disk_loops.read_at(fd, self.buffer(block), positions, summed=True)

    def fetched_ahead(self, fd: int) -> int:
        """preads of 1 MiB, with WILLNEED advice for what comes some MiB later."""
        buffer, found = self.buffer(MIB), 0
        os.posix_fadvise(fd, 0, AHEAD, os.POSIX_FADV_WILLNEED)
        for position in range(0, self.size, MIB):
            os.posix_fadvise(fd, position + AHEAD, MIB, os.POSIX_FADV_WILLNEED)
            found ^= disk_loops.read_at(fd, buffer, sequential(1, 1) + position, summed=True)
        return found

    def mapped_cold(self, fd: int, advice: int | None = None) -> int:
        """A mapping of a descriptor, every byte summed."""
        with mmap.mmap(fd, self.size, prot=mmap.PROT_READ) as mapping:
            if advice is not None:
                mapping.madvise(advice)
            return memory_loops.read_all(mapping)


def warm_reads(setting: Setting) -> Iterator[Contest]:
    """Every way to read a file that is in the cache."""
    work = Reading(setting)
    work.warm()
    held = ", which caches may hold" if work.size < last_level_cache() else ""
    with (
        opened(work.path, os.O_RDONLY) as fd,
        mmap.mmap(fd, work.size, prot=mmap.PROT_READ) as kept,
    ):
        memory_loops.read_all(kept)
        for block in setting.pick(
            (4 * KIB, 64 * KIB, MIB),
            (4 * KIB, 16 * KIB, 64 * KIB, MIB),
            (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB),
        ):
            yield Contest(
                name=f"warm reads of {size_text(work.size)} by {size_text(block)}, "
                f"open and mapped before{held}",
                calls={
                    "pread": partial(work.pread, fd, block),
                    "preadv of 16 parts": partial(work.pread, fd, block, 16),
                    "mmap, mapped before": lambda: memory_loops.read_all(kept),
                },
                amount=work.size,
                expected=work.words,
                size=block,
                bars=(("mmap, mapped before", "pread", None),),
                rounds=setting.pick(5, 7, 15),
            )
        yield random_reads(setting, work, kept)
    yield opened_reads(setting, work)


def opened_reads(setting: Setting, work: Reading) -> Contest:
    """Reads of a cached file that is opened, and mapped, within the time."""
    calls: Calls = {
        f"pread of {size_text(block)}": partial(work.opened_and_read, block)
        for block in (64 * KIB, MIB)
    }
    calls["mmap, first touch"] = work.mapped
    calls["mmap, MAP_POPULATE"] = partial(work.mapped, mmap.MAP_SHARED | mmap.MAP_POPULATE)
    if (huge := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
        if reason := work.why_not_huge(huge):
            setting.missing["mmap, MADV_HUGEPAGE"] = reason
        else:
            calls["mmap, MADV_HUGEPAGE"] = partial(work.mapped, mmap.MAP_SHARED, huge)
    return Contest(
        name=f"warm reads of {size_text(work.size)}, opened and closed in each",
        calls=calls,
        amount=work.size,
        expected=work.words,
        bars=(("mmap, first touch", "pread of 64 KiB", None),),
        rounds=setting.pick(5, 7, 15),
    )


def random_reads(setting: Setting, work: Reading, kept: mmap.mmap) -> Contest:
    """Small reads in random order."""
    item = 64
    positions = shuffled(setting.pick(50_000, 200_000, 1_000_000), item, work.size)
    buffer = work.buffer(item)

    def by_pread() -> Timed:
        with opened(work.path, os.O_RDONLY) as fd:
            started = perf_counter()
            found = disk_loops.read_at(fd, buffer, positions, summed=True)
            seconds = perf_counter() - started
        return Timed(seconds / len(positions), result=found)

    def by_map() -> Timed:
        started = perf_counter()
        found = disk_loops.load_at(kept, item, positions)
        return Timed((perf_counter() - started) / len(positions), result=found)

    return Contest(
        name=f"warm reads of {item} B in no order",
        calls={"pread": by_pread, "mmap, mapped before": by_map},
        amount=1,
        unit="reads",
        bars=(("mmap, mapped before", "pread", None),),
        rounds=setting.pick(5, 7, 15),
    )


def cold_reads(setting: Setting) -> Iterator[Contest]:
    """Every way to read a file that is not in the cache."""
    rounds = setting.pick(5, 7, 9)
    work = Reading(fitted(setting, 9, rounds))
    if reason := why_not_cold(work.path):
        setting.missing["cold reads"] = reason
        return
    calls: Calls = {}
    plain = "pread of 1 MiB"
    for name, call in (
        ("pread of 64 KiB", partial(work.blocks, block=64 * KIB)),
        (plain, partial(work.blocks, block=MIB)),
        (
            "pread of 1 MiB, FADV_SEQUENTIAL",
            partial(work.blocks, block=MIB, advice=os.POSIX_FADV_SEQUENTIAL),
        ),
        ("pread of 1 MiB, FADV_WILLNEED 8 MiB ahead", work.fetched_ahead),
        ("mmap", work.mapped_cold),
        ("mmap, MADV_SEQUENTIAL", partial(work.mapped_cold, advice=mmap.MADV_SEQUENTIAL)),
        ("mmap, MADV_WILLNEED", partial(work.mapped_cold, advice=mmap.MADV_WILLNEED)),
    ):
        calls[name] = partial(work.cold, call)
    if reason := refusal(setting.directory, os.O_DIRECT):
        setting.missing["O_DIRECT"] = reason
    else:
        for block in (MIB, 8 * MIB):
            if work.size % block == 0:
                direct = partial(work.blocks, block=block)
                calls[f"O_DIRECT of {size_text(block)}"] = partial(
                    work.cold, direct, flags=os.O_DIRECT
                )
    yield Contest(
        name=f"cold reads of {size_text(work.size)}",
        calls=calls,
        amount=work.size,
        bars=tuple((name, plain, None) for name in calls if name != plain),
        rounds=rounds,
    )


WORKLOADS = (
    Workload(
        group="page-cache",
        name="warm",
        about="reading a cached file: pread, preadv, mmap on first touch and again",
        ceiling="the best method of the run",
        shows="4 KiB; 64 KiB; 1 MiB; pread; preadv; mmap, mapped before; mmap, first touch; "
        "MAP_POPULATE; MADV_HUGEPAGE; in no order",
        sizes=(64 * MIB, 256 * MIB, 1024 * MIB),
        contests=warm_reads,
        count=(5, 6, 7),
        weight=1.5,
    ),
    Workload(
        group="page-cache",
        name="cold",
        about="reading an uncached file, with every advice, and past the cache",
        ceiling="the best method of the run",
        shows="pread of 1 MiB; FADV_SEQUENTIAL; FADV_WILLNEED; mmap; MADV_SEQUENTIAL; "
        "MADV_WILLNEED; O_DIRECT",
        sizes=(64 * MIB, 256 * MIB, 1024 * MIB),
        contests=cold_reads,
        count=(1, 1, 1),
        weight=1.5,
    ),
)
