"""A consumer's Fetch request of one partition, and what surrounds its records.

With or without a session; a request that opens or closes a session is of another form.

Versions 4 to 17. For everything else the result is None, and the generated modules decide
(:mod:`kstore.protocol.messages.fetch`).
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kstore._native.broker.request_fields cimport put_compact_size, short_varint, skip_client_id
from kstore._native.format.ascii_text cimport is_ascii
from kstore._native.format.cursor cimport (
    get_i16, get_i32, get_i64, put_i16, put_i32, put_i64,
)

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char* data, Py_ssize_t size, const char* errors)

cdef enum:
    HEADER_SIZE = 8             # API key, version, correlation id
    FIRST_VERSION = 4           # of batches v2
    LOG_START_SINCE = 5
    SESSION_SINCE = 7
    LEADER_EPOCH_SINCE = 9
    RACK_SINCE = 11
    FLEXIBLE_SINCE = 12
    TOPIC_ID_SINCE = 13
    REPLICA_STATE_SINCE = 15    # a tagged field, instead of the replica's id
    LAST_VERSION = 17
    TOPIC_ID_SIZE = 16
    LONGEST_NAME = 249          # of a topic
    LONGEST_STRING = 0x7FFF     # of the generated modules, as of Kafka's
    LIMITS_SIZE = 13            # wait, least and most bytes, isolation level
    SESSION_SIZE = 8            # id and epoch
    FIXED_ANSWER_SIZE = 128     # more than an answer has without name and records
    TAIL_SIZE = 3               # tagged fields of partition, topic and body behind the records


cdef struct Wanted:
    int version
    int32_t correlation_id
    int32_t max_wait
    int32_t min_bytes
    int32_t max_bytes
    bint is_committed
    int32_t session_id          # 0: none
    int32_t session_epoch
    int32_t partition
    int32_t leader_epoch
    int64_t offset
    int32_t partition_max_bytes
    const uint8_t* name         # of the topic, or its id
    Py_ssize_t name_size


cdef inline bint take_limits(const uint8_t** at, Wanted* out) noexcept nogil:
    """The caller has checked that LIMITS_SIZE bytes, and those of a session, are left."""
    cdef uint8_t isolation = at[0][12]
    out.max_wait, out.min_bytes = get_i32(at[0]), get_i32(at[0] + 4)
    out.max_bytes = get_i32(at[0] + 8)
    out.is_committed = isolation == 1
    at[0] += LIMITS_SIZE
    out.session_id, out.session_epoch = 0, -1
    if out.version >= SESSION_SINCE:
        out.session_id, out.session_epoch = get_i32(at[0]), get_i32(at[0] + 4)
        at[0] += SESSION_SIZE
        if out.session_epoch != -1 if out.session_id == 0 else out.session_epoch <= 0:
            return False
    return isolation <= 1


cdef inline bint take_partition(
    const uint8_t** at, const uint8_t* end, Wanted* out
) noexcept nogil:
    cdef int version = out.version
    cdef const uint8_t* field = at[0]
    if end - field < 16 + 4 * (version >= LEADER_EPOCH_SINCE) + 4 * (
        version >= FLEXIBLE_SINCE
    ) + 8 * (version >= LOG_START_SINCE):
        return False
    out.partition = get_i32(field)
    field += 4
    out.leader_epoch = -1
    if version >= LEADER_EPOCH_SINCE:
        out.leader_epoch = get_i32(field)
        field += 4
    out.offset = get_i64(field)
    field += 8
    if version >= FLEXIBLE_SINCE:
        if get_i32(field) != -1:                # the epoch last fetched: a follower's question
            return False
        field += 4
    if version >= LOG_START_SINCE:
        field += 8
    out.partition_max_bytes = get_i32(field)
    at[0] = field + 4
    return True


cdef bint parse_old(const uint8_t* at, const uint8_t* end, Wanted* out) noexcept nogil:
    """The body of versions 4 to 11, behind the client id."""
    cdef bint has_session = out.version >= SESSION_SINCE
    cdef int16_t size
    # Replica, limits, number of topics, size of the name.
    if end - at < 4 + LIMITS_SIZE + SESSION_SIZE * has_session + 6 or get_i32(at) != -1:
        return False
    at += 4
    if not take_limits(&at, out) or get_i32(at) != 1:
        return False
    size = get_i16(at + 4)
    at += 6
    # Number of partitions.
    if size <= 0 or size > LONGEST_NAME or end - at < size + 4 or not is_ascii(at, size):
        return False
    out.name, out.name_size = at, size
    at += size
    if get_i32(at) != 1:
        return False
    at += 4
    if not take_partition(&at, end, out):
        return False
    if has_session:                             # forgotten topics
        if end - at < 4 or get_i32(at) != 0:
            return False
        at += 4
    if out.version >= RACK_SINCE:
        if end - at < 2:
            return False
        size = get_i16(at)
        at += 2
        if size < 0 or size > end - at or not is_ascii(at, size):
            return False
        at += size
    return at == end


cdef bint parse_flexible(const uint8_t* at, const uint8_t* end, Wanted* out) noexcept nogil:
    """The body of versions 12 to 17, behind the client id: no tagged field."""
    cdef bint has_replica = out.version < REPLICA_STATE_SINCE
    cdef Py_ssize_t size
    # Tags of the header, replica, limits, number of topics.
    if end - at < 1 + 4 * has_replica + LIMITS_SIZE + SESSION_SIZE + 1 or at[0] != 0:
        return False
    at += 1
    if has_replica:
        if get_i32(at) != -1:
            return False
        at += 4
    if not take_limits(&at, out) or at[0] != 2:
        return False
    at += 1
    if out.version >= TOPIC_ID_SINCE:
        size = TOPIC_ID_SIZE
    else:
        size = short_varint(&at, end) - 1
    # Number of partitions.
    if size <= 0 or size > LONGEST_NAME or end - at < size + 1:
        return False
    if out.version < TOPIC_ID_SINCE and not is_ascii(at, size):
        return False
    out.name, out.name_size = at, size
    at += size
    if at[0] != 2:
        return False
    at += 1
    if not take_partition(&at, end, out):
        return False
    # Tags of partition and topic, forgotten topics.
    if end - at < 3 or at[0] != 0 or at[1] != 0 or at[2] != 1:
        return False
    at += 3
    size = short_varint(&at, end) - 1           # the rack
    if size < 0 or size > LONGEST_STRING or size > end - at or not is_ascii(at, size):
        return False
    at += size
    return end - at == 1 and at[0] == 0


cdef bint parse_frame(const uint8_t* start, Py_ssize_t size, Wanted* out) noexcept nogil:
    cdef const uint8_t* end = start + size
    cdef const uint8_t* at = start + HEADER_SIZE
    if size < HEADER_SIZE or get_i16(start) != 1:
        return False
    out.version = get_i16(start + 2)
    out.correlation_id = get_i32(start + 4)
    if not FIRST_VERSION <= out.version <= LAST_VERSION or not skip_client_id(&at, end):
        return False
    if out.version < FLEXIBLE_SINCE:
        return parse_old(at, end, out)
    return parse_flexible(at, end, out)


@cython.final
cdef class WantedFrame:
    """A parsed request, and the encoding of its answer."""

    cdef readonly int version
    cdef readonly int correlation_id
    cdef readonly object topic
    cdef readonly object topic_id
    cdef readonly int partition
    cdef readonly int leader_epoch
    cdef readonly int session_id
    cdef readonly int session_epoch
    cdef readonly int64_t offset
    cdef readonly int partition_max_bytes
    cdef readonly int max_bytes
    cdef readonly int min_bytes
    cdef readonly int max_wait_ms
    cdef readonly bint is_committed
    cdef Py_ssize_t name_size
    cdef uint8_t[LONGEST_NAME] name

    def __init__(self):
        raise TypeError("a WantedFrame is made by parse")

    cdef Py_ssize_t put_head(
        self, uint8_t* out, int64_t high_watermark, int64_t last_stable_offset,
        int64_t log_start, Py_ssize_t size,
    ) noexcept nogil:
        """Write an answer's size prefix, and all before its `size` bytes of records; returns how
        many bytes it wrote."""
        cdef bint flexible = self.version >= FLEXIBLE_SINCE
        cdef uint8_t* at = out + 4
        put_i32(at, self.correlation_id)
        at += 4
        if flexible:
            at[0] = 0                           # tags of the header
            at += 1
        put_i32(at, 0)                          # throttle time
        at += 4
        if self.version >= SESSION_SINCE:
            put_i16(at, 0)                      # error code
            put_i32(at + 2, self.session_id)
            at += 6
        if flexible:
            at[0] = 2                           # number of topics, plus one
            at += 1
            if self.version < TOPIC_ID_SINCE:
                at = put_compact_size(at, self.name_size)
        else:
            put_i32(at, 1)
            put_i16(at + 4, <int16_t>self.name_size)
            at += 6
        memcpy(at, self.name, self.name_size)
        at += self.name_size
        if flexible:
            at[0] = 2                           # number of partitions, plus one
            at += 1
        else:
            put_i32(at, 1)
            at += 4
        put_i32(at, self.partition)
        put_i16(at + 4, 0)                      # error code
        put_i64(at + 6, high_watermark)
        put_i64(at + 14, last_stable_offset)
        at += 22
        if self.version >= LOG_START_SINCE:
            put_i64(at, log_start)
            at += 8
        # Aborted transactions: none, or null for a consumer that reads uncommitted records.
        if flexible:
            at[0] = 1 if self.is_committed else 0
            at += 1
        else:
            put_i32(at, 0 if self.is_committed else -1)
            at += 4
        if self.version >= RACK_SINCE:
            put_i32(at, -1)                     # preferred replica
            at += 4
        if flexible:
            at = put_compact_size(at, size)
        else:
            put_i32(at, <int32_t>size)
            at += 4
        put_i32(out, <int32_t>(at - out - 4 + size + (TAIL_SIZE if flexible else 0)))
        return at - out

    def answer_around(
        self, int64_t high_watermark, int64_t last_stable_offset, int64_t log_start, int32_t size,
    ):
        """The bytes before and behind the `size` bytes of records of the answer."""
        cdef uint8_t[FIXED_ANSWER_SIZE + LONGEST_NAME] out
        cdef Py_ssize_t head = self.put_head(
            out, high_watermark, last_stable_offset, log_start, size)
        return (
            PyBytes_FromStringAndSize(<char*>out, head),
            b"\0\0\0" if self.version >= FLEXIBLE_SINCE else b"",
        )

    def complete_answer(
        self, int64_t high_watermark, int64_t last_stable_offset, int64_t log_start, records,
    ):
        """The answer with a copy of the records.

        For few bytes: one send(2) of a copy is faster than a send and a sendfile(2).
        """
        cdef uint8_t[FIXED_ANSWER_SIZE + LONGEST_NAME] out
        cdef Py_ssize_t tail = TAIL_SIZE if self.version >= FLEXIBLE_SINCE else 0
        cdef Py_buffer view
        cdef Py_ssize_t head
        cdef bytes answer
        cdef char* at
        PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
        try:
            head = self.put_head(out, high_watermark, last_stable_offset, log_start, view.len)
            answer = PyBytes_FromStringAndSize(NULL, head + view.len + tail)
            at = PyBytes_AS_STRING(answer)
            memcpy(at, out, head)
            memcpy(at + head, view.buf, view.len)
            memset(at + head + view.len, 0, tail)
        finally:
            PyBuffer_Release(&view)
        return answer


def parse(frame, int most_bytes):
    """The request in a frame without its size; None for a request of another form.

    `most_bytes` is the broker's limit of an answer's records.
    """
    cdef Py_buffer view
    cdef Wanted found
    cdef WantedFrame wanted
    cdef const char* name
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if not parse_frame(<const uint8_t*>view.buf, view.len, &found):
            return None
        wanted = WantedFrame.__new__(WantedFrame)
        name = <const char*>found.name
        if found.version < TOPIC_ID_SINCE:
            wanted.topic = PyUnicode_DecodeASCII(name, found.name_size, NULL)
        else:
            wanted.topic_id = PyBytes_FromStringAndSize(name, found.name_size)
        memcpy(wanted.name, found.name, found.name_size)
        wanted.name_size = found.name_size
    finally:
        PyBuffer_Release(&view)
    wanted.version, wanted.correlation_id = found.version, found.correlation_id
    wanted.partition, wanted.leader_epoch = found.partition, found.leader_epoch
    wanted.offset, wanted.is_committed = found.offset, found.is_committed
    wanted.session_id, wanted.session_epoch = found.session_id, found.session_epoch
    wanted.partition_max_bytes = found.partition_max_bytes
    found.max_bytes = max(0, min(found.max_bytes, most_bytes))
    wanted.max_bytes = max(0, min(found.partition_max_bytes, found.max_bytes))
    wanted.min_bytes = min(found.min_bytes, found.max_bytes)
    wanted.max_wait_ms = found.max_wait
    return wanted
