"""Reads and writes the header of one batch of any magic; a v0/v1 entry is a batch here, too.

Rules: Kafka's FileLogInputStream (sequential scan) and AbstractLegacyRecordBatch,
DefaultRecordBatch (fields). See docs/format/.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kstore._native.format.crc cimport crc32, crc32c
from kstore._native.format.cursor cimport (
    get_i16, get_i32, get_i64, get_u32, put_i16, put_i32, put_i64, put_u32,
)
from kstore._native.format.layout cimport *
from kstore._native.format.status cimport Status, OK, TRUNCATED, BAD_SIZE, BAD_MAGIC, BAD_CRC


cdef packed struct BatchHeader:
    int64_t base_offset         # v0/v1: the offset field (a wrapper's is its last inner offset)
    int64_t last_offset         # v2: base + lastOffsetDelta; v0/v1: the offset field
    int64_t position            # in the scanned bytes
    int64_t base_timestamp      # v0: -1; v1: the message's; v2: may be a delete horizon
    int64_t max_timestamp       # v0: -1
    int64_t producer_id         # v0/v1: -1
    int32_t size                # complete batch, including offset and size fields
    int32_t count               # v2: recordsCount; v0/v1: 1 if not compressed, else -1 (unknown)
    int32_t leader_epoch        # v0/v1: -1
    int32_t base_sequence       # v0/v1: -1
    uint32_t crc                # as stored
    int16_t producer_epoch      # v0/v1: -1
    int16_t attributes
    int8_t magic
    int8_t crc_state            # 0 not verified, 1 valid, -1 invalid
    int16_t[3] reserved         # zero; pads a row to 80 bytes, so that columns are aligned


cdef inline Status read_header(
    const uint8_t* data, int64_t position, int64_t end, BatchHeader* out
) noexcept nogil:
    """Read the header of the batch at data[position:end].

    TRUNCATED: the batch is incomplete (the tail of an active log); out.size is then its declared
    size, or 0 with fewer than 17 bytes. BAD_SIZE, BAD_MAGIC: these bytes cannot be a batch.
    """
    cdef const uint8_t* at = data + position
    cdef int64_t left = end - position
    cdef int32_t size
    out.position = position
    out.size = 0
    if left < HEADER_UP_TO_MAGIC:
        return TRUNCATED
    size = get_i32(at + 8)
    if size < V0_OVERHEAD or size > 0x7FFFFFFF - LOG_OVERHEAD:
        return BAD_SIZE
    out.base_offset = get_i64(at)
    out.size = size + LOG_OVERHEAD
    out.magic = <int8_t>at[MAGIC_POSITION]
    out.crc_state = 0
    out.reserved[0] = out.reserved[1] = out.reserved[2] = 0
    if out.magic == 2:
        if size < V2_MINIMUM_SIZE_FIELD:
            return BAD_SIZE
        if size + LOG_OVERHEAD > left:
            return TRUNCATED
        out.leader_epoch = get_i32(at + V2_LEADER_EPOCH_POSITION)
        out.crc = get_u32(at + V2_CRC_POSITION)
        out.attributes = get_i16(at + V2_ATTRIBUTES_POSITION)
        out.last_offset = <int64_t>(
            <unsigned long long>out.base_offset
            + <unsigned long long><int64_t>get_i32(at + V2_LAST_OFFSET_DELTA_POSITION)
        )
        out.base_timestamp = get_i64(at + V2_BASE_TIMESTAMP_POSITION)
        out.max_timestamp = get_i64(at + V2_MAX_TIMESTAMP_POSITION)
        out.producer_id = get_i64(at + V2_PRODUCER_ID_POSITION)
        out.producer_epoch = get_i16(at + V2_PRODUCER_EPOCH_POSITION)
        out.base_sequence = get_i32(at + V2_BASE_SEQUENCE_POSITION)
        out.count = get_i32(at + V2_COUNT_POSITION)
        return OK
    if out.magic != 0 and out.magic != 1:
        return BAD_MAGIC
    if out.magic == 1 and size < V1_OVERHEAD:
        return BAD_SIZE
    if size + LOG_OVERHEAD > left:
        return TRUNCATED
    out.crc = get_u32(at + LEGACY_CRC_POSITION)
    out.attributes = at[LEGACY_ATTRIBUTES_POSITION]
    out.last_offset = out.base_offset
    out.base_timestamp = get_i64(at + V1_TIMESTAMP_POSITION) if out.magic == 1 else -1
    out.max_timestamp = out.base_timestamp
    out.producer_id = -1
    out.producer_epoch = -1
    out.base_sequence = -1
    out.leader_epoch = -1
    out.count = 1 if out.attributes & CODEC_MASK == 0 else -1
    return OK


cdef inline bint crc_matches(const uint8_t* data, const BatchHeader* header) noexcept nogil:
    """Whether the stored checksum matches the batch's bytes (data is the scanned buffer)."""
    cdef const uint8_t* at = data + header.position
    if header.magic == 2:
        return crc32c(0, at + V2_CRC_START, header.size - V2_CRC_START) == header.crc
    return crc32(0, at + LEGACY_CRC_START, header.size - LEGACY_CRC_START) == header.crc


cdef inline void write_header(uint8_t* at, const BatchHeader* header) noexcept nogil:
    """Write the 61-byte header of a v2 batch, with its CRC, before its records, already at at + 61.

    header.size is that of the batch; ignores header.position, crc, magic and crc_state.
    """
    put_i64(at, header.base_offset)
    put_i32(at + 8, header.size - LOG_OVERHEAD)
    put_i32(at + V2_LEADER_EPOCH_POSITION, header.leader_epoch)
    at[MAGIC_POSITION] = 2
    put_i16(at + V2_ATTRIBUTES_POSITION, header.attributes)
    put_i32(
        at + V2_LAST_OFFSET_DELTA_POSITION, <int32_t>(header.last_offset - header.base_offset)
    )
    put_i64(at + V2_BASE_TIMESTAMP_POSITION, header.base_timestamp)
    put_i64(at + V2_MAX_TIMESTAMP_POSITION, header.max_timestamp)
    put_i64(at + V2_PRODUCER_ID_POSITION, header.producer_id)
    put_i16(at + V2_PRODUCER_EPOCH_POSITION, header.producer_epoch)
    put_i32(at + V2_BASE_SEQUENCE_POSITION, header.base_sequence)
    put_i32(at + V2_COUNT_POSITION, header.count)
    put_u32(at + V2_CRC_POSITION, crc32c(0, at + V2_CRC_START, header.size - V2_CRC_START))
