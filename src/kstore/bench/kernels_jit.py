"""Compiled loops over a segment and over columns, each beside the same in NumPy."""

import random
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kstore import jit
from kstore._native.checksum import crc32c

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]

BASE_OFFSET = 500_000
RECORD_BYTES = 110
INDEX_INTERVAL = 4096


def segment(batches: int, records: int) -> tuple[bytes, bytes]:
    """A log of version 2 batches, framed and with right checksums, and its offset index.

    The bytes where records would be are random: no walk over frames looks into them.
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


def wanted(log: bytes, count: int) -> Int64s:
    """Offsets of the log in no order, and some beyond its end."""
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
    """Big-endian numbers at many positions, gathered in one operation a byte."""
    size = np.dtype(kind).itemsize
    rows = log[positions[:, None] + np.arange(size)]
    return np.ascontiguousarray(rows).view(kind)[:, 0].astype(np.int64)


def reach_numpy(
    log: Bytes, index: Bytes, base_offset: int, offsets: Int64s
) -> tuple[int, int, int, int]:
    """The same with NumPy: all offsets search and step at once, checksums one call a batch."""
    table = index.view(">i4").reshape(-1, 2)
    relative = table[:, 0].astype(np.int64)
    starts = np.concatenate([[0], table[:, 1].astype(np.int64)])
    position = starts[np.searchsorted(relative, offsets - base_offset, "right")]
    missing = 0
    walking = np.arange(offsets.size)
    places = np.full(offsets.size, -1, np.int64)
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
        places[walking[there]] = at[there]
        position[walking] = at + size
        walking = walking[~there]
    places = places[places >= 0]
    if not places.size:
        return 0, 0, missing, 0
    sizes = numbers_at(log, places + 8, ">i4") + 12
    stored = numbers_at(log, places + 17, ">u4")
    content = log.data
    sums = np.fromiter(
        (
            crc32c(content[start + 21 : start + size])
            for start, size in zip(places.tolist(), sizes.tolist(), strict=True)
        ),
        np.int64,
        places.size,
    )
    right = sums == stored
    records = int(numbers_at(log, places + 57, ">i4")[right].sum())
    return int(right.sum()), int((~right).sum()), missing, records


def columns(rows: int) -> SimpleNamespace:
    """Columns as a scan gives them: keys of 8 bytes, values of 20 to 120."""
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
        timestamps=1_700_000_000_000 + np.sort(random.integers(0, 3_600_000, rows)),
        keys=SimpleNamespace(data=data, positions=starts[:-1], lengths=key_lengths),
        values=SimpleNamespace(data=data, positions=starts[:-1] + 8, lengths=value_lengths),
    )


MIDDLE = 1_700_000_000_000 + 1_800_000


def wanted_row(row: jit.Row) -> bool:
    """The filter: the second half hour, longer values, one user."""
    return row.timestamp >= MIDDLE and row.value_length >= 40 and jit.equals(row.key, b"user0042")


def wanted_rows_numpy(some: Any) -> Int64s:
    """The same filter as NumPy does it, narrowing before the keys are compared."""
    rows = np.flatnonzero((some.timestamps >= MIDDLE) & (some.values.lengths >= 40))
    rows = rows[some.keys.lengths[rows] == 8]
    names = some.keys.data[some.keys.positions[rows][:, None] + np.arange(8)]
    kept: Int64s = rows[(names == np.frombuffer(b"user0042", np.uint8)).all(axis=1)]
    return kept


def tumbling_numpy(timestamps: Int64s, values: Int64s, width: int) -> tuple[Int64s, ...]:
    """Windows by NumPy: sort by window, then reduce runs."""
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
