"""Reading every record back and summing the sizes of the values: a log beside stores of keys and
tables, each filled once with the same records, in page cache and on disk."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kstore
from kstore._native import limits
from kstore.bench.contest import Contest, scaled
from kstore.bench.log_append import VALUE_SIZE, thousand_values
from kstore.bench.peers import optional, standing
from kstore.bench.raw_files import sync_below

RECORDS = 2_000_000
Reader = Callable[[], int]


def rows(count: int) -> Iterator[list[tuple[int, bytes]]]:
    """(offset, value), a thousand at a time."""
    values = thousand_values()
    for start in range(0, count, 1000):
        yield [(start + at, value) for at, value in enumerate(values)]


def keyed(count: int) -> Iterator[list[tuple[bytes, bytes]]]:
    for some in rows(count):
        yield [(offset.to_bytes(8, "big"), value) for offset, value in some]


@contextmanager
def by_kstore(directory: Path, count: int) -> Iterator[dict[str, Reader]]:
    """As columns with every checksum checked, on one core and on two; as values."""
    values = thousand_values()
    with kstore.open(directory / "log") as store:
        log = store.create_topic("log")[0]
        for _ in range(count // 1000):
            log.extend(values)
        log.flush()

        def columns(threads: int) -> int:
            return sum(int(some.values.lengths.sum()) for some in log.view().scan(threads=threads))

        def whole() -> int:
            view = log.segments.views[0].whole()
            return limits.read_all(view) and 0

        yield {
            "kstore, columns": partial(columns, 1),
            "kstore, columns, two cores": partial(columns, 2),
            "kstore, records": lambda: sum(len(record.value or b"") for record in log.view()),
            "read every byte of the segment": whole,
        }


@contextmanager
def by_lmdb(lmdb: Any, directory: Path, count: int) -> Iterator[Reader]:
    with lmdb.open(str(directory / "lmdb"), map_size=8 << 30, sync=False) as environment:
        for some in keyed(count):
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(some, append=True)
        environment.sync(True)

        def read() -> int:
            with environment.begin(buffers=True) as transaction:
                cursor = transaction.cursor()
                return sum(len(value) for value in cursor.iternext(keys=False, values=True))

        yield read


@contextmanager
def by_rocksdb(rocksdict: Any, directory: Path, count: int) -> Iterator[Reader]:
    database = rocksdict.Rdict(str(directory / "rocks"), rocksdict.Options(raw_mode=True))
    for some in keyed(count):
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in some:
            batch.put(key, value)
        database.write(batch)
    try:
        database.flush(True)
        database.compact_range(None, None)  # or it does that while others are timed
        yield lambda: sum(len(value) for value in database.values())
    finally:
        database.close()


@contextmanager
def by_sqlite(directory: Path, count: int) -> Iterator[Reader]:
    with closing(sqlite3.connect(directory / "sqlite", isolation_level=None)) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=off")
        database.execute("create table log (offset integer primary key, value blob)")
        database.execute("begin")
        for some in rows(count):
            database.executemany("insert into log values (?, ?)", some)
        database.execute("commit")
        database.execute("pragma wal_checkpoint(truncate)")
        yield lambda: int(database.execute("select sum(length(value)) from log").fetchone()[0])


@contextmanager
def by_parquet(arrow: Any, directory: Path, count: int) -> Iterator[dict[str, Reader]]:
    """A Parquet file (not compressed, as the log), by pyarrow and by DuckDB where that is."""
    parquet: Any = optional("pyarrow.parquet", "pyarrow")
    compute: Any = optional("pyarrow.compute", "pyarrow")
    path = directory / "log.parquet"
    values = thousand_values() * (count // 1000)
    columns = {"offset": arrow.array(range(count)), "value": arrow.array(values, arrow.binary())}
    parquet.write_table(
        arrow.table(columns), path, compression="none", use_dictionary=False, row_group_size=1 << 17
    )

    def by_arrow() -> int:
        table = parquet.read_table(path, columns=["value"], use_threads=False)
        return int(compute.sum(compute.binary_length(table["value"])).as_py())

    readers = {"pyarrow, Parquet": by_arrow}
    with ExitStack() as closing_last:
        if (duckdb := optional("duckdb", "duckdb")) is not None:
            database = closing_last.enter_context(closing(duckdb.connect()))
            database.execute("set threads = 1")
            question = f"select sum(octet_length(value)) from read_parquet('{path}')"
            readers["DuckDB, Parquet"] = lambda: int(database.execute(question).fetchone()[0])
        yield readers


def contests() -> Iterator[Contest]:
    count = scaled(RECORDS, 1000) // 1000 * 1000
    with TemporaryDirectory() as path, ExitStack() as held:
        directory = Path(path)
        calls: dict[str, Reader] = dict(held.enter_context(by_kstore(directory, count)))
        if (arrow := optional("pyarrow", "pyarrow")) is not None:
            calls |= standing(held, "Parquet", by_parquet(arrow, directory, count)) or {}
        others: dict[str, AbstractContextManager[Reader]] = {}
        if (lmdb := optional("lmdb", "lmdb")) is not None:
            (directory / "lmdb").mkdir()
            others["LMDB"] = by_lmdb(lmdb, directory, count)
        others["SQLite"] = by_sqlite(directory, count)
        if (rocksdict := optional("rocksdict", "rocksdict")) is not None:
            others["RocksDB"] = by_rocksdb(rocksdict, directory, count)
        for name, other in others.items():
            if (reader := standing(held, name, other)) is not None:
                calls[name] = reader
        sync_below(directory)
        roof = "read every byte of the segment"
        ours = "kstore, columns"
        yield Contest(
            name=f"sum the sizes of {count} values of {VALUE_SIZE} bytes",
            calls=dict(calls),
            amount=count,
            unit="records",
            expected=count * VALUE_SIZE,
            unchecked=frozenset([roof]),
            ceiling=roof,
            bars=tuple(
                (ours, name, None) for name in calls if name != roof and not name.startswith("ks")
            ),
            rounds=5,
        )
