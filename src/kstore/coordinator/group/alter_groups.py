"""Changes and deletes the committed offsets of groups, as Kafka's admin client does."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from kstore.coordinator.group import list_groups
from kstore.coordinator.group.list_groups import group_names
from kstore.coordinator.group.offset_records import METADATA_MAX_BYTES, OffsetCommit
from kstore.coordinator.group.store_group import StoreGroup, check_offset
from kstore.errors import (
    GroupIdNotFoundError,
    InvalidConfigError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from kstore.topic_partition import TopicPartition, as_topic_partition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

PartitionLike = TopicPartition | tuple[str, int]


def alter_group_offsets(
    self: "Store",
    group: str,
    offsets: Mapping[PartitionLike, int] | str | datetime,
    *,
    metadata: str = "",
) -> None:
    """Commit offsets for a group that has no open consumer (Kafka's alterConsumerGroupOffsets).

    ``offsets`` are the next ones to read, by partition; for an offset outside the log, consumers
    apply ``auto_offset_reset``. Creates the group if it does not exist. ``"earliest"``,
    ``"latest"`` and an aware datetime move every partition of the topics that the group has
    committed offsets of, to the start, to the end, or to the first record at or after that time
    (GroupIdNotFoundError without a group). On return they are on disk,
    or, with ``mode="r"``, in the group's file (see :meth:`Consumer.commit`). Thread-safe.

    Waits up to 10 s while another call alters the group, then raises GroupConflictError. Raises
    NonEmptyGroupError while a consumer of the group is open in any process, or while the group has
    members in a broker of this process; UnknownTopicOrPartitionError; InvalidConfigError. Changes
    nothing if it raises.
    """
    self._check()
    if len(metadata.encode()) > METADATA_MAX_BYTES:
        raise InvalidConfigError(
            f"the metadata of a committed offset has at most {METADATA_MAX_BYTES} bytes"
        )
    if not isinstance(offsets, Mapping):
        offsets = _offsets_at(self, group, offsets)
    wanted = {as_topic_partition(tp): check_offset(each) for tp, each in offsets.items()}
    for topic, partition in wanted:
        if partition not in self.topic(topic).partitions:
            raise UnknownTopicOrPartitionError(
                f"this store has no partition {partition!r} of topic {topic!r}"
            )
    members = StoreGroup(self, group)
    members.check_members(NonEmptyGroupError)
    with members.claims.take_all():
        identities = {topic: self._manager.identities.identity_of(topic) for topic, _ in wanted}
        if wanted:
            members.commit(
                {tp: OffsetCommit(each, -1, metadata) for tp, each in wanted.items()}, identities
            )
            members.flush()


def _offsets_at(store: "Store", group: str, target: object) -> dict[PartitionLike, int]:
    """The offsets of a word or time, of every partition of the group's topics."""
    found_by: dict[str, Callable[[Log], int]] = {
        "earliest": attrgetter("start_offset"),
        "latest": attrgetter("end_offset"),
    }
    if isinstance(target, datetime):
        when = target
        find: Callable[[Log], int] | None = lambda log: log.offset_at(when)  # noqa: E731
    else:
        find = found_by.get(target) if isinstance(target, str) else None
    if find is None:
        raise TypeError(
            "offsets are {('orders', 0): 42}, 'earliest', 'latest' or an aware datetime, not "
            f"{target!r}"
        )
    known = list_groups.group(store, group)
    if known.error is not None:
        raise known.error
    partitions = sorted({*known.offsets, *known.uncommitted})
    present = [tp for tp in partitions if tp.topic in store]
    return {tp: find(store._log(*tp)) for tp in present}


def delete_group_offsets(self: "Store", group: str, partitions: Iterable[PartitionLike]) -> None:
    """Delete a group's committed offsets of some partitions (Kafka's deleteConsumerGroupOffsets).

    As in Kafka, partitions without a committed offset are ignored, as are topics that do not exist.
    On return the deletion is on disk. Thread-safe. Raises GroupIdNotFoundError, NonEmptyGroupError
    while a consumer of the group is open, ReadOnlyError.
    """
    self._check_writable()
    _delete(self, group, {as_topic_partition(tp) for tp in partitions})


def delete_group(self: "Store", group: str) -> None:
    """Delete a group: its committed offsets, and Kafka's records of it (Kafka's deleteGroups).

    On return the deletion is on disk. After a crash the group is deleted, or has its newest
    offsets. Thread-safe. Raises GroupIdNotFoundError, NonEmptyGroupError while a consumer of the
    group is open, in any process; ReadOnlyError; CorruptFileError for a file of the group's
    commits that does not parse (nothing is deleted).
    """
    self._check_writable()
    _delete(self, group, None)


def _delete(store: "Store", group: str, partitions: set[TopicPartition] | None) -> None:
    members = StoreGroup(store, group)
    members.check_members(NonEmptyGroupError)
    if group not in group_names(store):
        raise GroupIdNotFoundError(f"there is no group {group!r}", path=store.paths[0])
    with members.claims.take_all():
        members.delete(partitions)
