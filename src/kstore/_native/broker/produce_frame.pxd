"""A Produce request that has one uncompressed batch for one partition, and its answer."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cdef enum:
    TOPIC_ID_SINCE = 13         # version of Produce: topics are named by their ids
    LAST_VERSION = 13
    LONGEST_NAME = 249          # of a topic
    LONGEST_ANSWER = 384        # bytes; no answer is longer


cdef struct PlainProduce:
    int version
    int32_t correlation_id
    int16_t acks                # any number
    int32_t timeout_ms
    const uint8_t* id           # the transactional id: ASCII
    Py_ssize_t id_size          # -1 for none
    int32_t partition
    const uint8_t* name         # of the topic: ASCII; since TOPIC_ID_SINCE its id, of any bytes
    Py_ssize_t name_size        # 1 to LONGEST_NAME
    Py_ssize_t position         # of the batch in the frame
    Py_ssize_t size             # of the batch


# Parse a request without its size prefix; False for a request of another form.
#
# The batch is complete, uncompressed, v2, neither transactional nor control, and the request has no
# transactional id; the batch's records and its checksum are not verified.
cdef bint parse_frame(const uint8_t* start, Py_ssize_t size, PlainProduce* out) noexcept nogil

# The topic's name, a str; since TOPIC_ID_SINCE its id, bytes.
cdef object topic_of(const PlainProduce* request)

# Write the answer without an error, with its size prefix; returns its size.
cdef Py_ssize_t put_answer(
    uint8_t* out, const PlainProduce* request, int64_t base_offset, int64_t append_time,
    int64_t log_start,
) noexcept nogil
