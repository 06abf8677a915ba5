"""The commits in a partition of ``__consumer_offsets``, as Kafka's own records.

Kafka's records have no field for a topic id: a deleted topic's commits get tombstones.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from kstore._native.format.committed_offsets import sort_commits
from kstore.clock import now_ms
from kstore.coordinator.group.classic_records import encode_group_key
from kstore.coordinator.group.consumer_records import group_key as consumer_group_key
from kstore.coordinator.group.loaded_commits import Encoded, LoadedCommits
from kstore.coordinator.group.offset_records import (
    Commits,
    OffsetCommit,
    OffsetKey,
    PartitionKey,
    decode_group_key,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from kstore.coordinator.owned_topics import OWNED_TOPICS
from kstore.errors import CorruptRecordError
from kstore.record import Record
from kstore.record.builder import BatchBuilder

_LOGGER = logging.getLogger("kstore")
_NO_SEQUENCE = -1
_TRANSACTIONAL = 0x10  # attribute of a batch
_BY_COLUMNS = 10_000  # number of records from which reading columns with NumPy is faster
_UNKNOWN = b""  # no record: an encoded value is never empty

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions
OFFSETS_PROPERTIES = OWNED_TOPICS[OFFSETS_TOPIC]


class StoredRecord(Protocol):
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class OffsetsLog(Protocol):
    """The log of a partition of ``__consumer_offsets``."""

    @property
    def partition(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def extend(self, values: Iterable[Record]) -> range: ...
    def append_as_coordinator(self, batch: bytes) -> object: ...
    def flush(self) -> None: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def settled(self, start: int) -> Iterable[StoredRecord]:
        """Records up to the end, without those of uncommitted transactions."""

    def _settled_columns(self, start: int, stop: int) -> Iterable[Any]:
        """The same records up to an offset, as :class:`kstore.Columns`."""

    def view(self, start: int) -> Iterable[StoredRecord]:
        """All records up to the end."""


def commit_records(group: str, commits: Mapping[PartitionKey, OffsetCommit]) -> list[Record]:
    """Records for ``__consumer_offsets``."""
    now = now_ms()
    return [
        Record(0, now, encode_offset_key(OffsetKey(group, *tp)), encode_offset_value(commit))
        for tp, commit in commits.items()
    ]


def find_undecodable_keys(records: Iterable[StoredRecord]) -> Iterator[tuple[int, str]]:
    """Offset and reason for each record of ``__consumer_offsets`` whose key does not decode."""
    for record in records:
        try:
            if record.key is not None:
                decode_offset_key(record.key)
        except CorruptRecordError as error:
            yield record.offset, error.reason


class OffsetsTable:
    """The commits in one partition of ``__consumer_offsets``, updated as the log grows.

    Not thread-safe.
    """

    def __init__(self, log: OffsetsLog) -> None:
        self._log = log
        self._next = -1
        self._stable, self._unstable = LoadedCommits(), LoadedCommits()
        self._metadata: dict[str, dict[bytes, bytes]] = {}  # other valid records, by group
        self._skipped: set[int] = set()  # offsets of records whose keys do not decode

    def group(self, group: str) -> Commits:
        """A group's current commits; CorruptRecordError if one of them does not decode."""
        return {tp: decode_offset_value(value) for tp, value in self._values(group)}

    def readable_commits(self, group: str) -> Commits:
        """A group's current commits, without those that do not decode."""
        found: Commits = {}
        for tp, value in self._values(group):
            with suppress(CorruptRecordError):
                found[tp] = decode_offset_value(value)
        return found

    def _values(self, group: str) -> list[tuple[PartitionKey, bytes]]:
        """The values of a group's current commits."""
        self._catch_up()
        merged = {**self._stable.values(group), **self._unstable.values(group)}
        return [(tp, value) for tp, value in merged.items() if value is not None]

    def groups(self) -> set[str]:
        """The groups that have a record here: a committed offset, or metadata that Kafka wrote."""
        self._catch_up()
        names = {group for group, records in self._metadata.items() if records}
        return names | self._stable.groups() | self._unstable.groups()

    @property
    def is_closed(self) -> bool:
        """Whether the log was closed: ``__consumer_offsets`` itself was deleted."""
        return self._log.closed

    def flush(self) -> None:
        self._log.flush()

    def forget_topic(self, topic: str) -> int:
        """Append tombstones for all commits of a topic's partitions, and flush; returns how many.

        Kafka's GroupCoordinator.onPartitionsDeleted. Each tombstone has the key of the commit
        that it deletes, so that compaction removes the commit. A commit whose value does not
        decode gets one, too.
        """
        self._catch_up()
        return self._delete(self._stable.keys_of_topic(topic) | self._unstable.keys_of_topic(topic))

    def forget_group(self, group: str, partitions: Collection[PartitionKey] | None = None) -> int:
        """Append tombstones for a group's commits, and flush; returns how many.

        Of these partitions, or (None) of all, and for the group's other records: Kafka's
        GroupCoordinator.deleteGroups writes the same.
        """
        self._catch_up()
        keys = self._stable.keys_of_group(group, partitions)
        keys |= self._unstable.keys_of_group(group, partitions)
        if partitions is None:
            keys |= self._metadata.get(group, {}).keys()
        return self._delete(keys)

    def forget_metadata(self, group: str) -> int:
        """Append tombstones for a group's records other than commits, and flush; returns how
        many."""
        self._catch_up()
        return self._delete(self._metadata.get(group, {}))

    def commit_of(self, group: str, partition: PartitionKey) -> OffsetCommit | None:
        """A group's current commit of one partition; None without a commit that decodes."""
        self._catch_up()
        value = self._unstable.values(group).get(partition, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._stable.values(group).get(partition)
        if value is None:
            return None
        try:
            return decode_offset_value(value)
        except CorruptRecordError:
            return None

    def group_records(self) -> dict[str, bytes]:
        """The records of classic groups, by group."""
        self._catch_up()
        found: dict[str, bytes] = {}
        for group, records in self._metadata.items():
            value = records.get(encode_group_key(group))
            if value is not None:
                found[group] = value
        return found

    def consumer_group_records(self) -> dict[str, dict[bytes, bytes]]:
        """The records of consumer groups (KIP-848) by key, by group."""
        self._catch_up()
        return {
            group: dict(records)
            for group, records in self._metadata.items()
            if consumer_group_key(group) in records
        }

    def pending(self, group: str) -> set[PartitionKey]:
        """The partitions whose offset an open transaction may commit."""
        log = self._log
        if log.last_stable_offset == log.end_offset:
            return set()
        stable = {record.offset for record in log.settled(log.last_stable_offset)}
        found: set[PartitionKey] = set()
        for record in log.view(log.last_stable_offset):
            if record.key is not None and record.offset not in stable:
                with suppress(CorruptRecordError):
                    key = decode_offset_key(record.key)
                    if key is not None and key.group == group:
                        found.add((key.topic, key.partition))
        return found

    @property
    def log(self) -> OffsetsLog:
        return self._log

    def _delete(self, keys: Iterable[bytes]) -> int:
        now = now_ms()
        tombstones = [Record(0, now, key, None) for key in sorted(keys)]
        if tombstones:
            self._log.extend(tombstones)
        self.flush()
        return len(tombstones)

    def append(self, group: str, commits: Mapping[PartitionKey, OffsetCommit]) -> None:
        """Append commits in Kafka's format, in one batch, without a flush, as Kafka does."""
        self._append(commit_records(group, commits))

    def append_in_transaction(
        self,
        group: str,
        commits: Mapping[PartitionKey, OffsetCommit],
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        """Append commits in one transactional batch without sequence numbers, as Kafka does."""
        builder = BatchBuilder()
        builder.set_producer(producer_id, producer_epoch, _NO_SEQUENCE)
        for record in commit_records(group, commits):
            if not builder.append(record.value, key=record.key, timestamp=record.timestamp):
                self._log.append_as_coordinator(builder.build(attributes=_TRANSACTIONAL))
                builder.append(record.value, key=record.key, timestamp=record.timestamp)
        self._log.append_as_coordinator(builder.build(attributes=_TRANSACTIONAL))

    def append_group(self, group: str, value: bytes | None) -> None:
        """Append a group's record, or its tombstone if None, without a flush."""
        now = now_ms()
        self._append([Record(0, now, encode_group_key(group), value)])

    def append_records(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Append group records, with tombstones for None values, without a flush."""
        now = now_ms()
        self._append([Record(0, now, key, value) for key, value in records])

    def _append(self, records: list[Record]) -> None:
        """Append records; apply them immediately unless unread records precede them."""
        log = self._log
        is_current = self._next == log.last_stable_offset == log.end_offset
        offsets = log.extend(records)
        if is_current and offsets.start == self._next and log.last_stable_offset == offsets.stop:
            for offset, record in zip(offsets, records, strict=True):
                self._note(offset, record.key, record.value, self._stable)
            self._next = offsets.stop

    def _catch_up(self) -> None:
        """Read new records; records after the start of an open transaction are read again later.

        A transaction's commit takes effect at its offset in the log, as in Kafka.
        """
        log, stable = self._log, self._log.last_stable_offset
        if not log.start_offset <= self._next <= stable:
            self._next, self._stable, self._metadata = log.start_offset, LoadedCommits(), {}
        self._unstable = LoadedCommits()
        is_long = stable - self._next > _BY_COLUMNS
        if is_long and self._load(log._settled_columns(self._next, stable)):
            self._next = stable
        for record in log.settled(self._next):
            commits = self._stable if record.offset < stable else self._unstable
            self._note(record.offset, record.key, record.value, commits)
        self._next = stable

    def _load(self, blocks: Iterable[Any]) -> bool:
        """Apply many stable records; of other keys than those of commits only the last record.

        False, without any effect, if a key has version 0, as before Kafka 0.9: it and a key of
        version 1 may name the same partition.
        """
        found: Encoded = {}
        latest: dict[bytes | None, tuple[int, bytes | None]] = {}
        for columns in blocks:
            keys, values = columns.keys, columns.values
            rows = sort_commits(
                columns.data, keys.positions, keys.lengths, values.positions, values.lengths, found
            )
            if rows is None:
                return False
            if rows:
                others = columns[rows]
                offsets_and_values = zip(others.offsets.tolist(), others.values, strict=True)
                latest.update(zip(others.keys, offsets_and_values, strict=True))
        self._stable.load(found)
        for key, (offset, value) in latest.items():
            self._note(offset, key, value, self._stable)
        return True

    def _note(
        self, offset: int, data: bytes | None, value: bytes | None, commits: LoadedCommits
    ) -> None:
        """Apply one record; a commit goes to the stable or the other commits."""
        if data is None:
            return
        try:
            key = decode_offset_key(data)
        except CorruptRecordError as error:
            self._warn_of_key(offset, error)
            return
        if key is None:
            self._note_metadata(data, value)
            return
        commits.note(key, data, value)

    def _note_metadata(self, key: bytes, value: bytes | None) -> None:
        """Apply a record other than a commit. Transactions never write one, so it is always
        stable."""
        try:
            group = decode_group_key(key)
        except CorruptRecordError:  # a record type of a later Kafka version
            return
        if group is not None:
            records = self._metadata.setdefault(group, {})
            if value is None:
                records.pop(key, None)
            else:
                records[key] = value

    def _warn_of_key(self, offset: int, error: CorruptRecordError) -> None:
        """Warn once of a record that is skipped because its key does not decode."""
        if offset not in self._skipped:
            self._skipped.add(offset)
            _LOGGER.warning(
                "%s-%d: the record at offset %d is skipped, its key does not decode: %s",
                OFFSETS_TOPIC, self._log.partition, offset, error,
            )  # fmt: skip
