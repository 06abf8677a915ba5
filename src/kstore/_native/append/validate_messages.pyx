"""Validation of a client's v0 and v1 messages as Kafka's leader does it, and stamping.

Rules: Kafka's UnifiedLog.analyzeAndValidateRecords, LogValidator and AbstractLegacyRecordBatch
(3.9). Stricter than Kafka: rejects a message whose lengths do not match its size, and a wrapper
that ends in an incomplete message, because no reader could read them. batch_appender decides where
messages are rebuilt in another format, which format/converter does.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from kstore._native.append.validate_batch cimport LeaderRules, timestamp_fits
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.crc cimport crc32
from kstore._native.format.cursor cimport get_i32, get_i64, put_i64, put_u32, wrapping_add
from kstore._native.format.layout cimport (
    CODEC_MASK, HEADER_UP_TO_MAGIC, LEGACY_ATTRIBUTES_POSITION, LEGACY_CRC_POSITION,
    LEGACY_CRC_START, LOG_APPEND_TIME_BIT, MAGIC_POSITION, V0_OVERHEAD, V1_TIMESTAMP_POSITION,
)
from kstore._native.format.legacy_message cimport parse_legacy
from kstore._native.format.record_span cimport RecordSpan
from kstore._native.format.status cimport (
    BAD_ATTRIBUTES, BAD_CODEC, BAD_COUNT, BAD_CRC, BAD_LENGTH, BAD_OFFSET, BAD_RECORD_SIZE,
    BAD_TIMESTAMP, MESSAGE_TOO_LARGE, MISSING_KEY, OK, OTHER_MAGIC, SEVERAL_BATCHES, TRUNCATED,
    Status,
)

cdef enum:
    ZSTD = 4


cdef Status report_fault(
    MessageCheck* out, Status status, int64_t position, int64_t record
) noexcept nogil:
    out.bad_position = position
    out.bad_record = <int32_t>min(record, <int64_t>0x7FFFFFFF)
    return status


cdef Status check_record(
    const uint8_t* entry, const BatchHeader* message, int64_t timestamp, bint claims_append_time,
    const LeaderRules* rules, MessageCheck* out,
) noexcept nogil:
    """Validate key and timestamp of one record; v0 has no timestamp."""
    cdef RecordSpan span
    cdef Status status = parse_legacy(entry, message, &span)
    if status != OK:
        return status
    if rules.key_required and span.key_size < 0:
        return MISSING_KEY
    if message.magic == 0:
        return OK
    if not timestamp_fits(rules, timestamp, claims_append_time):
        return BAD_TIMESTAMP
    if timestamp > out.max_timestamp:
        out.max_timestamp = timestamp
    return OK


cdef Status scan_messages(
    const uint8_t* data, int64_t size, const LeaderRules* rules, MessageCheck* out
) noexcept nogil:
    """The first pass: frames, sizes, checksums and codecs of all messages."""
    cdef BatchHeader message
    cdef Status status
    cdef int64_t position = 0
    cdef int codec
    while True:
        status = read_header(data, position, size, &message)
        if status == TRUNCATED:
            break
        if status != OK:
            return report_fault(out, status, position, -1)
        if rules.max_message_bytes >= 0 and message.size > rules.max_message_bytes:
            return report_fault(out, MESSAGE_TOO_LARGE, position, -1)
        if not crc_matches(data, &message):
            return report_fault(out, BAD_CRC, position, -1)
        codec = message.attributes & CODEC_MASK
        if codec > ZSTD:
            return report_fault(out, BAD_CODEC, position, -1)
        if codec:
            out.codec = codec
        if out.count == 0:
            out.first = message
        out.count += 1
        position += message.size
    out.size = position
    if out.codec and out.count > 1:
        return report_fault(out, SEVERAL_BATCHES, out.first.size, -1)
    if out.codec == ZSTD:
        return report_fault(out, BAD_ATTRIBUTES, LEGACY_ATTRIBUTES_POSITION, -1)
    return OK


cdef Status check_messages(
    const uint8_t* data, int64_t size, const LeaderRules* rules, MessageCheck* out
) noexcept nogil:
    cdef BatchHeader message
    cdef RecordSpan span
    cdef Status status
    cdef int64_t position = 0
    memset(out, 0, sizeof(MessageCheck))
    out.max_timestamp = out.bad_position = out.bad_record = -1
    status = scan_messages(data, size, rules, out)
    if status != OK:
        return status
    if out.codec:
        status = parse_legacy(data, &out.first, &span)
        if status == OK and span.value_size < 0:
            status = BAD_LENGTH
        if status != OK:
            return report_fault(out, status, 0, -1)
        out.compressed_position = span.value - data
        out.compressed_size = span.value_size
        return OK
    while position < out.size:
        status = read_header(data, position, size, &message)
        if status == OK and message.magic != out.first.magic:
            status = OTHER_MAGIC
        if status == OK:
            status = check_record(
                data + position, &message, message.base_timestamp,
                message.attributes & LOG_APPEND_TIME_BIT, rules, out,
            )
        if status != OK:
            return report_fault(out, status, position, out.record_count)
        out.record_count += 1
        position += message.size
    return OK


cdef Status read_inner_header(
    const uint8_t* data, int64_t size, int64_t position, int magic, BatchHeader* inner
) noexcept nogil:
    """Read the header of a message inside a wrapper."""
    cdef Status status
    if size - position >= HEADER_UP_TO_MAGIC and data[position + MAGIC_POSITION] != magic and (
        get_i32(data + position + 8) >= V0_OVERHEAD
    ):
        return OTHER_MAGIC
    status = read_header(data, position, size, inner)
    return BAD_RECORD_SIZE if status == TRUNCATED else status


cdef Status check_wrapped(
    const uint8_t* data, int64_t size, const LeaderRules* rules, MessageCheck* out
) noexcept nogil:
    cdef BatchHeader inner
    cdef Status status
    cdef Status deferred = OK       # of a well-formed invalid record: Kafka reports malformed first
    cdef int64_t position = 0, base = 0
    cdef int64_t timestamp
    cdef int magic = out.first.magic
    cdef bint claims_append_time = magic == 1 and out.first.attributes & LOG_APPEND_TIME_BIT
    while position < size:
        status = read_inner_header(data, size, position, magic, &inner)
        if status != OK:
            return report_fault(out, status, position, out.record_count)
        position += inner.size
        out.record_count += 1
    if position == 0:
        return report_fault(out, BAD_COUNT, 0, -1)
    if magic == 1 and out.first.base_offset != 0:
        # Some versions of librdkafka send 0.
        if out.first.base_offset < inner.base_offset:
            return report_fault(out, BAD_OFFSET, 0, -1)
        base = <int64_t>(<uint64_t>out.first.base_offset - <uint64_t>inner.base_offset)
    out.in_order = True
    out.record_count = position = 0
    while position < size:
        status = read_inner_header(data, size, position, magic, &inner)
        if status == OK and inner.attributes & CODEC_MASK:
            status = BAD_ATTRIBUTES
        if status == OK and not crc_matches(data, &inner):
            status = BAD_CRC
        if status != OK:
            return report_fault(out, status, position, out.record_count)
        timestamp = out.first.max_timestamp if claims_append_time else inner.base_timestamp
        status = check_record(data + position, &inner, timestamp, claims_append_time, rules, out)
        if status == BAD_TIMESTAMP or status == MISSING_KEY:
            if deferred == OK or (status == BAD_TIMESTAMP and deferred != BAD_TIMESTAMP):
                deferred = report_fault(out, status, position, out.record_count)
        elif status != OK:
            return report_fault(out, status, position, out.record_count)
        if wrapping_add(base, inner.base_offset) != out.record_count:
            out.in_order = False
        out.record_count += 1
        position += inner.size
    return deferred


cdef void stamp_messages(
    uint8_t* data, const MessageCheck* check, int64_t base_offset, const LeaderRules* rules
) noexcept nogil:
    cdef BatchHeader message
    cdef uint8_t* at
    cdef int64_t position = 0, timestamp
    cdef int64_t offset = base_offset
    cdef uint8_t attributes
    if check.codec:
        offset = wrapping_add(base_offset, check.record_count - 1)
    while position < check.size:
        read_header(data, position, check.size, &message)
        at = data + position
        put_i64(at, offset)
        offset = wrapping_add(offset, 1)
        position += message.size
        if message.magic == 0:
            continue
        timestamp = get_i64(at + V1_TIMESTAMP_POSITION)
        if rules.log_append_time:
            timestamp = rules.now
        elif check.codec:
            timestamp = check.max_timestamp
        elif timestamp < -1:
            timestamp = -1          # as in Kafka, whose largest timestamp starts at -1
        attributes = <uint8_t>(message.attributes & CODEC_MASK)
        if rules.log_append_time:
            attributes |= LOG_APPEND_TIME_BIT
        if timestamp == message.base_timestamp and (
            (attributes ^ message.attributes) & LOG_APPEND_TIME_BIT == 0
        ):
            continue
        at[LEGACY_ATTRIBUTES_POSITION] = attributes
        put_i64(at + V1_TIMESTAMP_POSITION, timestamp)
        put_u32(at + LEGACY_CRC_POSITION, crc32(
            0, at + LEGACY_CRC_START, message.size - LEGACY_CRC_START))
