"""A member of a consumer group, and its reconciliation with the target assignment (KIP-848).

The rules are those of Kafka's CurrentAssignmentBuilder: a member first revokes partitions that are
not in its target, and gets a partition only once no other member holds it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf

from kstore.coordinator.group.consumer_events import Assignment, ClassicMetadata
from kstore.lazy_dataclass import lazy_dataclass

EMPTY_ASSIGNMENT: Assignment = {}


class MemberState(IntEnum):
    """The states of a member, with the numbers in Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """One member; timeouts in seconds. Only its group changes it.

    ``assigned`` are the partitions that it may read, ``revoking`` those whose revocation it has not
    confirmed. ``deadline`` and ``timer_at`` are those of a classic member; ``revocation_ends`` is
    the deadline for the revocation. ``classic`` is None for a member that sends heartbeats of
    KIP-848; ``classic_step_ends`` is when a classic one has to have sent the JoinGroup or SyncGroup
    that it owes. The coordinator checks these two at ``revocation_timer_at`` and
    ``classic_timer_at``.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: float = 300.0
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)
    deadline: float = 0.0
    timer_at: float = inf
    revocation_ends: float = inf
    revocation_timer_at: float = inf
    classic: ClassicMetadata | None = None
    classic_step_ends: float = inf
    classic_timer_at: float = inf

    @property
    def held(self) -> Assignment:
        """The partitions that the member holds, so that no other may get them."""
        return union(self.assigned, self.revoking)


@lazy_dataclass(frozen=True)
class Reconciled:
    """The next state of a member."""

    epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


def reconcile(
    member: ConsumerMember,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[bytes, int], bool],
) -> Reconciled:
    """The next state of a member that reports these owned partitions (None: no report)."""
    same = Reconciled(member.epoch, member.state, member.assigned, member.revoking)
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return same
    if member.state is MemberState.UNREVOKED_PARTITIONS and (
        owned is None or overlaps(owned, member.revoking)
    ):
        return same
    kept = intersection(member.assigned, target)
    revoked = difference(member.assigned, target)
    if revoked and (owned is None or overlaps(owned, revoked)):
        return Reconciled(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    wanted = difference(target, kept)
    free = {
        topic_id: frozenset(each for each in partitions if is_free(topic_id, each))
        for topic_id, partitions in wanted.items()
    }
    has_all = all(free[topic_id] == partitions for topic_id, partitions in wanted.items())
    state = MemberState.STABLE if has_all else MemberState.UNRELEASED_PARTITIONS
    return Reconciled(target_epoch, state, union(kept, without_empty(free)), {})


# --- sets of partitions -------------------------------------------------------------------------


def without_empty(some: Assignment) -> Assignment:
    return {topic_id: partitions for topic_id, partitions in some.items() if partitions}


def intersection(some: Assignment, others: Assignment) -> Assignment:
    return without_empty(
        {topic_id: found & others.get(topic_id, frozenset()) for topic_id, found in some.items()}
    )


def difference(some: Assignment, others: Assignment) -> Assignment:
    return without_empty(
        {topic_id: found - others.get(topic_id, frozenset()) for topic_id, found in some.items()}
    )


def union(some: Assignment, others: Assignment) -> Assignment:
    if not others:
        return some
    merged = dict(some)
    for topic_id, partitions in others.items():
        merged[topic_id] = merged.get(topic_id, frozenset()) | partitions
    return merged


def overlaps(some: Assignment, others: Assignment) -> bool:
    return any(
        not partitions.isdisjoint(others.get(topic_id, ())) for topic_id, partitions in some.items()
    )


def is_subset(some: Assignment, others: Assignment) -> bool:
    return all(
        partitions <= others.get(topic_id, frozenset()) for topic_id, partitions in some.items()
    )


def partitions_of(assignment: Assignment) -> Iterator[tuple[bytes, int]]:
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition
