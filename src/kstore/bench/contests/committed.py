"""What read_committed costs: scans of one log with and without it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import kstore
from kstore.bench import log_read
from kstore.bench.contest import Contest, scaled

GIB = 1 << 30
SHAPES = {"16.5 KB": 150, "one record": 1}
LEVELS = ("read_committed", "read_uncommitted")


def count(log: kstore.Log, isolation: str) -> int:
    return sum(len(columns) for columns in log.view(isolation=isolation).scan())


def contest(name: str, log: kstore.Log) -> Contest:
    calls: dict[str, Callable[[], object]] = {
        level: partial(log_read.scan, log, 1, level, count(log, level)) for level in LEVELS
    }
    return Contest(
        name=f"scan a log of {log.size} bytes, {name}, one core",
        calls=calls,
        amount=log.end_offset,
        unit="records",
        bars=((*LEVELS, None),),
        ceiling="read_uncommitted",
        unchecked=frozenset(LEVELS),
        rounds=15,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as directory:
        for shape, records in SHAPES.items():
            size = scaled(GIB // 4, 1 << 20)
            for fill, what in (
                (log_read.fill, "no transactions"),
                (log_read.fill_transactions, "all in transactions, one in ten aborted"),
            ):
                path = fill(Path(directory), records, size)
                with kstore.open(path, mode="a") as store:
                    yield contest(f"batches of {shape}, {what}", store["bench"][0])
