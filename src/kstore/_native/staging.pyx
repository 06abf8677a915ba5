"""Arrow's columns to record batches v2, and such batches, staged in a file, to a place in a log.

The columns are Arrow's own buffers: bitmap, offsets, data. A row's place is checked against the
data before it is read, so that whatever built the buffers can at worst cause an error.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kstore._native.cursor cimport put_i32, put_i64, put_varint
from kstore._native.encode cimport BatchBuffer
from kstore._native.header cimport BatchHeader, crc_matches, read_header
from kstore._native.layout cimport (
    LOG_APPEND_TIME_BIT, V2_HEADER_SIZE, V2_LEADER_EPOCH_POSITION,
)
from kstore._native.span cimport RecordSpan
from kstore._native.stamp cimport restamp
from kstore._native.status cimport (
    BAD_CRC, BAD_MAGIC, BAD_OFFSET, OK, Status, raise_for_status, raise_named,
)

cdef int64_t INT32_MAX = 0x7FFFFFFF


cdef struct Place:
    const uint8_t* at       # undefined where size is -1
    int64_t size            # -1: null


@cython.final
cdef class ArrowBinary:
    """A binary or string column by its buffers; keeps them alive."""

    cdef Py_buffer validity, offsets, data
    cdef bint has_validity, has_offsets, has_data, wide
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t first

    def __init__(
        self, Py_ssize_t count, Py_ssize_t offset, validity, offsets, data, bint wide=False
    ):
        cdef Py_ssize_t width = 8 if wide else 4
        if self.has_validity or self.has_offsets or self.has_data:
            raise ValueError("a column is made once")
        if count < 0 or offset < 0 or offset > INT32_MAX or count > INT32_MAX:
            raise ValueError("count and offset are from 0 to 2147483647")
        self.wide = wide
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
            self.has_validity = True
            if self.validity.len < (offset + count + 7) // 8:
                raise ValueError("the bitmap is too short")
        if count:
            PyObject_GetBuffer(offsets, &self.offsets, PyBUF_SIMPLE)
            self.has_offsets = True
            if self.offsets.len // width < offset + count + 1:
                raise ValueError("there are too few offsets")
            if data is not None:
                PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
                self.has_data = True
        self.first = offset
        self.count = count

    def __dealloc__(self):
        if self.has_validity:
            PyBuffer_Release(&self.validity)
        if self.has_offsets:
            PyBuffer_Release(&self.offsets)
        if self.has_data:
            PyBuffer_Release(&self.data)

    cdef int64_t bound(self, Py_ssize_t row) noexcept nogil:
        cdef int32_t narrow
        cdef int64_t value
        row += self.first
        if self.wide:
            memcpy(&value, <const uint8_t*>self.offsets.buf + 8 * row, 8)
            return value
        memcpy(&narrow, <const uint8_t*>self.offsets.buf + 4 * row, 4)
        return narrow

    cdef bint is_null(self, Py_ssize_t row) noexcept nogil:
        row += self.first
        return self.has_validity and not (
            (<const uint8_t*>self.validity.buf)[row >> 3] >> (row & 7)) & 1

    cdef int find(self, Py_ssize_t row, Place* place) except -1:
        """Where the row's bytes are; the caller has checked that there is such a row."""
        cdef int64_t start, stop
        if self.is_null(row):
            place.size = -1
            return 0
        start = self.bound(row)
        stop = self.bound(row + 1)
        if start < 0 or stop < start or stop > (self.data.len if self.has_data else 0):
            raise ValueError(f"row {row} lies outside the data")
        if stop - start > INT32_MAX:
            raise_named("MessageTooLargeError", f"row {row} has more than 2147483647 bytes")
        place.at = <const uint8_t*>self.data.buf + start if self.has_data else NULL
        place.size = stop - start
        return 0

    def places(self, int64_t[::1] positions, int32_t[::1] lengths):
        cdef Py_ssize_t row
        cdef Place place
        if positions.shape[0] != self.count or lengths.shape[0] != self.count:
            raise ValueError("the columns differ in length")
        for row in range(self.count):
            self.find(row, &place)
            lengths[row] = <int32_t>place.size
            positions[row] = 0
            if place.size >= 0 and self.has_data:
                positions[row] = place.at - <const uint8_t*>self.data.buf


@cython.final
cdef class ArrowHeaders:
    """A column of lists of (key, value): the lists, and the columns that they point into."""

    cdef ArrowBinary lists      # its offsets count pairs; it has no data
    cdef ArrowBinary keys, values
    cdef uint8_t* scratch
    cdef int64_t capacity

    def __init__(self, ArrowBinary lists not None, ArrowBinary keys not None,
                 ArrowBinary values not None):
        if keys.count != values.count:
            raise ValueError("the columns differ in length")
        self.lists = lists
        self.keys = keys
        self.values = values

    def __dealloc__(self):
        free(self.scratch)

    cdef int room(self, int64_t size) except -1:
        cdef void* grown
        if size > INT32_MAX:
            raise_named("MessageTooLargeError", "headers are beyond 2147483647 bytes")
        if size > self.capacity:
            grown = realloc(self.scratch, max(size, 2 * self.capacity, <int64_t>256))
            if grown == NULL:
                raise MemoryError
            self.scratch = <uint8_t*>grown
            self.capacity = max(size, 2 * self.capacity, <int64_t>256)
        return 0

    cdef int encode(self, Py_ssize_t row, RecordSpan* span) except -1:
        """The row's headers in a record's spelling, in memory that the next row takes again."""
        cdef int64_t start, stop, n, size = 0
        cdef Place key, value
        cdef uint8_t* at
        span.header_count = 0
        span.header_size = 0
        if self.lists.is_null(row):
            return 0
        start = self.lists.bound(row)
        stop = self.lists.bound(row + 1)
        if start < 0 or stop < start or stop > self.keys.count or stop - start > INT32_MAX // 16:
            raise ValueError(f"the headers of row {row} lie outside the data")
        for n in range(start, stop):
            self.keys.find(n, &key)
            self.values.find(n, &value)
            if key.size < 0:
                raise_named("InvalidRecordError", f"a header of row {row} has a null key")
            self.room(size + key.size + max(value.size, <int64_t>0) + 20)
            at = put_varint(self.scratch + size, key.size)
            if key.size:
                memcpy(at, key.at, key.size)
            at = put_varint(at + key.size, value.size)
            if value.size > 0:
                memcpy(at, value.at, value.size)
                at += value.size
            size = at - self.scratch
        span.headers = self.scratch
        span.header_count = <int32_t>(stop - start)
        span.header_size = <int32_t>size
        return 0


def put_rows(
    BatchBuffer buffer not None, const int64_t[::1] rows, const int64_t[::1] timestamps,
    ArrowBinary keys, ArrowBinary values not None, ArrowHeaders headers, *, Py_ssize_t start=0,
    Py_ssize_t size_limit=0x7FFFFFFF,
):
    """Append ``rows[start:]`` until the batch would pass size_limit; returns how many fitted."""
    cdef Py_ssize_t count = timestamps.shape[0], n
    cdef int64_t row
    cdef RecordSpan span
    cdef Place place
    if (
        (keys is not None and keys.count != count) or values.count != count
        or (headers is not None and headers.lists.count != count)
    ):
        raise ValueError("the columns differ in length")
    if start < 0:
        raise ValueError("start is negative")
    span.headers = NULL
    span.header_count = 0
    span.header_size = 0
    span.key = NULL
    span.key_size = -1
    for n in range(start, rows.shape[0]):
        row = rows[n]
        if row < 0 or row >= count:
            raise ValueError(f"there is no row {row}")
        if keys is not None:
            keys.find(row, &place)
            span.key = place.at
            span.key_size = <int32_t>place.size
        values.find(row, &place)
        span.value = place.at
        span.value_size = <int32_t>place.size
        if headers is not None:
            headers.encode(row, &span)
        if not buffer.put_span(&span, timestamps[row], None, size_limit):
            return n - start
    return max(rows.shape[0] - start, 0)


def place_batches(
    buffer, Py_ssize_t start, Py_ssize_t most, int64_t base_offset, int32_t leader_epoch,
    int64_t append_time=-1,
):
    """Give batches v2 from start on offsets, epoch and (from 0 on) a LogAppendTime, in place.

    Whole batches of together at most that many bytes, but always one. Returns where they end,
    and the offset that follows. Every checksum is compared first.
    """
    cdef Py_buffer view
    cdef BatchHeader header
    cdef Status status
    cdef int64_t position = start, offset = base_offset, count
    cdef uint8_t* at
    cdef uint8_t[V2_HEADER_SIZE] stamped
    memset(&header, 0, sizeof(header))
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        if start < 0 or start > view.len or base_offset < 0:
            raise ValueError("start and base_offset lie within the buffer and the log")
        while position < view.len:
            status = read_header(<const uint8_t*>view.buf, position, view.len, &header)
            if status == OK and header.magic != 2:
                status = BAD_MAGIC
            if status == OK and not 0 <= header.base_offset <= header.last_offset:
                status = BAD_OFFSET
            if status == OK and not crc_matches(<const uint8_t*>view.buf, &header):
                status = BAD_CRC
            if status != OK:
                raise_for_status(status, None, position, offset)
            if position > start and position + header.size - start > most:
                break
            count = header.last_offset - header.base_offset + 1
            if offset > INT64_MAX - count:
                raise_for_status(BAD_OFFSET, None, position, offset)
            at = <uint8_t*>view.buf + position
            if append_time >= 0:
                restamp(
                    &stamped[0], at, header.size, offset, leader_epoch,
                    <int16_t>(header.attributes | LOG_APPEND_TIME_BIT), append_time,
                )
                memcpy(at, &stamped[0], V2_HEADER_SIZE)
            else:
                put_i64(at, offset)
                put_i32(at + V2_LEADER_EPOCH_POSITION, leader_epoch)
            position += header.size
            offset += count
    finally:
        PyBuffer_Release(&view)
    return position, offset
