"""Builds a v2 batch, a wrapper, or uncompressed v0 or v1 messages from rows of records.

record_span.pxd (v2) and legacy_message.pxd (v0, v1) encode single records. As in Kafka's
MemoryRecordsBuilder, the base timestamp is the first record's, a wrapper's offset is its last
record's, and offsets inside a v1 wrapper are relative.
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
    MAX_BATCH_SIZE = 0x7FFFFFFF     # bytes of a batch, and range of offsets in it
    RECORD_SLACK = 32               # maximum size of a v2 record's length and fixed fields


cdef enum Refusal:
    NO_REFUSAL
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
    """Reserve room more bytes."""
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
    # The batch, wrapper or run of uncompressed messages to build, and how to build it.
    int magic
    int codec
    bint has_base           # the caller sets base offset and timestamp, not the first record
    bint renumber           # assign offsets from next_offset instead of keeping them
    bint log_append_time    # the timestamp type is LogAppendTime
    int64_t append_time     # the LogAppendTime
    int64_t next_offset
    int64_t first_offset    # skip records below
    int64_t start           # position in the output
    int64_t count
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    Refusal refusal


cdef inline Status open_group(Group* group, Bytes* to) noexcept nogil:
    """Start an empty group; for an uncompressed v2 batch, reserve its header."""
    cdef Status status
    group.start = to.size
    group.count = 0
    if not group.has_base:
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


cdef inline bint admit_record(Group* group, int64_t offset, int64_t timestamp) noexcept nogil:
    """Add a record to the group's count, offsets and timestamps; False if it is refused."""
    # An uncompressed message may have any offset: clients write -1. Not in a wrapper.
    if offset < 0 and (group.renumber or (group.codec and group.magic < 2)):
        return refuse(group, ILLEGAL_OFFSET)
    if timestamp < -1:
        return refuse(group, ILLEGAL_TIMESTAMP)
    if group.count == 0 and not group.has_base:
        group.base_offset = offset
        group.base_timestamp = timestamp
    if group.magic == 2 and offset - group.base_offset > MAX_BATCH_SIZE:
        return refuse(group, FAR_OFFSET)
    group.last_offset = offset
    if timestamp > group.max_timestamp:
        group.max_timestamp = timestamp
    group.count += 1
    return True


cdef inline Status put_row(
    Group* group, Bytes* to, RecordSpan* span, int64_t offset, int64_t timestamp
) noexcept nogil:
    """Append one record in the group's format. Appends nothing if it sets a refusal."""
    cdef int64_t size, inner_offset = offset
    cdef Status status
    if group.magic < 2 and group.log_append_time and timestamp >= -1:
        timestamp = group.append_time
    if not admit_record(group, offset, timestamp):
        return OK
    if group.magic == 2:
        span.attributes = 0
        span.offset_delta = <int32_t>(offset - group.base_offset)
        # Unsigned: the difference to base -1 may overflow; it wraps, as in Java.
        span.timestamp_delta = <int64_t>(
            <unsigned long long>timestamp - <unsigned long long>group.base_timestamp
        )
        size = record_body_size(span)
    else:
        size = message_size(span, group.magic)
        if group.magic == 1 and group.codec:
            inner_offset = offset - group.base_offset
    # Uncompressed messages are not a batch: only the size field of each limits its size.
    if size + RECORD_SLACK > MAX_BATCH_SIZE or (
        (group.magic == 2 or group.codec) and to.size - group.start + size > MAX_BATCH_SIZE
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
            LOG_APPEND_TIME_BIT if group.magic == 1 and group.log_append_time else 0,
            inner_offset, timestamp, size,
        )
        to.size += size
    return OK


cdef inline Status put_rows(
    Group* group, Bytes* to, const Rows* rows, const uint8_t* data, const uint8_t* end,
    bint keep_headers,
) noexcept nogil:
    """Append rows, whose positions are relative to data, until one is refused."""
    cdef RecordSpan span
    cdef Cursor cursor
    cdef Status status
    cdef int64_t n, offset
    for n in range(rows.count):
        offset = rows.offsets[n]
        if offset < group.first_offset:
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
        if status != OK or group.refusal != NO_REFUSAL:
            return status
    return OK


cdef inline Status put_wrapper(
    Bytes* to, const uint8_t* compressed, int32_t size, int magic, uint8_t attributes,
    int64_t offset, int64_t timestamp,
) noexcept nogil:
    """Append the wrapper, whose value is the group's compressed messages."""
    cdef RecordSpan span
    cdef int64_t message_bytes
    cdef Status status
    span.key_size = -1
    span.value = compressed
    span.value_size = size
    message_bytes = message_size(&span, magic)
    status = reserve(to, message_bytes)
    if status == OK:
        put_message(to.data + to.size, &span, magic, attributes, offset, timestamp, message_bytes)
        to.size += message_bytes
    return status


cdef inline void fill_group_header(
    const Group* group, BatchHeader* header, int64_t size
) noexcept nogil:
    """Set the fields of a v2 header that depend on the records."""
    header.base_offset = group.base_offset
    header.last_offset = group.last_offset
    header.size = <int32_t>size
    header.count = <int32_t>group.count
    header.base_timestamp = group.base_timestamp
    header.max_timestamp = group.append_time if group.log_append_time else group.max_timestamp
    header.attributes = (
        (header.attributes & TRANSACTIONAL_BIT) | group.codec
        | (LOG_APPEND_TIME_BIT if group.log_append_time else 0)
    )


cdef inline void clear_producer(BatchHeader* header) noexcept nogil:
    """Set the header fields of a batch without producer id and leader epoch."""
    header.leader_epoch = -1
    header.producer_id = -1
    header.producer_epoch = -1
    header.base_sequence = -1
    header.attributes = 0
