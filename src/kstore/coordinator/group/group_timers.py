"""All deadlines of the group coordinator, in one heap."""

from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from kstore.coordinator.group.classic_group import ClassicGroup
from kstore.coordinator.group.classic_member import Member


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


class GroupTimers:
    """Deadlines in seconds. A heartbeat only moves a number in its member: the heap has one
    entry for each member, which is pushed again when it is reached too early."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()

    @property
    def next(self) -> float | None:
        """The earliest deadline; None without any."""
        return self._heap[0][0] if self._heap else None

    def add(self, when: float, timer: Timer) -> None:
        heappush(self._heap, (when, next(self._order), timer))

    def renew(self, group: ClassicGroup, member: Member, when: float) -> None:
        """Let a member's session end at this time instead."""
        member.deadline = when
        if when < member.timer_at:
            member.timer_at = when
            self.add(when, SessionEnds(group, member))

    def pop(self, now: float) -> tuple[float, Timer] | None:
        """Remove and return the earliest deadline that is reached."""
        if not self._heap or self._heap[0][0] > now:
            return None
        when, _, timer = heappop(self._heap)
        return when, timer

    def __len__(self) -> int:
        return len(self._heap)
