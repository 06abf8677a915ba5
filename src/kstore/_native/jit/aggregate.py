"""Time windows, groups and top-k in one pass over columns, without Python objects."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kstore._native.jit.cache import compiled
from kstore._native.jit.kernels import key_hash
from kstore._native.jit.views import Bytes

Int64s = NDArray[np.int64]


class Windows(NamedTuple):
    """Tumbling windows with at least one row, in order of start; int64 arrays."""

    start: Int64s
    count: Int64s  # type: ignore[assignment]
    sum: Int64s
    minimum: Int64s
    maximum: Int64s


class Groups(NamedTuple):
    """Groups of rows with equal keys; int64 arrays."""

    first: Int64s  # per group, in order of appearance: its first row
    group: Int64s  # per row: its group


@compiled
def _slot_of(number: int, mask: int) -> Any:
    """First slot of a number (Fibonacci hashing, so that neighbours do not cluster)."""
    mixed = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(32)) & mask


@compiled
def _with_room(table: Int64s, distinct: Int64s, known: int) -> Any:
    """The hash table of the first ``known`` numbers, doubled if it is half full."""
    if known * 2 < table.size:
        return table
    table = np.full(table.size * 2, -1, np.int64)
    for n in range(known):
        slot = _slot_of(distinct[n], table.size - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (table.size - 1)
        table[slot] = n
    return table


@compiled
def tumbling(timestamps: Int64s, values: Int64s, width: int) -> Any:
    """Count, sum, minimum and maximum of ``values`` per window of ``width`` milliseconds.

    A window starts at a multiple of ``width`` (also below 0). Sums wrap at 64 bits. ``timestamps``
    and ``values`` are int64 of the same length, in any order (order of time is fastest). Memory:
    about 60 bytes for each window that has rows. Returns ``Windows``; ``ValueError`` for a width
    below 1 or lengths that differ.
    """
    if width < 1:
        raise ValueError("the width of a window is at least 1 ms")
    if timestamps.size != values.size:
        raise ValueError("timestamps and values differ in length")
    # Reserves the maximum; only pages of windows that occur use memory.
    number = np.empty(values.size, np.int64)
    count = np.empty(values.size, np.int64)
    total = np.empty(values.size, np.int64)
    minimum = np.empty(values.size, np.int64)
    maximum = np.empty(values.size, np.int64)
    table = np.full(64, -1, np.int64)
    known = row = 0
    while row < values.size:
        wanted = timestamps[row] // width
        start = wanted * width
        rows, added = 0, np.int64(0)
        low = high = values[row]
        while row < values.size:  # consecutive rows of one window, in registers
            time = timestamps[row]
            if rows > 0 and (time < start or np.uint64(time - start) >= np.uint64(width)):
                break
            value = values[row]
            rows += 1
            added += value
            low = min(low, value)
            high = max(high, value)
            row += 1
        table = _with_room(table, number, known)
        slot = _slot_of(wanted, table.size - 1)
        while table[slot] >= 0 and number[table[slot]] != wanted:
            slot = (slot + 1) & (table.size - 1)
        window = table[slot]
        if window < 0:
            table[slot] = window = known
            known += 1
            number[window] = wanted
            count[window] = rows
            total[window] = added
            minimum[window] = low
            maximum[window] = high
        else:
            count[window] += rows
            total[window] += added
            minimum[window] = min(minimum[window], low)
            maximum[window] = max(maximum[window], high)
    order = np.argsort(number[:known])
    return Windows(
        number[order] * width, count[order], total[order], minimum[order], maximum[order]
    )


@compiled
def _same_key(data: Bytes, positions: Int64s, lengths: Any, one: int, other: int) -> Any:
    if lengths[one] != lengths[other]:
        return False
    for n in range(lengths[one]):  # noqa: SIM110 - a generator would not compile
        if data[positions[one] + n] != data[positions[other] + n]:
            return False
    return True


@compiled
def group_by_key(data: Bytes, positions: Int64s, lengths: Any) -> Any:
    """Group rows by key, compared byte by byte after equal murmur2 hashes.

    ``data`` is uint8, ``positions`` int64, ``lengths`` int32 with -1 for null, as in a key
    column. Null and empty keys are different groups. Returns ``Groups``; ``IndexError`` for a key
    outside the data.
    """
    if positions.size != lengths.size:
        raise ValueError("positions and lengths differ in length")
    group = np.empty(lengths.size, np.int64)
    first = np.empty(lengths.size, np.int64)
    hashes = np.empty(lengths.size, np.int64)
    table = np.full(64, -1, np.int64)
    known = 0
    for row in range(lengths.size):
        length = np.int64(lengths[row])
        if length > 0 and (positions[row] < 0 or positions[row] > data.size - length):
            raise IndexError("a key is outside the data")
        hashed = key_hash(data, positions[row], length) if length >= 0 else np.int64(-1) << 40
        table = _with_room(table, hashes, known)
        slot = _slot_of(hashed, table.size - 1)
        while table[slot] >= 0 and not (
            hashes[table[slot]] == hashed
            and _same_key(data, positions, lengths, first[table[slot]], row)
        ):
            slot = (slot + 1) & (table.size - 1)
        if table[slot] < 0:
            table[slot] = known
            first[known] = row
            hashes[known] = hashed
            known += 1
        group[row] = table[slot]
    return Groups(first[:known].copy(), group)


@compiled
def sum_by_group(group: Int64s, values: Int64s, count: int) -> Any:
    """Number of rows and sum of values of each of ``count`` groups: two int64 arrays.

    ``group`` is from ``Groups``. Sums wrap at 64 bits. ``IndexError`` for a group outside
    ``0..count - 1``, ``ValueError`` for lengths that differ.
    """
    if group.size != values.size:
        raise ValueError("group and values differ in length")
    rows = np.zeros(count, np.int64)
    total = np.zeros(count, np.int64)
    for row in range(group.size):
        if group[row] < 0 or group[row] >= count:
            raise IndexError("a group is outside 0 to count - 1")
        rows[group[row]] += 1
        total[group[row]] += values[row]
    return rows, total


@compiled
def _below(values: Int64s, row: int, other: int) -> Any:
    """Whether a row ranks below another: by value; of equal values, the later row."""
    return values[row] < values[other] or (values[row] == values[other] and row > other)


@compiled
def top_k(values: Int64s, k: int) -> Any:
    """Rows of the ``k`` largest values (int64), largest first; of equal values, the first row."""
    heap = np.empty(max(0, min(k, values.size)), np.int64)
    size = 0
    for row in range(values.size):
        if size < heap.size:  # a heap whose root is the smallest selected value
            at = size
            size += 1
            while at > 0:
                parent = (at - 1) >> 1
                if _below(values, heap[parent], row):
                    break
                heap[at] = heap[parent]
                at = parent
            heap[at] = row
        elif size > 0 and _below(values, heap[0], row):
            at = 0
            while 2 * at + 1 < size:
                child = 2 * at + 1
                if child + 1 < size and _below(values, heap[child + 1], heap[child]):
                    child += 1
                if not _below(values, heap[child], row):
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = row
    later_first = np.sort(heap)[::-1].copy()
    order = np.argsort(values[later_first], kind="mergesort")[::-1]
    return later_first[order]
