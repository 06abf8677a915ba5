"""Appending, committing and reading by the size of records and segments, by partitions and threads,
beside the bare system calls on as many files of the same bytes."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import kstore
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.data.batches import VALUE_SIZE
from kstore.bench.data.logs import fresh_logs, thousand_values
from kstore.bench.data.raw_files import fresh
from kstore.bench.peers.availability import missing
from kstore.config import LogConfig

ROUND = 200 << 20  # bytes
MIB = 1 << 20
RECORD_SIZES = (10, 100, 1000, 10_000, 100_000)
SEGMENT_SIZES = (MIB, 16 * MIB, 256 * MIB)
PARTITIONS = (1, 10, 100, 1000)
THREADS = (1, 2, 4)
THOUSAND = 1000 * VALUE_SIZE  # bytes of an extend


def read_back(log: kstore.Log) -> int:
    """Bytes of all values, every checksum checked."""
    return sum(int(columns.values.lengths.sum()) for columns in log.view().scan())


def appended(
    directory: Path,
    values: list[bytes],
    times: int,
    *,
    partitions: int = 1,
    threads: int = 1,
    config: LogConfig | None = None,
    commit: bool = False,
) -> Timed:
    """Append the values ``times`` times, round-robin over the partitions of each thread.

    The figure is seconds per byte of values; ``read`` is a scan of everything by as many threads.
    ``commit``: each extend is flushed.
    """
    size = sum(map(len, values))
    with fresh_logs(directory, partitions, config) as all_logs:
        for log in all_logs:
            log.extend(values[:1])  # opens its files
        began = sum(read_back(log) for log in all_logs)

        def work(number: int) -> None:
            own = all_logs[number::threads]
            for turn in range(times // threads):
                log = own[turn % len(own)]
                log.extend(values)
                if commit:
                    log.flush()

        seconds = run_in_threads(work, threads)
        seen = [0] * threads

        def read(number: int) -> None:
            seen[number] = sum(map(read_back, all_logs[number::threads]))

        reading = run_in_threads(read, threads)
        done = times // threads * threads * size
        if sum(seen) != done + began:
            raise AssertionError(f"{sum(seen)} bytes were read, {done + began} were appended")
    return Timed(seconds / done, result=done, also={"read": reading / done})


def written(
    directory: Path,
    size: int,
    times: int,
    *,
    files: int = 1,
    threads: int = 1,
    commit: bool = False,
) -> Timed:
    """write(2) of as many bytes to as many files; ``commit``: each with an fdatasync."""
    block = b"x" * size
    with ExitStack() as held:
        path = Path(held.enter_context(TemporaryDirectory(dir=directory)))
        fds = [
            held.enter_context(fresh(path / str(number), os.O_APPEND)) for number in range(files)
        ]

        def work(number: int) -> None:
            own = fds[number::threads]
            for turn in range(times // threads):
                fd = own[turn % len(own)]
                os.write(fd, block)
                if commit:
                    os.fdatasync(fd)

        seconds = run_in_threads(work, threads)
        done = times // threads * threads * size
        if sum(os.fstat(fd).st_size for fd in fds) != done:
            raise AssertionError("not everything was written")
    return Timed(seconds / done, result=done)


def run_in_threads(work: Callable[[int], None], count: int) -> float:
    """Seconds until all threads are done; raises the first error of any of them."""
    with ThreadPoolExecutor(count) as pool:
        started = perf_counter()
        list(pool.map(work, range(count)))
        return perf_counter() - started


def contest(
    name: str,
    size: int,
    axis: str,
    directory: Path,
    values: list[bytes],
    times: int,
    *,
    partitions: int = 1,
    threads: int = 1,
    config: LogConfig | None = None,
    commit: bool = False,
) -> Contest:
    """The values appended ``times`` times, beside writes of as many bytes to as many files."""
    together = sum(map(len, values))
    ours = f"kstore, extend{' and flush' if commit else ''}"
    floor = f"write{' and fdatasync' if commit else ''} of the values"
    shape = {"threads": threads, "commit": commit}
    extend = partial(appended, directory, values, times, partitions=partitions, config=config)
    write = partial(written, directory, together, times, files=partitions)
    return Contest(
        name=name,
        calls={ours: partial(extend, **shape), floor: partial(write, **shape)},
        amount=1,
        size=size,
        axis=axis,
        ceiling=floor,
        expected=times * together,
        bars=((ours, floor, None),),
        rounds=5,
    )


def by_record_size(directory: Path) -> Iterator[Contest]:
    total = scaled(ROUND, MIB)
    for size in RECORD_SIZES:
        values = [b"x" * size] * max(1, min(1000, 1_000_000 // size))
        times = max(2, min(total, 100_000 * size) // (size * len(values)))
        name = f"extend, records of {size} B"
        yield contest(name, size, "bytes of a record", directory, values, times)


def by_segment_size(directory: Path) -> Iterator[Contest]:
    times = max(20, scaled(ROUND) // THOUSAND)
    for size in SEGMENT_SIZES:
        name = f"extend, segments of {size >> 20} MiB"
        config = LogConfig(segment_bytes=size)
        values = thousand_values()
        yield contest(name, size, "bytes of a segment", directory, values, times, config=config)


def by_partitions(directory: Path) -> Iterator[Contest]:
    times = max(20, scaled(ROUND) // THOUSAND)
    for count in PARTITIONS:
        name = f"extend in turn, {count} partitions"
        if count > 10 and count * THOUSAND > scaled(ROUND):
            missing[name] = (
                f"{scaled(ROUND) >> 20} MiB a round are not one extend for each: --full writes more"
            )
            continue
        values = thousand_values()
        yield contest(name, count, "partitions", directory, values, times, partitions=count)


def by_threads(directory: Path) -> Iterator[Contest]:
    most = max(THREADS)
    for commit in (False, True):
        times = scaled(400 if commit else ROUND // THOUSAND, 20) // most * most
        for threads in THREADS:
            yield contest(
                f"extend{' and flush' if commit else ''}, {threads} threads, {most} partitions",
                threads,
                "threads",
                directory,
                thousand_values(),
                times,
                partitions=most,
                threads=threads,
                commit=commit,
            )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        for several in (by_record_size, by_segment_size, by_partitions, by_threads):
            yield from several(Path(path))
