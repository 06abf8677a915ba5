"""Appends in page cache against Kafka's own log layer, LMDB and the bare system call."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from time import perf_counter
from typing import Any

from kstore.bench import log_append as work
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import KafkaLog, kafka_log, optional, timed

MB = 1_000_000
# name: (bytes appended a round, wanted against Kafka, follower's part of a raw write)
BARS = {
    "110 KB": (200 * MB, 1.5, 0.7),
    "16.5 KB": (200 * MB, 1.5, 0.7),
    "1.15 KB": (100 * MB, 1.0, 0.7),
}

RATE = 15_000_000  # records a second, by the thousand


def prepared(name: str, directory: Path, peer: KafkaLog | None) -> Contest:
    size, against_kafka, against_write = BARS[name]
    records = work.SHAPES[name]
    batch = work.prepared(records)
    count = scaled(size // len(batch), 20)
    batches = work.consecutive(records, min(count, work.FOLLOWED // len(batch)))
    calls: dict[str, Callable[[], object]] = {
        "kstore, as leader": partial(work.appended, directory, [batch] * count, records, "leader"),
        "write": partial(work.raw_writes, directory, [batch] * count),
        "kstore, as follower": partial(work.appended, directory, batches, records, "follower"),
        "write of what follows": partial(work.raw_writes, directory, batches),
    }
    bars: list[tuple[str, str, float | None]] = [
        ("kstore, as follower", "write of what follows", against_write),
        ("kstore, as leader", "write", None),
    ]
    if peer is not None:
        calls["Kafka"] = lambda: timed(peer.append(records, count * len(batch)))
        bars.append(("kstore, as leader", "Kafka", against_kafka))
    return Contest(
        name=f"append a prepared batch of {name}, {records} records",
        calls=calls,
        amount=len(batch),
        bars=tuple(bars),
        unchecked=frozenset(["kstore, as follower", "write of what follows"]),
        ceiling="write",
        rounds=9,
    )


def by_lmdb(lmdb: Any, directory: Path, count: int) -> Timed:
    """putmulti with append, one transaction for 1000 values, no sync: as far as kstore goes."""
    values = work.thousand_values()
    rows = [
        [((n * 1000 + at).to_bytes(8, "big"), value) for at, value in enumerate(values)]
        for n in range(count)
    ]
    path = mkdtemp(dir=directory)
    try:
        with lmdb.open(path, map_size=4 << 30, sync=False, metasync=False) as environment:
            started = perf_counter()
            for some in rows:
                with environment.begin(write=True) as transaction:
                    transaction.cursor().putmulti(some, append=True)
            seconds = perf_counter() - started
            if environment.stat()["entries"] != count * 1000:
                raise AssertionError("not every value is there")
    finally:
        shutil.rmtree(path)
    return Timed(seconds / count, result=count)


def by_sqlite(directory: Path, count: int) -> Timed:
    """executemany into a table in WAL mode, one transaction for 1000 values, no sync."""
    values = work.thousand_values()
    rows = [[(n * 1000 + at, value) for at, value in enumerate(values)] for n in range(count)]
    path = mkdtemp(dir=directory)
    try:
        with closing(sqlite3.connect(f"{path}/log.sqlite", isolation_level=None)) as database:
            database.execute("pragma journal_mode=wal")
            database.execute("pragma synchronous=off")
            database.execute("create table log (offset integer primary key, value blob)")
            started = perf_counter()
            for some in rows:
                database.execute("begin")
                database.executemany("insert into log values (?, ?)", some)
                database.execute("commit")
            seconds = perf_counter() - started
            if database.execute("select count(*) from log").fetchone() != (count * 1000,):
                raise AssertionError("not every value is there")
    finally:
        shutil.rmtree(path)
    return Timed(seconds / count, result=count)


def by_rocksdb(rocksdict: Any, directory: Path, count: int) -> Timed:
    """A WriteBatch for 1000 values, keys ready-made, no sync."""
    values = work.thousand_values()
    rows = [
        [((n * 1000 + at).to_bytes(8, "big"), value) for at, value in enumerate(values)]
        for n in range(count)
    ]
    path = mkdtemp(dir=directory)
    try:
        database = rocksdict.Rdict(f"{path}/rocks", rocksdict.Options(raw_mode=True))
        started = perf_counter()
        for some in rows:
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, value in some:
                batch.put(key, value)
            database.write(batch)
        seconds = perf_counter() - started
        found = sum(1 for _ in database.keys())  # noqa: SIM118  (no mapping)
        database.close()
        if found != count * 1000:
            raise AssertionError("not every value is there")
    finally:
        shutil.rmtree(path)
    return Timed(seconds / count, result=count)


def values(directory: Path) -> Contest:
    count = scaled(1000, 20)
    rate = "15 M records/s"
    calls: dict[str, Callable[[], object]] = {
        "kstore, extend": partial(work.extends, directory, count),
        "pwrite of the batch": partial(work.raw_pwrites, directory, count),
        rate: lambda: Timed(1000 / RATE, result=count),
    }
    bars: list[tuple[str, str, float | None]] = [
        ("kstore, extend", "pwrite of the batch", 0.5),
        ("kstore, extend", rate, 1.0),
    ]
    if (lmdb := optional("lmdb", "lmdb")) is not None:
        calls["LMDB"] = partial(by_lmdb, lmdb, directory, count)
        bars.append(("kstore, extend", "LMDB", 5.0))
    calls["SQLite, WAL"] = partial(by_sqlite, directory, count)
    bars.append(("kstore, extend", "SQLite, WAL", None))
    if (rocksdict := optional("rocksdict", "rocksdict")) is not None:
        calls["RocksDB"] = partial(by_rocksdb, rocksdict, directory, count)
        bars.append(("kstore, extend", "RocksDB", None))
    return Contest(
        name="append 1000 values of 100 bytes",
        calls=calls,
        amount=1000,
        unit="records",
        ceiling="pwrite of the batch",
        targets=frozenset([rate]),
        bars=tuple(bars),
        rounds=9,
    )


def single(directory: Path, peer: KafkaLog | None) -> Contest:
    count = scaled(200_000, 1000)
    calls: dict[str, Callable[[], object]] = {
        "kstore": partial(work.single_appends, directory, count),
        "os.write": partial(work.single_writes, directory, count),
    }
    bars: list[tuple[str, str, float | None]] = [
        ("kstore", "os.write", None),
        ("kstore p99", "kstore", None),
    ]
    if peer is not None:
        size = len(work.prepared(1))
        calls["Kafka"] = lambda: timed(peer.append(1, count * size), single=True)
        bars += [("kstore", "Kafka", 1.0), ("kstore p99", "Kafka p99", 1.0)]
    return Contest(
        name="append one record of 100 bytes, each call timed",
        ceiling="os.write",
        calls=calls,
        amount=1,
        unit="records",
        bars=tuple(bars),
        rounds=9,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        directory = Path(path)
        for name in BARS:
            yield prepared(name, directory, peer)
        yield values(directory)
        yield single(directory, peer)
