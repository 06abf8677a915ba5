"""Writes to scattered blocks: the same blocks in order and in no order, by what the blocks hold.

"cached" blocks are in page cache, "uncached" ones are on the disk alone, and "fresh" ones are holes
of a new file. A block smaller than a page is read before it is overwritten if it is uncached. The
figures are durable: they include a last ``fdatasync``.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from kstore._native.bench import disk_loops
from kstore.bench.contest import Contest, Timed
from kstore.bench.data.raw_files import (
    block_of,
    check_stamps,
    drop,
    fresh,
    opened,
    prewrite,
    read_into_cache,
    refusal,
    sequential,
    shuffled,
)
from kstore.bench.machine.sizes import KIB, MIB, fitted, size_text
from kstore.bench.workload import Setting

CACHED, UNCACHED, FRESH = "over cached blocks", "over uncached blocks", "into fresh blocks"
ORDERS = ("in order", "in no order")
MOST = 4000  # blocks of a call
SECONDS = 0.2  # that the blocks of a call may take if each waits for the disk
PART = 4  # of so many blocks one is written: if all were, write-back would sort them
CHECKED = 64


@dataclass(frozen=True)
class Way:
    """What the blocks hold before, and the flags of open(2)."""

    state: str
    flags: int = 0

    @property
    def name(self) -> str:
        """``O_DIRECT over uncached blocks``."""
        flag = {os.O_DIRECT: "O_DIRECT ", os.O_DSYNC: "O_DSYNC "}.get(self.flags, "")
        return f"{flag}{self.state}"


WAYS = (
    Way(CACHED),
    Way(UNCACHED),
    Way(FRESH),
    Way(UNCACHED, os.O_DIRECT),
    Way(CACHED, os.O_DSYNC),
)


class Overwriting:
    """Writes of blocks of one size to the same positions, in both orders."""

    def __init__(self, setting: Setting, block: int) -> None:
        self.setting, self.block = setting, block
        self.memory = block_of(block)
        self.size = max(setting.size // block, PART) * block
        self._salt = 0
        count = min(self.size // block // PART, MOST, self._how_many())
        in_no_order = shuffled(count, block, self.size)
        self.orders = dict(zip(ORDERS, (np.sort(in_no_order), in_no_order), strict=True))

    def _how_many(self) -> int:
        """As many blocks as fit into the time of a call if each waits for the disk."""
        with fresh(self.setting.directory / "probe") as fd:
            started = perf_counter()
            disk_loops.write_at(fd, self.memory, sequential(5, self.block), sync_every=1)
            each = (perf_counter() - started) / 5
        return max(20, int(SECONDS / each))

    def why_not(self, way: Way) -> str:
        """Why this way cannot be used here with this block, or an empty string."""
        if way.flags != os.O_DIRECT:
            return ""
        reason = refusal(self.setting.directory, way.flags, size=self.block)
        if reason:
            self.setting.missing[f"{way.name}, blocks of {size_text(self.block)}"] = reason
        return reason

    def write(self, way: Way, order: str) -> Timed:
        """Write every block and wait for the disk; seconds per block, and until accepted."""
        positions = self.orders[order]
        count = len(positions)
        self._salt += 1
        salt = self._salt << 48
        with self._target(way) as (path, fd):
            started = perf_counter()
            disk_loops.write_at(fd, self.memory, positions, salt=salt)
            accepted = perf_counter() - started
            os.fdatasync(fd)
            seconds = perf_counter() - started
            check_stamps(path, positions, salt, CHECKED)
        return Timed(seconds / count, result=self.block, also={"accepted": accepted / count})

    @contextmanager
    def _target(self, way: Way) -> Iterator[tuple[Path, int]]:
        """The file and its descriptor, with the blocks in the state that the way wants."""
        directory = self.setting.directory
        if way.state == FRESH:
            path = directory / "fresh"
            with fresh(path, way.flags) as fd:
                os.ftruncate(fd, self.size)
                yield path, fd
            return
        path = self._existing("cached" if way.state == CACHED else "uncached")
        with opened(path, os.O_RDWR) as fd:
            if way.state == CACHED:
                read_into_cache(fd)
            else:
                drop(fd)
        with opened(path, os.O_RDWR | way.flags) as fd:
            yield path, fd

    def _existing(self, name: str) -> Path:
        path = self.setting.directory / f"{name} {self.size}"
        return path if path.exists() else prewrite(path, self.size, zeros=False)


def overwrites(setting: Setting) -> Iterator[Contest]:
    """The same blocks in order and in no order, by block size."""
    rounds = setting.pick(5, 7, 9)
    setting = fitted(setting, len(WAYS) * len(ORDERS), rounds)
    for block in setting.pick(
        (512, 4 * KIB),
        (512, 4 * KIB, 64 * KIB, MIB),
        (512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB),
    ):
        work = Overwriting(setting, block)
        calls: dict[str, Callable[[], object]] = {}
        bars: list[tuple[str, str, float | None]] = []
        for way in WAYS:
            if work.why_not(way):
                continue
            names = [f"{order} {way.name}" for order in ORDERS]
            calls |= {
                name: partial(work.write, way, order)
                for name, order in zip(names, ORDERS, strict=True)
            }
            bars.append((names[0], names[1], None))
        yield Contest(
            name=f"scattered writes of {size_text(block)}, the same blocks in both orders",
            calls=calls,
            amount=block,
            size=block,
            bars=tuple(bars),
            rounds=rounds,
        )
