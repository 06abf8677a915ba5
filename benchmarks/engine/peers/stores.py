"""Embedded stores of keys or rows as peers: LMDB, SQLite and RocksDB, each without syncs."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore.bench.peers.availability import optional

Rows = Sequence[tuple[Any, bytes]]


@dataclass(frozen=True)
class OpenStore:
    """An empty store that is open.

    Attributes
    ----------
    put
        Append rows, a key and a value each, in one transaction.
    sum_sizes
        Read every value back and sum their sizes.
    """

    put: Callable[[Rows], object]
    sum_sizes: Callable[[], int]


@dataclass(frozen=True)
class StorePeer:
    """A store that can be opened in an empty folder; ``key``: from an offset to its key."""

    name: str
    key: Callable[[int], object]
    open: Callable[[Path], AbstractContextManager[OpenStore]]

    def rows(self, first: int, values: Sequence[bytes]) -> Rows:
        return [(self.key(first + n), value) for n, value in enumerate(values)]


def eight_bytes(offset: int) -> bytes:
    return offset.to_bytes(8, "big")


def installed_stores() -> Iterator[StorePeer]:
    """The stores that can take part; the others are recorded as missing."""
    if (lmdb := optional("lmdb", "lmdb")) is not None:
        yield StorePeer("LMDB", eight_bytes, lambda path: _lmdb(lmdb, path))
    yield StorePeer("SQLite", int, _sqlite)
    if (rocksdict := optional("rocksdict", "rocksdict")) is not None:
        yield StorePeer("RocksDB", eight_bytes, lambda path: _rocksdb(rocksdict, path))


@contextmanager
def _lmdb(lmdb: Any, path: Path) -> Iterator[OpenStore]:
    """``putmulti`` in append mode."""
    with lmdb.open(str(path), map_size=8 << 30, sync=False, metasync=False) as environment:

        def put(rows: Rows) -> None:
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(rows, append=True)

        def sum_sizes() -> int:
            with environment.begin(buffers=True) as transaction:
                values = transaction.cursor().iternext(keys=False, values=True)
                return sum(len(value) for value in values)

        yield OpenStore(put, sum_sizes)


@contextmanager
def _sqlite(path: Path) -> Iterator[OpenStore]:
    """A table with an integer key, in WAL mode."""
    with closing(sqlite3.connect(path / "sqlite", isolation_level=None)) as database:
        execute = database.execute
        execute("pragma journal_mode=wal")
        execute("pragma synchronous=off")
        execute("create table log (offset integer primary key, value blob)")

        def put(rows: Rows) -> None:
            execute("begin")
            database.executemany("insert into log values (?, ?)", rows)
            execute("commit")

        def sum_sizes() -> int:
            return int(execute("select sum(length(value)) from log").fetchone()[0])

        yield OpenStore(put, sum_sizes)


@contextmanager
def _rocksdb(rocksdict: Any, path: Path) -> Iterator[OpenStore]:
    """Batches of raw bytes."""
    database = rocksdict.Rdict(str(path / "rocks"), rocksdict.Options(raw_mode=True))

    def put(rows: Rows) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        database.write(batch)

    try:
        yield OpenStore(put, lambda: sum(len(value) for value in database.values()))
    finally:
        database.close()
