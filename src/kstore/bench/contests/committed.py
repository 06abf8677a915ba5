"""What read_committed costs: scans of one log with and without it."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import kstore
from kstore._native.bench import memory_loops
from kstore.bench.contest import Calls, Contest, scaled
from kstore.bench.contests.log_read import scan
from kstore.bench.data.batches import client_batch
from kstore.bench.data.logs import ABORTED, TOPIC, fill, fill_transactions, transaction_size

GIB = 1 << 30
ROOF = "read every byte"
SHAPES = {"16.5 KB": 150, "one record": 1}
LEVELS = ("read_committed", "read_uncommitted")


def in_order(log: kstore.Log, records: int, size: int) -> dict[str, int]:
    """How many records are visible at each level where none is in a transaction."""
    batches = log.size // len(client_batch(records))
    return dict.fromkeys(LEVELS, batches * records)


def in_transactions(log: kstore.Log, records: int, size: int) -> dict[str, int]:
    """The same where all transactions have equal numbers of records, each with a marker."""
    each = transaction_size(records, size)
    count, rest = divmod(log.end_offset, each + 1)
    if rest:
        raise AssertionError(f"{log.end_offset} offsets are not transactions of {each} records")
    return {
        "read_committed": (count - count // ABORTED) * each,
        "read_uncommitted": count * each,
    }


def contest(name: str, log: kstore.Log, expected: dict[str, int]) -> Contest:
    calls: Calls = {level: partial(scan, log, 1, level, expected[level]) for level in LEVELS}
    whole = log.segments.views[0].whole()
    if whole.size != log.size:
        raise AssertionError("the log has more than one segment")
    calls[ROOF] = partial(memory_loops.read_all, whole)
    same = len(set(expected.values())) == 1
    return Contest(
        name=f"scan a log of {log.size} bytes, {name}, one core",
        calls=calls,
        amount=log.end_offset,
        unit="records",
        bars=((*LEVELS, None), ("read_uncommitted", ROOF, None)),
        ceiling=ROOF,
        # Where they differ, each is compared with its own number.
        unchecked=frozenset([ROOF]) if same else frozenset([ROOF, *LEVELS]),
        rounds=15,
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as directory:
        for shape, records in SHAPES.items():
            size = scaled(GIB // 4, 1 << 20)
            for make, expected, what in (
                (fill, in_order, "no transactions"),
                (
                    fill_transactions,
                    in_transactions,
                    "all in transactions, one in ten aborted",
                ),
            ):
                path = make(Path(directory), records, size)
                with kstore.open(path, mode="a") as store:
                    log = store[TOPIC][0]
                    yield contest(f"batches of {shape}, {what}", log, expected(log, records, size))
                shutil.rmtree(path)
