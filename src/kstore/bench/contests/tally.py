"""Counting and measuring records in groups, and surveying whole segments.

The native table of groups (what Spark's aggregates and ``kstore spark stats`` are made of) beside
NumPy, Arrow, a compiled loop, and reading the same columns.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kstore import jit
from kstore._native import limits
from kstore._native.survey import Survey
from kstore._native.tally import Tally
from kstore.bench import kernels_jit
from kstore.bench.contest import Contest, scaled
from kstore.bench.kernels_rows import Batches
from kstore.bench.peers import optional
from kstore.record.codec import decompress

ROWS = 2_000_000
WINDOW = 60_000  # milliseconds
HOUR = 3_600_000
SECRET = bytes(range(16))
FLOOR = "read every column"
Groups = list[tuple[int, int, int]]  # of keys or windows as numbers: rows and bytes of values


def counted(some: Any, *, by_key: bool, width: int = 0, extents: bool = False) -> Groups:
    """By the native table, which is made anew."""
    tally = Tally(SECRET, width, by_key=by_key, extents=extents)
    tally.add(
        some.keys.data,
        some.offsets,
        some.timestamps,
        some.keys.positions,
        some.keys.lengths,
        some.values.lengths,
    )
    kinds, starts = zip(*tally.layout.values(), strict=True)
    row: Any = {"names": list(tally.layout), "formats": kinds, "offsets": starts}
    groups: Any = np.frombuffer(memoryview(tally), np.dtype(row | {"itemsize": tally.stride}))
    if by_key:
        keys: Any = np.frombuffer(memoryview(tally.key_data), np.uint8)
        names = keys[groups["key_positions"][:, None] + np.arange(8)].view(">u8")[:, 0]
    else:
        names = groups["window"]
    return in_order(names, groups["count"], groups["value_bytes"])


def in_order(names: Any, rows: Any, sizes: Any) -> Groups:
    order = np.argsort(names)
    columns = (each[order].astype(np.int64).tolist() for each in (names, rows, sizes))
    return list(zip(*columns, strict=True))


def names_of(some: Any) -> Any:
    """The keys, eight bytes each, as numbers: the bytes are gathered."""
    rows = some.keys.data[some.keys.positions[:, None] + np.arange(8)]
    return np.ascontiguousarray(rows).view(">u8")[:, 0].astype(np.uint64)


def by_numpy(numbers: Callable[[], Any], some: Any) -> Groups:
    names, group = np.unique(numbers(), return_inverse=True)
    rows = np.bincount(group)
    return in_order(names, rows, np.bincount(group, some.values.lengths))


def by_loop(some: Any, lengths: Any) -> Groups:
    """``kstore.jit``'s, which has the sums of any values."""
    found = jit.tumbling(some.timestamps, lengths, WINDOW)
    return in_order(found.start // WINDOW, found.count, found.sum)


def by_arrow(arrow: Any, some: Any) -> Callable[[], Groups]:
    """Its own table, made beforehand: keys are bytes that lie side by side, offsets have none."""
    names = names_of(some).astype(">u8").tobytes()
    keys = arrow.Array.from_buffers(
        arrow.binary(8), some.offsets.size, [None, arrow.py_buffer(names)]
    )
    table = arrow.table({"key": keys, "size": arrow.array(some.values.lengths.astype(np.int64))})

    def grouped() -> Groups:
        wanted = [("size", "count"), ("size", "sum")]
        found = table.group_by("key", use_threads=False).aggregate(wanted)
        numbers = np.frombuffer(found["key"].combine_chunks().buffers()[1], ">u8")[: len(found)]
        return in_order(numbers, found["size_count"].to_numpy(), found["size_sum"].to_numpy())

    return grouped


def read_columns(columns: list[Any]) -> int:
    return sum(limits.read_all(each) & 1 for each in columns)


def grouping() -> Iterator[Contest]:
    some = kernels_jit.columns(scaled(ROWS, 200))
    sizes = some.values.lengths
    windows = [some.timestamps, sizes]
    keyed = [some.keys.data, some.keys.positions, some.keys.lengths, sizes]
    calls: dict[str, Callable[[], object]] = {
        "kstore": partial(counted, some, by_key=True),
        "kstore, extents too": partial(counted, some, by_key=True, extents=True),
        "NumPy": partial(by_numpy, partial(names_of, some), some),
        FLOOR: partial(read_columns, keyed),
    }
    bars: list[tuple[str, str, float | None]] = [("kstore", "NumPy", None)]
    if (arrow := optional("pyarrow", "pyarrow")) is not None:
        calls["Arrow, its own table"] = by_arrow(arrow, some)
        bars.append(("kstore", "Arrow, its own table", None))
    count = some.offsets.size
    yield contest(f"count and measure {count} rows by key", calls, bars, count)
    wide = sizes.astype(np.int64)
    calls = {
        "kstore": partial(counted, some, by_key=False, width=WINDOW),
        "NumPy": partial(by_numpy, lambda: some.timestamps // WINDOW, some),
        "compiled loop": partial(by_loop, some, wide),
        FLOOR: partial(read_columns, windows),
    }
    bars = [("kstore", "NumPy", None), ("kstore", "compiled loop", None)]
    yield contest(f"count and measure {count} rows by minute", calls, bars, count)


def contest(
    name: str,
    calls: dict[str, Callable[[], object]],
    bars: list[tuple[str, str, float | None]],
    count: int,
) -> Contest:
    return Contest(
        name=name,
        calls=calls,
        amount=count,
        unit="rows",
        bars=tuple(bars),
        unchecked=frozenset([FLOOR]),
        ceiling=FLOOR,
        rounds=7,
    )


def survey(data: bytes) -> tuple[int, int]:
    """Records, and bytes of values."""
    walk = Survey(Tally(SECRET, HOUR), decompress)
    walk.begin_segment("segment", 0, 1 << 62)
    walk.attach(data, 0)
    try:
        walk.run()
    finally:
        walk.detach()
    return walk.records, walk.spreads["value_sizes"][0]


def iterated(peer: Any, data: bytes) -> tuple[int, int]:
    """Checksums, keys, values and headers read; no more of what a survey tells."""
    rows = sizes = 0
    records = peer.MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise AssertionError("a batch is damaged")
        for record in batch:
            rows += record.key is not None and record.headers is not None
            sizes += len(record.value)
    return rows, sizes


def surveying() -> Contest:
    work = Batches(150, scaled(64 << 20), keyed=True)
    data = work.data
    calls: dict[str, Callable[[], object]] = {
        "kstore": partial(survey, data),
        "read every byte": partial(limits.read_all, data),
    }
    bars: list[tuple[str, str, float | None]] = [("kstore", "read every byte", None)]
    if (peer := optional("aiokafka.record.memory_records", "aiokafka")) is not None:
        calls["aiokafka iterates"] = partial(iterated, peer, data)
        bars.append(("kstore", "aiokafka iterates", None))
    return Contest(
        name=f"survey {len(data):,} bytes: sizes, keys, headers, gaps, records an hour",
        calls=calls,
        amount=len(data),
        bars=tuple(bars),
        expected=(work.count, work.value_bytes),
        unchecked=frozenset(["read every byte"]),
        ceiling="read every byte",
        rounds=5,
    )


def contests() -> Iterator[Contest]:
    yield from grouping()
    yield surveying()
