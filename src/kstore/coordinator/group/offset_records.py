"""Encodes and decodes the offset commits of ``__consumer_offsets``, byte for byte as Kafka.

Kafka generates these from ``OffsetCommitKey.json`` and ``OffsetCommitValue.json``. A key begins
with an int16 version: 0 and 1 are offset commits, 2 is a group's own metadata, 3 and above belong
to newer group protocols. Keys are written as version 1 and values as version 3, like every Kafka
since 2.1; values of versions 0 to 4 are read.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kstore.errors import CorruptRecordError, InvalidConfigError, InvalidRecordError
from kstore.protocol.fields import utf8_size
from kstore.protocol.records import decode_record, encode_record, first_string, prefix_of
from kstore.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue

OFFSET_KEY_VERSION = 1
OFFSET_VALUE_VERSION = 3
EXPIRING_VALUE_VERSION = 1  # the only version with an expire timestamp
HIGHEST_VALUE_VERSION = 4  # KIP-848: compact strings and tagged fields
METADATA_MAX_LENGTH = 4096  # offset.metadata.max.bytes, of which Kafka counts UTF-16 units


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


def metadata_length(metadata: str) -> int:
    """The length that Kafka compares with ``offset.metadata.max.bytes``: UTF-16 units."""
    return len(metadata.encode("utf-16-le")) // 2


def check_metadata(metadata: str) -> None:
    """Raise InvalidConfigError for metadata that a caller gives and no commit can have."""
    if utf8_size(metadata) < 0 or metadata_length(metadata) > METADATA_MAX_LENGTH:
        raise InvalidConfigError(
            f"the metadata of a committed offset has at most {METADATA_MAX_LENGTH} characters"
        )


def encode_offset_key(key: OffsetKey) -> bytes:
    """Version 1. Raises InvalidRecordError for a name that does not fit Kafka's int16 length."""
    return encode_record(OffsetCommitKey(*key), OFFSET_KEY_VERSION, 0)


def encode_offset_value(commit: OffsetCommit) -> bytes:
    """Encode as version 3, or as version 1 for a commit with its own expire timestamp, as Kafka
    does.

    Raises InvalidRecordError for metadata beyond ``METADATA_MAX_LENGTH``.
    """
    length = metadata_length(commit.metadata)
    if length > METADATA_MAX_LENGTH:
        raise InvalidRecordError(
            f"the metadata of a committed offset has {length} characters, "
            f"beyond offset.metadata.max.bytes = {METADATA_MAX_LENGTH}"
        )
    value = OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=commit.commit_timestamp,
        expire_timestamp=commit.expire_timestamp,
    )
    version = OFFSET_VALUE_VERSION if commit.expire_timestamp == -1 else EXPIRING_VALUE_VERSION
    return encode_record(value, version, version)


def decode_offset_key(data: bytes) -> OffsetKey | None:
    """The key of an offset commit, or None for a record of another kind.

    Raises CorruptRecordError for too few or too many bytes.
    """
    if prefix_of(data) not in (0, 1):
        return None
    key = decode_record(OffsetCommitKey, 0, data)
    return OffsetKey(key.group, key.topic, key.partition)


def decode_group_key(data: bytes) -> str | None:
    """The group of a record other than an offset commit, such as group metadata or a member.

    Keys of the classic protocol (2), and of consumer, share and streams groups (KIP-848, 932,
    1071) all begin with it. None for an offset commit. Raises CorruptRecordError for too few bytes.
    """
    return None if prefix_of(data) in (0, 1) else first_string(data)


def decode_offset_value(data: bytes) -> OffsetCommit:
    """Any version from 0 to 4. Raises CorruptRecordError for anything else."""
    version = prefix_of(data)
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise CorruptRecordError(
            f"an offset commit has version {version}; known versions: 0 to {HIGHEST_VALUE_VERSION}"
        )
    value = decode_record(OffsetCommitValue, version, data)
    return OffsetCommit(
        value.offset,
        value.commit_timestamp,
        value.metadata,
        value.leader_epoch,
        value.expire_timestamp,
    )


def newest_commits(*tables: Mapping[PartitionKey, OffsetCommit]) -> Commits:
    """For each partition the commit with the latest timestamp; the later table wins a tie."""
    merged: Commits = {}
    for table in tables:
        for tp, commit in table.items():
            known = merged.get(tp)
            if known is None or commit.commit_timestamp >= known.commit_timestamp:
                merged[tp] = commit
    return merged
