"""Minimal C loops that encode and decode records: the ceilings of the benchmarks.

They check only the end of their output, and trust their input; for benchmarks only.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, hold_writable_bytes, hold_writable_int32s, hold_writable_int64s,
)
from kstore._native.format.crc cimport crc32c
from kstore._native.format.cursor cimport get_u32, put_varint


def encode(bytes values, Py_ssize_t size, out):
    """Encode consecutive values of one size; returns (bytes, CRC-32C)."""
    cdef HeldBytes room = hold_writable_bytes(out)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(values)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(values) // size, n
    cdef uint8_t* to = room.data
    cdef uint8_t* end = to + room.size
    cdef int64_t body
    with nogil:
        for n in range(count):
            if end - to < size + 32:
                break
            body = 6 + size + (n > 63) + (n > 8191) + (size > 63)
            to = put_varint(to, body)
            to[0] = 0
            to[1] = 0
            to = put_varint(to + 2, n)
            to[0] = 1
            to = put_varint(to + 1, size)
            memcpy(to, at + n * size, size)
            to[size] = 0
            to += size + 1
    return to - room.data, crc32c(0, room.data, to - room.data)


cdef inline int32_t next_varint(const uint8_t** at) noexcept nogil:
    cdef uint32_t value = 0
    cdef int shift = 0
    while at[0][0] >= 0x80:
        value |= <uint32_t>(at[0][0] & 0x7F) << shift
        at[0] += 1
        shift += 7
    value |= <uint32_t>at[0][0] << shift
    at[0] += 1
    return <int32_t>((value >> 1) ^ (0 - (value & 1)))


def decode(bytes batches, positions, lengths):
    """Find the values in complete batches; returns (records, batches with a wrong CRC-32C)."""
    cdef HeldColumn starts = hold_writable_int64s(positions, "positions")
    cdef HeldColumn sizes = hold_writable_int32s(lengths, "lengths")
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(batches)
    cdef const uint8_t* end = start + PyBytes_GET_SIZE(batches)
    cdef const uint8_t* batch = start
    cdef const uint8_t* at
    cdef const uint8_t* next_record
    cdef const uint8_t* next_batch
    cdef int64_t* to_positions = <int64_t*>starts.data
    cdef int32_t* to_lengths = <int32_t*>sizes.data
    cdef Py_ssize_t row = 0, most = min(starts.count, sizes.count)
    cdef int64_t wrong = 0
    cdef int32_t size
    with nogil:
        while batch < end:
            next_batch = batch + 12 + get_u32(batch + 8)
            wrong += crc32c(0, batch + 21, next_batch - batch - 21) != get_u32(batch + 17)
            at = batch + 61
            while at < next_batch and row < most:
                size = next_varint(&at)
                next_record = at + size
                at += 1
                next_varint(&at)  # of the timestamp
                next_varint(&at)  # of the offset
                size = next_varint(&at)
                at += size if size > 0 else 0  # over the key
                to_lengths[row] = next_varint(&at)
                to_positions[row] = at - start
                row += 1
                at = next_record
            batch = next_batch
    return row, wrong
