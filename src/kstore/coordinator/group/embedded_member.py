"""A consumer of this process as a member of its group, by Kafka's classic protocol without sockets.

The member runs in the context of its owner: the store's own group, or a broker that serves the
store. It leads the group if it is elected, and then assigns the partitions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kstore.coordinator.group import range_assignor, roundrobin_assignor
from kstore.coordinator.group.classic_events import NO_MEMBER, Join, JoinAnswer, Sync, SyncAnswer
from kstore.coordinator.group.offset_records import OffsetCommit, PartitionKey
from kstore.coordinator.group.range_assignor import Subscriber
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.coordinator.group.subscription import (
    CONSUMER,
    assignment_of,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from kstore.errors import CommitFailedError, GroupConflictError, InvalidMessageError, KStoreError
from kstore.protocol.error_codes import ErrorCode
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup

CLIENT_ID = "kstore-embedded"
CLIENT_HOST = "/127.0.0.1"  # as Kafka shows the address of a member on the broker's machine

Partitions = Callable[[str], Sequence[int]]  # the partitions of a topic to assign
_LOST = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))
# By preference: most clients have range by default, aiokafka has roundrobin only.
_ASSIGNORS = {
    range_assignor.NAME: range_assignor.assign,
    roundrobin_assignor.NAME: roundrobin_assignor.assign,
}
_RETRIABLE = _LOST | {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class MemberStatus(Enum):
    OUT = "out"  # it must join, or join again
    JOINING = "joining"
    CURRENT = "current"  # it has the assignment of the current generation


class MemberAssignment(NamedTuple):
    """The partitions that a member got in one generation."""

    member_id: str
    generation: int
    partitions: tuple[TopicPartition, ...]


NOTHING_ASSIGNED = MemberAssignment(NO_MEMBER, -1, ())


class GroupOwner(Protocol):
    """Coordinates a group for the embedded members of one process."""

    session_timeout_ms: int

    def submit(self, work: Callable[[], object]) -> None:
        """Run ``work()`` in the owner's context, now or soon. Any thread."""

    def nudge(self) -> None:
        """Handle expired deadlines, for which a member may be waiting. Any thread."""

    def join(
        self, request: Join, reply: Callable[[JoinAnswer], object], waiting: Callable[[], object]
    ) -> None:
        """Join; calls ``waiting`` if the answer depends on other members. This method and the next
        two are called in the owner's context."""

    def sync(self, request: Sync, reply: Callable[[SyncAnswer], object]) -> None: ...
    def heartbeat(self, group_id: str, member_id: str, generation: int) -> ErrorCode: ...

    def add(self, member: "EmbeddedMember") -> None:
        """Keep a member's session until it leaves. Any thread."""

    def leave(self, member: "EmbeddedMember") -> None:
        """Remove a member from its group; on return others can get its partitions. Any thread."""

    def abandon(self, member: "EmbeddedMember") -> None:
        """Soon remove a member whose consumer was garbage-collected. Any thread, which may hold any
        lock."""

    def commit(
        self,
        group: "StoreGroup",
        assigned: MemberAssignment,
        commits: Mapping[PartitionKey, OffsetCommit],
        topic_ids: TopicIds,
    ) -> None:
        """Commit for a member with this assignment; blocks. Raises CommitFailedError."""

    def check_transaction(self, group_id: str, assigned: MemberAssignment) -> None:
        """Raise CommitFailedError if a member may not commit in a transaction; blocks."""


class EmbeddedMember:
    """One member. Its owner's context changes it; other threads read ``status`` and ``assigned``.

    Parameters
    ----------
    rebalance_timeout_ms
        As in JoinGroup: the consumer's max.poll.interval.ms.
    on_change
        Called when its status may have changed, by a thread that may hold any lock.
    partitions
        The partitions of a topic, for when this member leads its group.
    """

    def __init__(
        self,
        owner: GroupOwner,
        group_id: str,
        *,
        rebalance_timeout_ms: int,
        partitions: Partitions,
        on_change: Callable[[], object] = bool,
    ) -> None:
        self.owner = owner
        self.group_id = group_id
        self.status = MemberStatus.OUT
        self.assigned = NOTHING_ASSIGNED
        self.joins = 0  # assignments so far
        self.is_lost = False  # others may have had its partitions since
        self.failure: KStoreError | None = None
        self.was_polled = True  # set by its consumer, reset by its owner
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self._partitions = partitions
        self._on_change = on_change
        self._member_id = NO_MEMBER
        self._generation = -1
        self._attempt = 0
        self._has_left = False
        self._is_answered = False
        self._subscription = b""
        # Reentrant, unlike an Event: a finalizer may interrupt the thread that uses it.
        self._join_signals: SimpleQueue[None] = SimpleQueue()

    # --- on its consumer's thread -----------------------------------------------------------

    def rejoin(self, topics: Iterable[str], user_data: bytes) -> None:
        """Join, or join again; the member has given up its partitions."""
        self._subscription = encode_subscription(topics, user_data)
        self.is_lost = False
        self.status = MemberStatus.JOINING
        while not self._join_signals.empty():
            self._take_signal(0.0)
        self.owner.submit(self._join)

    def wait_for_join(self, seconds: float) -> None:
        """Wait up to ``seconds`` until the join has ended, or must wait for other members."""
        if self.status is MemberStatus.JOINING:
            self._take_signal(seconds)

    def _take_signal(self, seconds: float) -> None:
        signals = self._join_signals
        try:
            signals.get(timeout=seconds) if seconds > 0 else signals.get_nowait()
        except Empty:
            return

    # --- in its owner's context -------------------------------------------------------------

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def has_left(self) -> bool:
        return self._has_left

    @property
    def protocols(self) -> tuple[tuple[str, bytes], ...]:
        return tuple((name, self._subscription) for name in _ASSIGNORS)

    def _join(self) -> None:
        if self._has_left:
            self._end(None)
            return
        self._attempt += 1
        self._is_answered = False
        self.status = MemberStatus.JOINING
        request = Join(
            group_id=self.group_id,
            member_id=self._member_id,
            client_id=CLIENT_ID,
            client_host=CLIENT_HOST,
            session_timeout_ms=self.owner.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            needs_member_id=False,
            can_skip_assignment=False,
            skips_initial_delay=True,
            reply=partial(self._joined, self._attempt),
        )
        self.owner.join(request, partial(self._joined, self._attempt), self._waits_for_others)

    def _joined(self, attempt: int, answer: JoinAnswer) -> None:
        if attempt != self._attempt:
            return
        self._is_answered = True
        if self._has_left:
            if answer.error == ErrorCode.NONE:
                self._member_id = answer.member_id
                self.owner.leave(self)
            return
        if answer.error != ErrorCode.NONE:
            self._fail(answer.error)
            return
        self._member_id, self._generation = answer.member_id, answer.generation
        try:
            assignments = self._assign(answer) if answer.leader == answer.member_id else {}
        except InvalidMessageError as error:
            self._end(KStoreError(f"a subscription of group {self.group_id!r} is invalid: {error}"))
            return
        self.owner.sync(
            Sync(
                group_id=self.group_id,
                generation=answer.generation,
                member_id=answer.member_id,
                protocol_type=CONSUMER,
                protocol=answer.protocol,
                assignments=assignments,
                reply=partial(self._synced, attempt),
            ),
            partial(self._synced, attempt),
        )
        if answer.leader != answer.member_id:
            self._signal()  # it waits for the leader

    def _assign(self, answer: JoinAnswer) -> dict[str, bytes]:
        subscribers = [
            Subscriber(
                each.member_id,
                each.instance_id,
                tuple(decode_subscription(each.metadata).topics),
            )
            for each in answer.members
        ]
        topics = {topic for each in subscribers for topic in each.topics}
        assign = _ASSIGNORS[answer.protocol or range_assignor.NAME]
        found = assign(subscribers, {each: self._partitions(each) for each in topics})
        return {member: assignment_of(partitions) for member, partitions in found.items()}

    def _synced(self, attempt: int, answer: SyncAnswer) -> None:
        if attempt != self._attempt or self._has_left:
            return
        if answer.error != ErrorCode.NONE:
            self._fail(answer.error)
            return
        try:
            found = decode_assignment(answer.assignment).assigned_partitions
        except InvalidMessageError as error:
            self._end(KStoreError(f"an assignment of group {self.group_id!r} is invalid: {error}"))
            return
        partitions = [TopicPartition(each.topic, n) for each in found for n in each.partitions]
        self.assigned = MemberAssignment(
            self._member_id, self._generation, tuple(sorted(partitions))
        )
        self.joins += 1
        self.status = MemberStatus.CURRENT
        self._signal()

    def _fail(self, error: ErrorCode) -> None:
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = NO_MEMBER
        self._end(None if error in _RETRIABLE else _refused(error, self.group_id))

    def _end(self, failure: KStoreError | None) -> None:
        self.failure = failure
        self.status = MemberStatus.OUT
        self._signal()

    def _waits_for_others(self) -> None:
        if not self._is_answered:
            self._signal()

    def _signal(self) -> None:
        self._join_signals.put(None)
        self._on_change()

    def check(self) -> None:
        """Send a heartbeat, and notice a rebalance."""
        if self.status is MemberStatus.JOINING or not self._member_id or self._has_left:
            return
        error = self.owner.heartbeat(self.group_id, self._member_id, self._generation)
        if error in _LOST:
            # After ILLEGAL_GENERATION the group still has the member, which joins again by its id
            # (Kafka's AbstractCoordinator): as a new member it would wait for itself.
            self.lose(self._member_id if error == ErrorCode.ILLEGAL_GENERATION else NO_MEMBER)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.status = MemberStatus.OUT
            self._on_change()

    def lose(self, member_id: str = NO_MEMBER) -> None:
        """Record that others may have its partitions; it joins again as ``member_id``."""
        self.is_lost = True
        self._member_id = member_id
        self.status = MemberStatus.OUT
        self._on_change()

    def end(self) -> None:
        """Record that it leaves; it does not join again."""
        self._has_left = True
        if self.status is MemberStatus.JOINING:  # a stopping broker does not answer the join
            self._end(None)


def _refused(error: ErrorCode, group_id: str) -> KStoreError:
    """The error of a member that cannot join, however often it tries."""
    what = {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
            "its members have no assignor in common with an embedded consumer, which has 'range' "
            "and 'roundrobin': let them support one of these (partition.assignment.strategy)"
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: "it has group.max.size members already",
    }.get(error, error.message)
    refused = GroupConflictError(f"a consumer cannot join group {group_id!r}: {what}")
    refused.code = int(error)
    return refused


def commit_failed(
    error: ErrorCode, group_id: str, partitions: Iterable[PartitionKey] = ()
) -> CommitFailedError:
    """The error for offsets that a member may not commit."""
    of = ", ".join(f"{topic}-{partition}" for topic, partition in partitions)
    if error == ErrorCode.REBALANCE_IN_PROGRESS:
        why = "a rebalance is in progress: poll, then commit the partitions that are still assigned"
    else:
        why = (
            "a rebalance has taken partitions from this consumer, since another one has joined, or "
            "since this one did not poll for max_poll_interval_ms. The member that has them now "
            "reads these records again; the next poll continues with what is assigned here"
        )
    failed = CommitFailedError(
        f"nothing is committed for group {group_id!r}{f' ({of})' if of else ''}: {why}"
    )
    failed.code = int(error)
    return failed
