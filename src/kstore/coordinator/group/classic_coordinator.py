"""The coordinator of classic consumer groups, without I/O and without a clock.

The rules are those of Kafka 3.9's GroupCoordinator. A method handles each request, with the time in
seconds on any clock. :meth:`ClassicCoordinator.take_effects` returns the effects: responses to this
and to waiting requests, and group records to store.
"""

from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

from kstore.coordinator.group.classic_answers import answer_join, joined, refuse_waiting
from kstore.coordinator.group.classic_checks import (
    check_commit,
    check_delete,
    check_delete_offsets,
    check_member,
    check_sync,
)
from kstore.coordinator.group.classic_events import (
    NO_MEMBER,
    Effect,
    GroupDescription,
    GroupSnapshot,
    Join,
    JoinAnswer,
    LeavingMember,
    StoreGroupMetadata,
    Sync,
    SyncAnswer,
)
from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.classic_member import Member, Protocols
from kstore.coordinator.group.classic_rebalance import Assigned, ClassicRebalance
from kstore.coordinator.group.classic_timers import (
    GroupTimers,
    JoinEnds,
    MemberIdExpires,
    SessionEnds,
)
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT = 300.0  # seconds; the client may have disappeared without leaving
_EMPTY, _STABLE = GroupState.EMPTY, GroupState.STABLE
_PREPARING, _COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


@lazy_dataclass(frozen=True)
class GroupLimits:
    """The broker's settings for groups, in ms, by Kafka's names."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1


@lazy_dataclass(frozen=True)
class _InstanceReplaced:
    """A static member that restarted with a new id, which is being stored."""

    group: ClassicGroup
    member: Member
    old_id: str
    old_protocols: Protocols
    old_timeouts: tuple[float, float]
    old_leader: str | None
    can_skip_assignment: bool


class ClassicCoordinator:
    """All classic groups of a broker. Not thread-safe; never blocks."""

    def __init__(
        self, limits: GroupLimits | None = None, new_id: Callable[[], str] = lambda: str(uuid4())
    ) -> None:
        self._limits = limits or GroupLimits()
        self._new_id = new_id
        self._groups: dict[str, ClassicGroup] = {}
        self._timers = GroupTimers()
        self._effects: list[Effect] = []
        initial_delay = self._limits.group_initial_rebalance_delay_ms / 1000
        self._rebalance = ClassicRebalance(initial_delay, self._timers, self._effects)

    # --- effects and deadlines --------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    @property
    def next_deadline(self) -> float | None:
        """When :meth:`advance` is due; None if no deadline is set."""
        return self._timers.next

    def advance(self, now: float) -> None:
        """Process all deadlines up to now."""
        while (reached := self._timers.pop(now)) is not None:
            when, timer = reached
            if self._groups.get(timer.group.group_id) is not timer.group:
                continue
            if isinstance(timer, SessionEnds):
                self._check_session(timer.group, timer.member, when, now)
            elif isinstance(timer, MemberIdExpires):
                if timer.group.pending.get(timer.member_id) == when:
                    self._remove_pending(timer.group, timer.member_id, now)
            elif isinstance(timer, JoinEnds):
                self._rebalance.end_join_wait(timer, now)
            else:
                self._rebalance.end_sync_wait(timer, now)

    # --- groups -----------------------------------------------------------------------------

    def load(self, snapshot: GroupSnapshot, now: float) -> None:
        """Load a stored group; the sessions of its members begin now."""
        group = ClassicGroup.restore(snapshot, now)
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._timers.renew_session(group, member, now)
        if len(group.members) > self._limits.group_max_size:
            self._rebalance.begin(group, now)

    def adopt(self, group: ClassicGroup, now: float) -> None:
        """Take over a group that used another protocol: its members join again."""
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._timers.renew_session(group, member, now)
        self._rebalance.begin(group, now)

    def ensure(self, group_id: str, now: float) -> ClassicGroup:
        """The group; an unknown one, such as a group with only offsets, is created Empty."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, now)
        return group

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group; for reading only."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(list(self._groups.values()))

    def forget(self, group_id: str, now: float) -> None:
        """Remove a group without members, which becomes Dead."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            group.transition(GroupState.DEAD, now)

    def unload(self, group_ids: Iterable[str], error: ErrorCode, now: float) -> None:
        """Unload groups; all their waiting requests get the error."""
        for group_id in group_ids:
            group = self._groups.pop(group_id, None)
            if group is None:
                continue
            group.transition(GroupState.DEAD, now)
            for member in group.members.values():
                refuse_waiting(self._effects, group, member, error)

    def describe(self, group_id: str) -> GroupDescription:
        """The group's description for DescribeGroups; an unknown group is Dead."""
        group = self._groups.get(group_id)
        if group is None:
            return GroupDescription(group_id, GroupState.DEAD.value)
        return group.describe()

    # --- JoinGroup --------------------------------------------------------------------------

    def join(self, request: Join, now: float) -> None:
        """A member joins or rejoins; the response may come much later."""
        limits, group = self._limits, self._groups.get(request.group_id)
        shortest, longest = limits.group_min_session_timeout_ms, limits.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            self._refuse_join(request, ErrorCode.INVALID_SESSION_TIMEOUT)
            return
        if group is None:
            if request.member_id:
                self._refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID)
                return
            group = self.ensure(request.group_id, now)
        if not self._accepts(group, request.member_id):
            group.pending.pop(request.member_id, None)
            if request.member_id in group.members:
                self._remove_member(group, group.members[request.member_id], now)
            self._refuse_join(request, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse_join(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif not request.member_id:
            self._join_new(group, request, now)
        elif request.member_id in group.pending:
            if request.instance_id is not None:  # only dynamic members get ids from the coordinator
                self._refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID)
            else:
                self._add_member(group, request.member_id, request, now)
        else:
            self._join_known(group, request, now)
        self._rebalance.complete_if_all_joined(group, now)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group has room. During a rebalance only members that have joined count,
        because the limit may have been lowered; then the last to rejoin are rejected."""
        most = self._limits.group_max_size
        member = group.members.get(member_id)
        if group.state is _EMPTY:
            return True
        if group.state is _PREPARING:
            is_waiting = member is not None and member.join_reply is not None
            return is_waiting or group.joined_count < most
        return member is not None or len(group.members) < most

    def _join_new(self, group: ClassicGroup, request: Join, now: float) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
        if request.instance_id is not None:
            old_id = group.static_member_id(request.instance_id)
            if old_id is None:
                self._add_member(group, member_id, request, now)
            else:
                self._replace_instance(group, old_id, member_id, request, now)
        elif request.needs_member_id:
            deadline = now + request.session_timeout_ms / 1000
            group.pending[member_id] = deadline
            self._timers.add(deadline, MemberIdExpires(group, member_id))
            self._refuse_join(request, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add_member(group, member_id, request, now)

    def _join_known(self, group: ClassicGroup, request: Join, now: float) -> None:
        error = check_member(group, request.member_id, request.instance_id)
        if error != ErrorCode.NONE:
            self._refuse_join(request, error)
            return
        member = group.members[request.member_id]
        is_changed = member.protocols != request.protocols
        is_leader = group.leader == member.member_id
        is_current = group.state is _COMPLETING or (group.state is _STABLE and not is_leader)
        if is_current and not is_changed:  # the response may have been lost
            self._timers.renew_session(group, member, now)
            self._effects.append(joined(group, member, request.reply))
        elif group.state in (_PREPARING, _COMPLETING, _STABLE):
            self._update_member(group, member, request)
            self._rebalance.begin_if_possible(group, now)
        else:
            self._refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID)

    def _add_member(self, group: ClassicGroup, member_id: str, request: Join, now: float) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms / 1000,
            request.rebalance_timeout_ms / 1000,
            request.protocols,
            join_reply=request.reply,
            is_new=True,
        )
        if group.state is _PREPARING and group.generation == 0:
            group.has_new_member = True
        group.add(member, request.protocol_type)
        self._timers.renew(group, member, now + NEW_MEMBER_JOIN_TIMEOUT)
        self._rebalance.begin_if_possible(group, now)
        if request.skips_initial_delay and len(group.members) == 1:
            group.is_in_initial_delay = False

    def _update_member(self, group: ClassicGroup, member: Member, request: Join) -> None:
        group.set_protocols(member, request.protocols)
        member.rebalance_timeout = request.rebalance_timeout_ms / 1000
        member.session_timeout = request.session_timeout_ms / 1000
        # Even an abandoned request must get a response, because it blocks its connection.
        abandoned = JoinAnswer(reply=None, error=ErrorCode.REBALANCE_IN_PROGRESS)
        answer_join(self._effects, group, member, abandoned)
        group.set_join_reply(member, request.reply)

    def _replace_instance(
        self, group: ClassicGroup, old_id: str, new_id: str, request: Join, now: float
    ) -> None:
        """Replace a static member that has restarted: its new id replaces the old one."""
        leader, member = group.leader, group.members[old_id]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        refuse_waiting(self._effects, group, member, fenced, old_id)
        group.rename(old_id, new_id)
        replaced = _InstanceReplaced(
            group,
            member,
            old_id,
            member.protocols,
            (member.rebalance_timeout, member.session_timeout),
            leader,
            request.can_skip_assignment,
        )
        self._update_member(group, member, request)
        self._timers.renew_session(group, member, now)
        if group.state is _STABLE and group.select_protocol() == group.protocol:
            self._effects.append(StoreGroupMetadata(group.snapshot(now), replaced))
        elif group.state in (_STABLE, _COMPLETING):
            self._rebalance.begin(group, now)

    # --- SyncGroup --------------------------------------------------------------------------

    def sync(self, request: Sync, now: float) -> None:
        """A member requests its assignment; the leader sends those of all members."""
        group = self._groups.get(request.group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else check_sync(group, request)
        if group is None or error != ErrorCode.NONE:
            self._effects.append(SyncAnswer(reply=request.reply, error=error))
            return
        member = group.members[request.member_id]
        self._rebalance.sync(group, member, request, now)

    def stored(self, ticket: object, error: ErrorCode, now: float) -> None:
        """Handle the result of storing a group's record."""
        if isinstance(ticket, Assigned):
            self._rebalance.assignments_stored(ticket, error, now)
        elif isinstance(ticket, _InstanceReplaced):
            self._instance_stored(ticket, error, now)

    def _instance_stored(self, ticket: _InstanceReplaced, error: ErrorCode, now: float) -> None:
        group, member = ticket.group, ticket.member
        if group.members.get(member.member_id) is not member:
            return  # it left, or the group was unloaded
        if error == ErrorCode.NONE:
            answer = joined(
                group,
                member,
                None,
                skips_assignment=ticket.can_skip_assignment,
                old_leader=ticket.old_leader,
            )
            answer_join(self._effects, group, member, answer)
            return
        reply = group.take_join_reply(member)
        member.rebalance_timeout, member.session_timeout = ticket.old_timeouts
        group.set_protocols(member, ticket.old_protocols)
        group.rename(member.member_id, ticket.old_id)
        self._timers.renew_session(group, member, now)
        if reply is not None:
            self._effects.append(JoinAnswer(reply=reply, error=error))

    # --- Heartbeat, LeaveGroup, commits -----------------------------------------------------

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: float
    ) -> ErrorCode:
        """Renew a member's session; REBALANCE_IN_PROGRESS makes it rejoin."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = check_member(group, member_id, instance_id)
        if error == ErrorCode.NONE and generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error != ErrorCode.NONE:
            return error
        self._timers.renew_session(group, group.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is _PREPARING else ErrorCode.NONE

    def leave(self, group_id: str, leaving: Iterable[LeavingMember], now: float) -> list[ErrorCode]:
        """Remove members; return an error code for each."""
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
        return [self._leave(group, each, now) for each in leaving]

    def _leave(self, group: ClassicGroup, leaving: LeavingMember, now: float) -> ErrorCode:
        member_id: str | None = leaving.member_id
        if not member_id:  # an administrator removes a static member
            member_id = group.static_member_id(leaving.instance_id)
            if member_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in group.pending:
            self._remove_pending(group, member_id, now)
            return ErrorCode.NONE
        else:
            error = check_member(group, member_id, leaving.instance_id)
            if error != ErrorCode.NONE:
                return error
        self._remove_member(group, group.members[member_id], now)
        return ErrorCode.NONE

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now: float,
        *,
        is_transactional: bool = False,
    ) -> ErrorCode:
        """Whether a member, or a consumer without group management, may commit now."""
        group = self._groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self.ensure(group_id, now)
        error = check_commit(
            group, member_id, instance_id, generation, is_transactional=is_transactional
        )
        if error == ErrorCode.NONE and not is_transactional and group.state is not _EMPTY:
            self._timers.renew_session(group, group.members[member_id], now)
        return error

    def check_delete(self, group_id: str) -> ErrorCode:
        """Whether a group may be deleted."""
        return check_delete(self._groups.get(group_id))

    def check_delete_offsets(self, group_id: str, topic: str) -> ErrorCode:
        """Whether a topic's offsets may be deleted; NON_EMPTY_GROUP applies to all topics."""
        return check_delete_offsets(self._groups.get(group_id), topic)

    # --- members ----------------------------------------------------------------------------

    def _check_session(self, group: ClassicGroup, member: Member, when: float, now: float) -> None:
        if group.members.get(member.member_id) is not member or member.timer_at != when:
            return
        member.timer_at = float("inf")
        if member.deadline > now:
            self._timers.renew(group, member, member.deadline)
        elif not member.is_waiting:  # the response to a waiting member starts a new session
            self._remove_member(group, member, now)

    def _remove_member(self, group: ClassicGroup, member: Member, now: float) -> None:
        refuse_waiting(self._effects, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)
        if group.state in (_STABLE, _COMPLETING):
            self._rebalance.begin(group, now)
        else:
            self._rebalance.complete_if_all_joined(group, now)

    def _remove_pending(self, group: ClassicGroup, member_id: str, now: float) -> None:
        del group.pending[member_id]
        self._rebalance.complete_if_all_joined(group, now)

    # --- answers ----------------------------------------------------------------------------

    def _refuse_join(self, request: Join, error: ErrorCode, member_id: str | None = None) -> None:
        if member_id is None:
            member_id = request.member_id
        self._effects.append(JoinAnswer(reply=request.reply, error=error, member_id=member_id))
