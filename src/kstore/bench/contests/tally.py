"""Counting and measuring records in groups, and surveys of whole segments.

The native table of groups (used by Spark's aggregates and ``kstore spark stats``) beside NumPy,
Arrow, a compiled loop, and a read of the same columns.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kstore import jit
from kstore._native.bench import memory_loops
from kstore._native.spark.log_statistics import Survey
from kstore._native.spark.tally import Tally
from kstore.bench.contest import Calls, Contest, floor_contest, scaled
from kstore.bench.contests.jit import columns
from kstore.bench.data.batches import Batches
from kstore.bench.peers.availability import optional
from kstore.record.codec import decompress

ROWS = 2_000_000
WINDOW = 60_000  # milliseconds
HOUR = 3_600_000
SECRET = bytes(range(16))
Groups = list[tuple[int, int, int]]  # key or window as a number, rows, bytes of values


def by_tally(some: Any, *, by_key: bool, width: int = 0, extents: bool = False) -> Groups:
    """With a new native table."""
    tally = Tally(SECRET, width, by_key=by_key, extents=extents)
    keys, values = some.keys, some.values
    positions = keys.positions, keys.lengths, values.lengths
    tally.add(keys.data, some.offsets, some.timestamps, *positions)
    kinds, starts = zip(*tally.layout.values(), strict=True)
    row: Any = {"names": list(tally.layout), "formats": kinds, "offsets": starts}
    groups: Any = np.frombuffer(memoryview(tally), np.dtype(row | {"itemsize": tally.stride}))
    if by_key:
        data: Any = np.frombuffer(memoryview(tally.key_data), np.uint8)
        names = data[groups["key_positions"][:, None] + np.arange(8)].view(">u8")[:, 0]
    else:
        names = groups["window"]
    return in_order(names, groups["count"], groups["value_bytes"])


def in_order(names: Any, rows: Any, sizes: Any) -> Groups:
    order = np.argsort(names)
    sorted_columns = (each[order].astype(np.int64).tolist() for each in (names, rows, sizes))
    return list(zip(*sorted_columns, strict=True))


def key_numbers(some: Any) -> Any:
    """The keys, eight bytes each, gathered as numbers."""
    rows = some.keys.data[some.keys.positions[:, None] + np.arange(8)]
    return np.ascontiguousarray(rows).view(">u8")[:, 0].astype(np.uint64)


def by_numpy(numbers: Callable[[], Any], some: Any) -> Groups:
    names, group = np.unique(numbers(), return_inverse=True)
    return in_order(names, np.bincount(group), np.bincount(group, some.values.lengths))


def by_loop(some: Any, lengths: Any) -> Groups:
    """``kstore.jit``, which can sum any values."""
    found = jit.tumbling(some.timestamps, lengths, WINDOW)
    return in_order(found.start // WINDOW, found.count, found.sum)


def by_arrow(arrow: Any, some: Any) -> Callable[[], Groups]:
    """An Arrow table made beforehand: keys are adjacent bytes, without offsets."""
    names = arrow.py_buffer(key_numbers(some).astype(">u8").tobytes())
    keys = arrow.Array.from_buffers(arrow.binary(8), some.offsets.size, [None, names])
    table = arrow.table({"key": keys, "size": arrow.array(some.values.lengths.astype(np.int64))})

    def grouped() -> Groups:
        wanted = [("size", "count"), ("size", "sum")]
        found = table.group_by("key", use_threads=False).aggregate(wanted)
        numbers = np.frombuffer(found["key"].combine_chunks().buffers()[1], ">u8")[: len(found)]
        return in_order(numbers, found["size_count"].to_numpy(), found["size_sum"].to_numpy())

    return grouped


def grouping() -> Iterator[Contest]:
    some = columns(scaled(ROWS, 200))
    count, sizes = some.offsets.size, some.values.lengths

    def reading(*read: Any) -> tuple[str, Callable[[], object]]:
        return "read every column", lambda: sum(memory_loops.read_all(each) & 1 for each in read)

    calls: Calls = {
        "kstore": partial(by_tally, some, by_key=True),
        "kstore, extents too": partial(by_tally, some, by_key=True, extents=True),
        "NumPy": partial(by_numpy, partial(key_numbers, some), some),
    }
    if (arrow := optional("pyarrow", "pyarrow")) is not None:
        calls["Arrow, its own table"] = by_arrow(arrow, some)
    floor = reading(some.keys.data, some.keys.positions, some.keys.lengths, sizes)
    yield floor_contest(f"count and measure {count} rows by key", calls, floor, count, "rows")
    wide = sizes.astype(np.int64)
    calls = {
        "kstore": partial(by_tally, some, by_key=False, width=WINDOW),
        "NumPy": partial(by_numpy, lambda: some.timestamps // WINDOW, some),
        "compiled loop": partial(by_loop, some, wide),
    }
    floor = reading(some.timestamps, sizes)
    yield floor_contest(f"count and measure {count} rows by minute", calls, floor, count, "rows")


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


def survey_with_aiokafka(peer: Any, data: bytes) -> tuple[int, int]:
    """Checksums, keys, values and headers are read: part of what a survey does."""
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
    calls: Calls = {"kstore": partial(survey, data)}
    if (peer := optional("aiokafka.record.memory_records", "aiokafka")) is not None:
        calls["aiokafka iterates"] = partial(survey_with_aiokafka, peer, data)
    return floor_contest(
        f"survey {len(data):,} bytes: sizes, keys, headers, gaps, records an hour",
        calls,
        ("read every byte", partial(memory_loops.read_all, data)),
        len(data),
        expected=(work.count, work.value_bytes),
        rounds=5,
    )


def contests() -> Iterator[Contest]:
    yield from grouping()
    yield surveying()
