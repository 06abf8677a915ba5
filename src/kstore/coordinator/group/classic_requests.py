"""Requests of the classic protocol to a consumer group (KIP-848), so that a group changes its
protocol while its members live (Kafka's GroupMetadataManager).

A joining member does not wait for the others: it gets the partitions available now, and a heartbeat
makes it rejoin when it gets more partitions or must revoke some. No member is the leader, since the
broker computes the assignment.
"""

from collections.abc import Iterable
from math import inf

from kstore.coordinator.group.classic_events import (
    Join,
    JoinAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from kstore.coordinator.group.consumer_coordinator import ConsumerCoordinator
from kstore.coordinator.group.consumer_events import (
    JOIN_EPOCH,
    Assignment,
    ClassicMetadata,
    ConsumerHeartbeat,
    Records,
    SeenTopics,
)
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import ConsumerMember, MemberState
from kstore.coordinator.group.subscription import (
    CONSUMER,
    assignment_version,
    decode_subscription,
    encode_assignment,
)
from kstore.errors import InvalidMessageError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription


class ClassicRequests:
    """Handles requests of classic members of consumer groups. Not thread-safe; never blocks."""

    def __init__(self, coordinator: ConsumerCoordinator) -> None:
        self._coordinator = coordinator

    def join(
        self, group: ConsumerGroup, request: Join, topics: SeenTopics, now: float
    ) -> tuple[JoinAnswer, Records]:
        """A member joins or rejoins; the caller must store the records before responding."""
        if not group.supports(request.protocol_type, request.protocols):
            return _refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL), []
        try:
            subscription = decode_subscription(request.protocols[0][1])
        except InvalidMessageError:
            return _refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL), []
        if request.member_id and request.instance_id is not None:
            error = check_member(group, request.member_id, request.instance_id)
            if error != ErrorCode.NONE:
                return _refused(request, error), []
        elif (
            request.member_id
            and request.member_id not in group.members
            and subscription.owned_partitions
        ):
            # Its session has ended, and others may have its partitions, which it still reads. Kafka
            # takes it for a new member, which gives them up only after its SyncGroup.
            return _refused(request, ErrorCode.UNKNOWN_MEMBER_ID), []
        member_id = request.member_id or self._coordinator.new_id()
        if not request.member_id and request.instance_id is None and request.needs_member_id:
            return _refused(request, ErrorCode.MEMBER_ID_REQUIRED, member_id), []
        answer = self._coordinator.heartbeat_classic(
            _as_heartbeat(request, member_id, subscription, topics), topics, now
        )
        if answer.error != ErrorCode.NONE:
            return _refused(request, answer.error), []
        return (
            JoinAnswer(
                reply=request.reply,
                member_id=member_id,
                generation=answer.member_epoch,
                protocol_type=CONSUMER,
                protocol=request.protocols[0][0],
            ),
            answer.records,
        )

    def sync(
        self, group: ConsumerGroup, request: Sync, topics: SeenTopics, now: float
    ) -> SyncAnswer:
        """Return the partitions that a member may read now."""
        error = check_member(group, request.member_id, request.instance_id)
        if error != ErrorCode.NONE:
            return SyncAnswer(reply=request.reply, error=error)
        member = group.members[request.member_id]
        error = _check_sync(group, member, request)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._expect_join(group, member, now)
        if error != ErrorCode.NONE:
            return SyncAnswer(reply=request.reply, error=error)
        member.classic_step_ends = inf
        self._coordinator.begin_session(group, member, now)
        return SyncAnswer(
            reply=request.reply,
            protocol_type=request.protocol_type,
            protocol=request.protocol,
            assignment=_encode(group, member, member.assigned, topics),
        )

    def heartbeat(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now: float,
    ) -> ErrorCode:
        """Renew a member's session; REBALANCE_IN_PROGRESS makes it rejoin."""
        error = check_member(group, member_id, instance_id)
        if error != ErrorCode.NONE:
            return error
        member = group.members[member_id]
        if generation != member.epoch:
            return ErrorCode.ILLEGAL_GENERATION
        self._coordinator.begin_session(group, member, now)
        if not group.needs_join(member):
            return ErrorCode.NONE
        self._expect_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def leave(
        self, group: ConsumerGroup, leaving: Iterable[LeavingMember], now: float
    ) -> tuple[list[ErrorCode], Records]:
        """Remove members; return an error code for each. Removes static members of either
        protocol."""
        errors: list[ErrorCode] = []
        records: Records = []
        for each in leaving:
            member_id = each.member_id or group.static.get(each.instance_id or "", "")
            if each.member_id:
                errors.append(check_member(group, member_id, each.instance_id))
            else:
                errors.append(ErrorCode.NONE if member_id else ErrorCode.UNKNOWN_MEMBER_ID)
            if errors[-1] == ErrorCode.NONE:
                records += self._coordinator.remove(group, group.members[member_id], now)
        return errors, records

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        if member.classic_step_ends == inf:
            self._coordinator.await_classic_step(group, member, now)


def check_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether the group has the classic member, and the member owns the instance id."""
    if instance_id is not None:
        owner = group.static.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if owner != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    is_classic = member is not None and member.classic is not None
    return ErrorCode.NONE if is_classic else ErrorCode.UNKNOWN_MEMBER_ID


def _check_sync(group: ConsumerGroup, member: ConsumerMember, request: Sync) -> ErrorCode:
    assert member.classic is not None
    if request.generation != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    protocol = member.classic.protocols[0][0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # A member that must revoke partitions has joined in this epoch, and revokes them first.
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    if group.epoch > member.epoch and not is_revoking:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _refused(request: Join, error: ErrorCode, member_id: str | None = None) -> JoinAnswer:
    if member_id is None:
        member_id = request.member_id
    return JoinAnswer(reply=request.reply, error=error, member_id=member_id)


def _as_heartbeat(
    request: Join, member_id: str, subscription: ConsumerProtocolSubscription, topics: SeenTopics
) -> ConsumerHeartbeat:
    """Convert a JoinGroup to the equivalent heartbeat."""
    owned: dict[bytes, frozenset[int]] = {}
    for each in subscription.owned_partitions:
        topic = topics.topics.get(each.topic)
        if topic is not None:
            owned[topic.topic_id] = frozenset(each.partitions)
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=member_id,
        member_epoch=JOIN_EPOCH,
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topics=tuple(subscription.topics),
        owned=owned,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )


def _encode(
    group: ConsumerGroup, member: ConsumerMember, partitions: Assignment, topics: SeenTopics
) -> bytes:
    """Encode an assignment for a classic member, in the version of its subscription."""
    assert member.classic is not None
    return encode_assignment(
        by_name(group, partitions, topics), assignment_version(member.classic.protocols[0][1])
    )


def by_name(
    group: ConsumerGroup, partitions: Assignment, topics: SeenTopics
) -> dict[str, frozenset[int]]:
    """Partitions of a group's topics by topic name, without deleted topics."""
    found: dict[str, frozenset[int]] = {}
    for name in group.topics:
        topic = topics.topics.get(name)
        if topic is not None and topic.topic_id in partitions:
            found[name] = partitions[topic.topic_id]
    return found
