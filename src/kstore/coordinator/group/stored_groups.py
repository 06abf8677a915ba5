"""Groups with their members, as ``__consumer_offsets`` has them, for tools beside a broker.

A broker appends the record of a classic group when a rebalance is complete, so that one in progress
does not show; those of a KIP-848 group also show its reconciliation.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple

from kstore.clock import now_ms
from kstore.coordinator.group.classic_events import GroupSnapshot
from kstore.coordinator.group.classic_records import decode_group_value
from kstore.coordinator.group.consumer_events import Assignment
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import partitions_of
from kstore.coordinator.group.list_groups import read_retrying
from kstore.coordinator.group.member_description import MemberDescription
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.coordinator.group.store_group import find_table
from kstore.coordinator.group.subscription import CONSUMER, decode_assignment
from kstore.coordinator.internal_topics import filled_partitions
from kstore.errors import CorruptRecordError, InvalidMessageError
from kstore.kafka_uuid import uuid_from_text
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


class StoredGroup(NamedTuple):
    """A group; ``state`` and ``group_type`` are Kafka's names.

    The state is the one in which Kafka loads the group.
    """

    group_id: str
    group_type: str
    state: str
    assignor: str
    members: tuple[MemberDescription, ...]
    epoch: int | None = None  # of a group of KIP-848, like the next
    target_epoch: int | None = None


def read_stored_groups(store: "Store") -> dict[str, StoredGroup]:
    """The groups that have records of their own besides commits, by name.

    Whether a broker has them loaded, the records do not say. Omits a group whose records do not
    decode, with a warning. Raises the errors of reading a log. Thread-safe.
    """
    return read_retrying(store, lambda: _read(store))


def _read(store: "Store") -> dict[str, StoredGroup]:
    """The caller holds the store's offsets lock."""
    found: dict[str, StoredGroup] = {}
    names: dict[bytes, str] | None = None  # of topics; read once a group has members
    now = now_ms()
    for log in filled_partitions(store, OFFSETS_TOPIC):
        table = find_table(store, log.partition)
        if table is None:
            continue
        for group_id, value in table.group_records().items():
            try:
                found[group_id] = _classic(decode_group_value(group_id, value, now))
            except CorruptRecordError as error:
                _warn(group_id, error)
        for group_id, records in table.consumer_group_records().items():
            try:
                group = ConsumerGroup.restore(group_id, records, 0.0)
            except CorruptRecordError as error:
                _warn(group_id, error)
                continue
            if group.members and names is None:
                names = _topic_names(store)
            found[group_id] = _consumer(group, names or {})
    return found


def _warn(group_id: str, error: CorruptRecordError) -> None:
    _LOGGER.warning("group %s: its members cannot be read: %s", group_id, error)


def _classic(group: GroupSnapshot) -> StoredGroup:
    is_consumer = group.protocol_type == CONSUMER  # others have assignments of their own formats
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id or "",
            each.client_id,
            each.client_host,
            _assigned(each.assignment) if is_consumer else (),
        )
        for each in group.members
    )
    state = "Stable" if members else "Empty"
    return StoredGroup(group.group_id, "Classic", state, group.protocol or "", members)


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in an assignment; none if it does not decode, as Kafka's tool shows it."""
    try:
        assignment = decode_assignment(data)
    except InvalidMessageError:
        return ()
    return tuple(
        TopicPartition(each.topic, number)
        for each in assignment.assigned_partitions
        for number in each.partitions
    )


def _consumer(group: ConsumerGroup, names: dict[bytes, str]) -> StoredGroup:
    described = group.describe()
    members = tuple(
        MemberDescription(
            each.member_id,
            each.instance_id or "",
            each.client_id,
            each.client_host,
            _named(each.assignment, names),
            each.member_epoch,
            _named(each.target, names),
        )
        for each in described.members
    )
    return StoredGroup(
        group.group_id,
        "Consumer",
        described.state,
        described.assignor,
        members,
        described.group_epoch,
        described.assignment_epoch,
    )


def _named(assignment: Assignment, names: dict[bytes, str]) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment, without those of deleted topics, as Kafka shows it."""
    return tuple(
        sorted(
            TopicPartition(names[topic_id], number)
            for topic_id, number in partitions_of(assignment)
            if topic_id in names
        )
    )


def _topic_names(store: "Store") -> dict[bytes, str]:
    """The names of the topics that have an id, by it."""
    identities = store._manager.identities
    ids = {name: identities.topic_id_if_any(name) for name in list(store)}
    return {uuid_from_text(text): name for name, text in ids.items() if text is not None}
