"""Bytes of varying length, given by position and length in one buffer."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, hold_bytes, hold_int32s, hold_int64s, hold_strided_int32s,
    hold_strided_int64s, hold_writable_bytes, hold_writable_int32s, hold_writable_int64s, int32_at,
    int64_at,
)
from kstore._native.format.cursor cimport Cursor
from kstore._native.format.record cimport parse_headers
from kstore._native.format.record_span cimport parse_header
from kstore._native.format.status cimport OK


cdef int _check(HeldBytes view, int64_t position, int64_t length, Py_ssize_t row) except -1:
    if length > 0 and (position < 0 or position > view.size or length > view.size - position):
        raise ValueError(f"row {row}: position {position} with length {length} is outside the data")
    return 0


def gather(data, positions, lengths):
    """The rows as a list of bytes, None for a negative length."""
    cdef HeldColumn starts = hold_strided_int64s(positions, "positions")
    cdef HeldColumn sizes = hold_strided_int32s(lengths, "lengths")
    cdef HeldBytes view
    cdef Py_ssize_t n, count = starts.count
    cdef int32_t size
    cdef list out
    if sizes.count != count:
        raise ValueError("positions and lengths differ in count")
    view = hold_bytes(data)
    out = [None] * count
    for n in range(count):
        size = int32_at(sizes, n)
        if size >= 0:
            _check(view, int64_at(starts, n), size, n)
            out[n] = PyBytes_FromStringAndSize(
                <const char*>view.data + int64_at(starts, n), size
            )
    return out


def read_headers(data, int64_t position, int32_t count):
    """Parse the headers at a position, as ((name, value), ...)."""
    cdef HeldBytes view
    if count <= 0:
        return ()
    view = hold_bytes(data)
    if position < 0 or position > view.size:
        raise ValueError(f"position {position} is outside the data")
    return parse_headers(view.data + position, view.data + view.size, count)


def locate_headers(
    data, positions, counts, name_positions, name_lengths, value_positions, value_lengths
):
    """Fill the arrays with the positions of all rows' headers; returns their number."""
    cdef HeldColumn starts = hold_strided_int64s(positions, "positions")
    cdef HeldColumn header_counts = hold_strided_int32s(counts, "counts")
    cdef HeldColumn names = hold_writable_int64s(name_positions, "name_positions")
    cdef HeldColumn name_sizes = hold_writable_int32s(name_lengths, "name_lengths")
    cdef HeldColumn values = hold_writable_int64s(value_positions, "value_positions")
    cdef HeldColumn value_sizes = hold_writable_int32s(value_lengths, "value_lengths")
    cdef HeldBytes view
    cdef Cursor cursor
    cdef int32_t _k
    cdef Py_ssize_t n, to = 0, room = names.count
    cdef const uint8_t* name
    cdef const uint8_t* value
    cdef int32_t name_size, value_size
    if not (room == name_sizes.count == values.count == value_sizes.count):
        raise ValueError("the output arrays differ in length")
    if starts.count != header_counts.count:
        raise ValueError("positions and counts differ in length")
    view = hold_bytes(data)
    for n in range(starts.count):
        if int32_at(header_counts, n) <= 0:
            continue
        _check(view, int64_at(starts, n), 1, n)
        cursor.position = view.data + int64_at(starts, n)
        cursor.end = view.data + view.size
        for _k in range(int32_at(header_counts, n)):
            if to == room:
                raise ValueError("the output arrays are too small for the headers")
            if parse_header(&cursor, &name_size, &value_size, &name, &value) != OK:
                raise ValueError(f"the headers of row {n} do not parse")
            (<int64_t*>names.data)[to] = name - view.data
            (<int32_t*>name_sizes.data)[to] = name_size
            (<int64_t*>values.data)[to] = value - view.data
            (<int32_t*>value_sizes.data)[to] = value_size
            to += 1
    return to


def total_size(lengths):
    """The sum of the lengths that are not negative."""
    cdef HeldColumn sizes = hold_strided_int32s(lengths, "lengths")
    cdef int64_t total = 0
    cdef Py_ssize_t n
    for n in range(sizes.count):
        total += max(int32_at(sizes, n), 0)
    return total


cdef Py_ssize_t _pack(
    HeldBytes data, const int64_t* positions, const int32_t* lengths, Py_ssize_t count,
    int32_t* offsets, uint8_t* out, Py_ssize_t room, Py_ssize_t* nulls,
) noexcept nogil:
    """Returns the number of rows copied: all, or those before the first that does not fit."""
    cdef const uint8_t* source = data.data
    cdef Py_ssize_t n, at = 0
    cdef int64_t position
    cdef int32_t length
    offsets[0] = 0
    for n in range(count):
        length = lengths[n]
        if length > 0:
            position = positions[n]
            if position < 0 or position > data.size or length > data.size - position:
                return n
            if length > room - at:
                return n
            # A copy of fixed size is faster; the next row overwrites what is too much.
            if length <= 16 and room - at >= 16 and data.size - position >= 16:
                memcpy(out + at, source + position, 16)
            else:
                memcpy(out + at, source + position, length)
            at += length
        elif length < 0:
            nulls[0] += 1
        offsets[n + 1] = <int32_t>at
    return count


def pack(data, positions, lengths, offsets, out):
    """Copy the rows to out, without gaps, and their starts to offsets."""
    cdef HeldColumn rows = hold_int64s(positions, "positions")
    cdef HeldColumn sizes = hold_int32s(lengths, "lengths")
    cdef HeldBytes view = hold_bytes(data)
    cdef HeldBytes starts = hold_writable_bytes(offsets)
    cdef HeldBytes target = hold_writable_bytes(out)
    cdef Py_ssize_t count = rows.count, done, nulls = 0
    if sizes.count != count:
        raise ValueError("positions and lengths differ in count")
    if starts.size < 4 * (count + 1) or target.size > 0x7FFFFFFF:
        raise ValueError("offsets is too small, or the output is too large")
    if count == 0:
        (<int32_t*>starts.data)[0] = 0
        return 0
    with nogil:
        done = _pack(
            view, <const int64_t*>rows.data, <const int32_t*>sizes.data, count,
            <int32_t*>starts.data, target.data, target.size, &nulls,
        )
    if done < count:
        raise ValueError(f"row {done} is outside the data, or the output is full")
    return nulls


def binary_views(data, positions, lengths, out):
    """Write Arrow's 16-byte views of the rows; copies only rows of up to 12 bytes.

    A view is the length, then either the bytes themselves, or the first four of them, buffer
    number 0 and the position, which must be below 2 GiB (Arrow columnar format 1.4).
    """
    cdef HeldColumn starts = hold_strided_int64s(positions, "positions")
    cdef HeldColumn sizes = hold_strided_int32s(lengths, "lengths")
    cdef HeldBytes views = hold_writable_bytes(out)
    cdef HeldBytes view
    cdef Py_ssize_t n, count = starts.count
    cdef int64_t start
    cdef int32_t length, position
    cdef uint8_t* at
    if sizes.count != count or views.size != 16 * count:
        raise ValueError("positions, lengths and output differ in count")
    view = hold_bytes(data)
    for n in range(count):
        at = views.data + 16 * n
        memset(at, 0, 16)
        length = int32_at(sizes, n)
        if length <= 0:
            continue
        start = int64_at(starts, n)
        _check(view, start, length, n)
        memcpy(at, &length, 4)
        if length <= 12:
            memcpy(at + 4, view.data + start, length)
            continue
        if start > 0x7FFFFFFF:
            raise ValueError("Arrow's views address only 2 GiB of data")
        position = <int32_t>start
        memcpy(at + 4, view.data + start, 4)
        memcpy(at + 12, &position, 4)
