"""A member of a consumer group of a cluster, by the protocol of KIP-848."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from kstore.errors import KStoreError, SourceError
from kstore.kafka_uuid import random_uuid
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.coordinators import GROUP, ask_coordinator
from kstore.remote.groups import by_topic, commit_offsets
from kstore.remote.membership_counts import MembershipCounts
from kstore.topic_partition import TopicPartition

_PAUSE = 0.1  # seconds between attempts to join
_ATTEMPTS = 5  # of a commit, whose epoch the coordinator may raise meanwhile
_LEAVES, _LEAVES_FOR_A_WHILE = -1, -2  # epochs; the second is that of a static member
# Codes after which a member gives up its partitions and joins again.
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_Assigned = Sequence[ConsumerGroupHeartbeatResponse.Assignment.TopicPartitions]


class ConsumerMembership:
    """Joins a group, stays in it and leaves it; the coordinator assigns. For one thread.

    :meth:`is_current` sends the heartbeats; a reader must call it every few seconds. If it returns
    False, :meth:`join` returns other partitions: the reader gives up those that it lost, begins
    with the new ones, and calls :meth:`take`, so that other members can get what it gave up.

    Parameters
    ----------
    rebalance_timeout_ms
        How long the coordinator waits until this member has given up partitions.
    group_instance_id
        Makes it a static member, which keeps its partitions while it restarts.
    assignor
        The coordinator's assignor; None: the one that the coordinator prefers.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        *,
        rebalance_timeout_ms: int = 300_000,
        group_instance_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.group = group
        self.group_instance_id = group_instance_id
        self.member_id = random_uuid()
        self.epoch = 0
        self.has_lost = (
            False  # its partitions, while it tried to keep them; for the reader to reset
        )
        self._cluster = cluster
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._assignor = assignor
        self._next_heartbeat = 0.0
        self._subscribed: list[str] = []
        self._assigned: _Assigned | None = None
        self._target: tuple[TopicPartition, ...] = ()
        self._owned: tuple[TopicPartition, ...] | None = None  # None: not a member yet
        self._ids: dict[str, bytes] = {}
        self._counts = MembershipCounts(cluster.metrics)

    @property
    def keeps_partitions(self) -> bool:
        """Whether the partitions stay this member's while it rejoins."""
        return self.epoch > 0

    # --- joining ----------------------------------------------------------------------------

    def join(
        self, topics: Iterable[str], owned: Iterable[TopicPartition] = ()
    ) -> tuple[TopicPartition, ...]:
        """Join the group if it is not a member, and return the partitions to take.

        Raises KStoreError with Kafka's code if the coordinator rejects the member, such as
        UNSUPPORTED_ASSIGNOR, or UNSUPPORTED_VERSION if it has no KIP-848.
        """
        del owned  # the coordinator knows
        subscribed = sorted(topics)
        is_changed, self._subscribed = subscribed != self._subscribed, subscribed
        deadline = time.monotonic() + self._rebalance_timeout_ms / 1000
        while self.epoch <= 0:
            self._beat(
                self._request(
                    rebalance_timeout_ms=self._rebalance_timeout_ms,
                    subscribed_topic_names=subscribed,
                    server_assignor=self._assignor,
                    topic_partitions=[],
                )
            )
            is_changed = False
            if self.epoch <= 0:
                if time.monotonic() > deadline:
                    raise_for(ErrorCode.UNKNOWN_MEMBER_ID, None, f"group {self.group}")
                time.sleep(_PAUSE)
        if is_changed:
            self._beat(self._request(subscribed_topic_names=subscribed))
        return self._target

    def take(self, owned: Iterable[TopicPartition], revoked: Iterable[TopicPartition]) -> None:
        """Report to the coordinator what this member reads from now on."""
        del revoked
        self._owned = tuple(owned)
        partitions = [
            ConsumerGroupHeartbeatRequest.TopicPartitions(self._ids[topic], numbers)
            for topic, numbers in by_topic(self._owned).items()
        ]
        self._beat(
            self._request(
                rebalance_timeout_ms=self._rebalance_timeout_ms, topic_partitions=partitions
            )
        )

    def rejoin_soon(self) -> None:
        """Do nothing: the coordinator notices changes of the topics itself."""

    # --- as a member ------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Whether the assignment is still valid; sends a heartbeat if one is due."""
        if self._owned is None:
            return False
        if time.monotonic() >= self._next_heartbeat:
            self._resolve()  # topics whose ids were unknown
            self._beat(self._request())
        return self._owned == self._target

    def _request(
        self,
        *,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None,
    ) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat; fields that are None have not changed."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.group_instance_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=subscribed_topic_names,
            server_assignor=server_assignor,
            topic_partitions=topic_partitions,
        )

    def _beat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        began = time.monotonic()
        answer = ask_coordinator(
            self._cluster,
            self.group,
            request,
            ConsumerGroupHeartbeatResponse,
            code_of=lambda answer: answer.error_code,
        )
        self._counts.heartbeat(began)
        if answer.error_code in _LOST:
            self._lose()
            return
        raise_for(answer.error_code, answer.error_message, f"group {self.group}")
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self._next_heartbeat = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._assigned = answer.assignment.topic_partitions
            self._resolve()

    def _lose(self) -> None:
        """Forget the membership; the member id stays."""
        self.epoch, self.has_lost = 0, True
        self._owned = self._assigned = None
        self._target = ()

    def _resolve(self) -> None:
        """Find the names of the topics that are assigned by their ids."""
        if self._assigned is None:
            return
        known = {topic_id: name for name, topic_id in self._ids.items()}
        if not {each.topic_id for each in self._assigned} <= known.keys():
            found = self._cluster.metadata(self._subscribed)
            self._ids |= {name: entry.topic_id for name, entry in found.items()}
            known = {topic_id: name for name, topic_id in self._ids.items()}
        resolved = [each for each in self._assigned if each.topic_id in known]
        self._target = tuple(
            sorted(
                TopicPartition(known[each.topic_id], number)
                for each in resolved
                for number in each.partitions
            )
        )
        if len(resolved) == len(self._assigned):
            self._assigned = None

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets; False if the coordinator has removed this member."""
        began = time.monotonic()
        if self.epoch <= 0:
            return False
        for attempt in range(_ATTEMPTS):
            try:
                commit_offsets(
                    self._cluster,
                    self.group,
                    offsets,
                    member_id=self.member_id,
                    generation=self.epoch,
                    group_instance_id=self.group_instance_id,
                )
                break
            except KStoreError as error:
                if error.code in _LOST:
                    self._lose()
                    return False
                if error.code != ErrorCode.STALE_MEMBER_EPOCH or attempt == _ATTEMPTS - 1:
                    raise
            self._beat(self._request())  # its answer has the epoch
            if self.epoch <= 0:
                return False
        self._counts.succeeded("commit", "commit-latency", began)
        return True

    def leave(self) -> None:
        """Leave the group, so that other members take over immediately; a static member leaves its
        partitions to its next start. Idempotent.

        Not in a forked child: the membership is its parent's.
        """
        if self.epoch <= 0 or self._cluster.is_forked:
            return
        self.epoch = _LEAVES if self.group_instance_id is None else _LEAVES_FOR_A_WHILE
        node = self._cluster.coordinators.get((GROUP, self.group))
        # Not retried: the coordinator expires a member without heartbeats.
        with suppress(SourceError):
            self._cluster.ask(self._request(), ConsumerGroupHeartbeatResponse, node=node)
