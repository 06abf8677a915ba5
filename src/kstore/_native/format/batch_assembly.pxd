"""Rows of any source in one format: a batch v2, a wrapper, or plain messages.

The encoders of single records are record_span.pxd (v2) and legacy_message.pxd (v0, v1). What is
derived from the records is derived as Kafka's MemoryRecordsBuilder does it: the base timestamp is
the first record's, a wrapper's offset is its last record's, offsets inside a v1 wrapper are
relative.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.cursor cimport Cursor
from kstore._native.format.layout cimport LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, V2_HEADER_SIZE
from kstore._native.format.legacy_message cimport message_size, put_message
from kstore._native.format.record_rows cimport Rows
from kstore._native.format.record_span cimport (
    RecordSpan, put_record, record_body_size, skip_headers,
)
from kstore._native.format.status cimport Status, OK, NO_MEMORY

cdef enum:
    LARGEST = 0x7FFFFFFF        # a batch, and the distance of offsets within one
    RECORD_SLACK = 32           # what the fixed fields of a v2 record and its length take at most


cdef enum Refusal:
    NOTHING
    TOO_LARGE
    ILLEGAL_TIMESTAMP
    ILLEGAL_OFFSET
    FAR_OFFSET
    HEADERS
    TRANSACTION
    PRODUCER
    CONTROL
    SEVERAL
    ZSTANDARD


cdef struct Bytes:
    uint8_t* data
    int64_t size
    int64_t capacity


cdef inline Status reserve(Bytes* to, int64_t room) noexcept nogil:
    """Room for that many bytes more."""
    cdef int64_t wanted = to.size + room, capacity
    cdef void* data
    if wanted <= to.capacity:
        return OK
    capacity = max(wanted, 2 * to.capacity, <int64_t>4096)
    data = realloc(to.data, capacity)
    if data == NULL:
        return NO_MEMORY
    to.data = <uint8_t*>data
    to.capacity = capacity
    return OK


cdef struct Group:
    # The batch, wrapper or run of plain messages under construction, and how to build it.
    int magic
    int codec
    bint fixed              # base offset and base timestamp are given, not the first record's
    bint renumber           # offsets count on from next_offset instead of being kept
    bint stamped            # LogAppendTime
    int64_t append_time     # the LogAppendTime
    int64_t next_offset
    int64_t lowest          # records below are skipped
    int64_t start           # where it begins in the bytes that take its records
    int64_t count
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    Refusal refusal


cdef inline Status open_group(Group* group, Bytes* to) noexcept nogil:
    """Start with no record; a batch v2 that is not to be compressed leaves room for its header."""
    cdef Status status
    group.start = to.size
    group.count = 0
    if not group.fixed:
        group.base_timestamp = -1
    group.max_timestamp = -1
    if group.magic == 2 and group.codec == 0:
        status = reserve(to, V2_HEADER_SIZE)
        if status != OK:
            return status
        memset(to.data + to.size, 0, V2_HEADER_SIZE)
        to.size += V2_HEADER_SIZE
    return OK


cdef inline bint refuse(Group* group, Refusal refusal) noexcept nogil:
    group.refusal = refusal
    return False


cdef inline bint place_record(Group* group, int64_t offset, int64_t timestamp) noexcept nogil:
    """Whether the record fits the group, which counts it then."""
    # A plain message may have any offset: clients write -1. A wrapper's would not be found again.
    if offset < 0 and (group.renumber or (group.codec and group.magic < 2)):
        return refuse(group, ILLEGAL_OFFSET)
    if timestamp < -1:
        return refuse(group, ILLEGAL_TIMESTAMP)
    if group.count == 0 and not group.fixed:
        group.base_offset = offset
        group.base_timestamp = timestamp
    if group.magic == 2 and offset - group.base_offset > LARGEST:
        return refuse(group, FAR_OFFSET)
    group.last_offset = offset
    if timestamp > group.max_timestamp:
        group.max_timestamp = timestamp
    group.count += 1
    return True


cdef inline Status put_row(
    Group* group, Bytes* to, RecordSpan* span, int64_t offset, int64_t timestamp
) noexcept nogil:
    """Append one record in the group's format. OK with a refusal set: nothing was appended."""
    cdef int64_t size, inner_offset = offset
    cdef Status status
    if group.magic < 2 and group.stamped and timestamp >= -1:
        timestamp = group.append_time
    if not place_record(group, offset, timestamp):
        return OK
    if group.magic == 2:
        span.attributes = 0
        span.offset_delta = <int32_t>(offset - group.base_offset)
        # Unsigned: base -1 and a time at the end of all times wrap, as they do in Java.
        span.timestamp_delta = <int64_t>(
            <unsigned long long>timestamp - <unsigned long long>group.base_timestamp
        )
        size = record_body_size(span)
    else:
        size = message_size(span, group.magic)
        if group.magic == 1 and group.codec:
            inner_offset = offset - group.base_offset
    # A run of plain messages is no batch: only each message has to fit its size field.
    if size + RECORD_SLACK > LARGEST or (
        (group.magic == 2 or group.codec) and to.size - group.start + size > LARGEST
    ):
        refuse(group, TOO_LARGE)
        return OK
    status = reserve(to, size + RECORD_SLACK)
    if status != OK:
        return status
    if group.magic == 2:
        to.size = put_record(to.data + to.size, span, size) - to.data
    else:
        put_message(
            to.data + to.size, span, group.magic,
            LOG_APPEND_TIME_BIT if group.magic == 1 and group.stamped else 0,
            inner_offset, timestamp, size,
        )
        to.size += size
    return OK


cdef inline Status put_rows(
    Group* group, Bytes* to, const Rows* rows, const uint8_t* data, const uint8_t* end,
    bint keep_headers,
) noexcept nogil:
    """Append the rows, whose positions count from data, until one is refused."""
    cdef RecordSpan span
    cdef Cursor cursor
    cdef Status status
    cdef int64_t n, offset
    for n in range(rows.count):
        offset = rows.offsets[n]
        if offset < group.lowest:
            continue
        if group.renumber:
            offset = group.next_offset
            group.next_offset = <int64_t>(<unsigned long long>offset + 1)
        span.key = data + rows.key_positions[n]
        span.key_size = rows.key_lengths[n]
        span.value = data + rows.value_positions[n]
        span.value_size = rows.value_lengths[n]
        span.headers = data + rows.header_positions[n]
        span.header_count = 0
        span.header_size = 0
        if rows.header_counts[n] and keep_headers:
            if group.magic < 2:
                refuse(group, HEADERS)
                return OK
            cursor.position = span.headers
            cursor.end = end
            status = skip_headers(&cursor, rows.header_counts[n])
            if status != OK:
                return status
            span.header_count = rows.header_counts[n]
            span.header_size = <int32_t>(cursor.position - span.headers)
        status = put_row(group, to, &span, offset, rows.timestamps[n])
        if status != OK or group.refusal != NOTHING:
            return status
    return OK


cdef inline Status put_wrapper(
    Bytes* to, const uint8_t* packed, int32_t size, int magic, uint8_t attributes,
    int64_t offset, int64_t timestamp,
) noexcept nogil:
    """Append the one message whose value is the group's messages, compressed."""
    cdef RecordSpan span
    cdef int64_t whole
    cdef Status status
    span.key_size = -1
    span.value = packed
    span.value_size = size
    whole = message_size(&span, magic)
    status = reserve(to, whole)
    if status == OK:
        put_message(to.data + to.size, &span, magic, attributes, offset, timestamp, whole)
        to.size += whole
    return status


cdef inline void describe_group(
    const Group* group, BatchHeader* header, int64_t size
) noexcept nogil:
    """The fields of a v2 header that follow from the records."""
    header.base_offset = group.base_offset
    header.last_offset = group.last_offset
    header.size = <int32_t>size
    header.count = <int32_t>group.count
    header.base_timestamp = group.base_timestamp
    header.max_timestamp = group.append_time if group.stamped else group.max_timestamp
    header.attributes = (
        (header.attributes & TRANSACTIONAL_BIT) | group.codec
        | (LOG_APPEND_TIME_BIT if group.stamped else 0)
    )


cdef inline void no_producer(BatchHeader* header) noexcept nogil:
    """The header fields of a batch that no producer and no leader marked."""
    header.leader_epoch = -1
    header.producer_id = -1
    header.producer_epoch = -1
    header.base_sequence = -1
    header.attributes = 0
