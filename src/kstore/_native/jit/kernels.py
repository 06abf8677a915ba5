"""Index search, frame walk, checksum and records for a user's compiled loop.

Every function takes a contiguous uint8 array (``numpy.frombuffer`` of a mapped file; may be
read-only) and integers, and never reads outside the array, even for corrupt bytes.
"""

from typing import Any, NamedTuple

from numpy import uint8
from numpy.typing import NDArray

from kstore._native.jit.cache import compiled
from kstore._native.jit.symbols import kernel

Bytes = NDArray[uint8]

_index_lookup = kernel("kstore_index_lookup_1", 3)
_time_lookup = kernel("kstore_time_lookup_1", 3)
_index_count = kernel("kstore_index_count_1", 0)
_time_index_count = kernel("kstore_time_index_count_1", 0)
_next_frame = kernel("kstore_next_frame_1", 1, 9)
_crc_ok = kernel("kstore_crc_ok_1", 1)
_next_record = kernel("kstore_next_record_1", 4, 7)
_key_hash = kernel("kstore_key_hash_1", 2)
_crc32c = kernel("kstore_crc32c_1", 2)

LOG_APPEND_TIME_BIT = 0x08


class Frame(NamedTuple):
    """The header of one batch of any magic; all int64.

    ``status`` is 0 for a complete batch; 1 for an incomplete one (the tail of an active log, or
    the end of the data); above 1 for bytes that cannot be a batch (see
    ``kstore._native.format.status``). If it is not 0, ``end`` is the position and the rest is -1.
    """

    status: int
    end: int  # position of the next batch
    base_offset: int
    last_offset: int
    count: int  # type: ignore[assignment]  # -1: unknown (v0 or v1, compressed)
    base_timestamp: int
    max_timestamp: int
    magic: int
    attributes: int
    leader_epoch: int


class FrameRecord(NamedTuple):
    """One record of an uncompressed version 2 batch; all int64, status as in ``Frame``.

    Lengths are -1 for null. Positions are indexes into the array.
    """

    status: int
    end: int  # position of the next record
    offset: int
    timestamp: int  # milliseconds
    key_position: int
    key_length: int
    value_position: int
    value_length: int


@compiled
def index_lookup(entries: Bytes, count: int, base_offset: int, offset: int) -> Any:
    """Position in the log file from which a frame walk finds ``offset``.

    ``entries`` is a mapped ``.index`` file, ``count`` its number of used entries
    (``index_count``; a negative or too large count means all).
    """
    return _index_lookup(entries, count, base_offset, offset)


@compiled
def time_lookup(entries: Bytes, count: int, base_offset: int, timestamp: int) -> Any:
    """Offset before which no record is later than ``timestamp`` (milliseconds).

    ``entries`` is a mapped ``.timeindex`` file, ``count`` as in ``index_lookup``.
    """
    return _time_lookup(entries, count, base_offset, timestamp)


@compiled
def index_count(entries: Bytes) -> Any:
    """Number of used entries of an offset index, which may end in preallocated zeros."""
    return _index_count(entries)


@compiled
def time_index_count(entries: Bytes) -> Any:
    """Number of used entries of a time index, which may end in preallocated zeros."""
    return _time_index_count(entries)


@compiled
def next_frame(data: Bytes, position: int) -> Any:
    """The batch at ``position`` as a ``Frame``; does not verify its checksum."""
    status, end, base, last, count, first_time, most_time, magic, attributes, epoch = _next_frame(
        data, position
    )
    return Frame(status, end, base, last, count, first_time, most_time, magic, attributes, epoch)


@compiled
def crc_ok(data: Bytes, position: int) -> Any:
    """Whether a complete batch with a valid checksum is at ``position``."""
    return _crc_ok(data, position) != 0


@compiled
def next_record(data: Bytes, position: int, frame: Frame) -> Any:
    """The record at ``position`` of the batch ``frame``, as a ``FrameRecord``.

    The first record of a batch at ``start`` is at ``start + 61``, the next at ``end`` of the
    previous one, until that is ``frame.end``. Status 10: the batch is compressed; 4: it is a v0
    or v1 message.
    """
    status, end, offset, timestamp, key, key_length, value, value_length = _next_record(
        data, position, frame.end, frame.magic, frame.attributes
    )
    if status == 0:
        offset += frame.base_offset
        if frame.attributes & LOG_APPEND_TIME_BIT:
            timestamp = frame.max_timestamp
        else:
            timestamp += frame.base_timestamp
    return FrameRecord(status, end, offset, timestamp, key, key_length, value, value_length)


@compiled
def key_hash(data: Bytes, position: int, length: int) -> Any:
    """Kafka's murmur2 of ``data[position:position + length]``; 0 for a null key (-1)."""
    return _key_hash(data, position, length)


@compiled
def crc32c(data: Bytes, position: int, length: int) -> Any:
    """CRC-32C of ``data[position:position + length]``; -1 for a range outside the data."""
    return _crc32c(data, position, length)
