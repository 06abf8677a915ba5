"""A group of the consumers of one process, which share its claims and, without a broker, its
partitions."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from kstore.coordinator.group.classic_coordinator import ClassicCoordinator, GroupLimits
from kstore.coordinator.group.classic_events import (
    Join,
    JoinAnswer,
    LeavingMember,
    StoreGroupMetadata,
    Sync,
    SyncAnswer,
)
from kstore.coordinator.group.embedded_member import EmbeddedMember, MemberAssignment, commit_failed
from kstore.coordinator.group.offset_records import OffsetCommit, PartitionKey
from kstore.coordinator.group.partition_claims import Claims
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.coordinator.group.store_group import live_log_dirs
from kstore.errors import GroupConflictError
from kstore.integers import INT32_MAX
from kstore.protocol.error_codes import ErrorCode
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.store.store import Store


class LocalGroup:
    """A group of one store. Implements GroupOwner with the coordinator of a broker's groups.

    Its lock is the coordinator's context. Thread safe. Other processes are excluded: while
    consumers subscribe to a topic, the group has claims on all its partitions.
    """

    session_timeout_ms = INT32_MAX  # a consumer cannot die without its process

    def __init__(self, store: "Store", name: str) -> None:
        self.name = name
        self._lock = Lock()
        self._claims = Claims(store._files, live_log_dirs(store), name)
        self._claimed_for: dict[object, frozenset[TopicPartition]] = {}
        self._coordinator = ClassicCoordinator(GroupLimits(0, INT32_MAX, 0))
        self._members: list[EmbeddedMember] = []
        self._departed: deque[object] = deque()  # members, and consumers that were collected

    # --- claims -----------------------------------------------------------------------------

    def claim(self, consumer: object, partitions: Iterable[TopicPartition]) -> None:
        """Claim all these partitions for a consumer, and release its others.

        GroupConflictError if another process, or a consumer with an ``assignment``, has one; then
        nothing has changed.
        """
        wanted = frozenset(partitions)
        with self._lock:
            self._forget_departed()
            held = self._held()
            taken: list[TopicPartition] = []
            try:
                for tp in sorted(wanted - held):
                    self._claims.take(tp)
                    taken.append(tp)
            except BaseException:
                for tp in taken:
                    self._claims.release(tp)
                raise
            self._claimed_for[consumer] = wanted
            self._release_unused(held)
        self._tidy()

    def try_claim(self, consumer: object, partitions: Iterable[TopicPartition]) -> list[str]:
        """Like ``claim``, but skip partitions that others have; returns the reason for each."""
        wanted = frozenset(partitions)
        had = self.claimed_by(consumer) & wanted
        failures: list[str] = []
        for tp in sorted(wanted - had):
            try:
                self.claim(consumer, had | {tp})
                had |= {tp}
            except GroupConflictError as error:
                failures.append(str(error))
        self.claim(consumer, had)
        return failures

    def claimed_by(self, consumer: object) -> frozenset[TopicPartition]:
        return self._claimed_for.get(consumer, frozenset())

    def claimed_partitions(self, topic: str) -> Sequence[int]:
        """The partitions of a topic that this process may read. Called in the group's context."""
        return sorted({tp.partition for tp in self._held() if tp.topic == topic})

    def _held(self) -> set[TopicPartition]:
        return {tp for each in self._claimed_for.values() for tp in each}

    def _release_unused(self, before: set[TopicPartition]) -> None:
        for tp in before - self._held():
            self._claims.release(tp)

    def release(self, consumer: object) -> None:
        """Soon release the claims of a consumer that no other consumer needs. The caller may hold
        any lock."""
        self._departed.append(consumer)
        self._tidy()

    def after_fork(self) -> None:
        """In a forked child: the claims are shared with the parent and must not outlive it."""
        self._claims.release_all()

    # --- the coordinator's context ----------------------------------------------------------

    def submit(self, work: Callable[[], object]) -> None:
        with self._lock:
            self._forget_departed()
            work()
            self._carry_out()
        self._tidy()

    def seconds_to_deadline(self) -> float:
        """When :meth:`nudge` is due next, for a member that waits."""
        with self._lock:
            deadline = self._coordinator.next_deadline
        self._tidy()
        return inf if deadline is None else max(0.0, deadline - monotonic())

    def nudge(self) -> None:
        self.submit(bool)

    def _tidy(self) -> None:
        """Forget collected consumers, unless a thread (this one, in a finalizer) has the lock: that
        thread does it when it has released the lock."""
        while self._departed and self._lock.acquire(blocking=False):
            try:
                self._forget_departed()
                self._carry_out()
            finally:
                self._lock.release()

    def _forget_departed(self) -> None:
        while self._departed:
            departed = self._departed.popleft()
            if isinstance(departed, EmbeddedMember):
                self._leave(departed)
            else:
                before = self._held()
                self._claimed_for.pop(departed, None)
                self._release_unused(before)

    def _carry_out(self) -> None:
        while True:
            for member in self._members:
                member.check()  # a heartbeat before the deadlines, since these members are alive
            self._coordinator.advance(monotonic())
            effects = self._coordinator.take_effects()
            if not effects:
                return
            for effect in effects:
                if isinstance(effect, StoreGroupMetadata):
                    self._coordinator.stored(effect.ticket, ErrorCode.NONE, monotonic())
                elif callable(effect.reply):
                    effect.reply(effect)

    # --- members ----------------------------------------------------------------------------

    def add(self, member: EmbeddedMember) -> None:
        with self._lock:
            self._members.append(member)

    def join(
        self, request: Join, reply: Callable[[JoinAnswer], object], waiting: Callable[[], object]
    ) -> None:
        self._coordinator.join(request, monotonic())
        waiting()  # if not answered when ``submit`` returns

    def sync(self, request: Sync, reply: Callable[[SyncAnswer], object]) -> None:
        self._coordinator.sync(request, monotonic())

    def heartbeat(self, group_id: str, member_id: str, generation: int) -> ErrorCode:
        return self._coordinator.heartbeat(group_id, member_id, None, generation, monotonic())

    def leave(self, member: EmbeddedMember) -> None:
        self.abandon(member)

    def abandon(self, member: EmbeddedMember) -> None:
        self._departed.append(member)
        self._tidy()

    def _leave(self, member: EmbeddedMember) -> None:
        member.end()
        if member in self._members:
            self._members.remove(member)
        if member.member_id:
            leaving = [LeavingMember(member.member_id)]
            self._coordinator.leave(self.name, leaving, monotonic())

    # --- committed offsets ------------------------------------------------------------------

    def commit(
        self,
        group: "StoreGroup",
        assigned: MemberAssignment,
        commits: Mapping[PartitionKey, OffsetCommit],
        topic_ids: TopicIds,
    ) -> None:
        with self._lock:  # no generation begins between the check and the commit
            self._check(assigned, is_transactional=False)
            group.commit(commits, topic_ids)
        self._tidy()

    def check_transaction(self, group_id: str, assigned: MemberAssignment) -> None:
        with self._lock:
            self._check(assigned, is_transactional=True)
        self._tidy()

    def _check(self, assigned: MemberAssignment, *, is_transactional: bool) -> None:
        error = self._coordinator.check_commit(
            self.name,
            assigned.member_id,
            None,
            assigned.generation,
            monotonic(),
            is_transactional=is_transactional,
        )
        if error != ErrorCode.NONE:
            raise commit_failed(error, self.name)


def local_group(store: "Store", name: str) -> LocalGroup:
    """The group of this name in this process; it exists as long as a consumer refers to it."""
    with store._lock:
        group = store._local_groups.get(name)
        if group is None:
            group = store._local_groups[name] = LocalGroup(store, name)
        return group
