"""Bytes of varying length, given by position and length in one piece of data."""

from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kstore._native.cursor cimport Cursor
from kstore._native.record cimport parse_headers
from kstore._native.span cimport take_header
from kstore._native.status cimport OK


cdef int _check(Py_buffer* view, int64_t position, int64_t length, Py_ssize_t row) except -1:
    if length > 0 and (position < 0 or position > view.len or length > view.len - position):
        raise ValueError(f"row {row}: position {position} with length {length} is outside the data")
    return 0


def gather(data, const int64_t[:] positions, const int32_t[:] lengths):
    """The rows as a list of bytes, None where the length is negative."""
    cdef Py_buffer view
    cdef Py_ssize_t n, count = positions.shape[0]
    cdef list out
    if lengths.shape[0] != count:
        raise ValueError("positions and lengths differ in count")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        out = [None] * count
        for n in range(count):
            if lengths[n] >= 0:
                _check(&view, positions[n], lengths[n], n)
                out[n] = PyBytes_FromStringAndSize(
                    <const char*>view.buf + positions[n], lengths[n]
                )
        return out
    finally:
        PyBuffer_Release(&view)


def read_headers(data, int64_t position, int32_t count):
    """The headers that start at a position, as ((name, value), ...)."""
    cdef Py_buffer view
    if count <= 0:
        return ()
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if position < 0 or position > view.len:
            raise ValueError(f"position {position} is outside the data")
        return parse_headers(
            <const uint8_t*>view.buf + position, <const uint8_t*>view.buf + view.len, count
        )
    finally:
        PyBuffer_Release(&view)


def place_headers(data, const int64_t[:] positions, const int32_t[:] counts,
                  int64_t[::1] name_positions, int32_t[::1] name_lengths,
                  int64_t[::1] value_positions, int32_t[::1] value_lengths):
    """Fill the places of all headers of all rows, one after another."""
    cdef Py_buffer view
    cdef Cursor cursor
    cdef int32_t _k
    cdef Py_ssize_t n, to = 0, room = name_positions.shape[0]
    cdef const uint8_t* name
    cdef const uint8_t* value
    cdef int32_t name_size, value_size
    if not (room == name_lengths.shape[0] == value_positions.shape[0] == value_lengths.shape[0]):
        raise ValueError("the output arrays differ in length")
    if positions.shape[0] != counts.shape[0]:
        raise ValueError("positions and counts differ in length")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for n in range(positions.shape[0]):
            if counts[n] <= 0:
                continue
            _check(&view, positions[n], 1, n)
            cursor.position = <const uint8_t*>view.buf + positions[n]
            cursor.end = <const uint8_t*>view.buf + view.len
            for _k in range(counts[n]):
                if to == room:
                    raise ValueError("more headers than room for them")
                if take_header(&cursor, &name_size, &value_size, &name, &value) != OK:
                    raise ValueError(f"the headers of row {n} do not parse")
                name_positions[to] = name - <const uint8_t*>view.buf
                name_lengths[to] = name_size
                value_positions[to] = value - <const uint8_t*>view.buf
                value_lengths[to] = value_size
                to += 1
        return to
    finally:
        PyBuffer_Release(&view)


def total_size(const int32_t[:] lengths):
    """The sum of the lengths that are not negative."""
    cdef int64_t total = 0
    cdef Py_ssize_t n
    for n in range(lengths.shape[0]):
        total += max(lengths[n], 0)
    return total


cdef Py_ssize_t _pack(
    const Py_buffer* data, const int64_t* positions, const int32_t* lengths, Py_ssize_t count,
    int32_t* offsets, uint8_t* out, Py_ssize_t room, Py_ssize_t* nulls,
) noexcept nogil:
    """Rows that were packed: all of them, or those before the first that does not fit."""
    cdef const uint8_t* source = <const uint8_t*>data.buf
    cdef Py_ssize_t n, at = 0
    cdef int64_t position
    cdef int32_t length
    offsets[0] = 0
    for n in range(count):
        length = lengths[n]
        if length > 0:
            position = positions[n]
            if position < 0 or position > data.len or length > data.len - position:
                return n
            if length > room - at:
                return n
            # What follows in the data may be copied along: cheaper than to ask how much.
            if length <= 16 and room - at >= 16 and data.len - position >= 16:
                memcpy(out + at, source + position, 16)
            else:
                memcpy(out + at, source + position, length)
            at += length
        elif length < 0:
            nulls[0] += 1
        offsets[n + 1] = <int32_t>at
    return count


def pack(data, const int64_t[::1] positions, const int32_t[::1] lengths, offsets, out):
    """Copy the rows one after another into out, and where each begins into offsets."""
    cdef Py_buffer view, starts, target
    cdef Py_ssize_t count = positions.shape[0], done, nulls = 0
    if lengths.shape[0] != count:
        raise ValueError("positions and lengths differ in count")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(offsets, &starts, PyBUF_WRITABLE)
        try:
            PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
            try:
                if starts.len < 4 * (count + 1) or target.len > 0x7FFFFFFF:
                    raise ValueError("there is no room for the offsets, or the output is too large")
                if count == 0:
                    (<int32_t*>starts.buf)[0] = 0
                    return 0
                with nogil:
                    done = _pack(
                        &view, &positions[0], &lengths[0], count, <int32_t*>starts.buf,
                        <uint8_t*>target.buf, target.len, &nulls,
                    )
                if done < count:
                    raise ValueError(f"row {done} is outside the data, or the output is full")
                return nulls
            finally:
                PyBuffer_Release(&target)
        finally:
            PyBuffer_Release(&starts)
    finally:
        PyBuffer_Release(&view)


def binary_views(data, const int64_t[:] positions, const int32_t[:] lengths, uint8_t[::1] out):
    """Write Arrow's 16-byte views of the rows; only rows of 12 bytes or less are copied.

    A view is the length, then either the bytes themselves, or the first four of them, buffer
    number 0 and the position, which must be below 2 GiB (Arrow columnar format 1.4).
    """
    cdef Py_buffer view
    cdef Py_ssize_t n, count = positions.shape[0]
    cdef int32_t length, position
    cdef uint8_t* at
    if lengths.shape[0] != count or out.shape[0] != 16 * count:
        raise ValueError("positions, lengths and output differ in count")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for n in range(count):
            at = &out[16 * n]
            memset(at, 0, 16)
            length = lengths[n]
            if length <= 0:
                continue
            _check(&view, positions[n], length, n)
            memcpy(at, &length, 4)
            if length <= 12:
                memcpy(at + 4, <const uint8_t*>view.buf + positions[n], length)
                continue
            if positions[n] > 0x7FFFFFFF:
                raise ValueError("Arrow's views reach 2 GiB of data, no further")
            position = <int32_t>positions[n]
            memcpy(at + 4, <const uint8_t*>view.buf + positions[n], 4)
            memcpy(at + 12, &position, 4)
    finally:
        PyBuffer_Release(&view)
