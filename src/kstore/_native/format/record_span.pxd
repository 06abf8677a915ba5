"""Parses and encodes one record of a v2 batch; RecordSpan has the addresses of its fields.

The layout is that of Kafka's DefaultRecord, where a negative key or value length is null, too.
Every length is checked against the record's declared size before use.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kstore._native.format.cursor cimport Cursor, put_varint, take_varint, take_varlong
from kstore._native.format.status cimport Status, OK, TRUNCATED, BAD_LENGTH, BAD_RECORD_SIZE


cdef extern from * nogil:
    """
    #define KSTORE_LIKELY(x) __builtin_expect(!!(x), 1)
    #define KSTORE_BITS(x) (64 - __builtin_clzll((x) | 1))
    """
    bint likely "KSTORE_LIKELY" (bint) noexcept
    int KSTORE_BITS(uint64_t) noexcept


cdef extern from "format/plain_record.h" nogil:
    ctypedef struct plain_record:
        const uint8_t* key
        const uint8_t* value
        const uint8_t* end
        int64_t timestamp_delta
        int32_t offset_delta
        int32_t key_size
        int32_t value_size
    ctypedef struct plain_guess:
        uint32_t raw
    plain_guess NO_GUESS "PLAIN_GUESS_NONE"
    bint read_plain_record(
        const uint8_t* at, const uint8_t* end, plain_guess* guess, plain_record* out
    ) noexcept
    bint read_short_record(
        const uint8_t* at, const uint8_t* end, plain_guess* guess, plain_record* out, bint any
    ) noexcept


cdef enum:
    SMALLEST_BODY = 6           # attributes, two deltas, two lengths, header count


cdef struct RecordSpan:
    const uint8_t* key          # undefined if key_size is -1
    const uint8_t* value
    const uint8_t* headers      # the first header's key length
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size            # -1: null
    int32_t value_size
    int32_t header_count
    int32_t header_size         # bytes of all headers, without their count
    uint8_t attributes


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (0 - (<uint64_t>value >> 63))


cdef inline int64_t zigzag_size(int64_t value) noexcept nogil:
    """Size of a zig-zag varint, without a loop: (9 * bits + 64) / 64 for 1 to 64 bits."""
    return (9 * KSTORE_BITS(zigzag(value)) + 64) >> 6


cdef inline Status parse_header(
    Cursor* cursor, int32_t* key_size, int32_t* value_size, const uint8_t** key,
    const uint8_t** value, bint strict=False,
) noexcept nogil:
    """Parse one header; value_size is -1 for null. strict: as parse_record."""
    cdef Status status = take_varint(cursor, key_size)
    if status != OK:
        return status
    if key_size[0] < 0 or key_size[0] > cursor.end - cursor.position:
        return BAD_LENGTH
    key[0] = cursor.position
    cursor.position += key_size[0]
    status = take_varint(cursor, value_size)
    if status != OK:
        return status
    value[0] = cursor.position
    if value_size[0] < 0:
        if strict and value_size[0] != -1:
            return BAD_LENGTH
        value_size[0] = -1
        return OK
    if value_size[0] > cursor.end - cursor.position:
        return BAD_LENGTH
    cursor.position += value_size[0]
    return OK


cdef inline Status skip_headers(
    Cursor* cursor, int32_t count, bint strict=False
) noexcept nogil:
    """Skip count headers. A header has at least two bytes, which bounds the loop."""
    cdef int32_t _n, key_size, value_size
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef Status status
    if count < 0 or count > (cursor.end - cursor.position) >> 1:
        return BAD_LENGTH
    for _n in range(count):
        status = parse_header(cursor, &key_size, &value_size, &key, &value, strict)
        if status != OK:
            return status
    return OK


cdef inline Status take_bytes(
    Cursor* cursor, int32_t* size, const uint8_t** at, bint strict
) noexcept nogil:
    """Read a length and that many bytes; a negative length is null, returned as -1."""
    cdef Status status = take_varint(cursor, size)
    if status != OK:
        return status
    at[0] = cursor.position
    if size[0] < 0:
        if strict and size[0] != -1:
            return BAD_LENGTH
        size[0] = -1
        return OK
    if size[0] > cursor.end - cursor.position:
        return BAD_LENGTH
    cursor.position += size[0]
    return OK


cdef inline Status parse_record(
    Cursor* cursor, RecordSpan* out, bint strict=False
) noexcept nogil:
    """Parse the record at the cursor and advance. After an error, the cursor is undefined.

    strict: a length below -1 is an error, as for Kafka's leader, and not null.
    """
    # Local variables, and a copy for the header loop: a variable whose address is passed to a
    # call cannot stay in registers.
    cdef int32_t size
    cdef Cursor body, rest
    cdef Status status = take_varint(cursor, &size)
    if status != OK:
        return status
    if size > cursor.end - cursor.position:
        return TRUNCATED
    if size < SMALLEST_BODY:
        return BAD_RECORD_SIZE
    body.position = cursor.position
    body.end = cursor.position + size
    cursor.position = body.end
    out.attributes = body.position[0]
    body.position += 1
    status = take_varlong(&body, &out.timestamp_delta)
    if status == OK:
        status = take_varint(&body, &out.offset_delta)
    if status == OK:
        status = take_bytes(&body, &out.key_size, &out.key, strict)
    if status == OK:
        status = take_bytes(&body, &out.value_size, &out.value, strict)
    if status == OK:
        status = take_varint(&body, &out.header_count)
    if status != OK:
        # The batch may continue, but this record's fields exceed its size.
        return BAD_RECORD_SIZE if status == TRUNCATED else status
    out.headers = body.position
    if out.header_count:
        rest = body
        status = skip_headers(&rest, out.header_count, strict)
        if status != OK:
            return BAD_RECORD_SIZE if status == TRUNCATED else status
        body.position = rest.position
    out.header_size = <int32_t>(body.position - out.headers)
    return OK if body.position == body.end else BAD_RECORD_SIZE


cdef inline int64_t record_body_size(const RecordSpan* span) noexcept nogil:
    """Size of the record without its length field."""
    cdef int64_t size = (
        1 + zigzag_size(span.timestamp_delta) + zigzag_size(span.offset_delta)
        + zigzag_size(span.key_size) + zigzag_size(span.value_size)
        + zigzag_size(span.header_count) + span.header_size
    )
    if span.key_size > 0:
        size += span.key_size
    if span.value_size > 0:
        size += span.value_size
    return size


cdef inline uint8_t* put_record(
    uint8_t* at, const RecordSpan* span, int64_t body_size
) noexcept nogil:
    """Write a record to memory that the caller has reserved; returns the next position.

    body_size is from record_body_size. Copies headers as one encoded range; if span.headers is
    NULL, the caller writes span.header_size bytes at the returned position.
    """
    at = put_varint(at, body_size)
    at[0] = span.attributes
    at = put_varint(at + 1, span.timestamp_delta)
    at = put_varint(at, span.offset_delta)
    at = put_varint(at, span.key_size)
    if span.key_size > 0:
        memcpy(at, span.key, span.key_size)
        at += span.key_size
    at = put_varint(at, span.value_size)
    if span.value_size > 0:
        memcpy(at, span.value, span.value_size)
        at += span.value_size
    at = put_varint(at, span.header_count)
    if span.header_size > 0 and span.headers != NULL:
        memcpy(at, span.headers, span.header_size)
        at += span.header_size
    return at
