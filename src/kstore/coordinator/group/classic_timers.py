"""All deadlines of the coordinator of classic groups, in one heap.

:mod:`kstore.coordinator.group.classic_coordinator` and
:mod:`kstore.coordinator.group.classic_rebalance` decide how long they are.
"""

from typing import NamedTuple

from kstore.coordinator.group.classic_group import ClassicGroup
from kstore.coordinator.group.classic_member import Member
from kstore.coordinator.group.deadline_heap import DeadlineHeap


class SessionEnds(NamedTuple):
    """Check whether a member's session has ended; its deadline may have moved since."""

    group: ClassicGroup
    member: Member


class MemberIdExpires(NamedTuple):
    """A pending member id expires unused."""

    group: ClassicGroup
    member_id: str


class JoinEnds(NamedTuple):
    """The join phase ends; ``remaining`` are the seconds by which it may be extended, or None."""

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
    """Deadlines in seconds. The heap has one entry for each member. A heartbeat only updates the
    member's deadline; an entry that is reached too early is pushed again."""

    def renew(self, group: ClassicGroup, member: Member, when: float) -> None:
        """Move the end of a member's session to this time."""
        member.deadline = when
        if when < member.timer_at:
            member.timer_at = when
            self.add(when, SessionEnds(group, member))

    def renew_session(self, group: ClassicGroup, member: Member, now: float) -> None:
        """Begin a member's session again, after a sign of life."""
        self.renew(group, member, now + member.session_timeout)
