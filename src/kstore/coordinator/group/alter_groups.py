"""Changes and deletes the committed offsets of groups, as Kafka's admin client does."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from kstore.coordinator.group.list_groups import group_names, read_group, unknown_group
from kstore.coordinator.group.offset_records import OffsetCommit, check_metadata
from kstore.coordinator.group.store_group import StoreGroup, check_offset
from kstore.errors import (
    GroupIdNotFoundError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from kstore.topic_partition import TopicPartition, as_topic_partition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

PartitionLike = TopicPartition | tuple[str, int]


def alter_group_offsets(
    store: "Store",
    group: str,
    offsets: Mapping[PartitionLike, int] | str | datetime,
    *,
    metadata: str = "",
) -> None:
    """As :meth:`kstore.Store.alter_group_offsets`."""
    check_metadata(metadata)
    if not isinstance(offsets, Mapping):
        offsets = _offsets_at(store, group, offsets)
    wanted = {as_topic_partition(tp): check_offset(each) for tp, each in offsets.items()}
    for topic, partition in wanted:
        if partition not in store.topic(topic).partitions:
            raise UnknownTopicOrPartitionError(
                f"this store has no partition {partition!r} of topic {topic!r}"
            )
    members = StoreGroup(store, group)
    members.check_members(NonEmptyGroupError)
    with members.claims.take_all():
        identities = {topic: store._manager.identities.identity_of(topic) for topic, _ in wanted}
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
    try:
        known = read_group(store, group)
    except GroupIdNotFoundError as error:
        raise GroupIdNotFoundError(
            f"{error.reason}; a new group's partitions are named: "
            f"alter_group_offsets({group!r}, {{('orders', 0): 0}})",
            path=error.path,
        ) from None
    if known.error is not None:
        raise known.error
    partitions = sorted({*known.offsets, *known.uncommitted})
    present = [tp for tp in partitions if tp.topic in store]
    return {tp: find(store._log(*tp)) for tp in present}


def delete_group_offsets(store: "Store", group: str, partitions: Iterable[PartitionLike]) -> None:
    """As :meth:`kstore.Store.delete_group_offsets`."""
    _delete(store, group, {as_topic_partition(tp) for tp in partitions})


def delete_group(store: "Store", group: str) -> None:
    """As :meth:`kstore.Store.delete_group`."""
    _delete(store, group, None)


def _delete(store: "Store", group: str, partitions: set[TopicPartition] | None) -> None:
    members = StoreGroup(store, group)
    members.check_members(NonEmptyGroupError)
    names = group_names(store)
    if group not in names:
        raise unknown_group(store, group, names)
    with members.claims.take_all():
        members.delete(partitions)
