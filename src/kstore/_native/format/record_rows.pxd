"""Decodes records into columns: the positions and lengths of each record's fields, one row each.

fill_* append all rows of a batch, or none: count changes only after the complete batch was parsed
without an error, so a corrupt batch does not affect others.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.cursor cimport Cursor, get_i32, get_i64
from kstore._native.format.layout cimport *
from kstore._native.format.legacy_message cimport parse_legacy
from kstore._native.format.record_span cimport (
    NO_GUESS, RecordSpan, likely, plain_guess, plain_record, read_plain_record, parse_record,
)
from kstore._native.format.status cimport (
    Status, OK, TRUNCATED, BAD_CODEC, BAD_COUNT, BAD_CRC, BAD_LENGTH, BAD_OFFSET, BAD_RECORD_SIZE,
    NO_MEMORY, TRAILING_BYTES,
)

cdef extern from * nogil:
    """
    #define KSTORE_FETCH_AHEAD(p) __builtin_prefetch((p), 0, 2)
    """
    void prefetch "KSTORE_FETCH_AHEAD"(const void*) noexcept

cdef enum:
    ROW_SIZE = 5 * 8 + 3 * 4
    LEAST_AHEAD = 4096          # prefetch distance: the size of the batch, within these limits
    MOST_AHEAD = 1 << 19        # fits in a core's L2 cache beside the rows
    SPAN_ROW_SIZE = 8 + 4       # of rows with values only
    SMALLEST_RECORD = 7         # length, attributes, two deltas, two lengths, header count


cdef struct Rows:
    # One allocation contains the columns in this order, capacity items each.
    uint8_t* memory
    int64_t* value_positions
    int64_t* offsets
    int64_t* timestamps
    int64_t* key_positions
    int64_t* header_positions
    int32_t* value_lengths      # -1: null
    int32_t* key_lengths
    int32_t* header_counts
    int64_t count
    int64_t capacity
    bint values_only            # only the two value columns exist
    int timestamp_type          # of all rows: -1 none (v0), 0 CreateTime, 1 LogAppendTime


cdef inline void lay_out_rows(Rows* rows, uint8_t* memory, int64_t capacity) noexcept nogil:
    cdef int64_t* wide = <int64_t*>memory
    cdef int32_t* narrow
    rows.memory = memory
    rows.capacity = capacity
    rows.value_positions = wide
    if rows.values_only:
        rows.value_lengths = <int32_t*>(wide + capacity)
        return
    rows.offsets = wide + capacity
    rows.timestamps = wide + 2 * capacity
    rows.key_positions = wide + 3 * capacity
    rows.header_positions = wide + 4 * capacity
    narrow = <int32_t*>(wide + 5 * capacity)
    rows.value_lengths = narrow
    rows.key_lengths = narrow + capacity
    rows.header_counts = narrow + 2 * capacity


cdef inline Status grow_rows(Rows* rows, int64_t wanted) noexcept nogil:
    """Grow to wanted rows; the caller has checked a header's count against its size."""
    cdef Rows old = rows[0]
    cdef int64_t capacity = max(wanted, 2 * old.capacity)
    cdef int64_t row_size = SPAN_ROW_SIZE if rows.values_only else ROW_SIZE
    cdef uint8_t* memory
    if wanted <= old.capacity:
        return OK
    memory = <uint8_t*>malloc(capacity * row_size)
    if memory == NULL:
        return NO_MEMORY
    lay_out_rows(rows, memory, capacity)
    if old.memory == NULL:
        return OK
    memcpy(rows.value_positions, old.value_positions, old.count * 8)
    memcpy(rows.value_lengths, old.value_lengths, old.count * 4)
    if not rows.values_only:
        memcpy(rows.offsets, old.offsets, old.count * 8)
        memcpy(rows.timestamps, old.timestamps, old.count * 8)
        memcpy(rows.key_positions, old.key_positions, old.count * 8)
        memcpy(rows.header_positions, old.header_positions, old.count * 8)
        memcpy(rows.key_lengths, old.key_lengths, old.count * 4)
        memcpy(rows.header_counts, old.header_counts, old.count * 4)
    free(old.memory)
    return OK


cdef inline int64_t wrapping_sum(int64_t a, int64_t b) noexcept nogil:
    """Add with wraparound, as in Java: a corrupt delta must not overflow."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline void put_row(
    Rows* rows, int64_t row, const RecordSpan* span, int64_t shift, int64_t offset,
    int64_t timestamp,
) noexcept nogil:
    """Write one row within capacity. shift converts an address to a position."""
    rows.value_positions[row] = <int64_t>span.value + shift
    rows.value_lengths[row] = span.value_size
    if not rows.values_only:
        rows.offsets[row] = offset
        rows.timestamps[row] = timestamp
        rows.key_positions[row] = <int64_t>span.key + shift
        rows.key_lengths[row] = span.key_size
        rows.header_positions[row] = <int64_t>span.headers + shift
        rows.header_counts[row] = span.header_count


# --- record batch v2 ----------------------------------------------------------------------

cdef inline Status fill_v2(
    const uint8_t* at, int64_t size, int64_t shift, const BatchHeader* batch, Rows* rows
) noexcept nogil:
    """Append the uncompressed records at[0:size]; shift is the position of at[0]."""
    cdef Cursor cursor, rest
    cdef RecordSpan span
    cdef plain_record plain
    cdef plain_guess guess = NO_GUESS
    cdef Status status
    cdef int64_t row = rows.count
    cdef int64_t end = row + batch.count
    cdef int64_t base_offset = batch.base_offset
    cdef int64_t last_delta = batch.last_offset - base_offset
    cdef int64_t last = -1
    cdef int64_t timestamp = batch.base_timestamp
    cdef bint stamped = batch.attributes & LOG_APPEND_TIME_BIT
    cdef bint all_columns = not rows.values_only
    cdef int64_t ahead = min(max(size, <int64_t>LEAST_AHEAD), <int64_t>MOST_AHEAD)
    cdef Rows to
    if batch.count < 0 or batch.count > size // SMALLEST_RECORD:
        return BAD_COUNT
    status = grow_rows(rows, end)
    if status != OK:
        return status
    to = rows[0]            # a copy: the compiler knows that column stores do not alias it
    cursor.position = at
    cursor.end = at + size
    shift -= <int64_t>at
    while row < end:
        # The checksum has loaded these bytes into cache; prefetch the next batch.
        prefetch(cursor.position + ahead)
        prefetch(cursor.position + ahead + 64)
        if likely(read_plain_record(cursor.position, cursor.end, &guess, &plain)):
            cursor.position = plain.end
            if not last < plain.offset_delta <= last_delta:
                return BAD_OFFSET
            last = plain.offset_delta
            to.value_positions[row] = <int64_t>plain.value + shift
            to.value_lengths[row] = plain.value_size
            if all_columns:
                to.offsets[row] = base_offset + last
                to.timestamps[row] = batch.max_timestamp if stamped else (
                    wrapping_sum(timestamp, plain.timestamp_delta)
                )
                to.key_positions[row] = <int64_t>plain.key + shift
                to.key_lengths[row] = plain.key_size
                to.header_positions[row] = <int64_t>plain.end + shift
                to.header_counts[row] = 0
            row += 1
            continue
        rest = cursor           # pass a copy, so that cursor itself stays in registers
        status = parse_record(&rest, &span)
        cursor.position = rest.position
        if status != OK:
            return BAD_COUNT if cursor.position == cursor.end else (
                BAD_RECORD_SIZE if status == TRUNCATED else status
            )
        if not last < span.offset_delta <= last_delta:
            return BAD_OFFSET
        last = span.offset_delta
        put_row(
            &to, row, &span, shift, base_offset + last,
            batch.max_timestamp if stamped else wrapping_sum(timestamp, span.timestamp_delta),
        )
        row += 1
    if cursor.position != cursor.end:
        return TRAILING_BYTES
    rows.count = end
    return OK


# --- messages v0 and v1 -------------------------------------------------------------------

cdef inline Status fill_legacy(
    const uint8_t* entry, int64_t shift, const BatchHeader* batch, Rows* rows
) noexcept nogil:
    """Append one uncompressed v0 or v1 message; shift is the position of entry[0]."""
    cdef RecordSpan span
    cdef Status status = parse_legacy(entry, batch, &span)
    if status == OK:
        status = grow_rows(rows, rows.count + 1)
    if status != OK:
        return status
    put_row(
        rows, rows.count, &span, shift - <int64_t>entry, batch.base_offset, batch.base_timestamp
    )
    rows.count += 1
    return OK


cdef inline Status fill_wrapped(
    const uint8_t* data, int64_t size, int64_t shift, const BatchHeader* wrapper,
    bint check_crc, Rows* rows, bint any_offsets=False,
) noexcept nogil:
    """Append the messages of a decompressed v0 or v1 wrapper; shift is the position of data[0].

    Offsets follow Kafka's rules. A v0 wrapper has absolute inner offsets. In a v1 wrapper they
    are relative, and the last inner message has the wrapper's offset; if the wrapper's offset is
    0 (some librdkafka versions), they are absolute. Inner messages may have the other magic
    (KAFKA-4298); v0 messages have no timestamp in any wrapper. any_offsets: the caller assigns
    new offsets, so do not check them; old clients send only zeros.
    """
    cdef BatchHeader inner
    cdef RecordSpan span
    cdef Status status
    cdef int64_t position = 0, count = 0, base = 0, before = -1, start = rows.count
    cdef int64_t timestamp
    cdef bint stamped = wrapper.magic == 1 and wrapper.attributes & LOG_APPEND_TIME_BIT
    while position < size:
        status = read_header(data, position, size, &inner)
        if status != OK:
            return BAD_RECORD_SIZE if status == TRUNCATED else status
        if inner.magic > 1 or inner.attributes & CODEC_MASK:
            return BAD_CODEC
        if not any_offsets and (inner.base_offset < 0 or inner.base_offset <= before):
            return BAD_OFFSET
        if check_crc and not crc_matches(data, &inner):
            return BAD_CRC
        before = inner.base_offset
        position += inner.size
        count += 1
    if count == 0:
        return BAD_COUNT
    if wrapper.magic == 1 and wrapper.base_offset != 0 and not any_offsets:
        base = wrapper.base_offset - before
        if base < 0:
            return BAD_OFFSET
    status = grow_rows(rows, start + count)
    if status != OK:
        return status
    position = 0
    while position < size:
        status = read_header(data, position, size, &inner)
        if status == OK:
            status = parse_legacy(data + position, &inner, &span)
        if status != OK:
            rows.count = start
            return status
        timestamp = inner.base_timestamp
        if stamped and inner.magic == 1:
            timestamp = wrapper.max_timestamp
        put_row(
            rows, rows.count, &span, shift - <int64_t>data,
            wrapping_sum(base, inner.base_offset), timestamp,
        )
        rows.count += 1
        position += inner.size
    return OK


cdef inline void keep_window(Rows* rows, int64_t first, int64_t start, int64_t stop) noexcept nogil:
    """Keep only rows with start <= offset < stop, from row first. Requires all columns."""
    cdef int64_t row, to = first
    for row in range(first, rows.count):
        if start <= rows.offsets[row] < stop:
            if to != row:
                rows.value_positions[to] = rows.value_positions[row]
                rows.value_lengths[to] = rows.value_lengths[row]
                rows.offsets[to] = rows.offsets[row]
                rows.timestamps[to] = rows.timestamps[row]
                rows.key_positions[to] = rows.key_positions[row]
                rows.key_lengths[to] = rows.key_lengths[row]
                rows.header_positions[to] = rows.header_positions[row]
                rows.header_counts[to] = rows.header_counts[row]
            to += 1
    rows.count = to
