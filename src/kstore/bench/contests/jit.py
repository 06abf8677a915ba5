"""Compiled loops over mapped files and columns, against the same in NumPy."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from kstore import jit
from kstore.bench import kernels_jit as work
from kstore.bench.contest import Contest, scaled


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


def contests() -> Iterator[Contest]:
    yield reach(20_000, 1, 2.0)
    yield reach(20_000, 10, 2.0)
    yield reach(2_000, 150, None)  # 16 KiB batches: both wait for the checksums' bytes
    yield filters(2_000_000)
    yield windows(2_000_000)
