"""Lists consumer groups with their committed offsets, lag and claims."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kstore.coordinator.group.claims import Claims, claimed_groups
from kstore.coordinator.group.group_offsets import GroupOffsets
from kstore.coordinator.group.offset_records import OffsetCommit
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC, OffsetsTable
from kstore.coordinator.group.reader_offsets_file import MAX_GROUP_FILE_SIZE, parse_group_file
from kstore.coordinator.internal_topics import filled_partitions
from kstore.errors import CorruptFileError, GroupIdNotFoundError, KStoreError, NewerFormatError
from kstore.files.filenames import OFFSETS_PREFIX, TEMPORARY_SUFFIX
from kstore.kafka_names import OF_COMMITTED_OFFSETS, OF_GROUPS, answer_names
from kstore.protocol.fields import partition_for_name
from kstore.topic_partition import ByPartition, TopicPartition

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")
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


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group at one moment; made by :meth:`kstore.Store.groups`. Immutable.

    ``offsets`` are its committed offsets by partition, sorted. ``claimed`` are the partitions
    that its open consumers read, in any process on this machine. ``error`` says why its offsets
    cannot be read, and is None otherwise.
    """

    name: str
    offsets: Mapping[TopicPartition, CommittedOffset] = field(
        default_factory=lambda: MappingProxyType({})
    )
    claimed: frozenset[TopicPartition] = frozenset()
    error: KStoreError | None = None

    @property
    def lag(self) -> int:
        """The sum of the lags of partitions whose log end is known; :attr:`lags` has each."""
        return sum(each.lag or 0 for each in self.offsets.values())

    @property
    def lags(self) -> dict[TopicPartition, int | None]:
        """The lag of each partition with a committed offset; None where the log end is unknown."""
        return ByPartition((partition, each.lag) for partition, each in self.offsets.items())

    @property
    def is_claimed(self) -> bool:
        """Whether a consumer of the group is open: its offsets cannot be altered meanwhile."""
        return bool(self.claimed)


answer_names(ConsumerGroup, OF_GROUPS)


def groups(self: "Store") -> dict[str, ConsumerGroup]:
    """The consumer groups by name, sorted: offsets, lag, metadata, claimed partitions.

    Reads ``__consumer_offsets``, also one that a broker wrote (with groups that have members but
    no offsets, as ``kafka-consumer-groups --list`` shows them), the files of commits by other
    processes, and locks. A group whose commits do not decode has an ``error``. Takes one pass
    over ``__consumer_offsets``, the first time. Raises the errors of reading a log. Thread-safe.
    """
    self._follow_writer()
    with self._offsets_lock:
        found = _GroupReader(self)
        return {name: found.read(name) for name in sorted(found.names())}


def group(self: "Store", name: str) -> ConsumerGroup:
    """One consumer group: offsets, lag, metadata, claimed partitions; as :func:`groups`.

    Raises GroupIdNotFoundError, which suggests close names, for a group without committed
    offsets, open consumers and members. Thread-safe.
    """
    self._follow_writer()
    with self._offsets_lock:
        found = _GroupReader(self)
        names = found.names()
        if name in names:
            return found.read(name)
    close = get_close_matches(str(name), names, n=3)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise GroupIdNotFoundError(f"there is no group {name!r}{hint}", path=self.paths[0])


def offsets_table(store: "Store", partition: int) -> OffsetsTable:
    """The table of a partition of ``__consumer_offsets``; the store's offsets lock is held."""
    table = store._offsets_tables.get(partition)
    if table is None or table.is_closed:
        table = OffsetsTable(store.topic(OFFSETS_TOPIC)[partition])
        store._offsets_tables[partition] = table
    return table


class _GroupReader:
    """Reads the groups of a store; the store's offsets lock is held."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._files = store._files
        self._directory = min(store.paths)  # of commits by other processes, and of claims
        self._tables = {
            log.partition: offsets_table(store, log.partition)
            for log in filled_partitions(store, OFFSETS_TOPIC)
        }
        self._claimed = claimed_groups(self._files, self._directory)
        self._ends: dict[str, dict[TopicPartition, int]] = {}

    def names(self) -> set[str]:
        names = set(self._claimed)
        for table in self._tables.values():
            names |= table.groups()
        for name in self._files.scan(self._directory)[1]:
            if name.startswith(OFFSETS_PREFIX) and not name.endswith(TEMPORARY_SUFFIX):
                path = f"{self._directory}/{name}"
                try:
                    data = self._files.read(path, MAX_GROUP_FILE_SIZE)
                    names.add(parse_group_file(data, path).group)
                except (CorruptFileError, NewerFormatError) as error:
                    _LOGGER.warning("a file of committed offsets is skipped: %s", error)
        return names

    def read(self, name: str) -> ConsumerGroup:
        store = self._store
        claimed = self._claimed_partitions(name)
        offsets = GroupOffsets(
            self._files, self._directory, name, store._manager.identities.is_same
        )
        try:
            commits = offsets.fetch(self._table_of(name))
        except KStoreError as error:
            return ConsumerGroup(name, claimed=claimed, error=error)
        committed = {
            TopicPartition(*tp): self._committed(TopicPartition(*tp), commit)
            for tp, commit in sorted(commits.items())
        }
        unreadable = next(iter(offsets.errors.values()), None)
        return ConsumerGroup(name, MappingProxyType(committed), claimed, unreadable)

    def _table_of(self, name: str) -> OffsetsTable | None:
        if OFFSETS_TOPIC not in self._store:
            return None
        count = len(self._store.topic(OFFSETS_TOPIC))
        return self._tables.get(partition_for_name(name, count))

    def _committed(self, tp: TopicPartition, commit: OffsetCommit) -> CommittedOffset:
        return CommittedOffset(
            commit.offset,
            self._end_offsets(tp.topic).get(tp),
            commit.metadata,
            _EPOCH + timedelta(milliseconds=commit.commit_timestamp),
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
        claims = Claims(self._files, self._directory, name)
        return frozenset(
            TopicPartition(topic, partition)
            for topic in self._store
            for partition in self._store.topic(topic).partitions
            if claims.is_taken((topic, partition))
        )
