"""Appending, committing and reading by the size of records and segments, by partitions and threads,
beside the bare system calls on as many files of the same bytes."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter

import kstore
from kstore.bench.contest import Calls, Contest, Timed, scaled
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
    errors: list[Exception] = []

    def careful(number: int) -> None:
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    several = [Thread(target=careful, args=(number,), daemon=True) for number in range(count)]
    started = perf_counter()
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    seconds = perf_counter() - started
    if errors:
        raise errors[0]
    return seconds


def contest(name: str, size: int, axis: str, calls: Calls, ceiling: str, expected: int) -> Contest:
    return Contest(
        name=name,
        calls=calls,
        amount=1,
        size=size,
        axis=axis,
        ceiling=ceiling,
        expected=expected,
        bars=tuple((ours, ceiling, None) for ours in calls if ours != ceiling),
        rounds=5,
    )


def by_record_size(directory: Path) -> Iterator[Contest]:
    total = scaled(ROUND, MIB)
    for size in RECORD_SIZES:
        values = [b"x" * size] * max(1, min(1000, 1_000_000 // size))
        together = size * len(values)
        times = max(2, min(total, 100_000 * size) // together)
        calls: Calls = {
            "kstore, extend": partial(appended, directory, values, times),
            "write of the values": partial(written, directory, together, times),
        }
        name = f"extend, records of {size} B"
        yield contest(
            name, size, "bytes of a record", calls, "write of the values", times * together
        )


def by_segment_size(directory: Path) -> Iterator[Contest]:
    values = thousand_values()
    together = sum(map(len, values))
    times = max(20, scaled(ROUND) // together)
    for size in SEGMENT_SIZES:
        config = LogConfig(segment_bytes=size)
        calls: Calls = {
            "kstore, extend": partial(appended, directory, values, times, config=config),
            "write of the values": partial(written, directory, together, times),
        }
        name = f"extend, segments of {size >> 20} MiB"
        yield contest(
            name, size, "bytes of a segment", calls, "write of the values", times * together
        )


def by_partitions(directory: Path) -> Iterator[Contest]:
    values = thousand_values()
    together = sum(map(len, values))
    for count in PARTITIONS:
        if count > 10 and count * together > scaled(ROUND):
            missing[f"extend in turn, {count} partitions"] = (
                f"{scaled(ROUND) >> 20} MiB a round are not one extend for each: --full writes more"
            )
            continue
        times = max(20, scaled(ROUND) // together)
        calls: Calls = {
            "kstore, extend": partial(appended, directory, values, times, partitions=count),
            "write of the values": partial(written, directory, together, times, files=count),
        }
        name = f"extend in turn, {count} partitions"
        yield contest(name, count, "partitions", calls, "write of the values", times * together)


def by_threads(directory: Path) -> Iterator[Contest]:
    values = thousand_values()
    together = sum(map(len, values))
    most = max(THREADS)
    for commit in (False, True):
        times = scaled(400 if commit else ROUND // together, 20) // most * most
        what = "extend and flush" if commit else "extend"
        floor = f"write{' and fdatasync' if commit else ''} of the values"
        for threads in THREADS:
            ours = partial(appended, partitions=most, threads=threads, commit=commit)
            bare = partial(written, files=most, threads=threads, commit=commit)
            calls: Calls = {
                f"kstore, {what}": partial(ours, directory, values, times),
                floor: partial(bare, directory, together, times),
            }
            name = f"{what}, {threads} threads, {most} partitions"
            yield contest(name, threads, "threads", calls, floor, times * together)


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        for several in (by_record_size, by_segment_size, by_partitions, by_threads):
            yield from several(Path(path))
