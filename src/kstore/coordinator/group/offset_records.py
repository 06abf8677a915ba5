"""Encodes and decodes the offset commits of ``__consumer_offsets``, byte for byte as Kafka.

Kafka generates these from ``OffsetCommitKey.json`` and ``OffsetCommitValue.json``. A key begins
with an int16 version: 0 and 1 are offset commits, 2 is a group's own metadata, 3 and above belong
to newer group protocols. Keys are written as version 1 and values as version 3, like every Kafka
since 2.1; values of versions 0 to 4 are read.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kstore.errors import CorruptRecordError, InvalidRecordError
from kstore.protocol.fields import INT16, INT32, INT64, FieldReader, encode_string

OFFSET_KEY_VERSION = 1
OFFSET_VALUE_VERSION = 3
HIGHEST_VALUE_VERSION = 4  # KIP-848: compact strings and tagged fields
METADATA_MAX_BYTES = 4096  # offset.metadata.max.bytes


class OffsetKey(NamedTuple):
    """The group and partition of a committed offset."""

    group: str
    topic: str
    partition: int


class OffsetCommit(NamedTuple):
    """A committed offset: the next record to read, the commit time (Unix ms), metadata."""

    offset: int
    commit_timestamp: int
    metadata: str = ""
    leader_epoch: int = -1
    expire_timestamp: int = -1


PartitionKey = tuple[str, int]  # topic, partition
Commits = dict[PartitionKey, OffsetCommit]


def encode_offset_key(key: OffsetKey) -> bytes:
    """Version 1. Raises InvalidRecordError for a name that does not fit Kafka's int16 length."""
    return b"".join(
        (
            INT16.pack(OFFSET_KEY_VERSION),
            encode_string(key.group),
            encode_string(key.topic),
            INT32.pack(key.partition),
        )
    )


def encode_offset_value(commit: OffsetCommit) -> bytes:
    """Version 3. Raises InvalidRecordError for metadata beyond ``METADATA_MAX_BYTES``."""
    metadata = encode_string(commit.metadata)
    if len(metadata) - INT16.size > METADATA_MAX_BYTES:
        raise InvalidRecordError(
            f"the metadata of a committed offset is {len(metadata) - INT16.size} bytes long, "
            f"beyond offset.metadata.max.bytes = {METADATA_MAX_BYTES}"
        )
    return b"".join(
        (
            INT16.pack(OFFSET_VALUE_VERSION),
            INT64.pack(commit.offset),
            INT32.pack(commit.leader_epoch),
            metadata,
            INT64.pack(commit.commit_timestamp),
        )
    )


def decode_offset_key(data: bytes) -> OffsetKey | None:
    """The key of an offset commit, or None for a record of another kind.

    Raises CorruptRecordError for too few or too many bytes.
    """
    reader = FieldReader(data, "key of __consumer_offsets")
    if reader.int16() not in (0, 1):
        return None
    key = OffsetKey(reader.string(), reader.string(), reader.int32())
    reader.finish()
    return key


def decode_group_key(data: bytes) -> str | None:
    """The group of a record that is no offset commit, such as a group's metadata and members.

    Keys of the classic protocol (2), and of consumer, share and streams groups (KIP-848, 932,
    1071) all begin with it. None for an offset commit. Raises CorruptRecordError for too few bytes.
    """
    reader = FieldReader(data, "key of __consumer_offsets")
    return None if reader.int16() in (0, 1) else reader.string()


def decode_offset_value(data: bytes) -> OffsetCommit:
    """Any version from 0 to 4. Raises CorruptRecordError for anything else."""
    reader = FieldReader(data, "value of __consumer_offsets")
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise CorruptRecordError(
            f"an offset commit of version {version}; known versions: 0 to {HIGHEST_VALUE_VERSION}"
        )
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_timestamp = reader.int64()
    expire_timestamp = reader.int64() if version == 1 else -1
    if version >= 4:
        reader.tags()
    reader.finish()
    return OffsetCommit(offset, commit_timestamp, metadata, leader_epoch, expire_timestamp)


def newest_commits(*tables: Mapping[PartitionKey, OffsetCommit]) -> Commits:
    """For each partition the commit with the latest timestamp; the later table wins a tie."""
    merged: Commits = {}
    for table in tables:
        for tp, commit in table.items():
            known = merged.get(tp)
            if known is None or commit.commit_timestamp >= known.commit_timestamp:
                merged[tp] = commit
    return merged
