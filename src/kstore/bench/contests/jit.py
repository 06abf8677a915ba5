"""Compiled loops over a segment and over columns, each beside the same in NumPy."""

import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kstore import jit
from kstore._native.format.checksum import crc32c
from kstore._native.format.murmur2 import murmur2
from kstore._native.read.decode import Scanner
from kstore.bench.contest import Contest, scaled
from kstore.bench.data.batches import TIME, Batches

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]

BASE_OFFSET = 500_000
RECORD_BYTES = 110
INDEX_INTERVAL = 4096


def segment(batches: int, records: int) -> tuple[bytes, bytes]:
    """A log of version 2 batches with valid headers and checksums, and its offset index.

    The bytes where records would be are random, since no walk over frames reads them.
    """
    random.seed(3)
    log, entries = bytearray(), bytearray()
    since, offset = 0, BASE_OFFSET
    for _ in range(batches):
        count = random.randint(1, 2 * records)
        last = offset + count - 1
        rest = struct.pack(">hiqqqhii", 0, count - 1, 0, 0, -1, -1, -1, count)
        rest += random.randbytes(count * RECORD_BYTES)
        batch = struct.pack(">qiibI", offset, len(rest) + 9, 0, 2, crc32c(rest)) + rest
        if since > INDEX_INTERVAL:
            entries += struct.pack(">ii", last - BASE_OFFSET, len(log))
            since = 0
        log += batch
        since += len(batch)
        offset = last + 1
    return bytes(log), bytes(entries)


def offsets_in_no_order(log: bytes, count: int) -> Int64s:
    """Offsets of the log in random order, some beyond its end."""
    end = BASE_OFFSET
    position = 0
    while position < len(log):
        base, size = struct.unpack_from(">qi", log, position)
        end = base + struct.unpack_from(">i", log, position + 23)[0] + 1
        position += size + 12
    return np.random.default_rng(5).integers(BASE_OFFSET, end + (end - BASE_OFFSET) // 50, count)


@njit(nogil=True, cache=True)
def reach(log: Bytes, index: Bytes, base_offset: int, offsets: Int64s) -> Any:
    """The guide's example: for each offset, index search, frame walk, checksum of its batch."""
    entries = jit.index_count(index)
    found = damaged = missing = records = 0
    for offset in offsets:
        position = jit.index_lookup(index, entries, base_offset, offset)
        frame = jit.next_frame(log, position)
        while frame.status == 0 and frame.last_offset < offset:
            position = frame.end
            frame = jit.next_frame(log, position)
        if frame.status != 0:
            missing += 1
        elif jit.crc_ok(log, position):
            found += 1
            records += frame.count
        else:
            damaged += 1
    return found, damaged, missing, records


def numbers_at(log: Bytes, positions: Int64s, kind: str) -> Int64s:
    """Big-endian numbers at many positions, gathered byte by byte in whole arrays."""
    size = np.dtype(kind).itemsize
    rows = log[positions[:, None] + np.arange(size)]
    return np.ascontiguousarray(rows).view(kind)[:, 0].astype(np.int64)


def reach_numpy(
    log: Bytes, index: Bytes, base_offset: int, offsets: Int64s
) -> tuple[int, int, int, int]:
    """The same with NumPy: all offsets search and step together, one checksum call per batch."""
    table = index.view(">i4").reshape(-1, 2)
    relative = table[:, 0].astype(np.int64)
    starts = np.concatenate([[0], table[:, 1].astype(np.int64)])
    position = starts[np.searchsorted(relative, offsets - base_offset, "right")]
    missing = 0
    walking = np.arange(offsets.size)
    positions_found = np.full(offsets.size, -1, np.int64)
    while walking.size:
        at = position[walking]
        ends = at + 61 > log.size
        missing += int(ends.sum())
        walking, at = walking[~ends], at[~ends]
        size = numbers_at(log, at + 8, ">i4") + 12
        cut = (size < 61) | (at + size > log.size)
        missing += int(cut.sum())
        walking, at, size = walking[~cut], at[~cut], size[~cut]
        last = numbers_at(log, at, ">i8") + numbers_at(log, at + 23, ">i4")
        there = last >= offsets[walking]
        positions_found[walking[there]] = at[there]
        position[walking] = at + size
        walking = walking[~there]
    positions_found = positions_found[positions_found >= 0]
    if not positions_found.size:
        return 0, 0, missing, 0
    sizes = numbers_at(log, positions_found + 8, ">i4") + 12
    stored = numbers_at(log, positions_found + 17, ">u4")
    content = log.data
    sums = np.fromiter(
        (
            crc32c(content[start + 21 : start + size])
            for start, size in zip(positions_found.tolist(), sizes.tolist(), strict=True)
        ),
        np.int64,
        positions_found.size,
    )
    right = sums == stored
    records = int(numbers_at(log, positions_found + 57, ">i4")[right].sum())
    return int(right.sum()), int((~right).sum()), missing, records


def columns(rows: int) -> SimpleNamespace:
    """Columns as a scan returns them: keys of 8 bytes, values of 20 to 120."""
    random = np.random.default_rng(9)
    key_lengths = np.full(rows, 8, np.int32)
    value_lengths = random.integers(20, 121, rows).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(key_lengths.astype(np.int64) + value_lengths)])
    data = random.integers(0, 256, int(starts[-1]), np.uint8)
    names = np.frombuffer(
        b"".join(b"user%04d" % n for n in random.integers(0, 500, rows)), np.uint8
    ).reshape(rows, 8)
    for n in range(8):
        data[starts[:-1] + n] = names[:, n]
    return SimpleNamespace(
        offsets=np.arange(rows),
        timestamps=TIME + np.sort(random.integers(0, 3_600_000, rows)),
        keys=SimpleNamespace(data=data, positions=starts[:-1], lengths=key_lengths),
        values=SimpleNamespace(data=data, positions=starts[:-1] + 8, lengths=value_lengths),
    )


MIDDLE = TIME + 1_800_000


def wanted_row(row: jit.Row) -> bool:
    """Select the second half hour, longer values, one user."""
    return row.timestamp >= MIDDLE and row.value_length >= 40 and jit.equals(row.key, b"user0042")


def wanted_rows_numpy(some: Any) -> Int64s:
    """The same filter in NumPy, narrowed before the keys are compared."""
    rows = np.flatnonzero((some.timestamps >= MIDDLE) & (some.values.lengths >= 40))
    rows = rows[some.keys.lengths[rows] == 8]
    names = some.keys.data[some.keys.positions[rows][:, None] + np.arange(8)]
    kept: Int64s = rows[(names == np.frombuffer(b"user0042", np.uint8)).all(axis=1)]
    return kept


def tumbling_numpy(timestamps: Int64s, values: Int64s, width: int) -> tuple[Int64s, ...]:
    """Windows in NumPy: sort by window, then reduce runs."""
    numbers = timestamps // width
    order = np.argsort(numbers, kind="stable")
    starts, first, count = np.unique(numbers[order], return_index=True, return_counts=True)
    ordered = values[order]
    return (
        starts * width,
        count,
        np.add.reduceat(ordered, first),
        np.minimum.reduceat(ordered, first),
        np.maximum.reduceat(ordered, first),
    )


@njit(nogil=True, cache=True)
def hash_records(log: Bytes) -> Any:
    """Count the records, and sum the checksums of their values and the hashes of their keys."""
    rows = sums = hashes = position = 0
    frame = jit.next_frame(log, position)
    while frame.status == 0:
        at = position + 61
        while at < frame.end:
            record = jit.next_record(log, at, frame)
            if record.status != 0:
                return -1, 0, 0
            rows += 1
            sums += jit.crc32c(log, record.value_position, record.value_length)
            hashes += jit.key_hash(log, record.key_position, record.key_length)
            at = record.end
        position = frame.end
        frame = jit.next_frame(log, position)
    return rows, sums, hashes


def hash_records_one_by_one(log: bytes) -> tuple[int, int, int]:
    """The same with calls per record: object, checksum, hash."""
    rows = sums = hashes = 0
    for record in Scanner(log, check_crc=False).records():
        rows += 1
        sums += crc32c(record.value or b"")
        hashes += murmur2(record.key or b"")
    return rows, sums, hashes


@njit(nogil=True, cache=True)
def offsets_at(entries: Bytes, timestamps: Int64s) -> Any:
    """The offset at which the records of each time start, by a time index."""
    count = jit.time_index_count(entries)
    found = np.empty(timestamps.size, np.int64)
    for n in range(timestamps.size):
        found[n] = jit.time_lookup(entries, count, BASE_OFFSET, timestamps[n])
    return found


def time_index(entries: int) -> bytes:
    """One entry a second, a thousand records each."""
    pack = struct.Struct(">qi").pack
    return b"".join(pack(TIME + n * 1000, n * 1000) for n in range(1, entries + 1))


def offsets_at_numpy(entries: Bytes, timestamps: Int64s) -> Int64s:
    """The same in NumPy: the last entry that is not later than a time."""
    kind = np.dtype([("time", ">i8"), ("relative", ">i4")])
    table = entries.view(kind)
    times = table["time"].astype(np.int64)
    offsets = np.concatenate([[0], table["relative"].astype(np.int64)]) + BASE_OFFSET
    found: Int64s = offsets[np.searchsorted(times, timestamps, "right")]
    return found


def named_row(row: jit.Row) -> bool:
    """Select by the contents of the key."""
    return bool(jit.starts_with(row.key, b"user00") and jit.contains(row.key, b"42"))


def named_rows_numpy(some: Any) -> Int64s:
    """The same in NumPy: all keys have eight bytes and are compared column by column."""
    names = some.keys.data[some.keys.positions[:, None] + np.arange(8)]
    begins = (names[:, :6] == np.frombuffer(b"user00", np.uint8)).all(axis=1)
    has = ((names[:, :-1] == ord("4")) & (names[:, 1:] == ord("2"))).any(axis=1)
    kept: Int64s = np.flatnonzero(begins & has)
    return kept


def grouped(some: Any, sizes: Int64s) -> list[tuple[int, int, int]]:
    """First row, row count and value bytes of each key, in order of appearance."""
    groups = jit.group_by_key(some.keys.data, some.keys.positions, some.keys.lengths)
    rows, total = jit.sum_by_group(groups.group, sizes, groups.first.size)
    return list(zip(groups.first.tolist(), rows.tolist(), total.tolist(), strict=True))


def grouped_numpy(some: Any, sizes: Int64s) -> list[tuple[int, int, int]]:
    """The same in NumPy: keys of eight bytes as numbers, sorted."""
    names = some.keys.data[some.keys.positions[:, None] + np.arange(8)]
    numbers = np.ascontiguousarray(names).view(np.uint64)[:, 0]
    _, first, group, rows = np.unique(
        numbers, return_index=True, return_inverse=True, return_counts=True
    )
    total = np.bincount(group, sizes).astype(np.int64)
    order = np.argsort(first)
    columns = (each[order].tolist() for each in (first, rows, total))
    return list(zip(*columns, strict=True))


def reaching(batches: int, records: int, bar: float | None) -> Contest:
    log, index = segment(scaled(batches, 20), records)
    asked = offsets_in_no_order(log, scaled(20_000, 50))
    arguments = (
        np.frombuffer(log, np.uint8),
        np.frombuffer(index, np.uint8),
        BASE_OFFSET,
        asked,
    )
    return against_numpy(
        f"index, walk and CRC for {asked.size} offsets, {records} records a batch",
        partial(reach, *arguments),
        partial(reach_numpy, *arguments),
        asked.size,
        "offsets",
        bar,
    )


def against_numpy(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    amount: int,
    unit: str,
    bar: float | None = None,
) -> Contest:
    return Contest(
        name=name,
        calls={"compiled loop": ours, "NumPy": theirs},
        amount=amount,
        unit=unit,
        bars=(("compiled loop", "NumPy", bar),),
    )


def filters(count: int) -> Contest:
    some = columns(scaled(count, 100))
    predicate = jit.compile_predicate(wanted_row)
    return Contest(
        name=f"filter of {some.offsets.size} rows by time, length and key",
        calls={
            "compiled predicate": lambda: predicate.rows(some).tolist(),
            "NumPy": lambda: wanted_rows_numpy(some).tolist(),
        },
        amount=some.offsets.size,
        unit="rows",
        bars=(("compiled predicate", "NumPy", None),),
    )


def rows(count: int) -> Iterator[Contest]:
    """Windows, filters, sums and selections over the rows of some columns."""
    some = columns(scaled(count, 100))
    sizes, amount = some.values.lengths.astype(np.int64), some.offsets.size
    named = jit.compile_predicate(named_row)
    yield against_numpy(
        f"windows of a second over {amount} rows",
        lambda: [each.tolist() for each in jit.tumbling(some.timestamps, sizes, 1000)],
        lambda: [each.tolist() for each in tumbling_numpy(some.timestamps, sizes, 1000)],
        amount,
        "rows",
    )
    yield against_numpy(
        f"filter of {amount} rows by what is in the key",
        lambda: named.rows(some).tolist(),
        lambda: named_rows_numpy(some).tolist(),
        amount,
        "rows",
    )
    yield against_numpy(
        f"sums by key over {amount} rows",
        partial(grouped, some, sizes),
        partial(grouped_numpy, some, sizes),
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
    bounds = MIDDLE, MIDDLE + 60_000
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
    entries = np.frombuffer(time_index(scaled(1_000_000, 100)), np.uint8)
    span = entries.size // 12 * 1000 + 2000
    asked = TIME + np.random.default_rng(6).integers(-1000, span, scaled(200_000, 50))
    return against_numpy(
        f"{asked.size} lookups in a time index of {entries.size:,} bytes",
        lambda: offsets_at(entries, asked).tolist(),
        lambda: offsets_at_numpy(entries, asked).tolist(),
        asked.size,
        "lookups",
    )


def records() -> Contest:
    made = Batches(150, scaled(64 << 20, 1 << 15), keyed=True)
    log = np.frombuffer(made.data, np.uint8)
    return Contest(
        name=f"checksum of the value and hash of the key of {made.count:,} records",
        calls={
            "compiled loop": partial(hash_records, log),
            "a call each": partial(hash_records_one_by_one, made.data),
        },
        amount=made.count,
        unit="records",
        bars=(("compiled loop", "a call each", None),),
    )


def contests() -> Iterator[Contest]:
    yield reaching(20_000, 1, 2.0)
    yield reaching(20_000, 10, 2.0)
    yield reaching(2_000, 150, None)  # 16 KiB batches: both wait for the bytes to checksum
    yield filters(2_000_000)
    yield from rows(2_000_000)
    yield lookups()
    yield records()
