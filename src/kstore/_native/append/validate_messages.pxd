"""Validation of a client's v0 and v1 messages as Kafka's leader does it, and stamping."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore._native.append.validate_batch cimport LeaderRules
from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.status cimport Status


cdef struct MessageCheck:
    BatchHeader first
    int64_t size                # of the complete messages, without an incomplete one at the end
    int64_t count               # of messages; a wrapper counts as one
    int64_t record_count
    int64_t max_timestamp       # of the records; -1 if none
    int64_t compressed_position     # of a wrapper's compressed bytes
    int64_t compressed_size
    int64_t bad_position        # byte where a check failed; -1 if none
    int32_t bad_record          # index of the invalid record; -1 if none
    int codec                   # of the wrapper; 0: uncompressed messages
    bint in_order               # a wrapper's messages have the offsets 0, 1, 2 ...


# Validate all messages in data[0:size]. For a wrapper, decompress its value and pass it to
# check_wrapped with the same rules and the same MessageCheck.
#
# BAD_SIZE, BAD_MAGIC, BAD_CRC                              CORRUPT_MESSAGE (2)
# MESSAGE_TOO_LARGE                                         MESSAGE_TOO_LARGE (10)
# BAD_TIMESTAMP                                             INVALID_TIMESTAMP (32)
# BAD_CODEC                                                 UNSUPPORTED_COMPRESSION_TYPE (76)
# any other                                                 INVALID_RECORD (87)
cdef Status check_messages(
    const uint8_t* data, int64_t size, const LeaderRules* rules, MessageCheck* out
) noexcept nogil

cdef Status check_wrapped(
    const uint8_t* data, int64_t size, const LeaderRules* rules, MessageCheck* out
) noexcept nogil

# Write offsets from base_offset into validated messages, in place. If timestamp or timestamp type
# must change, write them and a new checksum, too.
cdef void stamp_messages(
    uint8_t* data, const MessageCheck* check, int64_t base_offset, const LeaderRules* rules
) noexcept nogil
