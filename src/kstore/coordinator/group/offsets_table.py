"""The commits in a partition of ``__consumer_offsets``, as Kafka's own records.

Kafka's records have no field for a topic id: a deleted topic's commits get tombstones.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from kstore._native.format.committed_offsets import sort_commits
from kstore._native.read.aborted_transactions import TransactionWalk
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
from kstore.coordinator.group.pending_commits import PendingCommit, PendingCommits
from kstore.coordinator.owned_topics import OWNED_TOPICS
from kstore.errors import CorruptRecordError, OffsetOutOfRangeError
from kstore.record import Record
from kstore.record.builder import BatchBuilder

if TYPE_CHECKING:
    from kstore._native.read.segment_view import SegmentList, Slice
    from kstore.log.append_info import AppendInfo
    from kstore.log.batch_headers import RecordBatchInfo

_LOGGER = logging.getLogger("kstore")
_NO_PRODUCER = _NO_SEQUENCE = -1
_TRANSACTIONAL = 0x10  # attribute of a batch
_BY_COLUMNS = 10_000  # number of records from which reading columns with NumPy is faster
_BEGINNING = 21  # bytes of a batch, with its offset and checksum in every format

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


class RecordsView(Protocol):
    """The records of a window of offsets, without control batches; and all its batches."""

    def __iter__(self) -> Iterator[StoredRecord]: ...
    def batches(self) -> Iterable["RecordBatchInfo"]: ...


class OffsetsLog(Protocol):
    """The log of a partition of ``__consumer_offsets``."""

    @property
    def partition(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def extend(self, values: Iterable[Record]) -> range: ...
    def append_as_coordinator(self, batch: bytes) -> "AppendInfo": ...
    def flush(self) -> None: ...
    @property
    def segments(self) -> "SegmentList": ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def writable(self) -> bool: ...
    @property
    def _truncations(self) -> Sequence[int]: ...
    def read(self, offset: int, max_bytes: int) -> "Slice | None": ...
    def settled(self, start: int) -> Iterable[StoredRecord]:
        """Records up to the end, without those of uncommitted transactions."""

    def _settled_columns(self, start: int, stop: int) -> Iterable[Any]:
        """The same records up to an offset, as :class:`kstore.Columns`."""

    def view(self, start: int, stop: int) -> RecordsView:
        """All records up to an offset."""


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

    It reads each record once: commits of open transactions wait in memory. Not thread-safe.
    """

    def __init__(self, log: OffsetsLog) -> None:
        self._log = log
        self._next = -1  # the offset up to which the log was read
        self._truncations = 0  # of the log, by then
        self._last = b""  # of another process's log: how the last batch begins
        self._commits, self._pending = LoadedCommits(), PendingCommits()
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
        values = self._commits.values(group)
        return [(tp, value) for tp, value in values.items() if value is not None]

    def groups(self) -> set[str]:
        """The groups that have a record here: a commit, also one of an open transaction, or
        metadata that Kafka wrote."""
        self._catch_up()
        names = {group for group, records in self._metadata.items() if records}
        return names | self._commits.groups() | self._pending.groups()

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
        decode gets one, too, and so does one of an open transaction.
        """
        self._catch_up()
        return self._delete(self._commits.keys_of_topic(topic) | self._pending.keys_of_topic(topic))

    def forget_group(self, group: str, partitions: Collection[PartitionKey] | None = None) -> int:
        """Append tombstones for a group's commits, and flush; returns how many.

        Of these partitions, or (None) of all, and for the group's other records. Those of open
        transactions are deleted, too, as by Kafka 4's OffsetMetadataManager.deleteAllOffsets.
        """
        self._catch_up()
        keys = self._commits.keys_of_group(group, partitions)
        keys |= self._pending.keys_of_group(group, partitions)
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
        value = self._commits.values(group).get(partition)
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
        self._catch_up()
        return self._pending.partitions(group)

    @property
    def log(self) -> OffsetsLog:
        return self._log

    def _delete(self, keys: Iterable[bytes]) -> int:
        now = now_ms()
        tombstones = [Record(0, now, key, None) for key in sorted(keys)]
        if tombstones:
            self._append(tombstones)
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
        builder, size = BatchBuilder(), 0
        builder.set_producer(producer_id, producer_epoch, _NO_SEQUENCE)
        records = commit_records(group, commits)
        for number, record in enumerate(records):
            if not builder.append(record.value, key=record.key, timestamp=record.timestamp):
                self._append_pending(builder, producer_id, records[number - size : number])
                builder.append(record.value, key=record.key, timestamp=record.timestamp)
                size = 0
            size += 1
        self._append_pending(builder, producer_id, records[-size:])

    def _append_pending(
        self, builder: BatchBuilder, producer_id: int, records: Sequence[Record]
    ) -> None:
        """Append a batch with these records of a transaction."""
        is_current = self._is_current
        info = self._log.append_as_coordinator(builder.build(attributes=_TRANSACTIONAL))
        if is_current and info.first_offset == self._next:
            for offset, record in enumerate(records, self._next):
                self._note(offset, record.key, record.value, producer_id)
            self._next = info.last_offset + 1

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
        is_current = self._is_current
        offsets = self._log.extend(records)
        if is_current and offsets.start == self._next:
            for offset, record in zip(offsets, records, strict=True):
                self._note(offset, record.key, record.value)
            self._next = offsets.stop

    @property
    def _is_current(self) -> bool:
        """Whether all records of the log were read."""
        return self._next == self._log.end_offset and not self._is_cut()

    def _is_cut(self) -> bool:
        """Whether the log no longer has all that was read, or begins after it."""
        log = self._log
        if not log.start_offset <= self._next <= log.end_offset:
            return True
        if not log.writable:
            return self._last_batch() != self._last
        return any(offset < self._next for offset in log._truncations[self._truncations :])

    def _last_batch(self) -> bytes:
        """How the last batch that was read begins: another process may cut and extend its log."""
        if self._next > self._log.start_offset:
            with suppress(OffsetOutOfRangeError):
                found = self._log.read(self._next - 1, 1)
                return b"" if found is None else bytes(found.memory()[:_BEGINNING])
        return b""

    def _catch_up(self) -> None:
        """Read new records.

        A transaction's commit takes effect at its offset in the log, as in Kafka.
        """
        log, pending = self._log, self._pending
        truncations = len(log._truncations)
        end = log.end_offset
        stable = min(log.last_stable_offset, end)
        if self._is_cut():
            self._next, self._commits, self._metadata = log.start_offset, LoadedCommits(), {}
            pending.clear()
        elif self._next == end:
            return
        is_long = stable - self._next > _BY_COLUMNS
        # From the first pending commit on, again: by columns all transactions below ``stable`` have
        # ended, and a compaction, of all segments but the last, may have removed an end, after all
        # records of its transaction.
        if is_long or (pending and log.segments.views[-1].base_offset > self._next):
            self._next = min((each.offset for each in pending), default=self._next)
            pending.clear()
            if is_long and self._load(log._settled_columns(self._next, stable)):
                self._next = stable
        if pending or stable < end:
            try:
                self._read_batches(self._next, end)
            except BaseException:  # an end that was applied must not be applied to what follows it
                self._next = -1
                raise
        else:
            for record in log.settled(self._next):
                if record.offset >= end:
                    break
                self._note(record.offset, record.key, record.value)
        self._next, self._truncations = end, truncations
        if not log.writable:
            self._last = self._last_batch()

    def _read_batches(self, start: int, stop: int) -> None:
        """Apply records by their producers' transactions, of which some may be open."""
        view = self._log.view(start, stop)
        batches = [each for each in view.batches() if each.is_transactional]
        batches.reverse()
        for record in view:
            while batches and batches[-1].last_offset < record.offset:
                self._end_transaction(batches.pop())
            is_pending = batches and batches[-1].base_offset <= record.offset
            producer_id = batches[-1].producer_id if is_pending else _NO_PRODUCER
            self._note(record.offset, record.key, record.value, producer_id)
        while batches:
            self._end_transaction(batches.pop())

    def _end_transaction(self, batch: "RecordBatchInfo") -> None:
        """Apply or drop a producer's pending commits, if a batch is the marker of its end."""
        if not batch.is_control:
            return
        producer_id, offset = batch.producer_id, batch.base_offset
        data = self._log.read(offset, 1)
        walk = TransactionWalk(offset, {producer_id: offset})
        if data is not None:
            walk.walk(data.memory(), 0, offset + 1)
        if producer_id not in walk.open:
            for each in self._pending.end(producer_id, is_commit=not walk.aborted):
                self._commits.note(each.key, each.data, each.value)

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
        self._commits.load(found)
        for key, (offset, value) in latest.items():
            self._note(offset, key, value)
        return True

    def _note(
        self,
        offset: int,
        data: bytes | None,
        value: bytes | None,
        producer_id: int = _NO_PRODUCER,
    ) -> None:
        """Apply one record; a commit of a producer's transaction is pending until its end."""
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
        if producer_id != _NO_PRODUCER:
            self._pending.add(producer_id, PendingCommit(offset, key, data, value))
        else:
            self._pending.note_final(offset, key, value)
            self._commits.note(key, data, value)

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
