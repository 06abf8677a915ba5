"""Writes offset, leader epoch and timestamp fields into a batch before it is appended.

Limits of a record's time (``message.timestamp.before.max.ms``, ``...after.max.ms``) are checked in
validate_batch.

Rules: Kafka's DefaultRecordBatch.setLastOffset, setPartitionLeaderEpoch, setMaxTimestamp.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kstore._native.format.crc cimport crc32c
from kstore._native.format.cursor cimport put_i16, put_i32, put_i64, put_u32
from kstore._native.format.layout cimport (
    V2_ATTRIBUTES_POSITION, V2_CRC_POSITION, V2_CRC_START, V2_HEADER_SIZE, V2_LEADER_EPOCH_POSITION,
    V2_MAX_TIMESTAMP_POSITION, V2_PREFIX_SIZE,
)


cdef inline Py_ssize_t stamp_prefix(
    uint8_t* out, const uint8_t* batch, int64_t base_offset, int32_t leader_epoch
) noexcept nogil:
    """Write the first 16 bytes of the batch as the log stores them; returns 16."""
    memcpy(out, batch, V2_PREFIX_SIZE)
    put_i64(out, base_offset)
    put_i32(out + V2_LEADER_EPOCH_POSITION, leader_epoch)
    return V2_PREFIX_SIZE


cdef inline void restamp(
    uint8_t* out, const uint8_t* batch, int64_t size, int64_t base_offset, int32_t leader_epoch,
    int16_t attributes, int64_t max_timestamp
) noexcept nogil:
    """Write a 61-byte header with new attributes, max timestamp and CRC."""
    memcpy(out, batch, V2_HEADER_SIZE)
    put_i64(out, base_offset)
    put_i32(out + V2_LEADER_EPOCH_POSITION, leader_epoch)
    put_i16(out + V2_ATTRIBUTES_POSITION, attributes)
    put_i64(out + V2_MAX_TIMESTAMP_POSITION, max_timestamp)
    put_u32(out + V2_CRC_POSITION, crc32c(
        crc32c(0, out + V2_CRC_START, V2_HEADER_SIZE - V2_CRC_START),
        batch + V2_HEADER_SIZE, size - V2_HEADER_SIZE))
