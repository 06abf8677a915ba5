"""Reads of a log in page cache: slices at random offsets, whole scans as columns, recovery.

Logs are filled once (by kstore here, or by a peer whose files are copied), read many times.
"""

import os
import random
import shutil
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter, perf_counter_ns

import kstore
from kstore._native import limits
from kstore.bench.contest import Timed
from kstore.bench.log_append import VALUE_SIZE, prepared, sampled
from kstore.bench.raw_files import sync_below
from kstore.config import LogConfig
from kstore.log.files import DISK, Files
from kstore.log.loader import load

INDEX_NAMES = ("*.index", "*.timeindex")


def fill(directory: Path, records: int, size: int) -> Path:
    """A store with one closed log of about size bytes in batches of so many records."""
    path = Path(mkdtemp(dir=directory))
    batch = prepared(records)
    with kstore.open(path) as store:
        log = store.create_topic("bench")[0]
        for _ in range(max(2, size // len(batch))):
            log.append_as_leader(batch)
    return path


FIRST_TIME = 1_700_000_000_000  # of a log whose batches are a millisecond apart


def fill_by_time(directory: Path, records: int, size: int) -> Path:
    """As fill, each batch a millisecond later than the one before."""
    path = Path(mkdtemp(dir=directory))
    value = bytes(VALUE_SIZE)
    with kstore.open(path) as store:
        log = store.create_topic("bench")[0]
        number = 0
        while log.size < size or number < 2:
            log.extend([value] * records, timestamp=FIRST_TIME + number)
            number += 1
    return path


def at_times(log: kstore.Log, records: int, count: int, seed: int) -> Timed:
    """offset_at() of the times of random batches of such a log, each call timed."""
    draw = random.Random(seed)
    batches = [draw.randrange(log.end_offset // records) for _ in range(count)]
    took: list[int] = []
    note, clock, look = took.append, perf_counter_ns, log.offset_at
    found = []
    before = clock()
    for number in batches:
        found.append(look(FIRST_TIME + number))
        now = clock()
        note(now - before)
        before = now
    if found != [number * records for number in batches]:
        raise AssertionError("a time led to another batch")
    return sampled(took)


def adopt(directory: Path, partition: str) -> Path:
    """A store around a copy of a partition directory that another program wrote and holds open."""
    path = Path(mkdtemp(dir=directory))
    shutil.copytree(partition, path / "bench-0")
    sync_below(path)
    return path


def at_random(log: kstore.Log, count: int, seed: int) -> Timed:
    """read(offset) at random offsets, each call timed; the first byte of a batch is enough."""
    draw = random.Random(seed)
    end = log.end_offset
    offsets = [draw.randrange(end) for _ in range(count)]
    took: list[int] = []
    note, clock, read = took.append, perf_counter_ns, log.read
    before = clock()
    for offset in offsets:
        read(offset, 1)
        now = clock()
        note(now - before)
        before = now
    for offset in offsets[:1000]:
        found = log.read(offset, 1)
        if found is None:
            raise AssertionError(f"offset {offset} was not found")
        base = int.from_bytes(found.memory()[:8], "big")
        last = base + int.from_bytes(found.memory()[23:27], "big")
        if not base <= offset <= last:
            raise AssertionError(f"offset {offset} is not within {base} to {last}")
    return sampled(took)


HEADER = 61  # bytes of a batch's


def mapped_at_random(log: kstore.Log, count: int, seed: int) -> Timed:
    """A batch's header read in C out of a mapping, at random batches whose places are known, each
    call timed: what is left of a lookup in mapped files when nothing is looked up."""
    view = log.segments.views[0]
    with view.whole().memory() as memory:
        size = int.from_bytes(memory[8:12], "big") + 12
        draw = random.Random(seed)
        positions = [draw.randrange(view.size // size) * size for _ in range(count)]
        took: list[int] = []
        note, clock, load = took.append, perf_counter_ns, limits.load
        before = clock()
        for position in positions:
            load(memory, position, HEADER)
            now = clock()
            note(now - before)
            before = now
        for position in positions[:1000]:
            if load(memory, position, HEADER) != limits.read_all(memory[position:][:HEADER]):
                raise AssertionError("other bytes than a header's were read")
    return sampled(took)


def raw_at_random(log: kstore.Log, count: int, seed: int) -> Timed:
    """pread(2) of a batch's header at random batches, each call timed."""
    view = log.segments.views[0]
    size = int.from_bytes(view.whole().memory()[8:12], "big") + 12
    draw = random.Random(seed)
    positions = [draw.randrange(view.size // size) * size for _ in range(count)]
    took: list[int] = []
    note, clock, pread = took.append, perf_counter_ns, os.pread
    fd = DISK.open(view.path)
    try:
        before = clock()
        for position in positions:
            pread(fd, HEADER, position)
            now = clock()
            note(now - before)
            before = now
        wrong = any(len(pread(fd, HEADER, position)) < HEADER for position in positions[:1000])
    finally:
        DISK.close(fd)
    if wrong:
        raise AssertionError("a header was not read whole")
    return sampled(took)


ABORTED = 10  # one transaction in so many


def in_a_transaction(records: int, size: int) -> int:
    """Records of each transaction of :func:`fill_transactions`: about a mebibyte of values, less
    where a log of this size would not have ten of them."""
    return max(1, min(1 << 20, size // ABORTED) // (records * VALUE_SIZE)) * records


def fill_transactions(directory: Path, records: int, size: int) -> Path:
    """As fill, every record in a transaction (:func:`in_a_transaction`), every tenth one aborted;
    ten of them at least."""
    path = Path(mkdtemp(dir=directory))
    value = bytes(VALUE_SIZE)
    batches = in_a_transaction(records, size) // records
    with kstore.open(path) as store:
        log = store.create_topic("bench", config=LogConfig(batch_size=1 << 20))[0]
        producer = store.transactional_producer("bench", acks=1)
        number = 0
        while log.size < size or number < ABORTED:
            producer.begin_transaction()
            for _ in range(batches):
                for _ in range(records):
                    producer.send("bench", value)
                producer.flush()
            number += 1
            if number % ABORTED:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    return path


def scan(
    log: kstore.Log, threads: int, isolation: str = "read_uncommitted", count: int | None = None
) -> Timed:
    """Every record as columns, every checksum checked; the columns are counted and summed.

    ``count`` is how many there are, where it is not as many as offsets.
    """
    end = log.end_offset if count is None else count
    found = offsets = sizes = 0
    started = perf_counter()
    for columns in log.view(isolation=isolation).scan(threads=threads):
        found += len(columns)
        offsets += int(columns.offsets[0]) + int(columns.offsets[-1])
        sizes += int(columns.values.lengths[-1])
    seconds = perf_counter() - started
    if found != end or not offsets or sizes % VALUE_SIZE:
        raise AssertionError(f"{found} records of {end}")
    return Timed(seconds, result=found)


class Unsynced(Files):
    """The disk, but nothing waits for it: as a loader that does not sync what it makes anew."""

    def fsync(self, fd: int) -> None:
        """Nothing."""

    def fdatasync(self, fd: int) -> None:
        """Nothing."""

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Nothing."""


def recover(store: Path, expected_end: int, files: Files = DISK) -> Timed:
    """Load a log as after a kill: every checksum, both indexes made anew."""
    directory = store / "bench-0"
    for pattern in INDEX_NAMES:
        for path in directory.glob(pattern):
            path.write_bytes(bytes(os.stat(path).st_size))  # as large as after a kill, all zero
    started = perf_counter()
    loaded = load(files, str(directory), LogConfig(), clean=False)
    seconds = perf_counter() - started
    if loaded.segments.end_offset != expected_end or loaded.recovery.indexes_rebuilt < 2:
        raise AssertionError(f"end offset {loaded.segments.end_offset}, not {expected_end}")
    return Timed(seconds, result=loaded.recovery.bytes_scanned)
