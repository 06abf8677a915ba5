"""All deadlines of the group coordinator, in one heap."""

from typing import NamedTuple

from kstore.coordinator.group.classic_group import ClassicGroup
from kstore.coordinator.group.classic_member import Member
from kstore.coordinator.group.deadline_heap import DeadlineHeap


class SessionEnds(NamedTuple):
    """Look whether a member's session has ended: its deadline may have moved since."""

    group: ClassicGroup
    member: Member


class MemberIdExpires(NamedTuple):
    """An id that was handed out was not used."""

    group: ClassicGroup
    member_id: str


class JoinEnds(NamedTuple):
    """The wait for joins ends; ``remaining`` seconds may follow an initial delay, else None."""

    group: ClassicGroup
    join_wait: int
    delay: float = 0.0
    remaining: float | None = None


class SyncEnds(NamedTuple):
    """Members that have not sent SyncGroup in this generation are removed."""

    group: ClassicGroup
    generation: int


Timer = SessionEnds | MemberIdExpires | JoinEnds | SyncEnds


class GroupTimers(DeadlineHeap[Timer]):
    """Deadlines in seconds. A heartbeat only moves a number in its member: the heap has one
    entry for each member, which is pushed again when it is reached too early."""

    def renew(self, group: ClassicGroup, member: Member, when: float) -> None:
        """Let a member's session end at this time instead."""
        member.deadline = when
        if when < member.timer_at:
            member.timer_at = when
            self.add(when, SessionEnds(group, member))
