"""What a member learns of its group: the answers to JoinGroup and SyncGroup."""

from kstore.coordinator.group.classic_group import ClassicGroup
from kstore.coordinator.group.classic_member import Member
from kstore.coordinator.group.group_events import NO_MEMBER, JoinAnswer, SyncAnswer


def joined(
    group: ClassicGroup,
    member: Member,
    reply: object,
    *,
    skips_assignment: bool | None = None,
    old_leader: str | None = None,
) -> JoinAnswer:
    """The current generation as a member gets it; only the leader gets the list of members.

    ``skips_assignment`` is given for a static member that takes over: a leader does not assign
    then, and one whose version cannot skip that gets the id of the leader before, to follow it.
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
    """The assignment that a member has."""
    return SyncAnswer(
        reply=reply,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        assignment=member.assignment,
    )
