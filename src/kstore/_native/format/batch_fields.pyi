"""Single fields of the header of a batch or message, at a position of its first byte.

Every function raises ``CorruptRecordError`` where the bytes end before the field does, and
``ValueError`` for a negative position. What a field says is not checked: sizes may be negative,
counts absurd. Safe from any thread. The layout is that of Kafka's ``DefaultRecordBatch`` and
``LegacyRecord``; docs/format draws it.
"""

from typing_extensions import Buffer

LOG_OVERHEAD: int  # bytes of offset and size, which the size field does not count
HEADER_UP_TO_MAGIC: int  # bytes of any format up to its magic byte, and with it
V0_OVERHEAD: int  # what the size field of the shortest message says
V2_PREFIX_SIZE: int  # bytes in front of the magic byte: offset, size, leader epoch
V2_LEADER_EPOCH_POSITION: int
V2_CRC_POSITION: int
V2_CRC_START: int  # the checksum covers everything from here on
V2_ATTRIBUTES_POSITION: int
V2_BASE_TIMESTAMP_POSITION: int
V2_PRODUCER_EPOCH_POSITION: int
V2_HEADER_SIZE: int
SIZE_POSITION: int
CODEC_MASK: int
TRANSACTIONAL_BIT: int
CONTROL_BIT: int

# --- every format ---

def base_offset(data: Buffer, position: int = 0) -> int:
    """The offset field: of a wrapper message v0 or v1 it is its last inner offset."""

def frame_size(data: Buffer, position: int = 0) -> int:
    """Bytes of the whole batch or message by its size field; below 12 if that is negative."""

def declared_size(data: Buffer, position: int = 0) -> int:
    """As :func:`frame_size`; 0 where fewer than 12 bytes are left, or the position is behind."""

def next_position(data: Buffer, position: int = 0) -> int:
    """Where the next batch or message begins; the end of the data if the size leads beyond it.

    Also the end where the size field is negative, so that a walk always ends.
    """

def magic(data: Buffer, position: int = 0) -> int:
    """The magic byte, 0 to 255."""

def last_offset(data: Buffer, position: int = 0) -> int:
    """Of a batch v2 base offset and last offset delta; of messages v0 and v1 the offset field."""

# --- record batches v2 ---

def leader_epoch(data: Buffer, position: int = 0) -> int: ...
def stored_crc(data: Buffer, position: int = 0) -> int:
    """The checksum that the batch says it has, unsigned."""

def attributes(data: Buffer, position: int = 0) -> int: ...
def last_offset_delta(data: Buffer, position: int = 0) -> int: ...
def producer_id(data: Buffer, position: int = 0) -> int: ...
def record_count(data: Buffer, position: int = 0) -> int: ...
def stamp(data: Buffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch, which no checksum covers, into a writable buffer.

    Raises ``BufferError`` for a read-only one, ``OverflowError`` for numbers beyond int64 and
    int32.
    """
