"""Builds the responses to JoinGroup and SyncGroup."""

from kstore.coordinator.group.classic_events import NO_MEMBER, JoinAnswer, SyncAnswer
from kstore.coordinator.group.classic_group import ClassicGroup
from kstore.coordinator.group.classic_member import Member


def joined(
    group: ClassicGroup,
    member: Member,
    reply: object,
    *,
    skips_assignment: bool | None = None,
    old_leader: str | None = None,
) -> JoinAnswer:
    """The JoinGroup response for the current generation; only the leader gets the members.

    ``skips_assignment`` is set for a static member that replaces its earlier instance: a leader
    must then skip the assignment. A leader whose version does not support skipping gets the
    previous leader's id, and so acts as a follower.
    """
    is_leader, leader = group.leader == member.member_id, group.leader
    if skips_assignment is False:
        is_leader, leader = False, old_leader
    return JoinAnswer(
        reply=reply,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=leader or NO_MEMBER,
        skip_assignment=is_leader and skips_assignment is True,
        members=group.joined_members() if is_leader else (),
    )


def synced(group: ClassicGroup, member: Member, reply: object) -> SyncAnswer:
    """The SyncGroup response with a member's assignment."""
    return SyncAnswer(
        reply=reply,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        assignment=member.assignment,
    )
