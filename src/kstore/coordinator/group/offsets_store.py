"""``__consumer_offsets`` for a broker: the commits and records of its groups.

It shares the tables of embedded consumers, so that committed offsets have one owner.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from kstore.clock import now_ms
from kstore.coordinator.group.classic_events import GroupSnapshot
from kstore.coordinator.group.classic_records import (
    decode_group_value,
    encode_group_value,
)
from kstore.coordinator.group.offset_expiration import Retention, RetentionFacts
from kstore.coordinator.group.offset_records import Commits, OffsetCommit, PartitionKey
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC, OffsetsTable
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.coordinator.group.store_group import StoreGroup, check_topic_ids, find_table
from kstore.coordinator.internal_topics import filled_partitions
from kstore.errors import CorruptRecordError, UnknownTopicOrPartitionError
from kstore.integers import INT64_MAX
from kstore.lazy_dataclass import lazy_dataclass

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


@lazy_dataclass(frozen=True)
class LoadedPartition:
    """The groups of a partition: their records, by protocol, and all names."""

    groups: list[GroupSnapshot]
    consumer_groups: dict[str, dict[bytes, bytes]]  # the records of each, by key
    names: set[str]
    corrupt: dict[str, CorruptRecordError]


@lazy_dataclass(frozen=True)
class Appended:
    """An append, which is on disk once the log's recovery point reaches ``end_offset``.

    ``refused`` are the partitions whose topic no longer exists.
    """

    log: "Log"
    end_offset: int
    refused: frozenset[PartitionKey] = frozenset()


class OffsetsStore:
    """Reads and appends in partitions of ``__consumer_offsets``. Blocks; thread-safe.

    All methods raise what reading and appending to a log raise, and UnknownTopicOrPartitionError
    for a partition that the store does not have.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store

    def filled(self) -> list[int]:
        """The partitions that have records."""
        return [each.partition for each in filled_partitions(self._store, OFFSETS_TOPIC)]

    def load(self, partition: int) -> LoadedPartition:
        """Read a partition from its start to its end."""
        with self._store._offsets_lock:
            table = self._table(partition)
            records, names = table.group_records(), table.groups()
            consumer_groups = table.consumer_group_records()
        groups: list[GroupSnapshot] = []
        corrupt: dict[str, CorruptRecordError] = {}
        now = now_ms()
        for group_id, value in records.items():
            try:
                groups.append(decode_group_value(group_id, value, now))
            except CorruptRecordError as error:
                corrupt[group_id] = error
        return LoadedPartition(groups, consumer_groups, names, corrupt)

    def commit(
        self,
        partition: int,
        group: str,
        commits: Mapping[PartitionKey, OffsetCommit],
        topic_ids: TopicIds | None = None,
    ) -> Appended:
        """Append commits, each with a later timestamp than its partition's last one.

        With ``topic_ids``, UnknownTopicIdError if a topic has another identity.
        """
        with self._store._offsets_lock:  # no topic is deleted meanwhile
            if topic_ids is not None:
                check_topic_ids(self._store, topic_ids, {topic for topic, _ in commits})
            table = self._table(partition)
            stamped = self._stamped(table, group, commits)
            if stamped:
                table.append(group, stamped)
            return _appended(table, frozenset(commits.keys() - stamped.keys()))

    def commit_in_transaction(
        self,
        partition: int,
        group: str,
        commits: Mapping[PartitionKey, OffsetCommit],
        producer_id: int,
        producer_epoch: int,
    ) -> Appended:
        """Like ``commit``, in a producer's transaction: its COMMIT marker makes them visible."""
        with self._store._offsets_lock:
            table = self._table(partition)
            stamped = self._stamped(table, group, commits)
            if stamped:
                table.append_in_transaction(group, stamped, producer_id, producer_epoch)
            return _appended(table, frozenset(commits.keys() - stamped.keys()))

    def _stamped(
        self, table: OffsetsTable, group: str, commits: Mapping[PartitionKey, OffsetCommit]
    ) -> Commits:
        """The commits with timestamps, without those whose topic no longer exists."""
        now = now_ms()
        stamped: Commits = {}
        for tp, commit in commits.items():
            if tp[0] in self._store:
                last = table.commit_of(group, tp)
                earliest = 0 if last is None else min(last.commit_timestamp + 1, INT64_MAX)
                stamped[tp] = commit._replace(commit_timestamp=max(now, earliest))
        return stamped

    def fetch(self, partition: int, group: str) -> tuple[Commits, set[PartitionKey]]:
        """A group's commits, and the partitions whose offset an open transaction may change."""
        with self._store._offsets_lock:
            table = self._table(partition)
            return table.readable_commits(group), table.pending(group)

    def append_group(self, partition: int, group: GroupSnapshot) -> Appended:
        """Append the record of a group."""
        value = encode_group_value(group, now_ms())
        with self._store._offsets_lock:
            table = self._table(partition)
            table.append_group(group.group_id, value)
            return _appended(table)

    def append_records(
        self, partition: int, records: Iterable[tuple[bytes, bytes | None]]
    ) -> Appended:
        """Append records of groups, as one batch."""
        with self._store._offsets_lock:
            table = self._table(partition)
            table.append_records(records)
            return _appended(table)

    def delete(
        self, partition: int, group: str, partitions: Collection[PartitionKey] | None = None
    ) -> None:
        """Append tombstones for a group's commits in these partitions, or for all its records if
        None.

        On return they are on disk.
        """
        with self._store._offsets_lock:
            self._table(partition).forget_group(group, partitions)

    def delete_bare(self, partition: int, group: str) -> bool:
        """Like ``delete`` of a group that had no offset left, but keep what was committed since,
        also by an open transaction; False if there is any.

        The group's other records are deleted in any case, because its members are forgotten: the
        commits are then those of a new group, as if they had come after the deletion.
        """
        with self._store._offsets_lock:
            table = self._table(partition)
            is_bare = not table.readable_commits(group) and not table.pending(group)
            if is_bare:
                table.forget_group(group)
            else:
                table.forget_metadata(group)
            return is_bare

    def names(self) -> dict[int, set[str]]:
        """The groups that have a record, by partition."""
        found: dict[int, set[str]] = {}
        for partition in self.filled():
            with self._store._offsets_lock:
                found[partition] = self._table(partition).groups()
        return found

    def expire(
        self, partition: int, facts: Mapping[str, RetentionFacts], retention: Retention
    ) -> set[str]:
        """Delete the expired offsets of these groups; return the groups without offsets left.

        A group with an open embedded consumer keeps its offsets. An offset that an open
        transaction may change does not expire yet, and its group has offsets left, as in Kafka's
        OffsetMetadataManager.cleanupExpiredOffsets: a later tombstone would delete the offset that
        the transaction commits.
        """
        bare: set[str] = set()
        for group, each in facts.items():
            with self._store._offsets_lock:
                table = self._table(partition)
                commits = table.readable_commits(group)
                expired = retention.expired(commits, each, now_ms())
                if commits and not expired:
                    continue
                pending = table.pending(group)
                expired -= pending
                if expired and group and StoreGroup(self._store, group).claims.are_any_taken():
                    continue  # only groups with a name have embedded consumers
                if expired:
                    table.forget_group(group, expired)
                    _LOGGER.info("group %s: %d committed offsets expired", group, len(expired))
                if len(expired) == len(commits) and not pending:
                    bare.add(group)
        return bare

    def _table(self, partition: int) -> OffsetsTable:
        table = find_table(self._store, partition)
        if table is None:
            self._store._log(OFFSETS_TOPIC, partition)  # its error says what to do
            raise UnknownTopicOrPartitionError(f"the store has no {OFFSETS_TOPIC}-{partition}")
        return table


def _appended(table: OffsetsTable, refused: frozenset[PartitionKey] = frozenset()) -> Appended:
    log = cast("Log", table.log)
    return Appended(log, log.end_offset, refused)
