"""A Produce request that has one uncompressed batch for one partition, and its answer.

Only the usual form is parsed here. Everything else, malformed requests included, is left to the
generated modules (:mod:`kstore.protocol.messages.produce`).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.format.cursor cimport get_i16, get_i32, put_i16, put_i32, put_i64
from kstore._native.format.layout cimport (
    CODEC_MASK, CONTROL_BIT, LOG_OVERHEAD, MAGIC_POSITION, TRANSACTIONAL_BIT,
    V2_ATTRIBUTES_POSITION, V2_HEADER_SIZE,
)

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char* data, Py_ssize_t size, const char* errors)

cdef enum:
    HEADER_SIZE = 8             # API key, version, correlation id
    FIRST_VERSION = 3           # of batches v2
    FLEXIBLE_FROM = 9


cdef inline bint is_ascii(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef uint8_t seen = 0
    cdef Py_ssize_t n
    for n in range(size):
        seen |= text[n]
    return seen < 0x80


cdef inline Py_ssize_t short_varint(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """An unsigned number of at most 28 bits; -1 for another."""
    cdef Py_ssize_t value = 0
    cdef int shift
    cdef uint8_t byte
    for shift in range(0, 28, 7):
        if at[0] >= end:
            return -1
        byte = at[0][0]
        at[0] += 1
        value |= <Py_ssize_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return value
    return -1


cdef inline bint skip_client_id(const uint8_t** at, const uint8_t* end) noexcept nogil:
    cdef int16_t size
    if end - at[0] < 2:
        return False
    size = get_i16(at[0])
    at[0] += 2
    if size == -1:
        return True
    if size < 0 or size > end - at[0] or not is_ascii(at[0], size):
        return False
    at[0] += size
    return True


cdef bint parse_old(
    const uint8_t* at, const uint8_t* start, const uint8_t* end, PlainProduce* out
) noexcept nogil:
    """The body of versions 3 to 8, behind the client id."""
    cdef int16_t size
    # Transactional id, acks, timeout, number of topics, size of the name.
    if end - at < 14 or get_i16(at) != -1 or get_i32(at + 8) != 1:
        return False
    out.acks = get_i16(at + 2)
    size = get_i16(at + 12)
    at += 14
    # Number of partitions, index, size of the records.
    if size <= 0 or size > LONGEST_NAME or end - at < size + 12:
        return False
    out.name, out.name_size = at, size
    at += size
    if get_i32(at) != 1:
        return False
    out.partition = get_i32(at + 4)
    out.size = get_i32(at + 8)
    out.position = at + 12 - start
    return out.size >= V2_HEADER_SIZE and out.size == end - at - 12


cdef bint parse_flexible(
    const uint8_t* at, const uint8_t* start, const uint8_t* end, PlainProduce* out
) noexcept nogil:
    """The body of versions 9 to 11, behind the client id: no tagged field."""
    cdef Py_ssize_t size
    # Tags of the header, transactional id, acks, timeout, number of topics.
    if end - at < 9 or at[0] != 0 or at[1] != 0 or at[8] != 2:
        return False
    out.acks = get_i16(at + 2)
    at += 9
    size = short_varint(&at, end) - 1
    # Number of partitions, index.
    if size <= 0 or size > LONGEST_NAME or end - at < size + 5:
        return False
    out.name, out.name_size = at, size
    at += size
    if at[0] != 2:
        return False
    out.partition = get_i32(at + 1)
    at += 5
    out.size = short_varint(&at, end) - 1
    out.position = at - start
    if out.size < V2_HEADER_SIZE or out.size != end - at - 3:
        return False
    return end[-1] == 0 and end[-2] == 0 and end[-3] == 0


cdef bint parse_frame(const uint8_t* start, Py_ssize_t size, PlainProduce* out) noexcept nogil:
    cdef const uint8_t* end = start + size
    cdef const uint8_t* at = start + HEADER_SIZE
    cdef const uint8_t* batch
    cdef int16_t attributes
    if size < HEADER_SIZE or get_i16(start) != 0:
        return False
    out.version = get_i16(start + 2)
    out.correlation_id = get_i32(start + 4)
    if not FIRST_VERSION <= out.version <= LAST_VERSION or not skip_client_id(&at, end):
        return False
    if out.version < FLEXIBLE_FROM:
        if not parse_old(at, start, end, out):
            return False
    elif not parse_flexible(at, start, end, out):
        return False
    if not is_ascii(out.name, out.name_size):
        return False
    batch = start + out.position
    attributes = get_i16(batch + V2_ATTRIBUTES_POSITION)
    return (
        get_i32(batch + 8) == out.size - LOG_OVERHEAD
        and batch[MAGIC_POSITION] == 2
        and attributes & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT) == 0
    )


def parse(frame):
    """(topic, partition, acks, start, end) of a request's batch in its frame; None for a request
    of another form."""
    cdef Py_buffer view
    cdef PlainProduce found
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if not parse_frame(<const uint8_t*>view.buf, view.len, &found):
            return None
        return (
            PyUnicode_DecodeASCII(<const char*>found.name, found.name_size, NULL),
            found.partition, found.acks, found.position, found.position + found.size,
        )
    finally:
        PyBuffer_Release(&view)


cdef Py_ssize_t put_answer(
    uint8_t* out, const PlainProduce* request, int64_t base_offset, int64_t append_time,
    int64_t log_start,
) noexcept nogil:
    cdef uint8_t* at = out + 4
    cdef Py_ssize_t size = request.name_size
    cdef int version = request.version
    cdef bint flexible = version >= FLEXIBLE_FROM
    put_i32(at, request.correlation_id)
    at += 4
    if flexible:
        at[0], at[1] = 0, 2                     # tags of the header, number of topics
        at = put_compact_size(at + 2, size)
    else:
        put_i32(at, 1)
        put_i16(at + 4, <int16_t>size)
        at += 6
    memcpy(at, request.name, size)
    at = put_partition_count(at + size, flexible)
    put_i32(at, request.partition)
    put_i16(at + 4, 0)                          # error code
    put_i64(at + 6, base_offset)
    put_i64(at + 14, append_time)
    at += 22
    if version >= 5:
        put_i64(at, log_start)
        at += 8
    if flexible:
        at[0], at[1], at[2], at[3] = 1, 0, 0, 0     # record errors, message, two ends of tags
        at += 4
    elif version == 8:
        put_i32(at, 0)
        put_i16(at + 4, -1)
        at += 6
    put_i32(at, 0)                              # throttle time
    at += 4
    if flexible:
        at[0] = 0
        at += 1
    put_i32(out, <int32_t>(at - out - 4))
    return at - out


cdef inline uint8_t* put_compact_size(uint8_t* at, Py_ssize_t size) noexcept nogil:
    """size + 1 as an unsigned varint of one or two bytes; returns the position behind it."""
    size += 1
    if size < 0x80:
        at[0] = <uint8_t>size
        return at + 1
    at[0] = <uint8_t>(size & 0x7F | 0x80)
    at[1] = <uint8_t>(size >> 7)
    return at + 2


cdef inline uint8_t* put_partition_count(uint8_t* at, bint flexible) noexcept nogil:
    if flexible:
        at[0] = 2
        return at + 1
    put_i32(at, 1)
    return at + 4
