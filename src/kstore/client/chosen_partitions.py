"""The partitions that a consumer reads because its caller chose them or their topics."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kstore.client.assignment import AssignedPartition, Assignment
from kstore.client.fetcher import Fetcher
from kstore.client.metadata import MetadataView
from kstore.client.topic_changes import replaced_topics, restart_topic
from kstore.coordinator.group.offset_records import OffsetCommit
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.errors import GroupConflictError, UnknownPartitionError
from kstore.integers import list_numbers
from kstore.topic_partition import PartitionLike, TopicPartition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


class ChosenPartitions:
    """Assigns partitions, and claims each for the group if there is one.

    The caller holds the consumer's lock. Partitions that ``topics`` get later are read, too.
    """

    is_member = False

    def __init__(
        self,
        store: "Store",
        group: "StoreGroup | None",
        assignment: Assignment,
        fetcher: Fetcher,
        topics: Iterable[str],
        partitions: Iterable[TopicPartition],
    ) -> None:
        self._store = store
        self._group = group
        self._assignment = assignment
        self._fetcher = fetcher
        self._topics = tuple(dict.fromkeys(topics))
        self._first = tuple(partitions)
        self._check_members: Callable[[], object] = bool if group is None else group.check_members

    def open(self) -> None:
        """Assign all partitions of the topics, and the chosen partitions."""
        own = [TopicPartition(each, n) for each in self._topics for n in self._existing(each)]
        self._assign(dict.fromkeys([*own, *self._first]))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read only these partitions, and none that a topic gets later."""
        self._assign(dict.fromkeys(partitions))
        self._topics = ()

    def _assign(self, wanted: Iterable[TopicPartition]) -> None:
        present = {
            topic: frozenset(self._existing(topic)) for topic in {each for each, _ in wanted}
        }
        for topic, partition in wanted:
            if partition not in present[topic]:
                raise UnknownPartitionError(
                    f"topic {topic!r} has no partition {partition!r} here; it has "
                    + list_numbers(sorted(present[topic]))
                )
        claimed: list[TopicPartition] = []
        self._check_members()
        if self._group is not None:
            try:
                for tp in wanted:
                    if tp not in self._assignment:
                        self._group.claims.take(tp)
                        claimed.append(tp)
            except BaseException:
                for tp in claimed:
                    self._group.claims.release(tp)
                raise
            for tp in set(self._assignment) - set(wanted):
                self._group.claims.release(tp)
        known = self._assignment.topic_ids()
        ids = {
            topic: known[topic] if topic in known else self._identity(topic) for topic in present
        }
        self._assignment.replace(
            {tp: self._assignment.get(tp) or AssignedPartition(ids[tp.topic]) for tp in wanted}
        )

    def _existing(self, topic: str) -> tuple[int, ...]:
        return self._store.topic(topic).partitions

    def _identity(self, topic: str) -> str | None:
        return self._store._manager.identities.identity_of(topic)

    # --- changes of topics ------------------------------------------------------------------

    def follow(self, metadata: MetadataView) -> None:
        """Apply the changes of topics since the last call.

        Raises GroupConflictError while the group has members in a broker of this process.
        """
        self._check_members()
        if not metadata.has_changed():
            return
        replaced = replaced_topics(self._store, self._assignment)
        topics = self._store._catalog.topics
        for topic in replaced:
            restart_topic(self._store, self._assignment, topic, self._fetcher.auto_offset_reset)
            if topic in self._topics:
                self._drop_missing(topic)
        for topic in self._topics:
            for partition in topics.get(topic, ()):
                tp = TopicPartition(topic, partition)
                if tp not in self._assignment:
                    self._add(tp, is_new_topic=topic in replaced)

    def longest_wait(self) -> None:
        """Nothing but events changes what is read."""

    def _drop_missing(self, topic: str) -> None:
        """Stop reading the partitions that a recreated topic lacks."""
        for tp in [tp for tp in self._assignment if tp.topic == topic]:
            if tp.partition not in self._store._catalog.topics[topic]:
                self._assignment.remove(tp)
                if self._group is not None:
                    self._group.claims.release(tp)

    def _add(self, tp: TopicPartition, *, is_new_topic: bool) -> None:
        """Start reading a partition that was added later, from its beginning.

        This ignores ``auto_offset_reset``, because all its records were appended while this
        consumer was reading the topic. Kafka's consumer uses ``auto.offset.reset``, and with
        ``latest`` misses the records appended before it saw the partition (KAFKA-12478).
        """
        if self._group is not None:
            try:
                self._group.claims.take(tp)
            except GroupConflictError as error:
                _LOGGER.warning("a new partition is skipped: %s", error)
                return
        ids = self._assignment.topic_ids()
        topic_id = ids[tp.topic] if tp.topic in ids else self._identity(tp.topic)
        start = None if is_new_topic else self._fetcher.start_of_added(tp)
        self._assignment.put(tp, AssignedPartition(topic_id, start))

    # --- committed offsets ------------------------------------------------------------------

    def check_source(self, tp: TopicPartition, source: AssignedPartition) -> None:
        """Raise UnknownTopicOrPartitionError if a batch's partition is no longer assigned."""
        del source  # the check of the topic's id refuses what was read before it was recreated
        self._assignment.known((tp,))

    def check_assigned(self, partitions: Iterable[PartitionLike]) -> None:
        """Raise UnknownTopicOrPartitionError for a partition that is not assigned."""
        self._assignment.known(partitions)

    def commit(self, commits: Mapping[tuple[str, int], OffsetCommit], topic_ids: TopicIds) -> None:
        assert self._group is not None
        self._group.commit(commits, topic_ids)

    def check_transaction(self) -> None:
        """Raise GroupConflictError while the group has members in a broker of this process."""
        self._check_members()

    # --- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        self.abandon()

    def abandon(self) -> bool:
        """Release the claims; return whether there were any. Takes no lock."""
        return self._group is not None and self._group.claims.release_all()

    def after_fork(self) -> None:
        self.abandon()
