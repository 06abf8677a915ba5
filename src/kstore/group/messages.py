"""The records of ``__consumer_offsets`` that carry committed offsets, byte for byte as Kafka's.

Kafka generates these from ``OffsetCommitKey.json`` and ``OffsetCommitValue.json``. A key begins
with an int16 version: 0 and 1 are offset commits, 2 is a group's own metadata, 3 and above belong
to newer group protocols. Keys are written as version 1 and values as version 3, like every Kafka
since 2.1; values of versions 0 to 4 are read.
"""

from struct import Struct
from typing import NamedTuple

from kstore.errors import CorruptRecordError, InvalidRecordError

OFFSET_KEY_VERSION = 1
OFFSET_VALUE_VERSION = 3
HIGHEST_VALUE_VERSION = 4  # KIP-848: compact strings and tagged fields
METADATA_MAX_BYTES = 4096  # offset.metadata.max.bytes

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class OffsetKey(NamedTuple):
    """Whose offset: one group on one partition."""

    group: str
    topic: str
    partition: int


class OffsetCommit(NamedTuple):
    """A committed offset: the next record to read, when it was committed (ms), and a note."""

    offset: int
    commit_timestamp: int
    metadata: str = ""
    leader_epoch: int = -1
    expire_timestamp: int = -1


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 units, wrapped to a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for_group(group: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that keeps a group (``Utils.abs`` of its hash)."""
    value = java_hash(group)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def encode_offset_key(key: OffsetKey) -> bytes:
    """Version 1. Raises InvalidRecordError for a name that does not fit Kafka's int16 length."""
    return b"".join(
        (
            _INT16.pack(OFFSET_KEY_VERSION),
            _string(key.group),
            _string(key.topic),
            _INT32.pack(key.partition),
        )
    )


def encode_offset_value(commit: OffsetCommit) -> bytes:
    """Version 3. Raises InvalidRecordError for metadata beyond ``METADATA_MAX_BYTES``."""
    metadata = _string(commit.metadata)
    if len(metadata) - _INT16.size > METADATA_MAX_BYTES:
        raise InvalidRecordError(
            f"the metadata of a committed offset is {len(metadata) - _INT16.size} bytes long, "
            f"beyond offset.metadata.max.bytes = {METADATA_MAX_BYTES}"
        )
    return b"".join(
        (
            _INT16.pack(OFFSET_VALUE_VERSION),
            _INT64.pack(commit.offset),
            _INT32.pack(commit.leader_epoch),
            metadata,
            _INT64.pack(commit.commit_timestamp),
        )
    )


def decode_offset_key(data: bytes) -> OffsetKey | None:
    """The key of an offset commit, or None for a record of another kind.

    Raises CorruptRecordError for bytes that end too early or go on too long.
    """
    reader = _Reader(data, "key of __consumer_offsets")
    if reader.int16() not in (0, 1):
        return None
    key = OffsetKey(reader.string(), reader.string(), reader.int32())
    reader.finish()
    return key


def decode_offset_value(data: bytes) -> OffsetCommit:
    """Any version from 0 to 4. Raises CorruptRecordError for anything else."""
    reader = _Reader(data, "value of __consumer_offsets")
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise CorruptRecordError(
            f"an offset commit of version {version}; known are 0 to {HIGHEST_VALUE_VERSION}"
        )
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_timestamp = reader.int64()
    expire_timestamp = reader.int64() if version == 1 else -1
    if version >= 4:
        reader.skip_tags()
    reader.finish()
    return OffsetCommit(offset, commit_timestamp, metadata, leader_epoch, expire_timestamp)


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > 0x7FFF:
        raise InvalidRecordError(f"a name of {len(encoded)} bytes; Kafka allows 32767")
    return _INT16.pack(len(encoded)) + encoded


class _Reader:
    """A cursor that knows its end: every length is checked before it is used."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._position = 0

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._position:
            raise CorruptRecordError(f"a {self._what} ends too early", position=self._position)
        start = self._position
        self._position = start + size
        return self._data[start : self._position]

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(8))[0])

    def string(self) -> str:
        return self._text(self.int16())

    def compact_string(self) -> str:
        return self._text(self._unsigned_varint() - 1)

    def skip_tags(self) -> None:
        for _ in range(self._unsigned_varint()):
            self._unsigned_varint()
            self._take(self._unsigned_varint())

    def finish(self) -> None:
        left = len(self._data) - self._position
        if left:
            raise CorruptRecordError(f"a {self._what} has {left} bytes too many")

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise CorruptRecordError(
                f"a {self._what} holds text that is not UTF-8", position=self._position
            ) from None

    def _unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptRecordError(f"a {self._what} holds an endless varint")
