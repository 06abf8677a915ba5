"""Validation of a batch as Kafka's leader does it, for other kernels."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.status cimport Status


cdef struct LeaderRules:
    int64_t now                 # ms
    int64_t before_max          # message.timestamp.before.max.ms; INT64_MAX: no limit
    int64_t after_max           # message.timestamp.after.max.ms; INT64_MAX: no limit
    int32_t max_message_bytes   # of a complete batch; negative: no limit
    bint log_append_time        # message.timestamp.type is LogAppendTime
    bint key_required           # the topic is compacted
    bint from_client            # else base offset, control and sequence are not checked
    bint may_flush              # after the append, where flush.messages asks for it


cdef struct LeaderCheck:
    BatchHeader header          # position 0; crc_state 1 if the checksum is valid
    int64_t max_timestamp       # correct value of the header field: now, or the records' largest
                                # (-1 none); for a compressed batch, set by validate_records
    int64_t bad_position        # byte where a check failed, from the start of the batch, or of
                                # data in validate_records; -1 if none
    int32_t bad_record          # index of the record that failed, -1 if none
    bint restamp                # timestamp type or max_timestamp is wrong: call restamp


# Validate one v2 batch at data[0:size]; more batches may follow it, at out.header.size.
#
# OK                 valid, including uncompressed records. For a compressed batch (codec in
#                    header.attributes), decompress the records and call validate_records with
#                    the same rules and the same LeaderCheck.
# TRUNCATED          the batch is incomplete: Kafka's leader truncates it
# BAD_SIZE, BAD_MAGIC, BAD_CRC                              CORRUPT_MESSAGE (2)
# MESSAGE_TOO_LARGE                                         MESSAGE_TOO_LARGE (10)
# BAD_TIMESTAMP                                             INVALID_TIMESTAMP (32)
# BAD_CODEC                                                 UNSUPPORTED_COMPRESSION_TYPE (76)
# any other                                                 INVALID_RECORD (87)
#
# For several faults, returns the one that Kafka reports first: a malformed record, then a bad
# timestamp, then a missing key. Returns BAD_MAGIC for magic 0 and 1.
cdef Status validate_leader(
    const uint8_t* data, int64_t size, const LeaderRules* rules, LeaderCheck* out
) noexcept nogil

# Validate data[0:size], the uncompressed records of the batch whose header is in out.header.
# Returns BAD_RECORD_SIZE or BAD_COUNT for incomplete data, never TRUNCATED.
cdef Status validate_records(
    const uint8_t* data, int64_t size, const LeaderRules* rules, LeaderCheck* out
) noexcept nogil

# Whether a leader accepts a record's timestamp; claims_append_time: the batch already has the
# timestamp type LogAppendTime.
cdef bint timestamp_fits(
    const LeaderRules* rules, int64_t timestamp, bint claims_append_time
) noexcept nogil
