"""Converts a group between the classic protocol and that of KIP-848 while its members live
(Kafka's ``group.consumer.migration.policy``)."""

from enum import Enum

from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.classic_member import Member
from kstore.coordinator.group.classic_requests import by_name
from kstore.coordinator.group.consumer_events import ClassicMetadata, SeenTopics
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import EMPTY_ASSIGNMENT, ConsumerMember
from kstore.coordinator.group.subscription import (
    CONSUMER,
    assignment_version,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    subscribed_topics,
)
from kstore.errors import InvalidMessageError


class MigrationPolicy(Enum):
    """The values of ``group.consumer.migration.policy``."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class CannotUpgradeError(Exception):
    """A classic group cannot be upgraded. The message is Kafka's."""


def upgraded(
    classic: ClassicGroup, policy: MigrationPolicy, most: int, topics: SeenTopics, now: float
) -> ConsumerGroup:
    """Convert a classic group to a consumer group with at most this many members.

    The members keep their assignments of the last generation, and stay classic members. Does not
    change the classic group. Raises CannotUpgradeError.
    """
    what = f"Cannot upgrade classic group {classic.group_id} to consumer group because"
    if not policy.allows_upgrade:
        raise CannotUpgradeError(f"{what} online upgrade is disabled.")
    if classic.protocol_type != CONSUMER:
        raise CannotUpgradeError(f"{what} the group does not use the consumer embedded protocol.")
    if len(classic.members) > most:
        raise CannotUpgradeError(f"{what} the group size exceeds the consumer group maximum size.")
    group = ConsumerGroup(classic.group_id, now)
    group.epoch = group.target_epoch = classic.generation
    protocol = classic.protocol or (classic.select_protocol() if classic.members else "")
    for each in classic.members.values():
        try:
            member = _as_consumer_member(each, protocol, classic.generation, topics)
        except InvalidMessageError:
            raise CannotUpgradeError(
                f"{what} the embedded consumer protocol is malformed."
            ) from None
        if member is None:
            raise CannotUpgradeError(
                f"{what} an unsupported custom assignor is in use. Please refer to the "
                "documentation or switch to a default assignor before re-attempting the upgrade."
            )
        group.add(member)
        group.hold(member, member.assigned, EMPTY_ASSIGNMENT)
        group.targets[member.member_id] = member.assigned
    return group


def _as_consumer_member(
    member: Member, protocol: str, generation: int, topics: SeenTopics
) -> ConsumerMember | None:
    """Convert a member; None if it has data of a custom assignor, which would be lost."""
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        return None
    assigned: dict[bytes, frozenset[int]] = {}
    for each in assignment.assigned_partitions:
        topic = topics.topics.get(each.topic)
        if topic is not None:  # its numbers were chosen by the leader, a client
            found = frozenset(n for n in each.partitions if n in topic.partitions)
            if found:
                assigned[topic.topic_id] = found
    subscription = decode_subscription(member.metadata(protocol))
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout,
        tuple(sorted(set(subscription.topics))),
        epoch=generation,
        previous_epoch=generation,
        assigned=assigned,
        classic=ClassicMetadata(round(member.session_timeout * 1000), member.protocols),
    )


def can_downgrade(group: ConsumerGroup, policy: MigrationPolicy, most: int) -> bool:
    """Whether a consumer group can become a classic group with at most this many members."""
    return policy.allows_downgrade and group.is_all_classic and len(group.members) <= most


def downgraded(group: ConsumerGroup, topics: SeenTopics, now: float) -> ClassicGroup:
    """Convert a consumer group, whose members are all classic, to a classic group.

    The result is Stable, with the target assignment of the consumer group; a rebalance must follow.
    """
    classic = ClassicGroup(group.group_id, now)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER
    for each in group.members.values():
        assert each.classic is not None
        target = group.targets.get(each.member_id, EMPTY_ASSIGNMENT)
        version = assignment_version(each.classic.protocols[0][1])
        classic.add(
            Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.classic.session_timeout_ms / 1000,
                each.rebalance_timeout,
                each.classic.protocols,
                encode_assignment(by_name(group, target, topics), version),
            ),
            CONSUMER,
        )
    classic.state = GroupState.STABLE
    classic.protocol = classic.select_protocol()
    classic.topics = subscribed_topics(
        each.metadata(classic.protocol) for each in classic.members.values()
    )
    return classic
