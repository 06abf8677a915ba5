"""Parses and writes v0 and v1 messages: one for a record, or a wrapper around many.

Layout and attributes are those of Kafka's LegacyRecord. The offsets inside a wrapper follow the
rules in fill_wrapped of record_rows.pxd.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.crc cimport crc32
from kstore._native.format.cursor cimport get_i32, put_i32, put_i64, put_u32
from kstore._native.format.layout cimport (
    LEGACY_ATTRIBUTES_POSITION, LEGACY_CRC_POSITION, LEGACY_CRC_START, LOG_OVERHEAD, MAGIC_POSITION,
    V0_KEY_SIZE_POSITION, V0_OVERHEAD, V1_KEY_SIZE_POSITION, V1_OVERHEAD, V1_TIMESTAMP_POSITION,
)
from kstore._native.format.record_span cimport RecordSpan
from kstore._native.format.status cimport Status, OK, BAD_LENGTH, BAD_RECORD_SIZE


cdef inline Status parse_legacy(
    const uint8_t* entry, const BatchHeader* batch, RecordSpan* out
) noexcept nogil:
    """Parse key and value of one v0 or v1 message, given its header."""
    cdef const uint8_t* at = entry + (
        V1_KEY_SIZE_POSITION if batch.magic == 1 else V0_KEY_SIZE_POSITION
    )
    cdef const uint8_t* end = entry + batch.size
    cdef int32_t size
    # V0_OVERHEAD and V1_OVERHEAD include the length fields, so four bytes are present.
    size = get_i32(at)
    at += 4
    out.key = at
    out.key_size = size if size >= 0 else -1
    if size > 0:
        if size > end - at:
            return BAD_LENGTH
        at += size
    if end - at < 4:
        return BAD_LENGTH
    size = get_i32(at)
    at += 4
    out.value = at
    out.value_size = size if size >= 0 else -1
    out.headers = at            # v0 and v1 have none
    out.header_count = 0
    if size > 0:
        if size > end - at:
            return BAD_LENGTH
        at += size
    return OK if at == end else BAD_RECORD_SIZE


cdef inline int64_t message_size(const RecordSpan* span, int magic) noexcept nogil:
    """Size of the message, including offset and size fields."""
    cdef int64_t size = LOG_OVERHEAD + (V1_OVERHEAD if magic == 1 else V0_OVERHEAD)
    if span.key_size > 0:
        size += span.key_size
    if span.value_size > 0:
        size += span.value_size
    return size


cdef inline uint8_t* put_field(uint8_t* at, const uint8_t* field, int32_t size) noexcept nogil:
    """Write a four-byte length (-1: null) and the bytes."""
    put_i32(at, size)
    at += 4
    if size > 0:
        memcpy(at, field, size)
        at += size
    return at


cdef inline uint8_t* put_message(
    uint8_t* at, const RecordSpan* span, int magic, uint8_t attributes, int64_t offset,
    int64_t timestamp, int64_t size,
) noexcept nogil:
    """Write key and value as one message with its CRC; returns the next position.

    size is from message_size, at most 2147483647; the caller has reserved it. v0 has neither a
    timestamp nor a timestamp type. Neither format has headers.
    """
    cdef uint8_t* next_field = at + LEGACY_ATTRIBUTES_POSITION + 1
    put_i64(at, offset)
    put_i32(at + 8, <int32_t>(size - LOG_OVERHEAD))
    at[MAGIC_POSITION] = <uint8_t>magic
    at[LEGACY_ATTRIBUTES_POSITION] = attributes
    if magic == 1:
        put_i64(at + V1_TIMESTAMP_POSITION, timestamp)
        next_field += 8
    next_field = put_field(next_field, span.key, span.key_size)
    next_field = put_field(next_field, span.value, span.value_size)
    put_u32(at + LEGACY_CRC_POSITION, crc32(0, at + LEGACY_CRC_START, size - LEGACY_CRC_START))
    return next_field
