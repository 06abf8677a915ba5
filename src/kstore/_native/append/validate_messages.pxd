"""A client's messages v0 and v1 on their way into a log: what a leader checks, what it stamps."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore._native.append.validate_batch cimport LeaderRules
from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.status cimport Status


cdef struct MessageCheck:
    BatchHeader first
    int64_t size                # of the complete messages; a cut one behind them is skipped
    int64_t count               # of messages, where a wrapper is one
    int64_t record_count
    int64_t max_timestamp       # of the records, -1 none
    int64_t packed_position     # of a wrapper's compressed bytes
    int64_t packed_size
    int64_t bad_position        # byte where a check failed, -1 if none
    int32_t bad_record          # index of the record that failed, -1 if none
    int codec                   # of the wrapper; 0: plain messages
    bint in_order               # a wrapper's messages have the offsets 0, 1, 2 ...


# All messages in data[0:size], but for what a wrapper holds: its bytes are to be decompressed
# and given to check_wrapped with the same rules and the same MessageCheck.
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

# Write offsets from base_offset on into checked messages, in place, and timestamps (with their
# type) where those differ from what the log wants: only then is a checksum rewritten.
cdef void stamp_messages(
    uint8_t* data, const MessageCheck* check, int64_t base_offset, const LeaderRules* rules
) noexcept nogil
