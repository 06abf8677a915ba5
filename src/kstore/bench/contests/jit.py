"""Compiled loops over mapped files and columns, against the same in NumPy."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from kstore import jit
from kstore.bench import kernels_jit as work
from kstore.bench.contest import Contest, scaled
from kstore.bench.kernels_rows import Batches


def reach(batches: int, records: int, bar: float | None) -> Contest:
    log, index = work.segment(scaled(batches, 20), records)
    asked = work.wanted(log, scaled(20_000, 50))
    arguments = (
        np.frombuffer(log, np.uint8),
        np.frombuffer(index, np.uint8),
        work.BASE_OFFSET,
        asked,
    )
    return Contest(
        name=f"index, walk and CRC for {asked.size} offsets, {records} records a batch",
        calls={
            "compiled loop": partial(work.reach, *arguments),
            "NumPy": partial(work.reach_numpy, *arguments),
        },
        amount=asked.size,
        unit="offsets",
        bars=(("compiled loop", "NumPy", bar),),
    )


def filters(rows: int) -> Contest:
    some = work.columns(scaled(rows, 100))
    predicate = jit.compile_predicate(work.wanted_row)
    return Contest(
        name=f"filter of {some.offsets.size} rows by time, length and key",
        calls={
            "compiled predicate": lambda: predicate.rows(some).tolist(),
            "NumPy": lambda: work.wanted_rows_numpy(some).tolist(),
        },
        amount=some.offsets.size,
        unit="rows",
        bars=(("compiled predicate", "NumPy", None),),
    )


def windows(rows: int) -> Contest:
    some = work.columns(scaled(rows, 100))
    values = some.values.lengths.astype(np.int64)
    return Contest(
        name=f"windows of a second over {values.size} rows",
        calls={
            "compiled loop": lambda: [
                column.tolist() for column in jit.tumbling(some.timestamps, values, 1000)
            ],
            "NumPy": lambda: [
                column.tolist() for column in work.tumbling_numpy(some.timestamps, values, 1000)
            ],
        },
        amount=values.size,
        unit="rows",
        bars=(("compiled loop", "NumPy", None),),
    )


def against_numpy(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], amount: int, unit: str
) -> Contest:
    return Contest(
        name=name,
        calls={"compiled loop": ours, "NumPy": theirs},
        amount=amount,
        unit=unit,
        bars=(("compiled loop", "NumPy", None),),
    )


def rows(count: int) -> Iterator[Contest]:
    """What is chosen and added up by rows."""
    some = work.columns(scaled(count, 100))
    sizes, amount = some.values.lengths.astype(np.int64), some.offsets.size
    named = jit.compile_predicate(work.named_row)
    yield against_numpy(
        f"filter of {amount} rows by what is in the key",
        lambda: named.rows(some).tolist(),
        lambda: work.named_rows_numpy(some).tolist(),
        amount,
        "rows",
    )
    yield against_numpy(
        f"sums by key over {amount} rows",
        partial(work.grouped, some, sizes),
        partial(work.grouped_numpy, some, sizes),
        amount,
        "rows",
    )
    yield against_numpy(
        f"the 100 largest of {amount} rows",
        lambda: jit.top_k(sizes, 100).tolist(),
        lambda: np.argsort(-sizes, kind="stable")[:100].tolist(),
        amount,
        "rows",
    )
    bounds = work.MIDDLE, work.MIDDLE + 60_000
    yield against_numpy(
        f"a minute of {amount} rows",
        lambda: jit.rows_between(some.timestamps, *bounds).tolist(),
        lambda: np.flatnonzero(
            (some.timestamps >= bounds[0]) & (some.timestamps < bounds[1])
        ).tolist(),
        amount,
        "rows",
    )


def lookups() -> Contest:
    entries = np.frombuffer(work.time_index(scaled(1_000_000, 100)), np.uint8)
    span = entries.size // 12 * 1000 + 2000
    asked = work.START + np.random.default_rng(6).integers(-1000, span, scaled(200_000, 50))
    return against_numpy(
        f"{asked.size} lookups in a time index of {entries.size:,} bytes",
        lambda: work.offsets_at(entries, asked).tolist(),
        lambda: work.offsets_at_numpy(entries, asked).tolist(),
        asked.size,
        "lookups",
    )


def records() -> Contest:
    made = Batches(150, scaled(64 << 20, 1 << 15), keyed=True)
    log = np.frombuffer(made.data, np.uint8)
    return Contest(
        name=f"checksum of the value and hash of the key of {made.count:,} records",
        calls={
            "compiled loop": partial(work.hash_records, log),
            "a call each": partial(work.hash_records_one_by_one, made.data),
        },
        amount=made.count,
        unit="records",
        bars=(("compiled loop", "a call each", None),),
    )


def contests() -> Iterator[Contest]:
    yield reach(20_000, 1, 2.0)
    yield reach(20_000, 10, 2.0)
    yield reach(2_000, 150, None)  # 16 KiB batches: both wait for the checksums' bytes
    yield filters(2_000_000)
    yield windows(2_000_000)
    yield from rows(2_000_000)
    yield lookups()
    yield records()
