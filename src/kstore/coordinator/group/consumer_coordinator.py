"""The coordinator of consumer groups (KIP-848), without I/O and without a clock.

The rules are those of Kafka's GroupMetadataManager. A heartbeat takes the cluster image and the
time in seconds, and returns its response with the records to store before sending it.
:meth:`ConsumerCoordinator.take_effects` returns the effects of timeouts.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from math import inf
from uuid import uuid4

from kstore.coordinator.group.consumer_events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeat,
    HeartbeatAnswer,
    PlainHeartbeat,
    Records,
    SeenTopics,
)
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import (
    EMPTY_ASSIGNMENT,
    ConsumerMember,
    MemberState,
    is_subset,
    reconcile,
)
from kstore.coordinator.group.consumer_records import (
    current_record,
    group_tombstones,
    member_record,
)
from kstore.coordinator.group.deadline_heap import DeadlineHeap
from kstore.coordinator.group.server_assignors import DEFAULT_ASSIGNORS
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

EPOCH_COMMITS_FROM = 9  # the first version of OffsetCommit with a member epoch


@lazy_dataclass(frozen=True)
class ConsumerGroupLimits:
    """The broker's settings for consumer groups, in ms, by Kafka's names."""

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = DEFAULT_ASSIGNORS


@lazy_dataclass(frozen=True)
class StoreConsumerRecords:
    """Append these records of a group."""

    group_id: str
    records: Records


class _Ends(Enum):
    """What ends at a deadline: the session of a member, its time to give partitions up, and that
    of a classic member to send JoinGroup or SyncGroup.

    The attributes of the member: when that is, and when the coordinator checks it next.
    """

    SESSION = ("deadline", "timer_at")
    REVOCATION = ("revocation_ends", "revocation_timer_at")
    CLASSIC_STEP = ("classic_step_ends", "classic_timer_at")


@lazy_dataclass(frozen=True)
class _Deadline:
    """The end of one of a member's times."""

    group: ConsumerGroup
    member: ConsumerMember
    ends: _Ends


class _RefusedError(Exception):
    """A heartbeat is rejected and changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.answer = HeartbeatAnswer(error=error, message=message, records=[])


class ConsumerCoordinator:
    """All consumer groups of a broker. Not thread-safe; never blocks."""

    def __init__(
        self,
        limits: ConsumerGroupLimits | None = None,
        new_id: Callable[[], str] = lambda: str(uuid4()),
        session_timeout_ms: Callable[[str], int] | None = None,
    ) -> None:
        """``session_timeout_ms`` gives that of a group, where groups have settings of their own."""
        self._limits = limits or ConsumerGroupLimits()
        self.new_id = new_id
        limit = self._limits.group_consumer_session_timeout_ms
        self._session_timeout_ms = session_timeout_ms or (lambda _: limit)
        self._groups: dict[str, ConsumerGroup] = {}
        self._timers = DeadlineHeap[_Deadline]()
        self._effects: list[StoreConsumerRecords] = []
        self._shrunk: set[str] = set()

    # --- effects and deadlines --------------------------------------------------------------

    def take_effects(self) -> list[StoreConsumerRecords]:
        """The effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def take_shrunk(self) -> list[ConsumerGroup]:
        """The groups that have fewer members than at the last call."""
        shrunk, self._shrunk = self._shrunk, set()
        return [self._groups[each] for each in sorted(shrunk) if each in self._groups]

    @property
    def next_deadline(self) -> float | None:
        """When :meth:`advance` is due; None if no deadline is set."""
        return self._timers.next

    def advance(self, now: float) -> None:
        """Remove the members whose session or revocation deadline has expired."""
        while (reached := self._timers.pop(now)) is not None:
            when, timer = reached
            group, member = timer.group, timer.member
            is_current = self._groups.get(group.group_id) is group
            if not is_current or group.members.get(member.member_id) is not member:
                continue
            ends_at, timer_at = timer.ends.value
            if getattr(member, timer_at) != when:
                continue
            setattr(member, timer_at, inf)
            if getattr(member, ends_at) > now:  # it was moved meanwhile
                self._set_timer(group, member, timer.ends, getattr(member, ends_at))
                continue
            self._effects.append(
                StoreConsumerRecords(group.group_id, self.remove(group, member, now))
            )

    # --- groups -----------------------------------------------------------------------------

    def load(self, group_id: str, records: Mapping[bytes, bytes], now: float) -> None:
        """Load a stored group; the sessions of its members begin now.

        Raises CorruptRecordError for records that do not decode; then the group is unknown.
        """
        self.adopt(ConsumerGroup.restore(group_id, records, now), now)

    def adopt(self, group: ConsumerGroup, now: float) -> None:
        """Take over a group, whose members have a session from now on."""
        group.assignors = self._limits.group_consumer_assignors
        self._groups[group.group_id] = group
        for member in group.members.values():
            self.begin_session(group, member, now)
            self._await_revocation(group, member, now)

    def find(self, group_id: str) -> ConsumerGroup | None:
        """The group; for reading only."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(list(self._groups.values()))

    def forget(self, group_id: str) -> Records:
        """Remove a group; return its tombstones, without those of members."""
        return group_tombstones(group_id) if self._groups.pop(group_id, None) is not None else []

    def remove(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> Records:
        """Remove a member; the records of that."""
        self._shrunk.add(group.group_id)
        return group.remove(member, now)

    # --- ConsumerGroupHeartbeat -------------------------------------------------------------

    def patterns_to_match(self, request: ConsumerHeartbeat, topics: SeenTopics) -> set[str]:
        """The patterns to match with these topics before the heartbeat."""
        group = self._groups.get(request.group_id)
        wanted = {request.subscribed_pattern} if request.subscribed_pattern else set()
        if group is None:
            return wanted
        if group.patterns_seen is topics:
            return wanted - group.patterns.keys()
        used = group.used_patterns()
        if not used:
            group.patterns_seen = topics
        return wanted | used

    def forget_matches(self) -> None:
        """Match the patterns of each group again at its next heartbeat."""
        for group in self._groups.values():
            group.patterns_seen = None

    def take_matches(
        self, group_id: str, matches: Mapping[str, frozenset[str]], topics: SeenTopics
    ) -> None:
        """Set the names of the topics that match each pattern of :meth:`patterns_to_match`."""
        group = self._groups.get(group_id)
        if group is None:
            return
        used = group.used_patterns()
        before = {each: group.patterns.get(each) for each in used}
        group.patterns = {each: group.patterns[each] for each in used & group.patterns.keys()}
        group.patterns.update(matches)
        if used <= matches.keys():
            group.patterns_seen = topics
        if any(group.patterns.get(each) != found for each, found in before.items()):
            self._effects.append(StoreConsumerRecords(group_id, group.begin_epoch()))

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        topics: SeenTopics,
        now: float,
        matches: Mapping[str, frozenset[str]] | None = None,
    ) -> HeartbeatAnswer:
        """A member joins, stays or leaves; ``matches`` are those of a new group's pattern."""
        try:
            self._check(request)
            if request.member_epoch < JOIN_EPOCH:
                return self._leave(request, now)
            return self._heartbeat(request, topics, now, matches or {})
        except _RefusedError as refused:
            return refused.answer

    def renew(self, beat: PlainHeartbeat, topics: SeenTopics, now: float) -> bool:
        """Begin a session again, if nothing else follows from a heartbeat without news: the member
        has all of its target and knows it. False: nothing has changed, and :meth:`heartbeat` has
        to answer.

        Nearly all heartbeats end here, and cost a fraction of the general way.
        """
        group = self._groups.get(beat.group_id)
        member = None if group is None else group.members.get(beat.member_id)
        if group is None or member is None:
            return False
        session_ends = now + self._session_timeout_ms(group.group_id) / 1000
        if (
            beat.member_epoch != member.epoch
            or beat.instance_id not in (None, member.instance_id)
            or (beat.client_id, beat.client_host) != (member.client_id, member.client_host)
            or member.classic is not None
            or not group.is_settled(member, topics)
            or session_ends < member.timer_at  # it is shorter now, or has not begun
        ):
            return False
        member.deadline = session_ends
        return True

    def refuse(self, request: ConsumerHeartbeat) -> HeartbeatAnswer | None:
        """The answer to a request that no group accepts; None for another one."""
        try:
            self._check(request)
        except _RefusedError as refused:
            return refused.answer
        return None

    def heartbeat_classic(
        self, request: ConsumerHeartbeat, topics: SeenTopics, now: float
    ) -> HeartbeatAnswer:
        """A classic member joins a group that exists, or joins again with what it owns now."""
        group, records = self._groups[request.group_id], list[tuple[bytes, bytes | None]]()
        try:
            self._check_size(group, request)
            member = group.members.get(request.member_id)
            if member is None or member.epoch == LEAVE_STATIC_EPOCH:
                member = self._join(group, request, records)
            answer = self._advance_member(group, member, request, topics, now, records)
        except _RefusedError as refused:
            return refused.answer
        self.await_classic_step(group, member, now)
        return answer

    def _check(self, request: ConsumerHeartbeat) -> None:
        invalid, epoch = ErrorCode.INVALID_REQUEST, request.member_epoch
        if not request.group_id:
            raise _RefusedError(invalid, "GroupId can't be empty.")
        if not request.member_id and epoch != JOIN_EPOCH:
            raise _RefusedError(invalid, "MemberId can't be empty.")
        if request.instance_id == "":
            raise _RefusedError(invalid, "InstanceId can't be empty.")
        if request.rack_id == "":
            raise _RefusedError(invalid, "RackId can't be empty.")
        if epoch < LEAVE_STATIC_EPOCH:
            raise _RefusedError(invalid, "MemberEpoch is invalid.")
        if epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
            raise _RefusedError(invalid, "InstanceId can't be null.")
        if epoch == JOIN_EPOCH:
            if request.rebalance_timeout_ms == -1:
                raise _RefusedError(
                    invalid, "RebalanceTimeoutMs must be provided in first request."
                )
            if request.owned is None or request.owned:
                raise _RefusedError(invalid, "TopicPartitions must be empty when (re-)joining.")
            if request.subscribed_topics is None and request.subscribed_pattern is None:
                raise _RefusedError(
                    invalid,
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                    "(re-)joining.",
                )
        known = self._limits.group_consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in known:
            raise _RefusedError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
                f"{', '.join(known)}.",
            )

    def _heartbeat(
        self,
        request: ConsumerHeartbeat,
        topics: SeenTopics,
        now: float,
        matches: Mapping[str, frozenset[str]],
    ) -> HeartbeatAnswer:
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                raise _not_found(request.group_id)
            group = ConsumerGroup(request.group_id, now)
            group.assignors = self._limits.group_consumer_assignors
            group.patterns, group.patterns_seen = dict(matches), topics
        self._check_size(group, request)
        records: Records = []
        if request.member_epoch == JOIN_EPOCH:
            member = self._join(group, request, records)
        else:
            member = _known_member(group, request)
        self._groups[group.group_id] = group
        return self._advance_member(group, member, request, topics, now, records)

    def _check_size(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> None:
        most = self._limits.group_consumer_max_size
        is_known = request.member_id in group.members or request.instance_id in group.static
        if not is_known and len(group.members) >= most:
            raise _RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def _advance_member(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        request: ConsumerHeartbeat,
        topics: SeenTopics,
        now: float,
        records: Records,
    ) -> HeartbeatAnswer:
        """Take over what a member says, and bring it nearer to its target."""
        before, classic = member.assigned, member.classic
        is_new = member.timer_at == inf
        is_changed = self._update(group, member, request, is_new)
        if is_new or is_changed or member.classic != classic:
            records += member_record(group.group_id, member)
        if is_changed or group.sees_change(topics):
            records += group.begin_epoch()
        if group.epoch > group.target_epoch:
            records += group.assign(topics)
        moved = _reconcile(group, member, request)
        if moved:
            self._await_revocation(group, member, now)
        self.begin_session(group, member, now)
        records += moved
        is_due = (
            request.member_epoch == JOIN_EPOCH or request.is_complete or member.assigned != before
        )
        return HeartbeatAnswer(
            member_id=member.member_id,
            member_epoch=member.epoch,
            assignment=member.assigned if is_due else None,
            records=records,
        )

    def _join(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, records: Records
    ) -> ConsumerMember:
        """The member of a joining heartbeat: new, rejoining, or a static member that has
        restarted."""
        member_id = request.member_id or self.new_id()
        static_id = group.static.get(request.instance_id or "")
        if static_id is not None and static_id != member_id:
            old = group.members[static_id]
            is_classic = request.classic is not None or old.classic is not None
            if old.epoch != LEAVE_STATIC_EPOCH and not is_classic:
                raise _RefusedError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {request.instance_id} cannot join "
                    f"the group because the instance id is owned by member {static_id}.",
                )
            member = ConsumerMember(member_id, request.instance_id)
            records += group.replace(old, member)
            return member
        known = group.members.get(member_id)
        if known is None:
            known = ConsumerMember(member_id, request.instance_id)
            group.add(known)
        elif known.epoch == LEAVE_STATIC_EPOCH:
            known.epoch, known.state = JOIN_EPOCH, MemberState.STABLE
            group.hold(known, known.assigned, EMPTY_ASSIGNMENT)
        else:  # it lost the response or rejoins: it owns nothing
            known.epoch, known.state = JOIN_EPOCH, MemberState.STABLE
            group.hold(known, EMPTY_ASSIGNMENT, EMPTY_ASSIGNMENT)
        return known

    def _update(
        self, group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeat, is_new: bool
    ) -> bool:
        """Update a member; return whether the group needs a new assignment."""
        before = member.topics, member.pattern, member.assignor, member.rack_id
        if request.subscribed_topics is not None:
            member.topics = tuple(sorted(set(request.subscribed_topics)))
        if request.subscribed_pattern is not None:
            member.pattern = request.subscribed_pattern or None
        elif request.member_epoch == JOIN_EPOCH:
            member.pattern = None
        if request.server_assignor is not None:
            member.assignor = request.server_assignor
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        if request.rebalance_timeout_ms != -1:
            member.rebalance_timeout = request.rebalance_timeout_ms / 1000
        member.client_id, member.client_host = request.client_id, request.client_host
        member.classic = request.classic
        after = member.topics, member.pattern, member.assignor, member.rack_id
        has_target = member.member_id in group.targets
        return before != after or (is_new and not has_target)

    # --- leaving ----------------------------------------------------------------------------

    def _leave(self, request: ConsumerHeartbeat, now: float) -> HeartbeatAnswer:
        group = self._groups.get(request.group_id)
        if group is None:
            raise _not_found(request.group_id)
        member = _member_by_id(group, request)
        epoch = request.member_epoch
        if epoch == LEAVE_STATIC_EPOCH:  # a static member will return: it keeps its partitions
            group.hold(member, member.assigned, EMPTY_ASSIGNMENT)
            member.previous_epoch, member.epoch = member.epoch, epoch
            member.state = MemberState.STABLE
            records = current_record(group.group_id, member)
        else:
            records = self.remove(group, member, now)
        return HeartbeatAnswer(
            member_id=request.member_id,
            member_epoch=epoch if epoch == LEAVE_STATIC_EPOCH else LEAVE_EPOCH,
            records=records,
        )

    # --- offsets and administration ---------------------------------------------------------

    def check_commit(
        self, group_id: str, member_id: str, epoch: int, version: int | None
    ) -> ErrorCode | None:
        """Whether a member, or a consumer without group management, may commit; None: unknown
        group.

        ``version`` is the version of OffsetCommit; None for a commit in a transaction, which needs
        no member id, since old producers send none.
        """
        group = self._groups.get(group_id)
        if group is None:
            return None
        if epoch < 0 and (not group.members or (version is None and not member_id)):
            return ErrorCode.NONE
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_old = version is not None and version < EPOCH_COMMITS_FROM
        if is_old and member.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
        return _check_epoch(member, epoch)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a member with this epoch may read offsets."""
        group = self._groups.get(group_id)
        if group is None or (not member_id and epoch < 0):
            return ErrorCode.NONE
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _check_epoch(member, epoch)

    # --- timers -----------------------------------------------------------------------------

    def begin_session(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        """Let a member's session begin again; a classic member chose how long it is."""
        timeout_ms = self._session_timeout_ms(group.group_id)
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._set_timer(group, member, _Ends.SESSION, now + timeout_ms / 1000)

    def _await_revocation(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        """Set the deadline by which a member must revoke partitions: its rebalance timeout."""
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        when = now + member.rebalance_timeout if is_revoking else inf
        self._set_timer(group, member, _Ends.REVOCATION, when)

    def await_classic_step(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        """Give a classic member its rebalance timeout for the JoinGroup or SyncGroup it owes."""
        when = inf if member.classic is None else now + member.rebalance_timeout
        self._set_timer(group, member, _Ends.CLASSIC_STEP, when)

    def _set_timer(
        self, group: ConsumerGroup, member: ConsumerMember, ends: _Ends, when: float
    ) -> None:
        """Set a member's deadline. The heap keeps an earlier entry, which sets the next one: a
        client that moves its deadline with each request does not fill the heap."""
        ends_at, timer_at = ends.value
        setattr(member, ends_at, when)
        if when < getattr(member, timer_at):
            setattr(member, timer_at, when)
            self._timers.add(when, _Deadline(group, member, ends))


def _check_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    is_classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _member_by_id(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member of a request other than its first."""
    member_id = request.member_id
    if request.instance_id is not None:
        owner = group.static.get(request.instance_id)
        if owner is None:
            raise _RefusedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Instance id {request.instance_id} is unknown.",
            )
        if owner != member_id:
            raise _RefusedError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} was fenced by "
                f"member {owner}.",
            )
    member = group.members.get(member_id)
    if member is None:
        raise _RefusedError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def _known_member(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member of a heartbeat; checks that the epoch is the current one.

    Since a response may have been lost, the previous epoch is also accepted, if the member owns
    only partitions of its assignment.
    """
    member = _member_by_id(group, request)
    epoch = request.member_epoch
    if epoch == member.epoch:
        return member
    is_late = (
        epoch < member.epoch
        and epoch == member.previous_epoch
        and request.owned is not None
        and is_subset(request.owned, member.assigned)
    )
    if not is_late:
        size = "greater" if epoch > member.epoch else "smaller"
        raise _RefusedError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.epoch}). The member must abandon all its partitions "
            "and rejoin.",
        )
    return member


def _reconcile(group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeat) -> Records:
    """Advance a member towards its target assignment; return the records of the change."""

    def is_free(topic_id: bytes, partition: int) -> bool:
        return group.owners.get((topic_id, partition)) in (None, member.member_id)

    target = group.targets.get(member.member_id, EMPTY_ASSIGNMENT)
    found = reconcile(member, target, group.target_epoch, request.owned, is_free)
    return group.move(member, found)


def _not_found(group_id: str) -> _RefusedError:
    return _RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
