"""What a log asks of a machine: the measurements behind the verdict.

Commits, sustained sequential writing, tail reads beside it, catch-up reads of what was written,
reads of the same file in page cache, and sends to a loopback socket. Each keeps to its time, drops
its first round as a warm-up, and has an interval only of five rounds or more.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from kstore._native.bench import disk_loops
from kstore.bench.contest import scaled
from kstore.bench.data.raw_files import (
    PAGE,
    block_of,
    fresh,
    kept_pages,
    opened,
    prewrite,
    sequential,
)
from kstore.bench.machine import figures as names
from kstore.bench.machine.durable_stream import (
    BLOCK,
    DurableStream,
    Point,
    durable_stream,
    is_steady,
    rates,
    share_of_later_half,
    without_warm_up,
)
from kstore.bench.machine.figures import Figure
from kstore.bench.machine.sizes import KIB, MIB
from kstore.bench.machine.sockets import Sending
from kstore.bench.measurement import Measurement
from kstore.bench.runner.environment import available_memory, in_memory, last_level_cache
from kstore.bench.runner.estimate import (
    Estimate,
    estimate,
    estimate_mean,
    has_tail,
    highest_share,
    percentile,
)
from kstore.bench.workload import Setting, Workload

COMMIT = 4 * KIB
COMMITS_AT_ONCE = 20  # between two checks of the clock; the first are the warm-up
MOST_COMMITS = 50_000  # times the scale
LEAST_ROUNDS = 5  # of an interval
ROUNDS = 7
TAIL = names.TAIL
TAIL_BLOCK = 64 * KIB
BESIDE_CACHE = 2  # times the last-level cache that a file has which no cache may hold
COMMIT_FIGURES = (names.COMMIT_P50, names.COMMIT_TAIL, names.COMMIT_MEAN, names.COMMIT_SLOWEST)
SYNCED = 128 * MIB  # written, then synced, where the rate of syncs alone is measured
WRITER_BUSY = 0.5  # of the time in pwrite, above which the writer may be the limit
FASTER_ALONE = 1.5  # times the sustained rate that syncs alone have if the writer is the limit
TIME_UP = "the time was up after the warm-up"


def figure_of(
    name: str,
    values: Sequence[float],
    note: str = "",
    *,
    of: Callable[[Sequence[float]], Estimate] = estimate,
) -> Figure:
    """The median of the rounds, with an interval of five or more; ``values`` has no warm-up."""
    if not values:
        return Figure(name, None, note=TIME_UP)
    found = of(values)
    interval = (found.low, found.high) if len(values) >= LEAST_ROUNDS else None
    return Figure(name, found.median, interval, len(values), note=note)


def rounds_within(seconds: float, take: Callable[[], float], most: int = ROUNDS) -> list[float]:
    """Call ``take`` once to warm up, then up to ``most`` times; the figures of the latter.

    No round starts that would end after ``seconds`` if it takes as long as the one before.
    """
    began = perf_counter()
    take()
    found: list[float] = []
    last = perf_counter() - began
    while len(found) < most and perf_counter() - began + last <= seconds:
        started = perf_counter()
        found.append(take())
        last = perf_counter() - started
    return found


# --- commits ----------------------------------------------------------------------------------


def take_commits(directory: Path, seconds: float) -> list[Figure]:
    """Appends of 4 KiB to a new file, each with its fdatasync: exact samples."""
    began, at = perf_counter(), 0
    memory = block_of(COMMIT)
    taken: list[NDArray[np.int64]] = []
    with fresh(directory / "commits") as fd:
        while perf_counter() - began < seconds and at < scaled(MOST_COMMITS):
            took = np.zeros(COMMITS_AT_ONCE, np.int64)
            positions = sequential(COMMITS_AT_ONCE, COMMIT) + at * COMMIT
            disk_loops.write_at(fd, memory, positions, sync_every=1, each=took)
            taken.append(took)
            at += COMMITS_AT_ONCE
    return commit_figures(np.concatenate(taken[1:] or [np.zeros(0, np.int64)]), _medium(directory))


def commit_figures(samples: NDArray[np.int64], note: str) -> list[Figure]:
    """Percentiles and mean of the nanoseconds of single commits, in the order in which they were
    made.

    The tail is the p99 of 1,000 samples or more, of fewer the highest percentile that has ten
    beyond it. An interval is that of the percentiles of five runs of samples.
    """
    if not samples.size:
        return [Figure(name, None, note=TIME_UP) for name in COMMIT_FIGURES]
    count, found = int(samples.size), []
    tail = highest_share(count)
    for name, share in ((names.COMMIT_P50, 50), (names.COMMIT_TAIL, max(tail, 50))):
        if not has_tail(count, share):
            reason = f"{count:,} commits are too few for a percentile of {share:g} %"
            found.append(Figure(name, None, rounds=count, note=reason))
            continue
        parts = np.array_split(samples, LEAST_ROUNDS)
        interval = None
        if all(has_tail(each.size, share) for each in parts):
            spread = estimate([percentile(each, share) / 1e9 for each in parts])
            interval = (spread.low, spread.high)
        value = percentile(samples, share) / 1e9
        of = float(share) if name == names.COMMIT_TAIL else None
        found.append(Figure(name, value, interval, count, note=note, share=of))
    of_all = ((names.COMMIT_MEAN, samples.mean()), (names.COMMIT_SLOWEST, samples.max()))
    return [
        *found,
        *(Figure(name, float(each) / 1e9, None, count, note=note) for name, each in of_all),
    ]


# --- sustained writing and tail reads ---------------------------------------------------------


def take_sustained(path: Path, most: int, seconds: float) -> list[Figure]:
    """Durable sequential writing into ``path``, which is kept, and what limits it.

    Copying into the page cache takes most of the time where memory is slow, for example where a
    hypervisor provides each page at its first use. Syncs are then slow, too, as long as the writer
    runs, so the disk is measured without it: write, stop the clock, sync.
    """
    note = _medium(path.parent)
    with durable_stream(path, _room(path.parent, most)) as stream:
        _sync_for(stream, 0.85 * seconds)
        busy = share_of_later_half(stream.points, stream.write_calls)
    written = sustained_figure(names.SUSTAINED_WRITE, stream.points, note)
    disk = Figure(names.DISK_WRITE, None, note="the disk limits sequential writing")
    if busy > WRITER_BUSY and not note:
        alone = rounds_within(0.15 * seconds, partial(rate_of_sync, path.with_name("synced")))
        if alone and np.median(alone) > FASTER_ALONE * (written.value or 0.0):
            reason = f"the writer's calls took {busy:.0%} of the time of sequential writing"
            disk = figure_of(names.DISK_WRITE, alone, reason)
    return [written, disk]


def rate_of_sync(path: Path) -> float:
    """Bytes a second of one ``fdatasync`` of a new file, which is deleted; its writes take no time
    of it."""
    size = _room(path.parent, SYNCED) // BLOCK * BLOCK or BLOCK
    with fresh(path) as fd:
        disk_loops.write_at(fd, block_of(BLOCK), sequential(size // BLOCK, BLOCK))
        started = perf_counter()
        os.fdatasync(fd)
        seconds = perf_counter() - started
    return size / max(seconds, 1e-9)


def sustained_figure(name: str, points: Sequence[Point], note: str) -> Figure:
    """The rate of the later half of a run, stalls included, and whether the rate was steady."""
    found = rates(points)
    counted = without_warm_up(found)
    later = counted[len(counted) // 2 :]
    seconds, size = points[-1]
    extent = f"{size / 1e9:.3g} GB in {seconds:.3g} s"
    steady = is_steady(found)
    if steady:
        text = f"held over {extent}; a larger device cache or burst allowance does not show"
    elif len(counted) < 6:
        text = f"not yet sustained: too few syncs to say, {extent}"
    else:
        text = f"not yet sustained: the rate was still falling after {extent}"
    text = "; ".join(each for each in (note, text) if each)
    made = figure_of(name, later, text, of=estimate_mean)
    return Figure(made.name, made.value, made.interval, made.rounds, steady, made.note)


def take_tail(path: Path, most: int, seconds: float) -> list[Figure]:
    """One reader of the last 16 MiB of a file, as fast as it can, beside durable writing."""
    note = _medium(path.parent)
    with durable_stream(path, _room(path.parent, most)) as stream:
        reader = TailReader(stream)
        reader.start()
        try:
            _sync_for(stream, seconds)
        finally:
            reader.stop()
        read = without_warm_up(rates(reader.points))
        written = sustained_figure(names.TAIL_WRITE, stream.points, note)
    os.remove(path)
    return [figure_of(names.TAIL_READ, read, note), written]


class TailReader:
    """A thread that reads the last bytes that a stream wrote, again and again."""

    def __init__(self, stream: DurableStream) -> None:
        self.points: list[Point] = [(0.0, 0)]
        self._stream, self._stopped = stream, Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the error with which it failed, if it did."""
        self._stopped.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with opened(self._stream.path, os.O_RDONLY) as fd:
                self._read(fd)
        except Exception as error:  # raised by stop
            self._error = error

    def _read(self, fd: int) -> None:
        buffer, began, size = block_of(TAIL_BLOCK), perf_counter(), 0
        while not self._stopped.is_set():
            end = self._stream.written
            first = max(end - TAIL, 0)
            positions = sequential((end - first) // TAIL_BLOCK, TAIL_BLOCK) + first
            if not len(positions):
                self._stopped.wait(0.001)
                continue
            disk_loops.read_at(fd, buffer, positions)
            size += len(positions) * TAIL_BLOCK
            self.points.append((perf_counter() - began, size))


def _sync_for(stream: DurableStream, seconds: float) -> None:
    began = perf_counter()
    while perf_counter() - began < seconds and stream.sync():
        pass


# --- reads and sends --------------------------------------------------------------------------


def take_catch_up(path: Path, seconds: float) -> list[Figure]:
    """Sequential reads of a file that is not in page cache, each round of other bytes."""
    if kind := in_memory(path.parent):
        return [Figure(names.CATCH_UP_READ, None, note=f"{kind} has its files in memory")]
    blocks = _size(path) // BLOCK
    with opened(path, os.O_RDONLY) as fd:
        if reason := kept_pages(fd, blocks * BLOCK):
            return [Figure(names.CATCH_UP_READ, None, note=f"no cold reads: {reason}")]
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        buffer, at, step = block_of(BLOCK), 0, min(16, max(blocks // (ROUNDS + 1), 1))

        def take() -> float:
            nonlocal at, step
            count = max(min(step, blocks - at), 1)
            positions = (sequential(count, BLOCK) + at * BLOCK) % (blocks * BLOCK)
            started = perf_counter()
            disk_loops.read_at(fd, buffer, positions)
            speed = count / (perf_counter() - started)
            at += count
            if at == count:  # the warm-up: the others share what is left of the file and the time
                step = max(min((blocks - at) // ROUNDS, int(speed * seconds / (ROUNDS + 2))), 1)
            return speed * BLOCK

        most = min(ROUNDS, blocks - step)
        read = rounds_within(seconds, take, most)
    return [figure_of(names.CATCH_UP_READ, read)]


def take_cached(path: Path, seconds: float) -> list[Figure]:
    """Reads of a file in page cache by one thread, in blocks of 64 KiB."""
    wanted, note = cached_size(_size(path), last_level_cache(), available_memory())
    with opened(path, os.O_RDONLY) as fd:
        positions, buffer = sequential(wanted // TAIL_BLOCK, TAIL_BLOCK), block_of(TAIL_BLOCK)
        disk_loops.read_at(fd, buffer, positions)  # into the cache
        slices = cycle(each for each in np.array_split(positions, ROUNDS) if len(each))

        def take() -> float:
            """Read the next slice: each is read again only after all of the others."""
            given = next(slices)
            started = perf_counter()
            disk_loops.read_at(fd, buffer, given)
            return len(given) * TAIL_BLOCK / (perf_counter() - started)

        return [figure_of(names.CACHED_READ, rounds_within(seconds, take), note)]


def cached_size(size: int, cache: int, memory: int) -> tuple[int, str]:
    """How many bytes of a file to read from page cache, and that as text, with what caches do.

    ``cache`` and ``memory`` are the bytes of the last-level cache and of the available memory, 0
    if unknown.
    """
    wanted = BESIDE_CACHE * cache or 1024 * MIB
    given = min(size, wanted, memory // 4 or wanted)
    given = max(given // TAIL_BLOCK, 1) * TAIL_BLOCK
    held = "; the processor's caches may hold them" if given < wanted else ""
    return given, f"{given / 1e6:.0f} MB{held}"


def take_network(setting: Setting, seconds: float) -> list[Figure]:
    """sendfile of a cached file to a loopback socket whose receiver copies."""
    given = Setting(setting.directory, min(setting.size, setting.pick(64, 256, 256) * MIB))
    with closing(Sending(given, MIB)) as work:
        send = work.methods()["sendfile"]

        def take() -> float:
            return work.chunk / work.sent("sendfile", send, drop=False).seconds

        note = f"loopback, {work.control}: both ends share this machine, and no network card"
        return [figure_of(names.NETWORK_SEND, rounds_within(seconds, take), note)]


def _size(path: Path) -> int:
    """Bytes of a file of blocks; the file is written if the measurement before it failed."""
    if not path.exists() or path.stat().st_size < BLOCK:
        prewrite(path, 64 * MIB, zeros=False)
    return path.stat().st_size


def _medium(directory: Path) -> str:
    kind = in_memory(directory)
    return f"files in memory ({kind}), no disk" if kind else ""


def _room(directory: Path, most: int) -> int:
    """Bytes that may be written: half of the free space, of memory a quarter."""
    room = shutil.disk_usage(directory).free // 2
    if in_memory(directory):
        room = min(room, available_memory() // 4)
    return max(min(most, room), PAGE)


def measurements(setting: Setting) -> Iterator[Measurement]:
    """All of them, the disk first."""
    directory, written = setting.directory, setting.directory / "log"
    yield Measurement("commits", COMMIT_FIGURES, partial(take_commits, directory), 0.15)
    yield Measurement(
        "sustained writing",
        (names.SUSTAINED_WRITE, names.DISK_WRITE),
        partial(take_sustained, written, setting.size),
        0.45,
    )
    yield Measurement(
        "tail reads beside writing",
        (names.TAIL_READ, names.TAIL_WRITE),
        partial(take_tail, directory / "tail", setting.size // 2),
        0.15,
    )
    yield Measurement(
        "catch-up reads", (names.CATCH_UP_READ,), partial(take_catch_up, written), 0.1
    )
    yield Measurement("cached reads", (names.CACHED_READ,), partial(take_cached, written), 0.05)
    yield Measurement("sends", (names.NETWORK_SEND,), partial(take_network, setting), 0.1)


WORKLOADS = (
    Workload(
        group="verdict",
        name="log",
        about="commits, sustained writing, tail reads beside it, catch-up reads, cached reads, "
        "sends: the figures of the verdict",
        ceiling="none",
        shows="; ".join(names.UNITS),
        sizes=(4096 * MIB, 16384 * MIB, 65536 * MIB),
        measurements=measurements,
        count=(6, 6, 6),
        copies=0,
        weight=6,
    ),
)
