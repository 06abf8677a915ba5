"""A compiled loop over a segment and its index, beside the same in NumPy."""

import random
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from engine.data.fresh import each_in_turn
from kstore import jit
from kstore._native.format.crc import crc32c
from kstore.bench.contest import Contest, scaled

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


def offsets_in_no_order(log: bytes, count: int, seed: int) -> Int64s:
    """Offsets of the log in random order, some beyond its end."""
    end = BASE_OFFSET
    position = 0
    while position < len(log):
        base, size = struct.unpack_from(">qi", log, position)
        end = base + struct.unpack_from(">i", log, position + 23)[0] + 1
        position += size + 12
    return np.random.default_rng(seed).integers(BASE_OFFSET, end + (end - BASE_OFFSET) // 50, count)


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
    """Big-endian numbers at many positions, gathered byte by byte with array operations."""
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


def reaching(records: int) -> Contest:
    log, index = segment(scaled(20_000, 20), records)
    asked = [offsets_in_no_order(log, scaled(20_000, 50), seed) for seed in range(16)]
    data = (np.frombuffer(log, np.uint8), np.frombuffer(index, np.uint8), BASE_OFFSET)
    return Contest(
        name=f"index, walk and CRC for {asked[0].size} offsets, {records} records a batch",
        calls={
            "compiled loop": each_in_turn(partial(reach, *data), asked),
            "NumPy": each_in_turn(partial(reach_numpy, *data), asked),
        },
        amount=asked[0].size,
        unit="offsets",
        bars=(("compiled loop", "NumPy", 2.0),),
    )


def contests() -> Iterator[Contest]:
    for records in (1, 10):  # with more, both wait for the bytes to checksum
        yield reaching(records)
