"""Logs that contests append to and read from, filled through the public API."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter_ns

import numpy as np

import kstore
from engine.data.batches import TIME, VALUE_SIZE, client_batch
from kstore.bench.contest import Timed
from kstore.files.files import Files

TOPIC = "bench"
# name: records in a batch; about 110 KB, 16.5 KB, 1.15 KB and 170 bytes
SHAPES = {"110 KB": 1000, "16.5 KB": 150, "1.15 KB": 10, "one record": 1}


@contextmanager
def fresh_log(directory: Path) -> Iterator[kstore.Log]:
    """The log of a new topic with one partition, deleted before anything is written back."""
    path = mkdtemp(dir=directory)
    try:
        with kstore.open(path) as store:
            yield store.create_topic(TOPIC)[0]
    finally:
        shutil.rmtree(path)


def check_log(log: kstore.Log, records: int, size: int | None = None) -> None:
    """Raise AssertionError unless the log has exactly these records, all of them valid."""
    found = sum(len(columns) for columns in log.view().scan())
    if (found, log.start_offset, log.end_offset) != (records, 0, records):
        raise AssertionError(f"{found} of {records} records, offsets to {log.end_offset}")
    if size is not None and log.size != size:
        raise AssertionError(f"{log.size} bytes in the log, not {size}")


def fill(directory: Path, records: int, size: int) -> Path:
    """Make a store with a closed log of about ``size`` bytes in batches of so many records."""
    path = Path(mkdtemp(dir=directory))
    batch = client_batch(records)
    with kstore.open(path) as store:
        log = store.create_topic(TOPIC)[0]
        for _ in range(max(2, size // len(batch))):
            log.append_as_leader(batch)
    return path


def fill_by_time(directory: Path, records: int, size: int) -> Path:
    """As :func:`fill`, with each batch a millisecond later than the one before, from ``TIME``."""
    path = Path(mkdtemp(dir=directory))
    values = [bytes(VALUE_SIZE)] * records
    with kstore.open(path) as store:
        log = store.create_topic(TOPIC)[0]
        number = 0
        while log.size < size or number < 2:
            log.extend(values, timestamp=TIME + number)
            number += 1
    return path


def time_each(call: Callable[[bytes], object], values: Iterable[bytes]) -> Timed:
    """Time the call of each value; the figure is the median."""
    took: list[int] = []
    note, clock = took.append, perf_counter_ns
    before = clock()
    for value in values:
        call(value)
        now = clock()
        note(now - before)
        before = now
    return median_of(took)


def median_of(took: list[int]) -> Timed:
    """A figure from nanoseconds of single calls, which are kept for the percentiles."""
    samples = np.asarray(took, np.int64)
    return Timed(float(np.median(samples)) / 1e9, result=len(took), samples=samples)


class UnsyncedFiles(Files):
    """The disk without syncs, for comparison with a program that does not sync."""

    def fsync(self, fd: int) -> None:
        """Do nothing."""

    def fdatasync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Do nothing."""
