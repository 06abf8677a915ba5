"""Lists consumer groups with their committed offsets, lag and claims."""

import logging
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kstore.coordinator.group.embedded_offsets import EmbeddedOffsets
from kstore.coordinator.group.offset_records import OffsetCommit
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC, OffsetsTable
from kstore.coordinator.group.partition_claims import Claims, claimed_groups
from kstore.coordinator.group.reader_offsets_file import group_files, read_group_file
from kstore.coordinator.group.store_group import find_table, live_log_dirs
from kstore.coordinator.internal_topics import filled_partitions
from kstore.errors import (
    ClosedError,
    CorruptFileError,
    CorruptRecordError,
    GroupIdNotFoundError,
    KStoreError,
    NewerFormatError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.hints.close_names import close_names
from kstore.hints.kafka_names import OF_COMMITTED_OFFSETS, OF_GROUPS
from kstore.hints.missing_names import answer_names
from kstore.integers import count_of
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.fields import partition_for_name
from kstore.topic_partition import ByPartition, GroupName, PartitionMapping, TopicPartition

if TYPE_CHECKING:
    from kstore.store.store import Store

T = TypeVar("T")

_LOGGER = logging.getLogger("kstore")
_RETRIES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CommittedOffset(NamedTuple):
    """A group's committed offset of one partition, and the end of the partition's log.

    ``offset`` is the next one to read. ``commit_time`` is an aware UTC datetime. ``end_offset``
    is None if the partition is not in the store, or if its log cannot be read.
    """

    offset: int
    end_offset: int | None
    metadata: str
    commit_time: datetime
    leader_epoch: int

    @property
    def lag(self) -> int | None:
        """Offsets from the committed one to the log end; negative beyond it, as in Kafka."""
        return None if self.end_offset is None else self.end_offset - self.offset


answer_names(CommittedOffset, OF_COMMITTED_OFFSETS)


@lazy_dataclass(frozen=True)
class ConsumerGroup:
    """A snapshot of a consumer group, from :meth:`kstore.Store.groups`. Immutable.

    A snapshot: ``store.group(name)`` reads it again, and methods of the store and of consumers
    change it (:meth:`kstore.Store.alter_group_offsets`, :meth:`kstore.Consumer.commit`).

    ``offsets`` are its committed offsets by partition, sorted. ``claimed`` are the partitions that
    its open consumers read, or may get from the group, in any process on this machine.
    ``uncommitted`` are partitions without a commit, of topics with commits in other partitions.
    ``error`` is the reason if its offsets cannot be read, otherwise None.
    """

    name: str
    offsets: PartitionMapping[CommittedOffset] = field(default_factory=lambda: PartitionMapping({}))
    claimed: frozenset[TopicPartition] = frozenset()
    error: KStoreError | None = None
    uncommitted: frozenset[TopicPartition] = frozenset()

    def __repr__(self) -> str:
        failed = "" if self.error is None else f", {self.error}"
        without = len(self.uncommitted) + len(self.offsets) - len(self.lags)
        unknown = f", that of {count_of(without, 'partition')} unknown" if without else ""
        return (
            f"<kstore.ConsumerGroup {self.name!r} as it was read: "
            f"{count_of(len(self.offsets), 'committed offset')}, lag {self.lag}{unknown}{failed}>"
        )

    @property
    def lag(self) -> int:
        """The sum of the known :attr:`lags`, without negative ones, which would hide others.

        A lag is negative where the log was truncated below the committed offset: the consumer
        continues there as its ``auto_offset_reset`` says.
        """
        return sum(lag for lag in self.lags.values() if lag > 0)

    @property
    def lags(self) -> ByPartition[int]:
        """The lag of each partition that has one, where Kafka's tool shows a number.

        Partitions in :attr:`uncommitted` have none, nor has one whose log end is unknown, since it
        is not in the store: ``group.offsets[partition].lag`` is None.
        """
        known = ((partition, each.lag) for partition, each in self.offsets.items())
        return ByPartition((partition, lag) for partition, lag in known if lag is not None)

    @property
    def is_claimed(self) -> bool:
        """Whether a consumer of the group is open, so that its offsets cannot be altered."""
        return bool(self.claimed)


answer_names(ConsumerGroup, OF_GROUPS)


def read_groups(store: "Store") -> dict[str, ConsumerGroup]:
    """As :meth:`kstore.Store.groups`."""
    return _read(store, lambda found: {GroupName(n): found.read(n) for n in sorted(found.names())})


def read_group(store: "Store", name: str) -> ConsumerGroup:
    """As :meth:`kstore.Store.group`."""

    def find(found: _GroupReader) -> tuple[ConsumerGroup | None, set[str]]:
        names = found.names()
        return (found.read(name) if name in names else None), names

    known, names = _read(store, find)
    if known is not None:
        return known
    raise unknown_group(store, name, names)


def unknown_group(store: "Store", name: str, names: set[str]) -> GroupIdNotFoundError:
    """The error for a group that is not among the names; it suggests close ones."""
    close = close_names(str(name), names)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    return GroupIdNotFoundError(f"there is no group {name!r}{hint}", path=store.paths[0])


def group_names(store: "Store") -> set[str]:
    """The names of all consumer groups, including those with unreadable commits."""
    return _read(store, _GroupReader.names)


def _read(store: "Store", read: "Callable[[_GroupReader], T]") -> T:
    return read_retrying(store, lambda: read(_GroupReader(store)))


def read_retrying(store: "Store", read: Callable[[], T]) -> T:
    """Read with the store's offsets lock held; retry if another process changed the topics
    meanwhile."""
    for _ in range(_RETRIES):
        store._follow_writer()
        version = store._catalog.version
        with store._offsets_lock:
            try:
                return read()
            except (ClosedError, StorageError, UnknownTopicOrPartitionError):
                store._follow_writer()
                if store._catalog.version == version:
                    raise
    with store._offsets_lock:
        return read()


class _GroupReader:
    """Reads the groups of a store. The caller holds the store's offsets lock."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._files = store._files
        self._log_dirs = live_log_dirs(store)
        with store._lock:
            self._topics = {topic: tuple(found) for topic, found in store._catalog.topics.items()}
            is_known = OFFSETS_TOPIC in self._topics
            self._count = store._catalog.partition_count(OFFSETS_TOPIC) if is_known else 0
        tables = {
            log.partition: find_table(store, log.partition)
            for log in filled_partitions(store, OFFSETS_TOPIC)
        }
        self._tables = {number: table for number, table in tables.items() if table is not None}
        self._claimed = claimed_groups(self._files, self._log_dirs)
        self._ends: dict[str, dict[TopicPartition, int]] = {}

    def names(self) -> set[str]:
        names = set(self._claimed)
        for table in self._tables.values():
            names |= table.groups()
        for path in group_files(self._files, self._log_dirs()):
            try:
                filed = read_group_file(self._files, path)
            except (CorruptFileError, NewerFormatError) as error:
                _LOGGER.warning("a file of committed offsets is skipped: %s", error)
                continue
            if filed is not None:  # a writer moves it to the log, and removes it
                names.add(filed.group)
        return names

    def read(self, name: str) -> ConsumerGroup:
        claimed = self._claimed_partitions(name)
        is_same = self._store._manager.identities.is_same
        offsets = EmbeddedOffsets(self._files, self._log_dirs, name, is_same)
        committed: dict[TopicPartition, CommittedOffset] = {}
        errors: list[KStoreError] = []
        try:
            commits = offsets.fetch(self._table_of(name))
        except KStoreError as error:
            return ConsumerGroup(name, claimed=claimed, error=error)
        for tp, commit in sorted(commits.items()):
            try:
                committed[TopicPartition(*tp)] = self._committed(TopicPartition(*tp), commit)
            except CorruptRecordError as error:
                errors.append(error)
        unreadable = next(iter([*offsets.errors.values(), *errors]), None)
        topics = {tp.topic for tp in committed}
        all_of = {TopicPartition(each, n) for each in topics for n in self._topics.get(each, ())}
        uncommitted = frozenset(all_of - committed.keys())
        return ConsumerGroup(name, PartitionMapping(committed), claimed, unreadable, uncommitted)

    def _table_of(self, name: str) -> OffsetsTable | None:
        return self._tables.get(partition_for_name(name, self._count)) if self._count else None

    def _committed(self, tp: TopicPartition, commit: OffsetCommit) -> CommittedOffset:
        try:
            commit_time = _EPOCH + timedelta(milliseconds=commit.commit_timestamp)
        except OverflowError:
            raise CorruptRecordError(
                f"the commit of {tp.topic}-{tp.partition} has the timestamp "
                f"{commit.commit_timestamp}, which is not a valid time"
            ) from None
        return CommittedOffset(
            commit.offset,
            self._end_offsets(tp.topic).get(tp),
            commit.metadata,
            commit_time,
            commit.leader_epoch,
        )

    def _end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """The end offsets of a topic; empty if it does not exist or cannot be read."""
        if topic not in self._ends:
            try:
                self._ends[topic] = self._store.end_offsets(topic)
            except KStoreError as error:
                self._ends[topic] = {}
                if topic in self._store:
                    _LOGGER.warning("the end offsets of topic %s are unknown: %s", topic, error)
        return self._ends[topic]

    def _claimed_partitions(self, name: str) -> frozenset[TopicPartition]:
        if name not in self._claimed:
            return frozenset()
        claims = Claims(self._files, self._log_dirs, name)
        return frozenset(
            TopicPartition(topic, partition)
            for topic, partitions in self._topics.items()
            for partition in partitions
            if claims.is_taken((topic, partition))
        )
