"""Checks requests against the state of a classic group: member, static member (fencing),
generation, protocol."""

from kstore.coordinator.group.classic_events import Sync
from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.subscription import CONSUMER
from kstore.protocol.error_codes import ErrorCode


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether the group has the member, and the member owns the instance id."""
    if instance_id is not None:
        current = group.static_member_id(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def check_sync(group: ClassicGroup, request: Sync) -> ErrorCode:
    """Whether a member may get an assignment, now or once the leader sends it."""
    error = check_member(group, request.member_id, request.instance_id)
    if error != ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol is not None and request.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_commit(
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
    *,
    is_transactional: bool = False,
) -> ErrorCode:
    """Whether a member may commit offsets, or a consumer without membership in an empty group.

    A commit in a transaction needs no member id, since old producers send none, and is allowed
    during a rebalance.
    """
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # the group has only offsets
    if generation >= 0 or member_id or instance_id is not None:
        error = check_member(group, member_id, instance_id)
        if error != ErrorCode.NONE:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif group.state is not GroupState.EMPTY and not is_transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_delete(group: ClassicGroup | None) -> ErrorCode:
    """Whether a group may be deleted, which requires that it has no members."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    is_empty = group.state is GroupState.EMPTY
    return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP


def check_delete_offsets(group: ClassicGroup | None, topic: str) -> ErrorCode:
    """Whether a topic's offsets may be deleted, which requires that no member subscribes to it."""
    error = check_delete(group)
    if error != ErrorCode.NON_EMPTY_GROUP or group is None or group.protocol_type != CONSUMER:
        return error
    is_used = group.is_subscribed(topic)
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE
