"""A Produce request that has one uncompressed batch for one partition, and its answer.

Only the usual form is parsed here. Everything else, malformed requests included, is left to the
generated modules (:mod:`kstore.protocol.messages.produce`).
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.broker.request_fields cimport put_compact_size, short_varint, skip_client_id
from kstore._native.format.ascii_text cimport is_ascii
from kstore._native.format.cursor cimport get_i16, get_i32, get_i64, put_i16, put_i32, put_i64
from kstore._native.format.layout cimport (
    CODEC_MASK, CONTROL_BIT, LOG_OVERHEAD, MAGIC_POSITION, TRANSACTIONAL_BIT,
    V2_ATTRIBUTES_POSITION, V2_HEADER_SIZE, V2_PRODUCER_EPOCH_POSITION, V2_PRODUCER_ID_POSITION,
)

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char* data, Py_ssize_t size, const char* errors)

cdef enum:
    HEADER_SIZE = 8             # API key, version, correlation id
    FIRST_VERSION = 3           # of batches v2
    FLEXIBLE_FROM = 9
    TOPIC_ID_SIZE = 16


cdef inline bint take_id(
    const uint8_t** at, const uint8_t* end, PlainProduce* out
) noexcept nogil:
    """Check the transactional id at this position, and pass it; it may be absent, not empty."""
    if out.id_size == -1:
        return True
    if out.id_size <= 0 or out.id_size > end - at[0] or not is_ascii(at[0], out.id_size):
        return False
    at[0] += out.id_size
    return True


cdef bint parse_old(
    const uint8_t* at, const uint8_t* start, const uint8_t* end, PlainProduce* out
) noexcept nogil:
    """The body of versions 3 to 8, behind the client id."""
    cdef int16_t size
    if end - at < 2:
        return False
    out.id, out.id_size = at + 2, get_i16(at)
    at += 2
    if not take_id(&at, end, out):
        return False
    # Acks, timeout, number of topics, size of the name.
    if end - at < 12 or get_i32(at + 6) != 1:
        return False
    out.acks, out.timeout_ms = get_i16(at), get_i32(at + 2)
    size = get_i16(at + 10)
    at += 12
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
    """The body of versions 9 to 13, behind the client id: no tagged field."""
    cdef Py_ssize_t size = TOPIC_ID_SIZE
    if at == end or at[0] != 0:                 # tags of the header
        return False
    at += 1
    out.id_size = short_varint(&at, end) - 1
    out.id = at
    if not take_id(&at, end, out):
        return False
    # Acks, timeout, number of topics.
    if end - at < 7 or at[6] != 2:
        return False
    out.acks, out.timeout_ms = get_i16(at), get_i32(at + 2)
    at += 7
    if out.version < TOPIC_ID_SINCE:
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


cdef bint parse_any(
    const uint8_t* start, Py_ssize_t size, int16_t other_attributes, PlainProduce* out
) noexcept nogil:
    """Parse a request whose batch has none of these attributes."""
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
    if out.version < TOPIC_ID_SINCE and not is_ascii(out.name, out.name_size):
        return False
    batch = start + out.position
    attributes = get_i16(batch + V2_ATTRIBUTES_POSITION)
    return (
        get_i32(batch + 8) == out.size - LOG_OVERHEAD
        and batch[MAGIC_POSITION] == 2
        and attributes & other_attributes == 0
    )


cdef bint parse_frame(const uint8_t* start, Py_ssize_t size, PlainProduce* out) noexcept nogil:
    cdef int16_t other = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT
    return parse_any(start, size, other, out) and out.id_size < 0


cdef object topic_of(const PlainProduce* request):
    cdef const char* name = <const char*>request.name
    if request.version < TOPIC_ID_SINCE:
        return PyUnicode_DecodeASCII(name, request.name_size, NULL)
    return PyBytes_FromStringAndSize(name, request.name_size)


def parse(frame):
    """(topic, partition, acks, start, end) of a request's batch in its frame; None for a request
    of another form. The topic is a str, or an id in bytes."""
    cdef Py_buffer view
    cdef PlainProduce found
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if not parse_frame(<const uint8_t*>view.buf, view.len, &found):
            return None
        return (
            topic_of(&found), found.partition, found.acks,
            found.position, found.position + found.size,
        )
    finally:
        PyBuffer_Release(&view)


@cython.final
cdef class ProduceFrame:
    """A parsed request, transactional or not. Made by `parse_request`."""

    cdef PlainProduce fields
    cdef readonly str transactional_id
    cdef readonly str topic
    cdef readonly bytes topic_id
    cdef readonly object batch
    cdef readonly bint is_transactional
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef bytes name

    @property
    def version(self):
        return self.fields.version

    @property
    def acks(self):
        return self.fields.acks

    @property
    def timeout_ms(self):
        return self.fields.timeout_ms

    @property
    def partition(self):
        return self.fields.partition

    def answer(self, int64_t base_offset, int64_t append_time, int64_t log_start):
        """The frame of the answer without an error."""
        cdef uint8_t[LONGEST_ANSWER] out
        cdef Py_ssize_t size
        self.fields.name = self.name
        size = put_answer(out, &self.fields, base_offset, append_time, log_start)
        return PyBytes_FromStringAndSize(<const char*>out, size)


def parse_request(frame):
    """The request in a frame without its size; None for a request of another form.

    It may have a transactional id, and its batch may be transactional.
    """
    cdef Py_buffer view
    cdef ProduceFrame found = ProduceFrame.__new__(ProduceFrame)
    cdef const uint8_t* batch
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if not parse_any(
            <const uint8_t*>view.buf, view.len, CODEC_MASK | CONTROL_BIT, &found.fields
        ):
            return None
        if found.fields.id_size > 0:
            found.transactional_id = PyUnicode_DecodeASCII(
                <const char*>found.fields.id, found.fields.id_size, NULL)
        found.name = PyBytes_FromStringAndSize(
            <const char*>found.fields.name, found.fields.name_size)
        if found.fields.version < TOPIC_ID_SINCE:
            found.topic = PyUnicode_DecodeASCII(
                <const char*>found.fields.name, found.fields.name_size, NULL)
        else:
            found.topic_id = found.name
        found.fields.name = found.fields.id = NULL      # of the frame
        batch = <const uint8_t*>view.buf + found.fields.position
        found.is_transactional = get_i16(batch + V2_ATTRIBUTES_POSITION) & TRANSACTIONAL_BIT != 0
        found.producer_id = get_i64(batch + V2_PRODUCER_ID_POSITION)
        found.producer_epoch = get_i16(batch + V2_PRODUCER_EPOCH_POSITION)
        found.batch = frame[found.fields.position:found.fields.position + found.fields.size]
        return found
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
        at += 2
        if version < TOPIC_ID_SINCE:
            at = put_compact_size(at, size)
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


cdef inline uint8_t* put_partition_count(uint8_t* at, bint flexible) noexcept nogil:
    if flexible:
        at[0] = 2
        return at + 1
    put_i32(at, 1)
    return at + 4
