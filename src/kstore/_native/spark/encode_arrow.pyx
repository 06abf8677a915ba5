"""Encodes Arrow columns into v2 record batches, and assigns log offsets to staged batches.

Columns are Arrow buffers: bitmap, offsets, data. Each row's range is checked against the data
before a read, so invalid buffers raise an error.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kstore._native.append.encode cimport BatchBuffer
from kstore._native.append.stamp_batch cimport restamp
from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, hold_bytes, hold_int32s, hold_int64s, hold_writable_bytes,
    hold_writable_int32s, hold_writable_int64s, int32_at, int64_at,
)
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.cursor cimport put_i32, put_i64, put_varint
from kstore._native.format.layout cimport (
    LOG_APPEND_TIME_BIT, V2_HEADER_SIZE, V2_LEADER_EPOCH_POSITION,
)
from kstore._native.format.record_span cimport RecordSpan
from kstore._native.format.status cimport (
    BAD_CRC, BAD_MAGIC, BAD_OFFSET, OK, Status, raise_for_status, raise_named,
)

cdef extern from "spark/mix_hash.h" nogil:
    uint64_t mix_hash(const uint8_t* data, int64_t size, uint64_t seed, const uint64_t* secret)

cdef int64_t INT32_MAX = 0x7FFFFFFF
# Files store sums of these hashes: never change these numbers.
cdef uint64_t[2] CHECKSUM_SECRET = [0xA0761D6478BD642FULL, 0xE7037ED1A0B428DBULL]
cdef uint64_t NULL_SEED = 0x8EBC6AF09C88C6E3ULL


cdef struct Field:
    const uint8_t* at       # undefined if size is -1
    int64_t size            # -1: null


@cython.final
cdef class ArrowBinary:
    """A binary or string column, given by its buffers, which it holds."""

    cdef Py_buffer validity, offsets, data
    cdef bint has_validity, has_offsets, has_data, wide
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t first

    def __init__(
        self, Py_ssize_t count, Py_ssize_t offset, validity, offsets, data, bint wide=False
    ):
        cdef Py_ssize_t width = 8 if wide else 4
        if self.has_validity or self.has_offsets or self.has_data:
            raise ValueError("the column is already initialized")
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

    cdef int locate(self, Py_ssize_t row, Field* field) except -1:
        """Find the row's bytes; the caller has checked that the row exists."""
        cdef int64_t start, stop
        if self.is_null(row):
            field.size = -1
            return 0
        start = self.bound(row)
        stop = self.bound(row + 1)
        if start < 0 or stop < start or stop > (self.data.len if self.has_data else 0):
            raise ValueError(f"row {row} is outside the data")
        if stop - start > INT32_MAX:
            raise_named("MessageTooLargeError", f"row {row} has more than 2147483647 bytes")
        field.at = <const uint8_t*>self.data.buf + start if self.has_data else NULL
        field.size = stop - start
        return 0

    def locate_rows(self, positions, lengths):
        cdef HeldColumn starts = hold_writable_int64s(positions, "positions")
        cdef HeldColumn sizes = hold_writable_int32s(lengths, "lengths")
        cdef Py_ssize_t row
        cdef Field field
        if starts.count != self.count or sizes.count != self.count:
            raise ValueError("the columns differ in length")
        for row in range(self.count):
            self.locate(row, &field)
            (<int32_t*>sizes.data)[row] = <int32_t>field.size
            (<int64_t*>starts.data)[row] = 0
            if field.size >= 0 and self.has_data:
                (<int64_t*>starts.data)[row] = field.at - <const uint8_t*>self.data.buf


@cython.final
cdef class ArrowHeaders:
    """A column of lists of (key, value): the lists, and the key and value columns."""

    cdef ArrowBinary lists      # its offsets are indexes of pairs; it has no data
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

    cdef int reserve(self, int64_t size) except -1:
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
        """Encode the row's headers, in memory that the next row reuses."""
        cdef int64_t start, stop, n, size = 0
        cdef Field key, value
        cdef uint8_t* at
        span.header_count = 0
        span.header_size = 0
        if self.lists.is_null(row):
            return 0
        start = self.lists.bound(row)
        stop = self.lists.bound(row + 1)
        if start < 0 or stop < start or stop > self.keys.count or stop - start > INT32_MAX // 16:
            raise ValueError(f"the headers of row {row} are outside the data")
        for n in range(start, stop):
            self.keys.locate(n, &key)
            self.values.locate(n, &value)
            if key.size < 0:
                raise_named("InvalidRecordError", f"a header of row {row} has a null key")
            self.reserve(size + key.size + max(value.size, <int64_t>0) + 20)
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
    BatchBuffer buffer not None, rows, timestamps, ArrowBinary keys, ArrowBinary values not None,
    ArrowHeaders headers, *, Py_ssize_t start=0, Py_ssize_t size_limit=0x7FFFFFFF,
):
    """Append ``rows[start:]`` up to size_limit bytes of batch; returns their number."""
    cdef HeldColumn chosen = hold_int64s(rows, "rows")
    cdef HeldColumn times = hold_int64s(timestamps, "timestamps")
    cdef const int64_t* wanted = <const int64_t*>chosen.data
    cdef const int64_t* stamps = <const int64_t*>times.data
    cdef Py_ssize_t count = times.count, n
    cdef int64_t row
    cdef RecordSpan span
    cdef Field field
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
    for n in range(start, chosen.count):
        row = wanted[n]
        if row < 0 or row >= count:
            raise ValueError(f"there is no row {row}")
        if keys is not None:
            keys.locate(row, &field)
            span.key = field.at
            span.key_size = <int32_t>field.size
        values.locate(row, &field)
        span.value = field.at
        span.value_size = <int32_t>field.size
        if headers is not None:
            headers.encode(row, &span)
        if not buffer.put_span(&span, stamps[row], None, size_limit):
            return n - start
    return max(chosen.count - start, 0)


cdef inline uint64_t hash_field(const Field* field, uint64_t seed) noexcept nogil:
    if field.size < 0:
        return mix_hash(NULL, 0, seed ^ NULL_SEED, CHECKSUM_SECRET)
    return mix_hash(field.at, field.size, seed, CHECKSUM_SECRET)


def sum_row_hashes(
    topic, rows, timestamps, partitions, ArrowBinary keys, ArrowBinary values not None,
    ArrowHeaders headers,
):
    """The sum, modulo 2^64, of a hash of each row, independent of their order."""
    cdef HeldBytes name = hold_bytes(topic)
    cdef HeldColumn times = hold_int64s(timestamps, "timestamps")
    cdef HeldColumn chosen = None if rows is None else hold_int64s(rows, "rows")
    cdef HeldColumn numbered = None if partitions is None else hold_int32s(partitions, "partitions")
    cdef Py_ssize_t count = times.count, n
    cdef int64_t row
    cdef uint64_t value, start, total = 0
    cdef RecordSpan span
    cdef Field field
    cdef uint8_t[12] numbers
    cdef int32_t partition = -1
    if (
        (keys is not None and keys.count != count) or values.count != count
        or (headers is not None and headers.lists.count != count)
        or (numbered is not None and numbered.count != count)
    ):
        raise ValueError("the columns differ in length")
    start = mix_hash(name.data, name.size, 0, CHECKSUM_SECRET)
    for n in range(count if chosen is None else chosen.count):
        row = n if chosen is None else int64_at(chosen, n)
        if row < 0 or row >= count:
            raise ValueError(f"there is no row {row}")
        field.size = -1
        if keys is not None:
            keys.locate(row, &field)
        value = hash_field(&field, start)
        values.locate(row, &field)
        value = hash_field(&field, value)
        field.size = 0
        if headers is not None:
            headers.encode(row, &span)
            field.at = span.headers
            field.size = span.header_size
        value = hash_field(&field, value)
        if numbered is not None:
            partition = int32_at(numbered, row)
        memcpy(&numbers[0], times.data + 8 * row, 8)
        memcpy(&numbers[8], &partition, 4)
        total += mix_hash(&numbers[0], 12, value, CHECKSUM_SECRET)
    return total


def assign_offsets(
    buffer, Py_ssize_t start, Py_ssize_t max_bytes, int64_t base_offset, int32_t leader_epoch,
    int64_t append_time=-1,
):
    """Write offsets, epoch and, if append_time is not negative, LogAppendTime into v2 batches.

    Processes up to max_bytes bytes of complete batches, but at least one. Returns the position
    and the offset after them. Verifies every checksum.
    """
    cdef HeldBytes view = hold_writable_bytes(buffer)
    cdef BatchHeader header
    cdef Status status
    cdef int64_t position = start, offset = base_offset, count
    cdef uint8_t* at
    cdef uint8_t[V2_HEADER_SIZE] stamped
    memset(&header, 0, sizeof(header))
    if start < 0 or start > view.size or base_offset < 0:
        raise ValueError("start is outside the buffer, or base_offset is negative")
    while position < view.size:
        status = read_header(view.data, position, view.size, &header)
        if status == OK and header.magic != 2:
            status = BAD_MAGIC
        if status == OK and not 0 <= header.base_offset <= header.last_offset:
            status = BAD_OFFSET
        if status == OK and not crc_matches(view.data, &header):
            status = BAD_CRC
        if status != OK:
            raise_for_status(status, None, position, offset)
        if position > start and position + header.size - start > max_bytes:
            break
        count = header.last_offset - header.base_offset + 1
        if offset > INT64_MAX - count:
            raise_for_status(BAD_OFFSET, None, position, offset)
        at = view.data + position
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
    return position, offset
