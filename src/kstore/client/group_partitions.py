"""The partitions that a consumer gets from its group, which shares its topics among its members."""

import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

from kstore.client.assignment import AssignedPartition, Assignment
from kstore.client.fetcher import Fetcher
from kstore.client.metadata import MetadataView
from kstore.client.topic_changes import replaced_topics, restart_topic
from kstore.coordinator.group.embedded_member import (
    NOTHING_ASSIGNED,
    EmbeddedMember,
    GroupOwner,
    MemberStatus,
    commit_failed,
)
from kstore.coordinator.group.local_group import local_group
from kstore.coordinator.group.offset_records import OffsetCommit
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.errors import CommitFailedError, GroupConflictError
from kstore.protocol.error_codes import ErrorCode
from kstore.topic_partition import PartitionLike, TopicPartition, as_topic_partition

if TYPE_CHECKING:
    from kstore.coordinator.group.store_group import StoreGroup
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")
_JOIN_SECONDS = 5.0  # how long a poll waits for its own join; it does not wait for other members
_PAUSE = 0.01  # seconds before joining again
_RETRY_SECONDS = 0.02  # between polls, where the join of one has failed

OnPartitions = Callable[[list[TopicPartition]], object]


class RebalanceListener(NamedTuple):
    """The functions that a consumer calls at a rebalance, as Kafka's ConsumerRebalanceListener.

    ``on_lost`` is called instead of ``on_revoke`` if other members may have the partitions already.
    """

    on_assign: OnPartitions | None = None
    on_revoke: OnPartitions | None = None
    on_lost: OnPartitions | None = None


class GroupPartitions:
    """Assigns the partitions that the group gives to this member.

    The caller holds the consumer's lock. The group is coordinated by the broker that serves the
    store, or else by the store's own group of this process. A rebalance takes effect in
    :meth:`follow`: the member gives up all its partitions and joins again. It keeps its position in
    a partition that the next generation gives it again.
    """

    is_member = True

    def __init__(
        self,
        store: "Store",
        group: "StoreGroup",
        assignment: Assignment,
        fetcher: Fetcher,
        topics: Iterable[str],
        *,
        wake: Callable[[], object],
        listener: RebalanceListener,
        max_poll_interval_ms: int,
    ) -> None:
        self._store = store
        self._group = group
        self._assignment = assignment
        self._fetcher = fetcher
        fetcher.is_shared = True
        self._topics = tuple(dict.fromkeys(topics))
        self._wake = wake  # a caller that waits for records
        self._listener = listener
        self._max_poll_interval_ms = max_poll_interval_ms
        self._local = local_group(store, group.name)
        self._key = object()  # of this consumer's claims
        # By topic: the partitions that existed before this consumer read it.
        self._first_seen = {topic: self._present(topic) for topic in self._topics}
        self._seen = dict(self._first_seen)  # at the last join
        self._installed = 0  # joins of the member
        self._current = NOTHING_ASSIGNED
        self._kept: dict[TopicPartition, AssignedPartition] = {}  # given up for a rebalance
        self._revoked: set[TopicPartition] = set()  # assigned earlier, and no longer
        self._has_changed = False  # its subscription, or the partitions of its topics
        self._is_open = False
        self._member = self._new_member()

    def open(self) -> None:
        """Claim the topics' partitions and join.

        Raises GroupConflictError if a consumer of another process, or one with an ``assignment``,
        reads one of them.
        """
        self._local.claim(self._key, self._topic_partitions())
        self._is_open = True
        self._member.owner.add(self._member)
        self._reconcile()

    def _present(self, topic: str) -> frozenset[int]:
        return frozenset(self._store.topic(topic).partitions)

    def _topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, n) for topic, found in self._seen.items() for n in found]

    def _owner(self) -> GroupOwner:
        return self._store._group_owner or self._local

    def _new_member(self) -> EmbeddedMember:
        owner, catalog = self._owner(), self._store._catalog
        return EmbeddedMember(
            owner,
            self._group.name,
            rebalance_timeout_ms=self._max_poll_interval_ms,
            on_change=self._wake,
            partitions=(
                self._local.claimed_partitions
                if owner is self._local
                else lambda topic: sorted(catalog.topics.get(topic, ()))
            ),
        )

    # --- rebalances -------------------------------------------------------------------------

    def follow(self, metadata: MetadataView) -> None:
        """Apply the changes of topics and of the group since the last call."""
        member = self._member
        member.was_polled = True
        if metadata.has_changed():
            self._follow_topics()
        if member.owner is not (self._store._group_owner or self._local):
            self._change_owner()
        elif (
            member.status is MemberStatus.CURRENT
            and self._installed == member.joins
            and not self._has_changed
        ):
            return
        self._reconcile()

    def longest_wait(self) -> float:
        """After how many seconds without an event a poll must call :meth:`follow` again."""
        member, seconds = self._member, self._max_poll_interval_ms / 3000  # it is still polling
        if member.status is MemberStatus.OUT:
            return min(seconds, _RETRY_SECONDS)
        if member.status is MemberStatus.JOINING and member.owner is self._local:
            return min(seconds, self._local.seconds_to_deadline())  # which no timer handles
        return seconds

    def _reconcile(self) -> None:
        """Join if necessary, and take what the group assigns; waits for no other member."""
        member, until, attempts = self._member, monotonic() + _JOIN_SECONDS, 0
        while (status := member.status) is not MemberStatus.CURRENT or self._has_changed:
            if member.failure is not None:
                raise member.failure
            if status is MemberStatus.JOINING:
                member.owner.nudge()
                if member.status is MemberStatus.JOINING:  # it waits for other members
                    return
                continue
            self._give_up()
            if member.has_left or (attempts and monotonic() > until):
                return  # its broker is stopping: a later poll joins at the next owner, or retries
            sleep(_PAUSE if attempts else 0.0)
            attempts += 1
            self._join()
        self._install()

    def _join(self) -> None:
        for topic in self._topics:
            if topic in self._store._catalog.topics:  # of a deleted topic, the next read raises
                self._seen[topic] = self._present(topic)
        for reason in self._local.try_claim(self._key, self._topic_partitions()):
            _LOGGER.warning("a new partition is skipped: %s", reason)
        self._has_changed = False
        # In the subscription, so that a member that sees other partitions starts a rebalance.
        seen = [(topic, *sorted(found)) for topic, found in sorted(self._seen.items())]
        self._member.rejoin(self._topics, repr(seen).encode())
        self._member.wait_for_join(_JOIN_SECONDS)

    def _give_up(self) -> None:
        """Give up all partitions before a rebalance; the caller may commit in ``on_revoke``.

        They are given up even if it fails, as in Kafka's consumer; otherwise every poll would call
        it again, and fail again.
        """
        if not self._assignment:
            return
        before = {tp: self._assignment[tp] for tp in self._assignment}
        try:
            self._call_revoked()
        finally:
            self._kept = {} if self._member.is_lost else before
            self._revoked.update(before)
            self._assignment.replace({})

    def _call_revoked(self) -> None:
        call = self._listener.on_revoke
        if self._member.is_lost:
            call = self._listener.on_lost or call
        if call is not None:
            call(sorted(self._assignment))

    def _install(self) -> None:
        member = self._member
        if self._installed == member.joins:
            return
        before, self._current = self._current, member.assigned
        is_next = before.member_id == self._current.member_id and (
            before.generation + 1 == self._current.generation
        )
        kept = self._kept if is_next else {}
        claimed = self._local.claimed_by(self._key)
        found: dict[TopicPartition, AssignedPartition] = {}
        for tp in self._current.partitions:
            if tp not in claimed:
                _LOGGER.warning(
                    "partition %s-%d is skipped: another consumer of group %s reads it, which is "
                    "not a member of it", *tp, self._group.name,
                )  # fmt: skip
            else:
                found[tp] = kept.get(tp) or self._begin(tp)
        self._installed, self._kept = member.joins, {}
        self._revoked -= found.keys()
        self._assignment.replace(found)
        if self._listener.on_assign is not None:
            self._listener.on_assign(sorted(found))

    def _begin(self, tp: TopicPartition) -> AssignedPartition:
        """A partition at its committed offset, or by ``auto_offset_reset``.

        One that was added later is read from its beginning, as by
        :class:`kstore.client.chosen_partitions.ChosenPartitions`.
        """
        is_added = tp.partition not in self._first_seen.get(tp.topic, ())
        start = self._fetcher.start_of_added(tp) if is_added else None
        return AssignedPartition(self._store._manager.identities.identity_of(tp.topic), start)

    def _follow_topics(self) -> None:
        """Join again if topics have other partitions than at the last join."""
        replaced = replaced_topics(self._store, self._assignment)
        for topic in replaced:
            restart_topic(self._store, self._assignment, topic, self._fetcher.auto_offset_reset)
            self._first_seen[topic] = self._present(topic)
        catalog = self._store._catalog.topics
        present = {topic: frozenset(catalog[topic]) for topic in self._topics if topic in catalog}
        if any(self._seen[topic] != found for topic, found in present.items()):
            self._has_changed = True

    def _change_owner(self) -> None:
        """Join the group of a broker that has begun to serve the store, or of this process."""
        self._member.owner.leave(self._member)
        self._member = self._new_member()
        self._member.is_lost = True  # until it has joined, others may have its partitions
        self._installed = 0
        self._member.owner.add(self._member)

    # --- committed offsets ------------------------------------------------------------------

    def check_source(self, tp: TopicPartition, source: AssignedPartition) -> None:
        """Raise CommitFailedError if a batch's partition was given up since."""
        now = self._assignment.get(tp)
        if now is source:
            return
        if now is None or now.topic_id == source.topic_id:
            is_kept = self._kept.get(tp) is source
            raise self._refusal(ErrorCode.REBALANCE_IN_PROGRESS if is_kept else None, [tp])

    def check_assigned(self, partitions: Iterable[PartitionLike]) -> None:
        """Raise CommitFailedError for a partition that was given up, UnknownTopicOrPartitionError
        for one that the consumer never had."""
        wanted = [as_topic_partition(tp) for tp in partitions]
        revoked = [tp for tp in wanted if tp in self._revoked]
        if revoked:
            is_kept = all(tp in self._kept for tp in revoked)
            raise self._refusal(ErrorCode.REBALANCE_IN_PROGRESS if is_kept else None, revoked)
        self._assignment.known(wanted)

    def _refusal(self, error: ErrorCode | None, partitions: list[TopicPartition]) -> Exception:
        return commit_failed(error or ErrorCode.ILLEGAL_GENERATION, self._group.name, partitions)

    def commit(self, commits: Mapping[tuple[str, int], OffsetCommit], topic_ids: TopicIds) -> None:
        member = self._member
        if member.is_lost:  # its owner, which may be a new one, does not know it
            raise commit_failed(ErrorCode.UNKNOWN_MEMBER_ID, self._group.name, commits)
        try:
            member.owner.commit(self._group, self._current, commits, topic_ids)
        except CommitFailedError:
            raise
        except GroupConflictError as error:  # a broker serves the store now; its group has members
            raise commit_failed(ErrorCode.UNKNOWN_MEMBER_ID, self._group.name, commits) from error

    def check_transaction(self) -> None:
        """Raise CommitFailedError if the member may not commit in a transaction."""
        member = self._member
        if member.is_lost or member.owner is not self._owner():
            raise commit_failed(ErrorCode.UNKNOWN_MEMBER_ID, self._group.name)
        member.owner.check_transaction(self._group.name, self._current)

    # --- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the group; the caller may commit in ``on_revoke``."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._assignment:
                self._call_revoked()
        finally:
            self._member.owner.leave(self._member)
            self._local.release(self._key)

    def abandon(self) -> bool:
        """Leave the group soon; return whether the consumer was open. Waits for no lock."""
        if not self._is_open:
            return False
        self._is_open = False
        self._member.owner.abandon(self._member)
        self._local.release(self._key)
        return True

    def after_fork(self) -> None:
        self._is_open = False
        self._local.after_fork()
