"""A Fetch request of one partition without a session, and what stands before its records.

Versions 7 to 11 of a consumer that reads uncommitted records. For everything else the result is
None, and the generated modules decide (:mod:`kstore.protocol.messages.fetch`).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.format.cursor cimport (
    get_i16, get_i32, get_i64, put_i16, put_i32, put_i64,
)

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char* data, Py_ssize_t size, const char* errors)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    HEADER_SIZE = 8             # API key, version, correlation id
    FIRST_VERSION = 7           # with a session
    LEADER_EPOCH_SINCE = 9
    RACK_SINCE = 11
    LAST_VERSION = 11
    LONGEST_NAME = 249          # of a topic
    FIXED_ANSWER_SIZE = 128     # more than an answer has without name and records


cdef struct Wanted:
    int version
    int32_t max_wait
    int32_t min_bytes
    int32_t max_bytes
    int32_t partition
    int32_t leader_epoch
    int64_t offset
    int32_t partition_max_bytes
    const uint8_t* name
    Py_ssize_t name_size


cdef inline bint is_ascii(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef uint8_t seen = 0
    cdef Py_ssize_t n
    for n in range(size):
        seen |= text[n]
    return seen < 0x80


cdef inline const uint8_t* behind_text(
    const uint8_t* at, const uint8_t* end, int least
) noexcept nogil:
    """The position behind a string of ASCII, whose size is at least `least`; or NULL."""
    cdef int16_t size
    if end - at < 2:
        return NULL
    size = get_i16(at)
    at += 2
    if size < least or size > end - at:
        return NULL
    if size <= 0:
        return at
    return at + size if is_ascii(at, size) else NULL


cdef bint parse_frame(const uint8_t* start, Py_ssize_t size, Wanted* out) noexcept nogil:
    cdef const uint8_t* end = start + size
    cdef const uint8_t* at
    if size < HEADER_SIZE or get_i16(start) != 1:
        return False
    out.version = get_i16(start + 2)
    if not FIRST_VERSION <= out.version <= LAST_VERSION:
        return False
    at = behind_text(start + HEADER_SIZE, end, -1)
    # Replica, wait, least and most bytes, isolation, session and its epoch, number of topics.
    if at == NULL or end - at < 29 or get_i32(at) != -1 or at[16] != 0:
        return False
    if get_i32(at + 17) != 0 or get_i32(at + 21) != -1 or get_i32(at + 25) != 1:
        return False
    out.max_wait, out.min_bytes, out.max_bytes = get_i32(at + 4), get_i32(at + 8), get_i32(at + 12)
    out.name = at + 31
    at = behind_text(at + 29, end, 1)
    if at == NULL:
        return False
    out.name_size = at - out.name
    return out.name_size <= LONGEST_NAME and parse_partition(at, end, out)


cdef bint parse_partition(const uint8_t* at, const uint8_t* end, Wanted* out) noexcept nogil:
    """What stands behind the topic's name."""
    # Number of partitions, partition, epoch, offset, log start, most bytes, forgotten topics.
    cdef bint has_epoch = out.version >= LEADER_EPOCH_SINCE
    if end - at < 32 + 4 * has_epoch or get_i32(at) != 1:
        return False
    out.partition = get_i32(at + 4)
    out.leader_epoch = get_i32(at + 8) if has_epoch else -1
    at += 8 + 4 * has_epoch
    out.offset = get_i64(at)
    out.partition_max_bytes = get_i32(at + 16)
    if get_i32(at + 20) != 0:
        return False
    at += 24
    return (behind_text(at, end, 0) if out.version >= RACK_SINCE else at) == end


def parse(frame):
    """(topic, partition, leader epoch, offset, partition max bytes, max bytes, min bytes, max wait
    in ms) of a request; None for a request of another form.

    The frame is a request without its size.
    """
    cdef Py_buffer view
    cdef Wanted found
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if not parse_frame(<const uint8_t*>view.buf, view.len, &found):
            return None
        return (
            PyUnicode_DecodeASCII(<const char*>found.name, found.name_size, NULL),
            found.partition, found.leader_epoch, found.offset, found.partition_max_bytes,
            found.max_bytes, found.min_bytes, found.max_wait,
        )
    finally:
        PyBuffer_Release(&view)


cdef Py_ssize_t put_head(
    uint8_t* out, int version, int32_t correlation_id, str topic, int32_t partition,
    int64_t high_watermark, int64_t last_stable_offset, int64_t log_start, Py_ssize_t size,
) except -1:
    """Write an answer's size prefix, and all before its `size` bytes of records; returns how many
    bytes it wrote."""
    cdef uint8_t* at = out
    cdef Py_ssize_t name_size
    cdef const char* name = PyUnicode_AsUTF8AndSize(topic, &name_size)
    if name_size > LONGEST_NAME or not FIRST_VERSION <= version <= LAST_VERSION:
        raise ValueError(f"no answer of version {version} for a name of {name_size} bytes")
    put_i32(at + 4, correlation_id)
    put_i32(at + 8, 0)                          # throttle time
    put_i16(at + 12, 0)                         # error code
    put_i32(at + 14, 0)                         # session
    put_i32(at + 18, 1)                         # number of topics
    put_i16(at + 22, <int16_t>name_size)
    memcpy(at + 24, name, name_size)
    at += 24 + name_size
    put_i32(at, 1)                              # number of partitions
    put_i32(at + 4, partition)
    put_i16(at + 8, 0)                          # error code
    put_i64(at + 10, high_watermark)
    put_i64(at + 18, last_stable_offset)
    put_i64(at + 26, log_start)
    put_i32(at + 34, -1)                        # aborted transactions
    at += 38
    if version >= RACK_SINCE:
        put_i32(at, -1)                         # preferred replica
        at += 4
    put_i32(at, <int32_t>size)
    at += 4
    put_i32(out, <int32_t>(at - out - 4 + size))
    return at - out


def answer_head(
    int version, int32_t correlation_id, str topic not None, int32_t partition,
    int64_t high_watermark, int64_t last_stable_offset, int64_t log_start, int32_t size,
):
    """The answer for one partition up to its records, with its size prefix.

    `size` is that of the records. Versions 7 to 11; the topic has at most 249 characters, all
    ASCII (ValueError).
    """
    cdef uint8_t[FIXED_ANSWER_SIZE + LONGEST_NAME] out
    cdef Py_ssize_t head = put_head(
        out, version, correlation_id, topic, partition, high_watermark, last_stable_offset,
        log_start, size)
    return PyBytes_FromStringAndSize(<char*>out, head)


def complete_answer(
    int version, int32_t correlation_id, str topic not None, int32_t partition,
    int64_t high_watermark, int64_t last_stable_offset, int64_t log_start, records,
):
    """As `answer_head`, followed by a copy of the records.

    For few bytes: one send(2) of a copy is faster than a send and a sendfile(2).
    """
    cdef uint8_t[FIXED_ANSWER_SIZE + LONGEST_NAME] out
    cdef Py_buffer view
    cdef Py_ssize_t head
    cdef bytes answer
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        head = put_head(
            out, version, correlation_id, topic, partition, high_watermark, last_stable_offset,
            log_start, view.len)
        answer = PyBytes_FromStringAndSize(NULL, head + view.len)
        memcpy(PyBytes_AS_STRING(answer), out, head)
        memcpy(PyBytes_AS_STRING(answer) + head, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return answer
