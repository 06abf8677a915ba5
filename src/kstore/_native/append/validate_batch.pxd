"""Complete batches for other kernels: validation as Kafka's leader does it, and stamping."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.status cimport Status


cdef struct LeaderRules:
    int64_t now                 # ms; the clock is the caller's
    int64_t before_max          # message.timestamp.before.max.ms; INT64_MAX: no limit
    int64_t after_max           # message.timestamp.after.max.ms; the same
    int32_t max_message_bytes   # of a complete batch; negative: no limit
    bint log_append_time        # message.timestamp.type is LogAppendTime
    bint key_required           # the topic is compacted
    bint from_client            # else base offset, control and sequence are not checked


cdef struct LeaderCheck:
    BatchHeader header          # position 0; crc_state 1 once the checksum was right
    int64_t max_timestamp       # what the header should say: now, or the largest of the records
                                # (-1 none); of a compressed batch only after validate_records
    int64_t bad_position        # byte where a check failed: from the batch's first byte, or from
                                # data's in validate_records; -1 if none
    int32_t bad_record          # index of the record that failed, -1 if none
    bint restamp                # timestamp type or max_timestamp differ: stamp_timestamp is due


# One v2 batch at data[0:size]; more batches may follow it (out.header.size tells where).
#
# OK                 right; uncompressed records were all walked. A compressed batch (codec in
#                    header.attributes) is right but for its records: decompress them and call
#                    validate_records with the same rules and the same LeaderCheck.
# TRUNCATED          the batch is incomplete: a partial tail, which Kafka's leader cuts off
# BAD_SIZE, BAD_MAGIC, BAD_CRC                              CORRUPT_MESSAGE (2)
# MESSAGE_TOO_LARGE                                         MESSAGE_TOO_LARGE (10)
# BAD_TIMESTAMP                                             INVALID_TIMESTAMP (32)
# BAD_CODEC                                                 UNSUPPORTED_COMPRESSION_TYPE (76)
# any other                                                 INVALID_RECORD (87)
#
# Of several faults the one is returned that Kafka would put on top: a malformed record, then a
# bad timestamp, then a missing key. magic 0 and 1 give BAD_MAGIC.
cdef Status validate_leader(
    const uint8_t* data, int64_t size, const LeaderRules* rules, LeaderCheck* out
) noexcept nogil

# The records of the batch whose header is in out.header, uncompressed, exactly data[0:size].
# Never TRUNCATED: what ends early is BAD_RECORD_SIZE or BAD_COUNT.
cdef Status validate_records(
    const uint8_t* data, int64_t size, const LeaderRules* rules, LeaderCheck* out
) noexcept nogil

# Whether a leader takes a record's timestamp; flagged: the client set the type LogAppendTime.
cdef bint timestamp_fits(
    const LeaderRules* rules, int64_t timestamp, bint flagged
) noexcept nogil

# Write base offset and leader epoch of a v2 batch (outside its CRC) in place.
cdef void stamp(uint8_t* batch, int64_t base_offset, int32_t leader_epoch) noexcept nogil

# Write timestamp type and max timestamp of a complete v2 batch in place, and its new CRC. As in
# Kafka, attribute bits beyond the low byte are lost. The caller has checked header and size.
cdef void stamp_timestamp(
    uint8_t* batch, int32_t size, bint log_append_time, int64_t max_timestamp
) noexcept nogil
