"""The partitions that a consumer reads because its caller chose them or their topics."""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kstore.client.assignment import AssignedPartition, Assignment
from kstore.client.fetcher import Fetcher
from kstore.client.metadata import MetadataView
from kstore.errors import GroupConflictError, UnknownTopicOrPartitionError
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


class ChosenPartitions:
    """Assigns partitions, and claims each for the group if there is one.

    The caller holds the consumer's lock. ``topics`` are those whose later partitions are read, too.
    """

    def __init__(
        self,
        store: "Store",
        group: "StoreGroup | None",
        assignment: Assignment,
        fetcher: Fetcher,
        topics: Iterable[str],
    ) -> None:
        self._store = store
        self._group = group
        self._assignment = assignment
        self._fetcher = fetcher
        self._topics = tuple(dict.fromkeys(topics))
        self._check_members: Callable[[], object] = bool if group is None else group.check_members

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign all partitions of the topics, and these partitions."""
        own = [TopicPartition(each, n) for each in self._topics for n in self._existing(each)]
        self._assign(dict.fromkeys([*own, *partitions]))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no longer the later ones of topics."""
        self._assign(dict.fromkeys(partitions))
        self._topics = ()

    def _assign(self, wanted: Iterable[TopicPartition]) -> None:
        present = {
            topic: frozenset(self._existing(topic)) for topic in {each for each, _ in wanted}
        }
        for topic, partition in wanted:
            if partition not in present[topic]:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic!r} has no partition {partition!r} here"
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
        catalog, identities = self._store._catalog, self._store._manager.identities
        replaced = {
            topic
            for topic, known in self._assignment.topic_ids().items()
            if topic in catalog.topics and not identities.is_same(topic, known)
        }
        for topic in replaced:
            self._restart(topic)
        for topic in self._topics:
            for partition in catalog.topics.get(topic, ()):
                tp = TopicPartition(topic, partition)
                if tp not in self._assignment:
                    self._add(tp, is_new_topic=topic in replaced)

    def _restart(self, topic: str) -> None:
        """Reset the positions in a topic that was deleted and recreated.

        Kafka's consumer gets UNKNOWN_TOPIC_ID (KIP-516), refreshes its metadata and continues at
        its old position, which it resets only if it is out of range; it misses the new topic's
        records below that position.
        """
        topic_id = self._identity(topic)
        present = self._store._catalog.topics[topic]
        tps = [tp for tp in self._assignment if tp.topic == topic]
        _LOGGER.warning(
            "topic %s was deleted and recreated: its partitions (%s) are read from their committed "
            "offsets, or by auto.offset.reset=%s",
            topic, ", ".join(str(tp.partition) for tp in tps), self._fetcher.auto_offset_reset,
        )  # fmt: skip
        for tp in tps:
            if topic in self._topics and tp.partition not in present:
                self._assignment.remove(tp)
                if self._group is not None:
                    self._group.claims.release(tp)
            else:
                self._assignment.restart(tp, topic_id)

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

    # --- the end ----------------------------------------------------------------------------

    def release(self) -> bool:
        """Release the claims; return whether there were any. Takes no lock."""
        return self._group is not None and self._group.claims.release_all()
