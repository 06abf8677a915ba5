"""Reads, scans and recovery in page cache against Kafka's log layer, on the same bytes."""

import itertools
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from time import perf_counter, perf_counter_ns

import kstore
from engine.data.batches import OVERHEAD, TIME, VALUE_SIZE
from engine.data.logs import SHAPES, TOPIC, UnsyncedFiles, fill, fill_by_time, median_of
from engine.data.partitions import read_file, zero_indexes
from engine.data.two_cores import READ_BY_TWO, read_by_two
from engine.peers.kafka import KafkaLog, Result, kafka_log, timed
from kstore._native.bench import memory_loops
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import sync_below
from kstore.bench.peers.availability import attempt
from kstore.config import LogConfig
from kstore.files.filenames import log_name
from kstore.files.files import DISK, Files
from kstore.recovery.loader import load

GIB = 1 << 30
# name: wanted of a scan on one core, on two, and of recovery
BARS: dict[str, tuple[float | None, float | None, float | None]] = {
    "110 KB": (2.0, 3.0, None),
    "16.5 KB": (2.0, 3.0, 1.5),
    "1.15 KB": (None, None, 4.0),
    "one record": (10.0, None, 10.0),
}
MAPPED = "a mapped header read in C, its position known"
READ = "read every byte"


# --- the work of each contestant --------------------------------------------------------------


def copy_partition(directory: Path, partition: str) -> Path:
    """A store around a copy of a partition directory that another program holds open."""
    path = Path(mkdtemp(dir=directory))
    shutil.copytree(partition, path / f"{TOPIC}-0")
    sync_below(path)
    return path


def read_at_random(log: kstore.Log, count: int, seed: int) -> Timed:
    """read(offset) of one byte at random offsets, each call timed."""
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
    return median_of(took)


def seek_at_random(log: kstore.Log, records: int, count: int, seed: int) -> Timed:
    """offset_at() of the times of random batches of ``fill_by_time``, each call timed."""
    draw = random.Random(seed)
    batches = [draw.randrange(log.end_offset // records) for _ in range(count)]
    took: list[int] = []
    note, clock, look = took.append, perf_counter_ns, log.offset_at
    found = []
    before = clock()
    for number in batches:
        found.append(look(TIME + number))
        now = clock()
        note(now - before)
        before = now
    if found != [number * records for number in batches]:
        raise AssertionError("a time led to another batch")
    return median_of(took)


def load_headers(log: kstore.Log, count: int, seed: int) -> Timed:
    """Batch headers read in C from a mapping at known positions, each call timed: what remains
    of a lookup in mapped files when nothing is looked up."""
    view = log.segments.views[0]
    draw = random.Random(seed)
    with view.all_published().memory() as memory:
        size = int.from_bytes(memory[8:12], "big") + 12  # of every batch
        positions = [draw.randrange(view.size // size) * size for _ in range(count)]
        took: list[int] = []
        note, clock, load_bytes = took.append, perf_counter_ns, memory_loops.load
        before = clock()
        for position in positions:
            load_bytes(memory, position, OVERHEAD)
            now = clock()
            note(now - before)
            before = now
        for position in positions[:1000]:
            header = memory[position:][:OVERHEAD]
            if load_bytes(memory, position, OVERHEAD) != memory_loops.read_all(header):
                raise AssertionError("other bytes than a header's were read")
    return median_of(took)


def scan(log: kstore.Log, threads: int) -> Timed:
    """Every record as columns with every checksum checked; the columns are counted and summed."""
    end = log.end_offset
    found = offsets = sizes = 0
    started = perf_counter()
    for columns in log.view().scan(threads=threads):
        found += len(columns)
        offsets += int(columns.offsets[0]) + int(columns.offsets[-1])
        sizes += int(columns.values.lengths[-1])
    seconds = perf_counter() - started
    if found != end or not offsets or sizes % VALUE_SIZE:
        raise AssertionError(f"{found} records of {end}")
    return Timed(seconds, result=found)


def recover(store: Path, expected_end: int, files: Files = DISK) -> Timed:
    """Load a log as after a kill: every checksum is checked and both indexes are rebuilt."""
    zero_indexes(store)
    started = perf_counter()
    loaded = load(files, str(store / f"{TOPIC}-0"), LogConfig(), clean=False)
    seconds = perf_counter() - started
    if loaded.segments.end_offset != expected_end or loaded.recovery.indexes_rebuilt < 2:
        raise AssertionError(f"end offset {loaded.segments.end_offset}, not {expected_end}")
    return Timed(seconds, result=loaded.recovery.bytes_scanned)


# --- the contests -----------------------------------------------------------------------------


def reading(name: str, log: kstore.Log, peer: KafkaLog | None) -> Contest:
    seeds = itertools.count(1)
    count = scaled(100_000, 1000)
    calls: Calls = {
        "kstore": lambda: read_at_random(log, count, next(seeds)),
        MAPPED: lambda: load_headers(log, count, next(seeds)),
    }
    bars: list[Bar] = [("kstore", MAPPED, None)]
    if peer is not None:
        calls["Kafka"] = lambda: timed(peer.read(log_of(name), count, next(seeds)), is_single=True)
        bars += [("kstore", "Kafka", 2.0), ("kstore p99", "Kafka p99", None)]
    return Contest(
        name=f"read(offset) at random offsets, batches of {name}",
        calls=calls,
        amount=1,
        unit="reads",
        bars=tuple(bars),
        ceiling=MAPPED,
        rounds=9,
    )


def scanning(name: str, log: kstore.Log, peer: KafkaLog | None) -> Contest:
    one, two, _ = BARS[name]
    segment = log.segments.views[0].all_published()
    calls: Calls = {
        "kstore, one core": partial(scan, log, 1),
        "kstore, two cores": partial(scan, log, 2),
        READ: lambda: memory_loops.read_all(segment) and None,
        READ_BY_TWO: lambda: read_by_two(memoryview(segment)),
    }
    bars: list[Bar] = []
    if peer is not None:
        fetches = "Kafka, fetches of 1 MiB"
        calls["Kafka"] = lambda: by_kafka(peer.iterate(log_of(name)))
        calls[fetches] = lambda: by_kafka(peer.fetch(log_of(name)))
        bars += [("kstore, one core", "Kafka", one), ("kstore, two cores", "Kafka", two)]
        bars.append(("kstore, one core", fetches, None))
    bars += [("kstore, two cores", "kstore, one core", None), ("kstore, one core", READ, None)]
    return Contest(
        name=f"scan every record with CRC as columns, {segment.size} bytes, batches of {name}",
        calls=calls,
        amount=log.end_offset,
        unit="records",
        bars=tuple(bars),
        expected=log.end_offset,
        unchecked=frozenset([READ, READ_BY_TWO]),
        ceiling=READ_BY_TWO,
        rounds=7,
    )


def by_kafka(result: Result, counted: str = "count") -> Timed:
    return Timed(float(result["seconds"]), result=int(result[counted]))


def recovering(name: str, store: Path, end: int, size: int, peer: KafkaLog | None) -> Contest:
    calls: Calls = {
        "kstore": partial(recover, store, end, UnsyncedFiles()),
        "kstore, all synced": partial(recover, store, end),
        "read": lambda: read_file(store / f"{TOPIC}-0" / log_name(0)),
    }
    bars: list[Bar] = [("kstore", "read", None)]
    if peer is not None:
        theirs = "Kafka, nothing synced"
        calls[theirs] = lambda: by_kafka(peer.recover(log_of(name)), "bytes")
        bars += [("kstore", theirs, BARS[name][2]), ("kstore, all synced", theirs, None)]
    return Contest(
        name=f"recover an unclean log, {size} bytes, batches of {name}",
        calls=calls,
        amount=size,
        bars=tuple(bars),
        expected=size,
        ceiling="read",
        rounds=7,
    )


def seeking(directory: Path) -> Iterator[Contest]:
    """Lookups by time beside lookups by offset."""
    records = SHAPES["16.5 KB"]
    store = fill_by_time(directory, records, scaled(GIB // 4, 1 << 20))
    seeds = itertools.count(1)
    count = scaled(50_000, 500)
    by_time, by_offset = "kstore, offset_at(time)", "kstore, read(offset)"
    with kstore.open(store) as opened_store:
        log = opened_store[TOPIC][0]
        yield Contest(
            name="seek to random times, batches of 16.5 KB",
            calls={
                by_time: lambda: seek_at_random(log, records, count, next(seeds)),
                by_offset: lambda: read_at_random(log, count, next(seeds)),
                MAPPED: lambda: load_headers(log, count, next(seeds)),
            },
            amount=1,
            unit="seeks",
            bars=((by_time, by_offset, None),),
            ceiling=MAPPED,
            rounds=9,
        )
    shutil.rmtree(store)


def log_of(shape: str) -> str:
    """The name of the log that Kafka fills with batches of a shape."""
    return shape.replace(" ", "-").replace(".", "")


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        for name, records in SHAPES.items():
            size = scaled(GIB, 1 << 20)
            filled = None
            if peer is not None:
                filled = attempt("Kafka", partial(peer.fill, log_of(name), records, size))
            if filled is None:
                peer = None
                store = fill(Path(path), records, size)
            else:
                store = copy_partition(Path(path), str(filled["directory"]))
            with kstore.open(store) as opened_store:
                log = opened_store[TOPIC][0]
                end, size = log.end_offset, log.size
                yield reading(name, log, peer)
                yield scanning(name, log, peer)
            yield recovering(name, store, end, size, peer)
            shutil.rmtree(store)
        yield from seeking(Path(path))
