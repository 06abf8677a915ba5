"""Appends to a log in page cache: prepared batches, values, single records, and raw writes.

Every function makes a log (or a file) of its own below a directory, does the work under a clock
of its own, checks what came of it, and removes it: dirty pages of one contestant must not be
written back during the next. Data are 100-byte values without keys.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter, perf_counter_ns, time_ns

import numpy as np

import kstore
from kstore._native.encode import BatchBuffer
from kstore.bench.contest import Timed

VALUE_SIZE = 100
# records in a batch: about 110 KB, 16.5 KB, 1.15 KB and 170 bytes
SHAPES = {"110 KB": 1000, "16.5 KB": 150, "1.15 KB": 10, "one record": 1}
FOLLOWED = 64 << 20  # bytes of ready batches that a follower appends, each at its own offset


def prepared(records: int, base_offset: int = 0) -> bytes:
    """One batch of values as a client sends it."""
    buffer = BatchBuffer()
    now = time_ns() // 1_000_000
    for n in range(records):
        buffer.put(bytes([97 + n % 26]) * VALUE_SIZE, None, None, now)
    return buffer.to_bytes(base_offset)


def consecutive(records: int, count: int) -> list[bytes]:
    """Batches as a leader hands them on: the same bytes at growing offsets."""
    one = prepared(records)[8:]
    return [(n * records).to_bytes(8, "big") + one for n in range(count)]


@contextmanager
def fresh_log(directory: Path) -> Iterator[kstore.Log]:
    """A log of its own, gone afterwards."""
    path = mkdtemp(dir=directory)
    try:
        with kstore.open(path) as store:
            yield store.create_topic("bench")[0]
    finally:
        shutil.rmtree(path)


def check(log: kstore.Log, records: int, size: int | None = None) -> None:
    """Every record is there, contiguous and whole (CRC), and nothing else is in the files."""
    found = sum(len(columns) for columns in log.view().scan())
    if (found, log.start_offset, log.end_offset) != (records, 0, records):
        raise AssertionError(f"{found} of {records} records, offsets to {log.end_offset}")
    if size is not None and log.size != size:
        raise AssertionError(f"{log.size} bytes in the log, not {size}")


def latencies(call: Callable[[bytes], object], value: bytes, count: int) -> Timed:
    """Time every single call; seconds is the median."""
    took: list[int] = []
    note, clock = took.append, perf_counter_ns
    before = clock()
    for _ in range(count):
        call(value)
        now = clock()
        note(now - before)
        before = now
    return sampled(took)


def sampled(took: list[int]) -> Timed:
    """The median of nanoseconds of single calls, and all of them for the percentiles."""
    samples = np.asarray(took, np.int64)
    return Timed(float(np.median(samples)) / 1e9, result=len(took), samples=samples)


# --- prepared batches ---------------------------------------------------------------------


def appended(directory: Path, batches: Sequence[bytes], records: int, role: str) -> Timed:
    """Append batches of so many records each, as "leader" (with every check that Kafka's makes)
    or as "follower" (each at its own offset); per batch but the first, which opens the files."""
    with fresh_log(directory) as log:
        append = log.append_as_leader if role == "leader" else log.append_as_follower
        first, *rest = batches
        append(first)
        started = perf_counter()
        for batch in rest:
            append(batch)
        seconds = perf_counter() - started
        check(log, len(batches) * records, sum(map(len, batches)))
    return Timed(seconds / len(rest), result=len(batches))


@contextmanager
def raw_file(directory: Path, size: int, flags: int = os.O_APPEND) -> Iterator[int]:
    """A file's descriptor; it must have so many bytes in the end, and is gone afterwards."""
    path = directory / "raw"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags)
    try:
        yield fd
        if os.fstat(fd).st_size != size:
            raise AssertionError("not everything was written")
    finally:
        os.close(fd)
        os.remove(path)


def raw_writes(directory: Path, batches: Sequence[bytes]) -> Timed:
    """write(2) of the same bytes, nothing else."""
    with raw_file(directory, sum(map(len, batches))) as fd:
        write = os.write
        started = perf_counter()
        for batch in batches:
            write(fd, batch)
        seconds = perf_counter() - started
    return Timed(seconds / len(batches), result=len(batches))


# --- values ---------------------------------------------------------------------------------


def thousand_values() -> list[bytes]:
    return [bytes([97 + n % 26]) * VALUE_SIZE for n in range(1000)]


def extends(directory: Path, count: int) -> Timed:
    """extend() with 1000 values: encode, checksum, write, index."""
    values = thousand_values()
    with fresh_log(directory) as log:
        log.extend(values)
        extend = log.extend
        started = perf_counter()
        for _ in range(count):
            extend(values)
        seconds = perf_counter() - started
        check(log, (count + 1) * 1000)
        if log[999].value != values[999]:
            raise AssertionError("another value came back")
    return Timed(seconds / count, result=count)


def raw_pwrites(directory: Path, count: int) -> Timed:
    """pwrite(2) of the batch that 1000 values make."""
    batch = prepared(1000)
    size = len(batch)
    with raw_file(directory, count * size, flags=0) as fd:
        pwrite = os.pwrite
        started = perf_counter()
        for position in range(0, count * size, size):
            pwrite(fd, batch, position)
        seconds = perf_counter() - started
    return Timed(seconds / count, result=count)


# --- one record -------------------------------------------------------------------------------


def single_appends(directory: Path, count: int) -> Timed:
    """append() of one 100-byte value, each call timed."""
    value = b"x" * VALUE_SIZE
    with fresh_log(directory) as log:
        log.append(value)
        timed = latencies(log.append, value, count)
        check(log, count + 1)
    return timed


def single_writes(directory: Path, count: int) -> Timed:
    """os.write of a ready one-record batch, each call timed."""
    batch = prepared(1)
    with raw_file(directory, count * len(batch)) as fd:
        return latencies(partial(os.write, fd), batch, count)
