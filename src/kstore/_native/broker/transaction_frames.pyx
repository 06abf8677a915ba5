"""AddPartitionsToTxn of one topic and EndTxn, as a transactional producer sends them, and their
answers.

AddPartitionsToTxn in the versions that clients send, 0 to 3, and EndTxn in versions 0 to 4. For
everything else the result is None, and the generated modules decide
(:mod:`kstore.protocol.messages.add_partitions_to_txn`, :mod:`kstore.protocol.messages.end_txn`).
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.broker.request_fields cimport put_compact_size, short_varint, skip_client_id
from kstore._native.format.ascii_text cimport is_ascii
from kstore._native.format.cursor cimport get_i16, get_i32, get_i64, put_i16, put_i32

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char* data, Py_ssize_t size, const char* errors)

cdef enum:
    ADD_PARTITIONS = 24
    END = 26
    HEADER_SIZE = 8             # API key, version, correlation id
    PRODUCER_SIZE = 10          # id and epoch
    FLEXIBLE_FROM = 3           # both
    LAST_ADD_VERSION = 3
    LAST_END_VERSION = 4
    LONGEST_NAME = 249          # of a topic
    LONGEST_ID = 0x7FFF         # of the generated modules, as of Kafka's
    MOST_PARTITIONS = 64
    FIXED_ANSWER_SIZE = 32      # more than an answer has without name and partitions


cdef struct Text:
    const uint8_t* start
    Py_ssize_t size


cdef bint take_text(
    const uint8_t** at, const uint8_t* end, bint flexible, Py_ssize_t longest, Text* out
) noexcept nogil:
    """ASCII that is not empty; False for anything else."""
    if flexible:
        out.size = short_varint(at, end) - 1
    else:
        if end - at[0] < 2:
            return False
        out.size = get_i16(at[0])
        at[0] += 2
    out.start = at[0]
    if not 0 < out.size <= longest or out.size > end - at[0] or not is_ascii(at[0], out.size):
        return False
    at[0] += out.size
    return True


cdef inline object text_of(const Text* text):
    return PyUnicode_DecodeASCII(<const char*>text.start, text.size, NULL)


cdef class _Frame:
    """What both requests have."""

    cdef readonly int version
    cdef readonly int32_t correlation_id
    cdef readonly str transactional_id
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch

    cdef bint _parse(self, const uint8_t* at, const uint8_t* end) except -1:
        """Take the request's fields; False for a request of another form."""
        return False

    cdef bint _take_head(
        self, const uint8_t** at, const uint8_t* end, int key, int last_version
    ) except -1:
        """The fields up to the producer's epoch."""
        cdef Text name
        if end - at[0] < HEADER_SIZE or get_i16(at[0]) != key:
            return False
        self.version = get_i16(at[0] + 2)
        self.correlation_id = get_i32(at[0] + 4)
        at[0] += HEADER_SIZE
        if not 0 <= self.version <= last_version or not skip_client_id(at, end):
            return False
        if not self._take_no_tags(at, end):
            return False
        if not take_text(at, end, self.version >= FLEXIBLE_FROM, LONGEST_ID, &name):
            return False
        if end - at[0] < PRODUCER_SIZE:
            return False
        self.transactional_id = text_of(&name)
        self.producer_id, self.producer_epoch = get_i64(at[0]), get_i16(at[0] + 8)
        at[0] += PRODUCER_SIZE
        return True

    cdef bint _take_no_tags(self, const uint8_t** at, const uint8_t* end) noexcept:
        """The empty tags of a flexible version."""
        if self.version < FLEXIBLE_FROM:
            return True
        if at[0] == end or at[0][0] != 0:
            return False
        at[0] += 1
        return True

    cdef uint8_t* _put_head(self, uint8_t* at) noexcept:
        """Correlation id and throttle time, behind the size, which `_finish` knows."""
        put_i32(at + 4, self.correlation_id)
        at += 8
        if self.version >= FLEXIBLE_FROM:
            at[0] = 0
            at += 1
        put_i32(at, 0)
        return at + 4


cdef bytes finish(uint8_t* start, uint8_t* end):
    put_i32(start, <int32_t>(end - start - 4))
    return PyBytes_FromStringAndSize(<const char*>start, end - start)


@cython.final
cdef class AddPartitionsFrame(_Frame):
    """A parsed AddPartitionsToTxn of one topic. Made by `parse_add_partitions`."""

    cdef readonly str topic
    cdef readonly tuple partitions

    cdef bint _parse(self, const uint8_t* at, const uint8_t* end) except -1:
        cdef Text name
        cdef Py_ssize_t count, n
        cdef bint flexible
        if not self._take_head(&at, end, ADD_PARTITIONS, LAST_ADD_VERSION):
            return False
        flexible = self.version >= FLEXIBLE_FROM
        if self._take_count(&at, end) != 1:
            return False
        if not take_text(&at, end, flexible, LONGEST_NAME, &name):
            return False
        count = self._take_count(&at, end)
        if not 0 < count <= MOST_PARTITIONS or end - at < 4 * count:
            return False
        self.topic = text_of(&name)
        self.partitions = tuple([get_i32(at + 4 * n) for n in range(count)])
        at += 4 * count
        # Of the topic and of the body.
        if not self._take_no_tags(&at, end) or not self._take_no_tags(&at, end):
            return False
        return at == end

    cdef Py_ssize_t _take_count(self, const uint8_t** at, const uint8_t* end) noexcept:
        """The number of items of an array, less than 0 for null or for bytes that end."""
        if self.version >= FLEXIBLE_FROM:
            return short_varint(at, end) - 1
        if end - at[0] < 4:
            return -1
        at[0] += 4
        return get_i32(at[0] - 4)

    def answer(self, int16_t error):
        """The frame of the answer: the same error for every partition."""
        cdef bint flexible = self.version >= FLEXIBLE_FROM
        cdef Py_ssize_t size = len(self.topic), count = len(self.partitions)
        cdef bytes name = self.topic.encode("ascii")
        cdef uint8_t[FIXED_ANSWER_SIZE + LONGEST_NAME + 7 * MOST_PARTITIONS] out
        cdef uint8_t* at = self._put_head(out)
        if flexible:
            at[0] = 2
            at = put_compact_size(at + 1, size)
        else:
            put_i32(at, 1)
            put_i16(at + 4, <int16_t>size)
            at += 6
        memcpy(at, PyBytes_AS_STRING(name), size)
        at += size
        if flexible:
            at = put_compact_size(at, count)
        else:
            put_i32(at, <int32_t>count)
            at += 4
        for partition in self.partitions:
            put_i32(at, partition)
            put_i16(at + 4, error)
            at += 6
            if flexible:
                at[0] = 0
                at += 1
        if flexible:
            at[0], at[1] = 0, 0
            at += 2
        return finish(out, at)


@cython.final
cdef class EndFrame(_Frame):
    """A parsed EndTxn. Made by `parse_end`."""

    cdef readonly bint is_commit

    cdef bint _parse(self, const uint8_t* at, const uint8_t* end) except -1:
        if not self._take_head(&at, end, END, LAST_END_VERSION) or at == end:
            return False
        self.is_commit = at[0] != 0
        at += 1
        return self._take_no_tags(&at, end) and at == end

    def answer(self, int16_t error):
        """The frame of the answer."""
        cdef uint8_t[FIXED_ANSWER_SIZE] out
        cdef uint8_t* at = self._put_head(out)
        put_i16(at, error)
        at += 2
        if self.version >= FLEXIBLE_FROM:
            at[0] = 0
            at += 1
        return finish(out, at)


cdef parse(frame, _Frame found):
    """The request in a frame without its size; None for a request of another form."""
    cdef Py_buffer view
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return found if found._parse(<uint8_t*>view.buf, <uint8_t*>view.buf + view.len) else None
    finally:
        PyBuffer_Release(&view)


def parse_add_partitions(frame):
    return parse(frame, AddPartitionsFrame.__new__(AddPartitionsFrame))


def parse_end(frame):
    return parse(frame, EndFrame.__new__(EndFrame))
