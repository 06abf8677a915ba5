"""A consumer group of the classic protocol: its state, members and votes (Kafka's ClassicGroup)."""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

from kstore.coordinator.group.classic_events import (
    GroupDescription,
    GroupSnapshot,
    JoinedMember,
    MemberSnapshot,
)
from kstore.coordinator.group.classic_member import Member, Protocols
from kstore.coordinator.group.subscription import CONSUMER, subscribed_topics


class GroupState(Enum):
    """The states of a group, with the names that Kafka's clients know."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_REACHED_FROM = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (
        GroupState.EMPTY,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}


class ClassicGroup:
    """One group. Not thread-safe; the coordinator decides when it changes.

    ``pending`` has the member ids that were assigned but not used to join yet, with their
    deadlines. ``unsynced`` has the members that have not sent SyncGroup in this generation yet.
    """

    def __init__(self, group_id: str, now: float) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since: float | None = now
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.topics: frozenset[str] | None = None  # None: unknown
        self.members: dict[str, Member] = {}
        self.pending: dict[str, float] = {}
        self.unsynced: set[str] = set()
        self.has_new_member = False  # since the initial delay began
        self.is_in_initial_delay = False
        self.stored_generation = -1  # the generation whose assignments are stored, or being stored
        # incremented for each join phase, which invalidates timers of earlier ones
        self.join_wait = 0
        self.joined_count = 0  # members with a waiting JoinGroup
        self._static: dict[str, str] = {}
        self._support: Counter[str] = Counter()

    # --- state ------------------------------------------------------------------------------

    def transition(self, state: GroupState, now: float) -> None:
        """Enter a state. Raises RuntimeError for an invalid transition."""
        if self.state not in _REACHED_FROM[state]:
            raise RuntimeError(
                f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}"
            )
        self.state = state
        self.state_since = now

    @property
    def can_rebalance(self) -> bool:
        return self.state in _REACHED_FROM[GroupState.PREPARING_REBALANCE]

    @property
    def is_unused(self) -> bool:
        """Whether the group has neither members nor pending member ids."""
        return self.state is GroupState.EMPTY and not self.pending

    @property
    def rebalance_timeout(self) -> float:
        """The largest rebalance timeout of the members, in seconds."""
        return max((each.rebalance_timeout for each in self.members.values()), default=0.0)

    @property
    def have_all_joined(self) -> bool:
        """Whether every member has rejoined, and no pending member id is left."""
        return not self.pending and self.joined_count == len(self.members)

    def set_join_reply(self, member: Member, reply: object) -> None:
        """Set a member's waiting JoinGroup; an earlier one must have its response."""
        assert member.join_reply is None
        member.join_reply = reply
        self.joined_count += 1

    def take_join_reply(self, member: Member) -> object | None:
        """Remove and return the member's waiting JoinGroup; None if there is none."""
        reply, member.join_reply = member.join_reply, None
        if reply is not None and self.members.get(member.member_id) is member:
            self.joined_count -= 1
        return reply

    def next_generation(self, now: float) -> None:
        """End the join phase: choose the protocol; without members the group becomes Empty."""
        self.generation += 1
        self.unsynced.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now)
        else:
            self.protocol = None
            self.transition(GroupState.EMPTY, now)
        self.topics = self._subscribed_topics()

    # --- members ----------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first becomes the leader, and determines the protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.joined_count += member.join_reply is not None
        self._count(member.protocols, 1)
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, if the group has it; if it was the leader, another member becomes it."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            self.joined_count -= member.join_reply is not None
            if member.instance_id is not None:
                self._static.pop(member.instance_id, None)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member another id; it keeps its position and its leadership."""
        member = self.members[old_id]
        assert member.instance_id is not None
        member.member_id = new_id
        self.members = {each.member_id: each for each in self.members.values()}
        self._static[member.instance_id] = new_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def static_member_id(self, instance_id: str | None) -> str | None:
        """The member id of an instance; None if the group does not have it."""
        return None if instance_id is None else self._static.get(instance_id)

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; False if none has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_reply is not None:
            return True
        for member_id, member in self.members.items():
            if member.join_reply is not None:
                self.leader = member_id
                return True
        return False

    def missing_members(self) -> Iterator[Member]:
        """The members that have not joined the rebalance."""
        return (each for each in list(self.members.values()) if each.join_reply is None)

    # --- protocols --------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: all members must support one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._support[name] == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support; the first in a
        tie."""
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes = Counter(each.vote(candidates) for each in self.members.values())
        return max(votes, key=votes.__getitem__)

    def _count(self, protocols: Protocols, change: int) -> None:
        for name in {name for name, _ in protocols}:
            self._support[name] += change
            if not self._support[name]:
                del self._support[name]

    def _subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members subscribe to; None if unknown."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return subscribed_topics(each.metadata(self.protocol) for each in self.members.values())

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to a topic; True if the subscriptions are unknown."""
        return self.topics is None or topic in self.topics

    # --- views ------------------------------------------------------------------------------

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members with their metadata, for the leader."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol))
            for each in self.members.values()
        )

    def snapshot(self, now: float, assignments: dict[str, bytes] | None = None) -> GroupSnapshot:
        """The group for its record; ``assignments`` are those of a new generation."""
        return GroupSnapshot(
            self.group_id,
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            None if self.state_since is None else max(0.0, now - self.state_since),
            tuple(
                member_snapshot(
                    each,
                    each.metadata(self.protocol),
                    each.assignment
                    if assignments is None
                    else assignments.get(each.member_id, b""),
                )
                for each in self.members.values()
            ),
        )

    def describe(self) -> GroupDescription:
        """The group for DescribeGroups: metadata and assignments only while it is Stable."""
        is_stable = self.state is GroupState.STABLE
        members = tuple(
            member_snapshot(each, each.metadata(self.protocol), each.assignment)
            if is_stable
            else member_snapshot(each, b"", b"")
            for each in self.members.values()
        )
        protocol = self.protocol if is_stable else None
        return GroupDescription(
            self.group_id, self.state.value, self.protocol_type or "", protocol or "", members
        )

    @classmethod
    def restore(cls, snapshot: GroupSnapshot, now: float) -> "ClassicGroup":
        """Restore a group from its record: Stable if it has members, otherwise Empty."""
        group = cls(snapshot.group_id, now)
        group.state_since = None if snapshot.state_age is None else now - snapshot.state_age
        group.generation = snapshot.generation
        group.protocol_type = snapshot.protocol_type or None
        group.protocol = snapshot.protocol
        protocol = snapshot.protocol or ""
        for each in snapshot.members:
            member = Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout_ms / 1000,
                each.rebalance_timeout_ms / 1000,
                ((protocol, each.subscription),),
                each.assignment,
            )
            group.add(member, snapshot.protocol_type)
        if group.members:
            group.state = GroupState.STABLE
            if snapshot.leader in group.members:
                group.leader = snapshot.leader
        group.topics = group._subscribed_topics()
        return group


def member_snapshot(member: Member, subscription: bytes, assignment: bytes) -> MemberSnapshot:
    return MemberSnapshot(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        round(member.session_timeout * 1000),
        round(member.rebalance_timeout * 1000),
        subscription,
        assignment,
    )
