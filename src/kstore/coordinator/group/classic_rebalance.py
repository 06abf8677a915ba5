"""The rebalance of a classic group: its members join, then wait for their assignments.

Kafka's states PreparingRebalance (all members send JoinGroup) and CompletingRebalance (all send
SyncGroup, and the leader's assignments are stored), and the deadlines of both.
:mod:`kstore.coordinator.group.classic_coordinator` decides who is a member, and when a change of
the members requires a rebalance.
"""

from kstore.coordinator.group.classic_answers import answer_join, answer_sync, joined, synced
from kstore.coordinator.group.classic_events import (
    Effect,
    JoinAnswer,
    StoreGroupMetadata,
    Sync,
    SyncAnswer,
)
from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.classic_member import Member
from kstore.coordinator.group.classic_timers import GroupTimers, JoinEnds, SyncEnds
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

_EMPTY, _STABLE = GroupState.EMPTY, GroupState.STABLE
_PREPARING, _COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


@lazy_dataclass(frozen=True)
class Assigned:
    """A generation whose assignments are being stored."""

    group: ClassicGroup
    generation: int
    assignments: dict[str, bytes]


class ClassicRebalance:
    """Rebalances the groups of one coordinator, with its timers and effects.

    Not thread-safe; never blocks. ``initial_delay`` is the time in seconds that an empty group
    waits for more members.
    """

    def __init__(self, initial_delay: float, timers: GroupTimers, effects: list[Effect]) -> None:
        self._initial_delay = initial_delay
        self._timers = timers
        self._effects = effects

    # --- members join -----------------------------------------------------------------------

    def begin_if_possible(self, group: ClassicGroup, now: float) -> None:
        """Begin a rebalance, unless the group is in its join phase already."""
        if group.can_rebalance:
            self.begin(group, now)

    def begin(self, group: ClassicGroup, now: float) -> None:
        """Begin the join phase: wait for all members; those waiting for assignments rejoin."""
        if group.state is _COMPLETING:
            self._reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        group.is_in_initial_delay = group.state is _EMPTY
        timeout = group.rebalance_timeout
        group.transition(_PREPARING, now)
        if group.is_in_initial_delay:
            group.has_new_member = False
            delay = self._initial_delay
            self._wait_for_joins(group, now, delay, max(timeout - delay, 0.0))
        else:
            self._wait_for_joins(group, now, timeout)
            self.complete_if_all_joined(group, now)

    def _wait_for_joins(
        self, group: ClassicGroup, now: float, seconds: float, remaining: float | None = None
    ) -> None:
        group.join_wait += 1
        self._timers.add(now + seconds, JoinEnds(group, group.join_wait, seconds, remaining))

    def end_join_wait(self, timer: JoinEnds, now: float) -> None:
        """End the join phase, unless new members extend the initial delay."""
        group = timer.group
        if group.state is not _PREPARING or group.join_wait != timer.join_wait:
            return
        if timer.remaining and group.has_new_member:
            group.has_new_member = False
            delay = min(self._initial_delay, timer.remaining)
            self._wait_for_joins(group, now, delay, max(timer.remaining - timer.delay, 0.0))
        else:
            self._complete_join(group, now)

    def complete_if_all_joined(self, group: ClassicGroup, now: float) -> None:
        """End the join phase if no member is missing and the initial delay is over."""
        if group.state is _PREPARING and not group.is_in_initial_delay and group.have_all_joined:
            self._complete_join(group, now)

    def _complete_join(self, group: ClassicGroup, now: float) -> None:
        """Begin the next generation with the members that joined and the static members."""
        group.is_in_initial_delay = False
        for member in group.missing_members():
            if not member.is_static:
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            self._wait_for_joins(group, now, group.rebalance_timeout)
            return
        group.join_wait += 1
        group.next_generation(now)
        if not group.members:
            self._effects.append(StoreGroupMetadata(group.snapshot(now), None))
            return
        for member in group.members.values():
            answer_join(self._effects, group, member, joined(group, member, None))
            member.is_new = False
            self._timers.renew_session(group, member, now)
            group.unsynced.add(member.member_id)
        self._timers.add(now + group.rebalance_timeout, SyncEnds(group, group.generation))

    # --- members wait for their assignments -------------------------------------------------

    def sync(self, group: ClassicGroup, member: Member, request: Sync, now: float) -> None:
        """A member requests its assignment; the leader sends those of all members."""
        group.unsynced.discard(member.member_id)
        if group.state is _STABLE:
            self._timers.renew_session(group, member, now)
            self._effects.append(synced(group, member, request.reply))
            return
        repeated = SyncAnswer(reply=None, error=ErrorCode.REBALANCE_IN_PROGRESS)
        answer_sync(self._effects, member, repeated)
        member.sync_reply = request.reply
        # A repeated request of the leader does not replace assignments that are being stored.
        if group.leader == member.member_id and group.stored_generation != group.generation:
            group.stored_generation = group.generation
            assignments = {each: request.assignments.get(each, b"") for each in group.members}
            self._effects.append(
                StoreGroupMetadata(
                    group.snapshot(now, assignments),
                    Assigned(group, group.generation, assignments),
                )
            )

    def end_sync_wait(self, timer: SyncEnds, now: float) -> None:
        """Remove the members that did not send SyncGroup in time."""
        group = timer.group
        if timer.generation != group.generation or group.state not in (_COMPLETING, _STABLE):
            return
        if group.unsynced:
            unknown = JoinAnswer(reply=None, error=ErrorCode.UNKNOWN_MEMBER_ID)
            for member_id in sorted(group.unsynced):
                answer_join(self._effects, group, group.members[member_id], unknown)
                group.remove(member_id)
            self.begin(group, now)

    def assignments_stored(self, ticket: Assigned, error: ErrorCode, now: float) -> None:
        """Respond to the members that wait for their assignments, which are stored or failed."""
        group = ticket.group
        if group.state is not _COMPLETING or group.generation != ticket.generation:
            return  # a rebalance has begun meanwhile
        if error != ErrorCode.NONE:
            self._reset_assignments(group, error, now)
            self.begin_if_possible(group, now)
            return
        group.transition(_STABLE, now)
        for member in group.members.values():
            member.assignment = ticket.assignments.get(member.member_id, b"")
            self._finish_sync(group, member, synced(group, member, None), now)

    def _reset_assignments(self, group: ClassicGroup, error: ErrorCode, now: float) -> None:
        """Respond with an error to the members that wait for their assignment."""
        for member in group.members.values():
            member.assignment = b""
            self._finish_sync(group, member, SyncAnswer(reply=None, error=error), now)

    def _finish_sync(
        self, group: ClassicGroup, member: Member, answer: SyncAnswer, now: float
    ) -> None:
        if answer_sync(self._effects, member, answer):
            self._timers.renew_session(group, member, now)
