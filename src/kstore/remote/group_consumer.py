"""Reads the partitions that a consumer group of a cluster assigns."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from kstore.errors import KStoreError, OffsetOutOfRangeError
from kstore.integers import count_of
from kstore.remote.client_assignors import RANGE
from kstore.remote.consumer import RemoteBatch, RemoteConsumer
from kstore.remote.consumer_membership import ConsumerMembership
from kstore.remote.groups import committed_offsets
from kstore.remote.membership import Membership
from kstore.remote.offsets import list_offsets
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.remote.store import RemoteStore

OnPartitions = Callable[[Sequence[TopicPartition]], object]
_LATEST, _EARLIEST = -1, -2
_METRICS = "coordinator-metrics"
_COMMIT_INTERVAL = 5.0  # seconds, Kafka's auto.commit.interval.ms
_METADATA_AGE = 300.0  # seconds, Kafka's metadata.max.age.ms
_IDLE = 0.1  # seconds between checks of a member without partitions


class GroupConsumer:
    """A group member that reads its assigned partitions. For one thread.

    Reading of a partition begins at its committed offset; without one, or if the log no longer has
    that offset, ``auto_offset_reset`` decides. Offsets passed to :meth:`commit` are sent to the
    coordinator every five seconds, before a rebalance and in :meth:`close`. If a partition moves to
    another member, that member reads uncommitted records again.

    Parameters
    ----------
    topics
        Returns the topics to subscribe to; called at every rebalance, and every five minutes.
    auto_offset_reset
        ``"earliest"``, ``"latest"``, or ``"none"``, which raises a KStoreError.
    group_protocol
        ``"classic"``, with a :class:`Membership` of ``session_timeout_ms``,
        ``heartbeat_interval_ms`` and ``assignors``, or ``"consumer"`` (KIP-848), with a
        :class:`ConsumerMembership` of ``remote_assignor``.
    rebalance_timeout_ms
        How long a rebalance waits for this member, Kafka's ``max.poll.interval.ms``.
    on_assigned, on_revoked
        Called with the partitions that a rebalance assigned, and with those that the member gives
        up in one and in :meth:`close`; as in Kafka, ``on_revoked`` not if there are none.
    """

    def __init__(
        self,
        store: "RemoteStore",
        group: str,
        topics: Callable[[], Sequence[str]],
        auto_offset_reset: str,
        isolation_level: str,
        *,
        group_protocol: str = "classic",
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        rebalance_timeout_ms: int = 300_000,
        group_instance_id: str | None = None,
        assignors: Sequence[str] = (RANGE,),
        remote_assignor: str | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
    ) -> None:
        self._store = store
        self._topics = topics
        self._reset = auto_offset_reset
        self._isolation_level = isolation_level
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._membership: Membership | ConsumerMembership
        if group_protocol == "consumer":
            self._membership = ConsumerMembership(
                store.cluster,
                group,
                rebalance_timeout_ms=rebalance_timeout_ms,
                group_instance_id=group_instance_id,
                assignor=remote_assignor,
            )
        else:
            self._membership = Membership(
                store.cluster,
                group,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                group_instance_id=group_instance_id,
                assignors=assignors,
            )
        self._reader: RemoteConsumer | None = None
        self._pending: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()
        self._seen: dict[str, int] = {}  # partition counts of the topics at the last join
        self._seen_at = 0.0
        self.assignment: tuple[TopicPartition, ...] = ()
        self.joining_time = 0.0  # total seconds spent in joining and rebalances

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is pending and leave the group. Without effect in a forked child."""
        if self._store.cluster.is_forked:
            return
        try:
            self._commit_pending()
            self._revoke(self.assignment)
        finally:
            self._membership.leave()

    # --- reading ----------------------------------------------------------------------------

    def batches(self, timeout: float) -> Iterator[RemoteBatch]:
        """Yield batches of records until none arrives for ``timeout`` seconds or a rebalance
        begins."""
        until = time.monotonic() + timeout
        self._keep()
        if self._reader is None or not self.assignment:
            time.sleep(max(0.0, min(_IDLE, until - time.monotonic())))
            return
        reader = self._reader
        for batch in reader.batches(timeout):
            yield batch
            if time.monotonic() - self._committed_at >= _COMMIT_INTERVAL:
                self._commit_pending()
            if not self._membership.is_current():
                return

    def _keep(self) -> None:
        """Send heartbeats, commit when due, and rejoin if the group requires it."""
        now = time.monotonic()
        if now - self._committed_at >= _COMMIT_INTERVAL:
            self._commit_pending()
        if self._reader is not None and now - self._seen_at >= _METADATA_AGE:
            if self._partition_counts() != self._seen:
                self._membership.rejoin_soon()
            self._seen_at = now
        if not self._membership.is_current():
            self._commit_pending()
            if not self._membership.keeps_partitions:
                self._revoke(self.assignment)
            self._seen, self._seen_at = self._partition_counts(), now
            assigned = self._membership.join(self._seen, self.assignment)
            if self._membership.has_lost:
                self._membership.has_lost = False
                self._revoke(self.assignment)
            joining = time.monotonic() - now
            self.joining_time += joining
            metrics = self._store.cluster.metrics
            metrics.add("rebalance", 1, group=_METRICS)
            metrics.add("rebalance-latency", joining * 1000, group=_METRICS)
            metrics.measure("rebalance-latency", joining * 1000, group=_METRICS)
            self._take(assigned)

    def _take(self, assigned: tuple[TopicPartition, ...]) -> None:
        """Give up what is not assigned any more, and read the rest with what is new."""
        revoked = [tp for tp in self.assignment if tp not in assigned]
        added = tuple(tp for tp in assigned if tp not in self.assignment)
        self._revoke(revoked)
        self._reader = self._read(assigned, added)
        self.assignment = assigned
        if self._on_assigned is not None:
            self._on_assigned(added)
        self._membership.take(assigned, revoked)

    def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions and self._on_revoked is not None:
            self._on_revoked(partitions)
        self.assignment = tuple(tp for tp in self.assignment if tp not in partitions)

    def _partition_counts(self) -> dict[str, int]:
        found = self._store.cluster.metadata(self._topics())
        return {name: len(entry.partitions) for name, entry in found.items()}

    def _read(
        self, assignment: Sequence[TopicPartition], added: Sequence[TopicPartition]
    ) -> RemoteConsumer:
        """A reader of all partitions, which continues with those that were not added."""
        reader = self._store.consumer(
            assignment=assignment,
            auto_offset_reset=self._reset,
            isolation_level=self._isolation_level,
        )
        kept = [tp for tp in assignment if tp not in added]
        for tp in kept:
            if self._reader is not None:
                reader.seek(tp, self._reader.position(tp))
        if not added:
            return reader
        cluster = self._store.cluster
        committed = committed_offsets(cluster, self._membership.group, added, require_stable=True)
        starts = list_offsets(cluster, committed, _EARLIEST)
        ends = list_offsets(cluster, committed, _LATEST)
        if self._reset == "none" and (missing := [tp for tp in added if tp not in committed]):
            raise KStoreError(
                f"group {self._membership.group} has no committed offset of "
                f"{missing[0].topic}-{missing[0].partition}, and no offset reset policy"
            )
        for tp, found in committed.items():
            if starts.get(tp, 0) <= found.offset <= ends.get(tp, found.offset):
                reader.seek(tp, found.offset)
            elif self._reset == "none":
                raise OffsetOutOfRangeError(
                    f"the committed offset {found.offset} of {tp.topic}-{tp.partition} is outside "
                    "the log, and there is no offset reset policy",
                    offset=found.offset,
                )
            else:
                warnings.warn(
                    f"the committed offset {found.offset} of {tp.topic}-{tp.partition} is outside "
                    f"the log; reading begins at the {self._reset} offset",
                    UserWarning,
                    stacklevel=2,
                )
        return reader

    # --- committing -------------------------------------------------------------------------

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Queue offsets to commit, each the offset of the next record to read."""
        self._pending |= {TopicPartition(*tp): offset for tp, offset in offsets.items()}

    def commit_sync(self, offsets: Mapping[tuple[str, int], int]) -> bool:
        """Commit offsets now; False if a rebalance has begun a newer generation."""
        return self._membership.commit(
            {TopicPartition(*tp): offset for tp, offset in offsets.items()}
        )

    def _commit_pending(self) -> None:
        self._committed_at = time.monotonic()
        pending, self._pending = self._pending, {}
        owned = {tp: offset for tp, offset in pending.items() if tp in set(self.assignment)}
        if owned and not self._membership.commit(owned):
            warnings.warn(
                f"the group {self._membership.group} rebalanced before "
                f"the commit of {count_of(len(owned), 'offset')}; their records are read again",
                UserWarning,
                stacklevel=2,
            )
