"""Validation of a batch as Kafka's leader does it; stamp_batch.pxd stamps it."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdint cimport uint64_t
from libc.string cimport memset

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.cursor cimport Cursor
from kstore._native.format.layout cimport *
from kstore._native.format.record_span cimport (
    NO_GUESS, RecordSpan, likely, parse_record, plain_guess, plain_record, read_short_record,
)
from kstore._native.format.status cimport *

import kstore._native.format.status as statuses

cdef extern from * nogil:
    """
    #define kstore_unlikely(condition) __builtin_expect(!!(condition), 0)
    """
    bint unlikely "kstore_unlikely"(bint condition)

cdef extern from "format/record_template.h" nogil:
    ctypedef struct record_template:
        pass
    void template_start(record_template* template) noexcept
    bint read_by_template(
        const uint8_t* at, const uint8_t* end, record_template* template, plain_record* out
    ) noexcept
    void template_observe(
        record_template* template, const uint8_t* at, const uint8_t* stop, const uint8_t* end
    ) noexcept

cdef enum:
    CODECS = 5                  # none, gzip, snappy, lz4, zstd


# --- records -------------------------------------------------------------------------------

cdef inline int64_t saturating_add(int64_t left, int64_t right) noexcept nogil:
    """right is 0 or more; its largest value means no limit, as in Kafka."""
    return left + right if left <= INT64_MAX - right else INT64_MAX


cdef inline int64_t saturating_subtract(int64_t left, int64_t right) noexcept nogil:
    """right is 0 or more; its largest value means no limit, as in Kafka."""
    if right == INT64_MAX or left < INT64_MIN + right:
        return INT64_MIN
    return left - right


cdef Status report_fault(
    LeaderCheck* out, Status status, int64_t position, int32_t record
) noexcept nogil:
    out.bad_position = position
    out.bad_record = record
    return status


cdef Status validate_records(
    const uint8_t* data, int64_t size, const LeaderRules* rules, LeaderCheck* out
) noexcept nogil:
    cdef Cursor cursor, rest
    cdef plain_record plain
    cdef RecordSpan parsed
    cdef plain_guess guess
    cdef record_template template
    cdef Status status
    cdef Status deferred = OK       # of a well-formed invalid record: Kafka reports malformed first
    cdef const uint8_t* start
    cdef int32_t index
    cdef int32_t count = out.header.count
    cdef bint claims_append_time = out.header.attributes & LOG_APPEND_TIME_BIT
    cdef bint key_required = rules.key_required
    cdef bint bounded = not rules.log_append_time
    cdef int64_t lowest = saturating_subtract(rules.now, rules.before_max)
    cdef int64_t highest = saturating_add(rules.now, rules.after_max)
    cdef int64_t timestamp = out.header.max_timestamp
    cdef int64_t base = out.header.base_timestamp
    cdef int64_t largest = -1
    out.bad_position = -1
    out.bad_record = -1
    cursor.position = data
    cursor.end = data + size
    template_start(&template)
    for index in range(count):
        start = cursor.position
        if unlikely(start == cursor.end):
            return report_fault(out, BAD_COUNT, start - data, index)
        if likely(read_by_template(start, cursor.end, &template, &plain)):
            cursor.position = plain.end
        else:
            guess = NO_GUESS    # the template covers records of equal size
            if likely(read_short_record(start, cursor.end, &guess, &plain, True)):
                cursor.position = plain.end
                template_observe(&template, start, plain.end, cursor.end)
            else:
                rest = cursor   # pass a copy, so that cursor itself stays in registers
                status = parse_record(&rest, &parsed, True)
                if unlikely(status != OK):
                    if status == TRUNCATED:
                        status = BAD_RECORD_SIZE
                    return report_fault(out, status, start - data, index)
                cursor.position = rest.position
                plain.timestamp_delta = parsed.timestamp_delta
                plain.offset_delta = parsed.offset_delta
                plain.key_size = parsed.key_size
        if unlikely(plain.offset_delta != index):
            return report_fault(out, BAD_OFFSET, start - data, index)
        if not claims_append_time:             # else all records have the header's max timestamp
            timestamp = <int64_t>(<uint64_t>base + <uint64_t>plain.timestamp_delta)
        if timestamp > largest:
            largest = timestamp
        if unlikely(key_required and plain.key_size < 0):
            if deferred == OK:
                deferred = report_fault(out, MISSING_KEY, start - data, index)
        elif unlikely(timestamp < lowest or timestamp > highest or claims_append_time):
            if deferred != BAD_TIMESTAMP and not timestamp_allowed(
                timestamp, lowest, highest, bounded, claims_append_time
            ):
                deferred = report_fault(out, BAD_TIMESTAMP, start - data, index)
    if cursor.position != cursor.end:
        return report_fault(out, TRAILING_BYTES, cursor.position - data, -1)
    out.max_timestamp = rules.now if rules.log_append_time else largest
    out.restamp = claims_append_time != rules.log_append_time or (
        out.max_timestamp != out.header.max_timestamp
    )
    return deferred


cdef bint timestamp_allowed(
    int64_t timestamp, int64_t lowest, int64_t highest, bint bounded, bint claims_append_time
) noexcept nogil:
    """Kafka's LogValidator.validateTimestamp: limits apply only to a CreateTime topic; a batch
    for a LogAppendTime topic may not already have that timestamp type."""
    if bounded and timestamp != -1:
        return lowest <= timestamp <= highest
    return not claims_append_time


cdef bint timestamp_fits(
    const LeaderRules* rules, int64_t timestamp, bint claims_append_time
) noexcept nogil:
    return timestamp_allowed(
        timestamp, saturating_subtract(rules.now, rules.before_max),
        saturating_add(rules.now, rules.after_max), not rules.log_append_time, claims_append_time,
    )


# --- batches -------------------------------------------------------------------------------

cdef Status validate_header(const LeaderRules* rules, LeaderCheck* out) noexcept nogil:
    """Validate the header of a batch with valid size and CRC (LogValidator.validateBatch)."""
    cdef BatchHeader* header = &out.header
    if header.count <= 0:
        return report_fault(out, BAD_COUNT, V2_COUNT_POSITION, -1)
    if <uint64_t>header.last_offset - <uint64_t>header.base_offset != <uint64_t>(
        <int64_t>header.count - 1
    ):
        return report_fault(out, BAD_COUNT, V2_LAST_OFFSET_DELTA_POSITION, -1)
    if rules.from_client:
        if header.attributes & CONTROL_BIT:
            return report_fault(out, CONTROL_BATCH, V2_ATTRIBUTES_POSITION, -1)
        if header.producer_id != -1 and header.base_sequence < 0:
            return report_fault(out, BAD_SEQUENCE, V2_BASE_SEQUENCE_POSITION, -1)
    if header.attributes & CODEC_MASK >= CODECS:
        return report_fault(out, BAD_CODEC, V2_ATTRIBUTES_POSITION, -1)
    return OK


cdef Status validate_leader(
    const uint8_t* data, int64_t size, const LeaderRules* rules, LeaderCheck* out
) noexcept nogil:
    cdef BatchHeader* header = &out.header
    cdef Status status
    out.max_timestamp = -1
    out.bad_position = -1
    out.bad_record = -1
    out.restamp = False
    memset(header, 0, sizeof(BatchHeader))  # callers read fields even if the header is invalid
    if size >= HEADER_UP_TO_MAGIC and data[MAGIC_POSITION] != 2:
        header.magic = <int8_t>data[MAGIC_POSITION]
        return report_fault(out, BAD_MAGIC, MAGIC_POSITION, -1)
    status = read_header(data, 0, size, header)
    if status != OK:
        return report_fault(out, status, 0, -1)
    if rules.from_client and header.base_offset != 0:
        return report_fault(out, BAD_BASE_OFFSET, 0, -1)
    if rules.max_message_bytes >= 0 and header.size > rules.max_message_bytes:
        return report_fault(out, MESSAGE_TOO_LARGE, LOG_OVERHEAD - 4, -1)
    if not crc_matches(data, header):
        header.crc_state = -1
        return report_fault(out, BAD_CRC, V2_CRC_POSITION, -1)
    header.crc_state = 1
    status = validate_header(rules, out)
    if status != OK or header.attributes & CODEC_MASK:
        return status
    status = validate_records(
        data + V2_HEADER_SIZE, header.size - V2_HEADER_SIZE, rules, out
    )
    if out.bad_position >= 0:
        out.bad_position += V2_HEADER_SIZE
    return status


# --- Python interface ----------------------------------------------------------------------

cdef class LeaderReport:
    """The result of validate_leader or validate_records."""

    cdef readonly int status
    cdef readonly int64_t bad_position, base_offset, last_offset, max_timestamp
    cdef readonly int32_t bad_record, size, count
    cdef readonly int16_t attributes
    cdef readonly bint restamp

    @property
    def ok(self):
        return self.status == OK

    @property
    def status_name(self):
        return statuses.name(self.status)

    @property
    def reason(self):
        return statuses.reason(self.status)

    def __repr__(self):
        return (
            f"LeaderReport({self.status_name}, size={self.size}, count={self.count}, "
            f"max_timestamp={self.max_timestamp}, bad_record={self.bad_record})"
        )


cdef LeaderReport report_of(Status status, const LeaderCheck* check):
    cdef LeaderReport report = LeaderReport.__new__(LeaderReport)
    report.status = status
    report.bad_position = check.bad_position
    report.bad_record = check.bad_record
    report.base_offset = check.header.base_offset
    report.last_offset = check.header.last_offset
    report.max_timestamp = check.max_timestamp
    report.size = check.header.size
    report.count = check.header.count
    report.attributes = check.header.attributes
    report.restamp = check.restamp
    return report


cdef int fill_rules(
    LeaderRules* rules,
    int64_t now,
    int64_t before_max,
    int64_t after_max,
    bint log_append_time,
    bint key_required,
) except -1:
    if before_max < 0 or after_max < 0:
        raise ValueError("before_max and after_max are durations in ms, 0 or more")
    rules.now = now
    rules.before_max = before_max
    rules.after_max = after_max
    rules.log_append_time = log_append_time
    rules.key_required = key_required
    rules.max_message_bytes = -1
    rules.from_client = rules.may_flush = True
    return 0


def _validate_leader(
    buffer,
    *,
    int64_t now,
    int64_t before_max=INT64_MAX,
    int64_t after_max=INT64_MAX,
    int32_t max_message_bytes=-1,
    bint log_append_time=False,
    bint key_required=False,
    bint from_client=True,
):
    cdef HeldBytes view = hold_bytes(buffer)
    cdef LeaderRules rules
    cdef LeaderCheck check
    cdef Status status
    memset(&check, 0, sizeof(check))
    fill_rules(&rules, now, before_max, after_max, log_append_time, key_required)
    rules.max_message_bytes = max_message_bytes
    rules.from_client = from_client
    with nogil:
        status = validate_leader(view.data, view.size, &rules, &check)
    return report_of(status, &check)


def _validate_records(
    buffer,
    *,
    int32_t count,
    int64_t now,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int16_t attributes=0,
    int64_t before_max=INT64_MAX,
    int64_t after_max=INT64_MAX,
    bint log_append_time=False,
    bint key_required=False,
):
    cdef HeldBytes view = hold_bytes(buffer)
    cdef LeaderRules rules
    cdef LeaderCheck check
    cdef Status status
    memset(&check, 0, sizeof(check))
    fill_rules(&rules, now, before_max, after_max, log_append_time, key_required)
    check.header.count = count
    check.header.attributes = attributes
    check.header.base_timestamp = base_timestamp
    check.header.max_timestamp = max_timestamp
    check.header.last_offset = count - 1
    with nogil:
        status = validate_records(view.data, view.size, &rules, &check)
    return report_of(status, &check)


# The cdef functions have the public names, for cimport; define the Python functions of that name.
for _name, _function in (
    ("validate_leader", _validate_leader),
    ("validate_records", _validate_records),
):
    _function.__name__ = _function.__qualname__ = _name
    globals()[_name] = _function
del _name, _function
