"""Positions and sizes of the fields of every structure on disk; no other module defines them.

See docs/format/. All integers are big-endian.
"""

cdef enum:
    # Common frame of every magic: offset (8), size (4), then ... magic at 16.
    LOG_OVERHEAD = 12
    MAGIC_POSITION = 16
    HEADER_UP_TO_MAGIC = 17

    # Message v0: crc 12, magic 16, attributes 17, key length 18.
    V0_OVERHEAD = 14            # smallest value of the size field
    V0_KEY_SIZE_POSITION = 18
    # Message v1: as v0 with a timestamp at 18.
    V1_OVERHEAD = 22
    V1_TIMESTAMP_POSITION = 18
    V1_KEY_SIZE_POSITION = 26
    LEGACY_CRC_POSITION = 12
    LEGACY_CRC_START = 16       # CRC-32 covers magic to end
    LEGACY_ATTRIBUTES_POSITION = 17

    # Record batch v2.
    V2_LEADER_EPOCH_POSITION = 12
    V2_CRC_POSITION = 17
    V2_CRC_START = 21           # CRC-32C covers attributes to end
    V2_ATTRIBUTES_POSITION = 21
    V2_LAST_OFFSET_DELTA_POSITION = 23
    V2_BASE_TIMESTAMP_POSITION = 27
    V2_MAX_TIMESTAMP_POSITION = 35
    V2_PRODUCER_ID_POSITION = 43
    V2_PRODUCER_EPOCH_POSITION = 51
    V2_BASE_SEQUENCE_POSITION = 53
    V2_COUNT_POSITION = 57
    V2_HEADER_SIZE = 61
    V2_MINIMUM_SIZE_FIELD = 49
    V2_PREFIX_SIZE = 16         # offset, size, leader epoch: outside the CRC

    # Attribute bits.
    CODEC_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40

    # Index entries.
    OFFSET_INDEX_ENTRY_SIZE = 8
    TIME_INDEX_ENTRY_SIZE = 12
    TRANSACTION_INDEX_ENTRY_SIZE = 34
