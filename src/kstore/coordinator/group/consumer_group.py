"""A consumer group (KIP-848): members, epochs, target assignments (Kafka's ConsumerGroup)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kstore.coordinator.group.classic_member import Protocols
from kstore.coordinator.group.consumer_events import (
    LEAVE_STATIC_EPOCH,
    Assignment,
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    Records,
    SeenTopics,
)
from kstore.coordinator.group.consumer_member import (
    EMPTY_ASSIGNMENT,
    ConsumerMember,
    MemberState,
    Reconciled,
    partitions_of,
)
from kstore.coordinator.group.consumer_records import (
    StoredConsumerGroup,
    current_record,
    group_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from kstore.coordinator.group.server_assignors import ASSIGNORS, DEFAULT_ASSIGNORS
from kstore.coordinator.group.subscription import CONSUMER

ZERO_UUID = bytes(16)  # of a topic without an id, which cannot be assigned


class ConsumerGroup:
    """One group. Not thread-safe; the coordinator decides when it changes.

    ``epoch`` increases with each change of members, subscriptions or topics; ``target_epoch`` is
    the epoch of the last target assignment. ``owners`` maps each partition to the member that holds
    it, until that member has revoked it.
    """

    def __init__(self, group_id: str, now: float) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.assignors: Sequence[str] = DEFAULT_ASSIGNORS
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.static: dict[str, str] = {}  # member ids by instance id
        self.empty_since: float | None = now
        self.patterns: dict[str, frozenset[str]] = {}  # the names of the topics that match each
        # the cluster image that they were matched with
        self.patterns_seen: SeenTopics | None = None
        self._seen: SeenTopics | None = None
        self._counts: dict[bytes, int] = {}  # partitions of the topics that members subscribe to

    # --- state ------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The state, by Kafka's name."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        for member in tuple(self.members.values()):  # read by metrics, on another thread
            if member.state is not MemberState.STABLE or member.epoch != self.target_epoch:
                return "Reconciling"
        return "Stable"

    @property
    def topics(self) -> frozenset[str]:
        """The names of the topics that members subscribe to."""
        names: set[str] = set()
        for member in self.members.values():
            names |= self.topics_of(member)
        return frozenset(names)

    def topics_of(self, member: ConsumerMember) -> set[str]:
        return {*member.topics, *self.patterns.get(member.pattern or "", ())}

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer, of those that the broker allows now."""
        votes = Counter(
            each.assignor for each in self.members.values() if each.assignor in self.assignors
        )
        best = max(sorted(filter(None, votes)), key=votes.__getitem__, default=None)
        return best or self.assignors[0]

    def used_patterns(self) -> set[str]:
        return {each.pattern for each in self.members.values() if each.pattern}

    # --- classic members --------------------------------------------------------------------

    @property
    def is_all_classic(self) -> bool:
        """Whether it has members, and each uses the classic protocol."""
        return bool(self.members) and all(each.classic for each in self.members.values())

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a classic member may join: a protocol of it is one of every classic member."""
        if protocol_type != CONSUMER:
            return False
        common = {name for name, _ in protocols}
        for each in self.members.values():
            if each.classic:
                common.intersection_update(name for name, _ in each.classic.protocols)
        return bool(common)

    def needs_join(self, member: ConsumerMember) -> bool:
        """Whether a classic member has to send JoinGroup: there is another epoch, it has to say
        what it gave up, or what it waits for is free."""
        if member.epoch < self.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        target = self.targets.get(member.member_id, EMPTY_ASSIGNMENT)
        return all(
            self.owners.get(each) in (None, member.member_id) for each in partitions_of(target)
        )

    # --- members ----------------------------------------------------------------------------

    def add(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        self.empty_since = None
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def remove(self, member: ConsumerMember, now: float) -> Records:
        """Remove a member, which releases its partitions and begins a new epoch."""
        self.hold(member, EMPTY_ASSIGNMENT, EMPTY_ASSIGNMENT)
        del self.members[member.member_id]
        self.targets.pop(member.member_id, None)
        if self.static.get(member.instance_id or "") == member.member_id:
            del self.static[member.instance_id or ""]
        if not self.members:
            self.empty_since = now
        return [*member_tombstones(self.group_id, member.member_id), *self.begin_epoch()]

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> Records:
        """Replace a static member that has restarted; the new member keeps its assignment."""
        new.assigned, new.previous_epoch = old.assigned, LEAVE_STATIC_EPOCH
        new.assignor, new.topics, new.pattern = old.assignor, old.topics, old.pattern
        new.rack_id, new.rebalance_timeout = old.rack_id, old.rebalance_timeout
        new.classic = old.classic
        target = self.targets.pop(old.member_id, EMPTY_ASSIGNMENT)
        del self.members[old.member_id]
        self.hold(old, EMPTY_ASSIGNMENT, EMPTY_ASSIGNMENT)
        self.add(new)
        self.targets[new.member_id] = target
        self.hold(new, new.assigned, EMPTY_ASSIGNMENT)
        return [
            *member_tombstones(self.group_id, old.member_id),
            *target_record(self.group_id, new.member_id, target),
        ]

    def hold(self, member: ConsumerMember, assigned: Assignment, revoking: Assignment) -> None:
        """Change the partitions that a member holds; release the others."""
        for partition in partitions_of(member.held):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]
        member.assigned, member.revoking = assigned, revoking
        for partition in partitions_of(member.held):
            self.owners[partition] = member.member_id

    def move(self, member: ConsumerMember, found: Reconciled) -> Records:
        """Move a member to its next state; no records if that is the current state."""
        if (
            found.epoch == member.epoch
            and found.state is member.state
            and found.assigned == member.assigned
            and found.revoking == member.revoking
        ):
            return []
        self.hold(member, found.assigned, found.revoking)
        member.previous_epoch, member.epoch = member.epoch, found.epoch
        member.state = found.state
        return current_record(self.group_id, member)

    # --- epochs and targets -----------------------------------------------------------------

    def begin_epoch(self) -> Records:
        self.epoch += 1
        return group_record(self.group_id, self.epoch)

    def sees_change(self, topics: SeenTopics) -> bool:
        """Whether the partitions of the members' topics have changed."""
        if topics is self._seen:
            return False
        before = self._counts
        self.count_partitions(topics)
        return self._counts != before

    def is_settled(self, member: ConsumerMember, topics: SeenTopics) -> bool:
        """Whether a member has all of its target, and these topics change nothing."""
        return (
            member.state is MemberState.STABLE
            and member.epoch == self.target_epoch == self.epoch
            and topics is self._seen
            and topics is self.patterns_seen
        )

    def count_partitions(self, topics: SeenTopics) -> None:
        self._seen = topics
        self._counts = {}
        for name in self.topics:
            topic = topics.topics.get(name)
            if topic is not None and topic.topic_id != ZERO_UUID:
                self._counts[topic.topic_id] = len(topic.partitions)

    def assign(self, topics: SeenTopics) -> Records:
        """Compute the target assignment of the current epoch."""
        self.count_partitions(topics)
        subscriptions = {
            each.member_id: frozenset(
                topics.topics[name].topic_id
                for name in self.topics_of(each)
                if name in topics.topics
            )
            for each in self.members.values()
        }
        targets = ASSIGNORS[self.assignor](subscriptions, self._counts, self.targets)
        records: Records = []
        for member_id, target in targets.items():
            if self.targets.get(member_id) != target:
                self.targets[member_id] = target
                records += target_record(self.group_id, member_id, target)
        self.target_epoch = self.epoch
        return [*records, *target_epoch_record(self.group_id, self.epoch)]

    # --- views ------------------------------------------------------------------------------

    def all_records(self) -> Records:
        """Every record of the group, in the order in which Kafka creates a group."""
        records: Records = []
        for member in self.members.values():
            records += member_record(self.group_id, member)
        records += group_record(self.group_id, self.epoch)
        for member_id, target in self.targets.items():
            records += target_record(self.group_id, member_id, target)
        records += target_epoch_record(self.group_id, self.target_epoch)
        for member in self.members.values():
            records += current_record(self.group_id, member)
        return records

    def all_tombstones(self) -> Records:
        """What removes every record of the group."""
        records: Records = []
        for member_id in self.members:
            records += member_tombstones(self.group_id, member_id)
        return [*records, *group_tombstones(self.group_id)]

    def describe(self) -> ConsumerGroupDescription:
        return ConsumerGroupDescription(
            self.group_id,
            self.state,
            self.epoch,
            self.target_epoch,
            self.assignor,
            tuple(
                ConsumerMemberDescription(
                    each.member_id,
                    each.instance_id,
                    each.rack_id,
                    each.epoch,
                    each.client_id,
                    each.client_host,
                    each.topics,
                    each.pattern,
                    each.assigned,
                    self.targets.get(each.member_id, EMPTY_ASSIGNMENT),
                    each.classic is not None,
                )
                for each in self.members.values()
            ),
        )

    @classmethod
    def restore(cls, group_id: str, records: Mapping[bytes, bytes], now: float) -> "ConsumerGroup":
        """Restore a group from its records. Raises CorruptRecordError."""
        stored = StoredConsumerGroup(group_id, records)
        group = cls(group_id, now)
        group.epoch, group.target_epoch = stored.epoch, stored.target_epoch
        group.targets = stored.targets
        group.empty_since = None  # unknown: offsets expire relative to their commit times
        for member in stored.members.values():
            group.add(member)
            group.hold(member, member.assigned, member.revoking)
        return group
