"""The commits of open transactions in one partition of ``__consumer_offsets``.

Kafka's OffsetMetadataManager: ``pendingTransactionalOffsets`` and ``openTransactions``.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kstore.coordinator.group.offset_records import OffsetKey, PartitionKey


class PendingCommit(NamedTuple):
    """The record of a commit that takes effect when its transaction is committed."""

    offset: int
    key: OffsetKey
    data: bytes  # the key, encoded
    value: bytes | None


class PendingCommits:
    """By producer and group the last commit of each partition. Not thread-safe.

    A transaction's commit takes effect at its offset in the log, so that it replaces no commit
    that follows it there. Which those are is remembered while a transaction is open.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[str, dict[PartitionKey, PendingCommit]]] = {}
        self._final: dict[OffsetKey, int] = {}  # the offset of the last final record

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __iter__(self) -> Iterator[PendingCommit]:
        for groups in self._by_producer.values():
            for commits in groups.values():
                yield from commits.values()

    def add(self, producer_id: int, commit: PendingCommit) -> None:
        """Take a later commit of a producer's transaction."""
        groups = self._by_producer.setdefault(producer_id, {})
        key = commit.key
        groups.setdefault(key.group, {})[key.topic, key.partition] = commit

    def note_final(self, offset: int, key: OffsetKey, value: bytes | None) -> None:
        """Note a later record outside of transactions. A tombstone deletes what is pending, too."""
        if not self._by_producer:
            return
        self._final[key] = offset
        if value is None:
            for producer_id in list(self._by_producer):
                self._drop(producer_id, key)

    def end(self, producer_id: int, *, is_commit: bool) -> list[PendingCommit]:
        """Remove a producer's commits; returns those that take effect: of a committed transaction
        those that no later record has replaced."""
        found: list[PendingCommit] = []
        for commits in self._by_producer.pop(producer_id, {}).values():
            for each in commits.values():
                if is_commit and each.offset > self._final.get(each.key, -1):
                    self._final[each.key] = each.offset
                    found.append(each)
        self._forget_final()
        return found

    def clear(self) -> None:
        self._by_producer.clear()
        self._final.clear()

    def groups(self) -> set[str]:
        """The groups that have a pending commit."""
        return {group for groups in self._by_producer.values() for group in groups}

    def partitions(self, group: str) -> set[PartitionKey]:
        """The partitions of which a group's offset may change."""
        return {tp for groups in self._by_producer.values() for tp in groups.get(group, ())}

    def keys_of_group(
        self, group: str, partitions: Collection[PartitionKey] | None = None
    ) -> set[bytes]:
        """The keys of a group's commits, of these partitions or of all."""
        return {
            each.data
            for groups in self._by_producer.values()
            for tp, each in groups.get(group, {}).items()
            if partitions is None or tp in partitions
        }

    def keys_of_topic(self, topic: str) -> set[bytes]:
        """The keys of all groups' commits of a topic."""
        return {each.data for each in self if each.key.topic == topic}

    def _drop(self, producer_id: int, key: OffsetKey) -> None:
        groups = self._by_producer[producer_id]
        commits = groups.get(key.group, {})
        commits.pop((key.topic, key.partition), None)
        if not commits:
            groups.pop(key.group, None)
        if not groups:
            del self._by_producer[producer_id]
            self._forget_final()

    def _forget_final(self) -> None:
        """Later transactions follow all that is final."""
        if not self._by_producer:
            self._final.clear()
