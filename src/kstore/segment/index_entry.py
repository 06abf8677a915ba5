"""One entry of an index file, where no complete index is in memory.

``kstore._native.index.index_lookup`` searches complete indexes; these functions read a single entry
of bytes that need not be a valid index. Formats: docs/format, Kafka's OffsetIndex and TimeIndex.
"""

from struct import Struct

_OFFSET_ENTRY = Struct(">iI")
_TIME_ENTRY = Struct(">qi")

OFFSET_ENTRY_SIZE = _OFFSET_ENTRY.size
TIME_ENTRY_SIZE = _TIME_ENTRY.size


def offset_entry(data: bytes, slot: int = 0) -> tuple[int, int]:
    """Relative offset and position of an entry; struct.error where the bytes end before it."""
    relative, position = _OFFSET_ENTRY.unpack_from(data, slot * OFFSET_ENTRY_SIZE)
    return relative, position


def time_entry(data: bytes, slot: int = 0) -> tuple[int, int]:
    """Timestamp and relative offset of an entry; struct.error where the bytes end before it."""
    timestamp, relative = _TIME_ENTRY.unpack_from(data, slot * TIME_ENTRY_SIZE)
    return timestamp, relative


def positions(data: bytes) -> list[int]:
    """Positions of all complete entries of an offset index."""
    used = len(data) - len(data) % OFFSET_ENTRY_SIZE
    return [position for _, position in _OFFSET_ENTRY.iter_unpack(data[:used])]
