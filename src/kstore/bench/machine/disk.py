"""Writing to a disk: sequentially, and one durable write at a time.

Files are new in every round and deleted outside the timed section, so that no contestant's dirty
pages are written back while another one is timed. "over zeros" is a file of synced zeros, whose
blocks need no allocation. Figures are durable (they include a last ``fdatasync``) unless they say
"accepted", the time at which the calls had returned.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from kstore._native.bench import disk_loops
from kstore.bench.contest import Contest, Timed
from kstore.bench.data.raw_files import (
    PAGE,
    RWF_DONTCACHE,
    Positions,
    block_of,
    check_stamps,
    drop,
    fresh,
    opened,
    prewrite,
    read_into_cache,
    refusal,
    sequential,
)
from kstore.bench.machine.log_commits import LogCommits
from kstore.bench.machine.overwrites import overwrites
from kstore.bench.machine.sizes import KIB, MIB, fitted, size_text
from kstore.bench.workload import Setting, Workload

# Per round, the most writes that each wait for the disk, and the seconds that they may take: quick,
# default, full. The nine rounds of a full run have a p99.9.
SYNCED = (400, 400, 1200)
SYNC_SECONDS = (0.2, 0.2, 2.0)
# Of a call that is followed by the same call of another installation. A disk with neighbours is
# calm or busy for milliseconds: single writes are compared best.
SYNCED_IN_TURN = 1
CALLS = 60  # about how many of a contest wait for the disk like this
TAIL = 10_000  # writes in a round of which ten are beyond the p99.9
CHECKED = 64  # blocks that are read back after a round


@dataclass(frozen=True)
class Method:
    """One way of writing blocks.

    ``flags`` are those of open(2), ``rwf`` of pwritev2(2); ``reserve``: blocks are preallocated;
    ``zeros``: the file exists and is full of zeros; ``iovecs``: parts of one vector.
    """

    name: str
    flags: int = 0
    rwf: int = 0
    reserve: bool = False
    zeros: bool = False
    iovecs: int = 1
    sync_every: int = 0  # bytes; 1: after each write

    @property
    def waits(self) -> bool:
        """Whether each write waits for the disk."""
        return bool(self.flags & os.O_DSYNC)


SEQUENTIAL = (
    Method("write"),
    Method("pwritev of 16 parts", iovecs=16),
    Method("write, fallocated", reserve=True),
    Method("write over zeros", zeros=True),
    Method("write, fdatasync each MiB or block", sync_every=MIB),
    Method("RWF_DONTCACHE", rwf=RWF_DONTCACHE),
    Method("O_DSYNC", flags=os.O_DSYNC),
    Method("O_DIRECT", flags=os.O_DIRECT),
    Method("O_DIRECT over zeros", flags=os.O_DIRECT, zeros=True),
)
COMMITS = (
    Method("write, fdatasync", sync_every=1),
    Method("fallocated, fdatasync", sync_every=1, reserve=True),
    Method("over zeros, fdatasync", sync_every=1, zeros=True),
    Method("O_DSYNC", flags=os.O_DSYNC),
    Method("O_DSYNC over zeros", flags=os.O_DSYNC, zeros=True),
    Method("O_DIRECT|O_DSYNC", flags=os.O_DIRECT | os.O_DSYNC),
    Method("O_DIRECT|O_DSYNC over zeros", flags=os.O_DIRECT | os.O_DSYNC, zeros=True),
)


@dataclass
class Writing:
    """Writes of blocks into files of one folder, by any method."""

    setting: Setting
    block: int

    def __post_init__(self) -> None:
        self.memory = block_of(self.block)
        self._salt = 0
        self.synced = self._how_many_syncs()
        self.file = self.setting.directory / "written"
        self._zeros: Path | None = None

    @property
    def zeros(self) -> Path:
        """The file of zeros, written when it is first needed."""
        if self._zeros is None:
            path = self.setting.directory / "zeros"
            self._zeros = path if path.exists() else prewrite(path, self.setting.size)
        return self._zeros

    def zero_again(self) -> float:
        """Seconds per block to overwrite that file with zeros, past the cache: the price of reusing
        a file."""
        zeros, count = block_of(self.block), self.setting.size // self.block
        self.forget_zeros()
        with opened(self.zeros, os.O_WRONLY | os.O_DIRECT) as fd:
            started = perf_counter()
            for n in range(count):
                os.pwrite(fd, zeros, n * self.block)
            os.fdatasync(fd)
            return (perf_counter() - started) / count

    def _ready_zeros(self, method: Method) -> None:
        """Cache or forget the zeros, as a method wants them.

        A block smaller than a page is only written over cached zeros: over others the kernel reads
        the page first, and the figure would be of reads.
        """
        if self.block % PAGE and not method.flags & os.O_DIRECT:
            with opened(self.zeros, os.O_RDONLY) as fd:
                read_into_cache(fd)
        else:
            self.forget_zeros()

    def forget_zeros(self) -> None:
        """Drop the pages of earlier writes, which O_DIRECT would have to invalidate."""
        with opened(self.zeros, os.O_RDONLY) as fd:
            drop(fd)

    def _how_many_syncs(self) -> int:
        """As many as the disk can do in their share of the time."""
        if self.setting.in_turns:
            return SYNCED_IN_TURN
        with fresh(self.setting.directory / "probe") as fd:
            started = perf_counter()
            disk_loops.write_at(fd, self.memory, sequential(5, self.block), sync_every=1)
            each = (perf_counter() - started) / 5
        most = self.setting.pick(*SYNCED)
        seconds = min(self.setting.pick(*SYNC_SECONDS), self.setting.seconds / CALLS)
        return min(most, max(20, int(seconds / each)))

    def why_not(self, method: Method) -> str:
        """Why a method cannot be used here with this block, or an empty string."""
        if method.iovecs > 1 and self.block // method.iovecs < 1:
            return "too small for a vector"
        direct = method.flags & os.O_DIRECT
        if not direct and not method.rwf:
            return ""
        if reason := refusal(self.setting.directory, direct, method.rwf):
            self.setting.missing[method.name] = reason
        # A disk with sectors of 4 KiB accepts no smaller blocks.
        elif reason := refusal(self.setting.directory, direct, method.rwf, self.block):
            self.setting.missing[f"{method.name}, blocks of {size_text(self.block)}"] = reason
        return reason

    def positions(self, method: Method) -> Positions:
        """Positions of the first blocks of the file, as many as the method writes in its time."""
        count = self.setting.blocks(self.block, 200_000)
        if method.sync_every == 1 or method.waits:
            count = min(count, self.synced)
        elif method.flags & os.O_DIRECT:
            count = min(count, 4 * self.synced)
        return sequential(count, self.block)

    def write(self, method: Method, positions: Positions, *, each: bool = False) -> Timed:
        """Write every block and wait for the disk; seconds per block, and until accepted.

        ``each``: time every write by itself instead, with the sync that follows it.
        """
        sync_every = method.sync_every
        if sync_every > 1:
            sync_every = max(1, sync_every // self.block)
        if method.zeros:
            self._ready_zeros(method)
        took = np.zeros(len(positions), np.int64)
        count = len(positions)
        with self._target(method, count * self.block) as fd:
            salt = self._next_salt()
            started = perf_counter()
            disk_loops.write_at(
                fd,
                self.memory,
                positions,
                sync_every=sync_every,
                flags=method.rwf,
                iovecs=method.iovecs,
                salt=salt,
                each=took if each else None,
            )
            accepted = perf_counter() - started
            os.fdatasync(fd)
            seconds = perf_counter() - started
            check_stamps(self._path(method), positions, salt, CHECKED)
        if each:
            return Timed(float(np.median(took)) / 1e9, result=self.block, samples=took)
        return Timed(seconds / count, result=self.block, also={"accepted": accepted / count})

    def log(self, *, preallocate: bool = False) -> LogCommits:
        """A log whose batches have a block's size."""
        return LogCommits(self.setting.directory, self.memory, preallocate=preallocate)

    def map_and_store(self, positions: Positions) -> Timed:
        """Stores into a shared mapping of a new file, then msync, fdatasync and munmap."""
        count = len(positions)
        with fresh(self.file) as fd:
            salt = self._next_salt()
            started = perf_counter()
            os.ftruncate(fd, count * self.block)
            with mmap.mmap(fd, count * self.block) as mapping:
                disk_loops.store_at(mapping, self.memory, positions, stamped=True, salt=salt)
                accepted = perf_counter() - started
                mapping.flush()
                os.fdatasync(fd)
            seconds = perf_counter() - started
            check_stamps(self.file, positions, salt, CHECKED)
        return Timed(seconds / count, result=self.block, also={"accepted": accepted / count})

    def by_ring(self, positions: Positions, depth: int) -> Timed:
        """O_DIRECT writes over zeros through io_uring, several in flight."""
        count, blocks = len(positions), block_of(depth * self.block)
        self.forget_zeros()
        with opened(self.zeros, os.O_RDWR | os.O_DIRECT) as fd:
            salt = self._next_salt()
            accepted = disk_loops.write_ring(
                fd, blocks, self.block, positions, depth=depth, salt=salt
            )
            started = perf_counter()
            os.fdatasync(fd)
            seconds = accepted + perf_counter() - started
        check_stamps(self.zeros, positions, salt, CHECKED)
        return Timed(seconds / count, result=self.block, also={"accepted": accepted / count})

    def why_no_ring(self) -> str:
        """Why io_uring cannot be used here, or an empty string."""
        try:
            with fresh(self.file) as fd:
                disk_loops.write_ring(fd, block_of(4096), 4096, sequential(1, 4096), depth=1)
        except OSError as error:
            self.setting.missing["io_uring"] = str(error)
            return str(error)
        return ""

    def _next_salt(self) -> int:
        self._salt += 1
        return self._salt << 48

    def _path(self, method: Method) -> Path:
        return self.zeros if method.zeros else self.file

    @contextmanager
    def _target(self, method: Method, size: int) -> Iterator[int]:
        if method.zeros:
            with opened(self.zeros, os.O_RDWR | method.flags) as fd:
                yield fd
        else:
            with fresh(self.file, method.flags, size if method.reserve else 0) as fd:
                yield fd


Calls = dict[str, Callable[[], object]]
LOG = "kstore, append and flush"
PREWRITTEN_LOG = f"{LOG}, preallocate"


def sequential_writes(setting: Setting) -> Iterator[Contest]:
    """Every method, by block size."""
    rounds = setting.pick(5, 7, 9)
    setting = fitted(setting, len(SEQUENTIAL) + 2, rounds)
    for block in setting.pick(
        (4 * KIB, 64 * KIB, MIB),
        (4 * KIB, 16 * KIB, 64 * KIB, MIB),
        (512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB),
    ):
        work = Writing(setting, block)
        calls: Calls = {}
        for method in SEQUENTIAL:
            if not work.why_not(method):
                positions = work.positions(method)
                calls[method.name] = partial(work.write, method, positions)
        stored = sequential(setting.blocks(block, 200_000), block)
        calls["mmap stores"] = partial(work.map_and_store, stored)
        depth = 4 if block >= MIB else 32
        if "O_DIRECT over zeros" in calls and not work.why_no_ring():
            positions = sequential(setting.blocks(block, 16 * work.synced), block)
            calls[f"io_uring, O_DIRECT over zeros, {depth} at once"] = partial(
                work.by_ring, positions, depth
            )
        yield Contest(
            name=f"sequential writes of {size_text(block)}",
            calls=calls,
            amount=block,
            size=block,
            rounds=rounds,
        )


def commits(setting: Setting) -> Iterator[Contest]:
    """Single durable writes, each timed."""
    for block in setting.pick((4 * KIB,), (4 * KIB, 64 * KIB), (4 * KIB, 64 * KIB, MIB)):
        work = Writing(setting, block)
        with closing(work.log()) as log, closing(work.log(preallocate=True)) as prewritten:
            yield single_commits(work, log, prewritten)
    yield group_commits(setting)
    if setting.level != "full":
        return
    if (count := setting.blocks(4 * KIB, TAIL)) < TAIL:
        reason = f"{count} of the {TAIL} writes that a p99.9 takes"
        setting.missing["the slowest of durable writes"] = reason
    else:
        work = Writing(setting, 4 * KIB)
        with closing(work.log(preallocate=True)) as log:
            yield tail(work, log)


def single_commits(work: Writing, log: LogCommits, prewritten: LogCommits) -> Contest:
    """Every method for one block size."""
    setting, block = work.setting, work.block
    calls: Calls = {}
    for method in COMMITS:
        if not work.why_not(method):
            calls[method.name] = partial(work.write, method, work.positions(method), each=True)
    count = setting.blocks(block, work.synced)
    calls[LOG] = partial(log.commit, count)
    calls[PREWRITTEN_LOG] = partial(prewritten.commit, count)
    best = "O_DIRECT|O_DSYNC over zeros"
    bars: list[tuple[str, str, float | None]] = []
    if best in calls:
        bars = [(name, best, None) for name in calls if name not in (best, PREWRITTEN_LOG)]
    wanted = 1 / 1.1 if block == 4 * KIB else None
    bars += [
        (PREWRITTEN_LOG, each.name, wanted) for each in COMMITS if each.name in calls and each.zeros
    ]
    bars += [
        (PREWRITTEN_LOG, "write, fdatasync", 1 / 0.65 if block == 4 * KIB else None),
        (PREWRITTEN_LOG, LOG, None),
    ]
    return Contest(
        name=f"one durable write of {size_text(block)}",
        calls=calls,
        amount=block,
        size=block,
        bars=tuple(bars),
        rounds=setting.pick(5, 7, 9),
    )


def tail(work: Writing, log: LogCommits) -> Contest:
    """Enough durable writes per round for a p99.9 in each."""
    bare = next(method for method in COMMITS if method.waits and method.zeros)

    ours = partial(log.commit, TAIL)
    raw = partial(work.write, bare, sequential(TAIL, work.block), each=True)
    return Contest(
        name=f"the slowest of {TAIL} durable writes of {size_text(work.block)}",
        calls={PREWRITTEN_LOG: ours, bare.name: raw},
        amount=work.block,
        bars=(
            (f"{PREWRITTEN_LOG} p99.9", PREWRITTEN_LOG, 1 / 3),
            (f"{bare.name} p99.9", bare.name, None),
            (f"{PREWRITTEN_LOG} p99.9", f"{bare.name} p99.9", None),
        ),
        rounds=3,
    )


def group_commits(setting: Setting) -> Contest:
    """Writes that share one sync."""
    block = 4 * KIB
    work = Writing(setting, block)
    calls: Calls = {}
    for together in (1, 4, 16, 64, 256):
        method = Method(f"fdatasync each {together}", sync_every=together * block)
        count = setting.blocks(block, max(8, work.synced // 4) * together)
        calls[method.name] = partial(work.write, method, sequential(count, block))
    return Contest(
        name=f"writes of {size_text(block)} that share a sync",
        calls=calls,
        amount=block,
        rounds=setting.pick(5, 7, 9),
    )


WORKLOADS = (
    Workload(
        group="disk",
        name="sequential",
        about="sequential new blocks, by method and block size, durable and accepted",
        ceiling="the best method of the run",
        shows="4 KiB; 64 KiB; 1 MiB; write; pwritev; fallocated; over zeros; fdatasync each "
        "MiB; RWF_DONTCACHE; O_DSYNC; O_DIRECT; io_uring; mmap stores; accepted",
        sizes=(32 * MIB, 256 * MIB, 1024 * MIB),
        contests=sequential_writes,
        count=(3, 4, 8),
        copies=3,
        weight=4,
    ),
    Workload(
        group="disk",
        name="random",
        about="the same scattered blocks in order and in no order: cached, uncached and fresh",
        ceiling="the best method of the run",
        shows="512 B; 4 KiB; in order; in no order; over cached blocks; over uncached blocks; into "
        "fresh blocks; O_DIRECT; O_DSYNC",
        sizes=(32 * MIB, 256 * MIB, 1024 * MIB),
        contests=overwrites,
        count=(2, 4, 8),
        copies=3,
        weight=2,
    ),
    Workload(
        group="disk",
        name="commit",
        about="single durable writes: percentiles of their latency, and shared syncs",
        ceiling="the best method of the run",
        shows="write, fdatasync; fallocated, fdatasync; over zeros, fdatasync; O_DSYNC; "
        "O_DIRECT|O_DSYNC; fdatasync each 16",
        sizes=(8 * MIB, 64 * MIB, 256 * MIB),
        contests=commits,
        count=(2, 3, 5),
        weight=2,
    ),
)
