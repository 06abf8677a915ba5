"""Single fields of the header of a batch or message at ``position``.

Every function raises ``CorruptRecordError`` if the bytes end before the field, and ``ValueError``
for a negative position. Values are not validated: sizes and counts may be corrupt. Thread safe.
The layout is that of Kafka's ``DefaultRecordBatch`` and ``LegacyRecord``; see docs/format.
"""

from typing_extensions import Buffer

LOG_OVERHEAD: int  # bytes of offset and size fields, which the size field does not include
HEADER_UP_TO_MAGIC: int  # bytes up to and including the magic byte, in any format
V0_OVERHEAD: int  # value of the shortest message's size field
V2_PREFIX_SIZE: int  # bytes before the magic byte: offset, size, leader epoch
V2_LEADER_EPOCH_POSITION: int
V2_CRC_POSITION: int
V2_CRC_START: int  # the checksum covers the bytes from this position
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
    """The offset field; in a v0 or v1 wrapper, its last inner offset."""

def frame_size(data: Buffer, position: int = 0) -> int:
    """Size of the batch or message, from its size field; below 12 if that is negative."""

def declared_size(data: Buffer, position: int = 0) -> int:
    """As :func:`frame_size`; 0 if fewer than 12 bytes follow the position."""

def next_position(data: Buffer, position: int = 0) -> int:
    """Position of the next batch or message; at most the end of the data.

    Returns the end for a negative size field, too, so that a walk always terminates.
    """

def magic(data: Buffer, position: int = 0) -> int:
    """The magic byte, 0 to 255."""

def last_offset(data: Buffer, position: int = 0) -> int:
    """v2: base offset + last offset delta; v0 and v1: the offset field."""

# --- record batches v2 ---

def leader_epoch(data: Buffer, position: int = 0) -> int: ...
def stored_crc(data: Buffer, position: int = 0) -> int:
    """The checksum field, unsigned."""

def attributes(data: Buffer, position: int = 0) -> int: ...
def last_offset_delta(data: Buffer, position: int = 0) -> int: ...
def producer_id(data: Buffer, position: int = 0) -> int: ...
def producer_epoch(data: Buffer, position: int = 0) -> int: ...
def record_count(data: Buffer, position: int = 0) -> int: ...
def stamp(data: Buffer, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch, which the checksum does not cover, to a buffer.

    Raises ``BufferError`` for a read-only one, ``OverflowError`` for numbers beyond int64 and
    int32.
    """
