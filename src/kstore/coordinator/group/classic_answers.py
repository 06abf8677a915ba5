"""Builds the responses to JoinGroup and SyncGroup, and responds to waiting requests."""

from dataclasses import replace

from kstore.coordinator.group.classic_events import NO_MEMBER, Effect, JoinAnswer, SyncAnswer
from kstore.coordinator.group.classic_group import ClassicGroup
from kstore.coordinator.group.classic_member import Member
from kstore.protocol.error_codes import ErrorCode


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


def answer_join(
    effects: list[Effect], group: ClassicGroup, member: Member, answer: JoinAnswer
) -> None:
    """Respond to the member's waiting JoinGroup, if there is one."""
    reply = group.take_join_reply(member)
    if reply is not None:
        effects.append(replace(answer, reply=reply))


def answer_sync(effects: list[Effect], member: Member, answer: SyncAnswer) -> bool:
    """Respond to the member's waiting SyncGroup; return whether there was one."""
    reply, member.sync_reply = member.sync_reply, None
    if reply is not None:
        effects.append(replace(answer, reply=reply))
    return reply is not None


def refuse_waiting(
    effects: list[Effect],
    group: ClassicGroup,
    member: Member,
    error: ErrorCode,
    member_id: str = NO_MEMBER,
) -> None:
    """Respond with an error to the member's waiting requests."""
    refused = JoinAnswer(reply=None, error=error, member_id=member_id)
    answer_join(effects, group, member, refused)
    answer_sync(effects, member, SyncAnswer(reply=None, error=error))
