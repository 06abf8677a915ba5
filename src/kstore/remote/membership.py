"""A member of a consumer group of a cluster, by Kafka's classic protocol."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from kstore.coordinator.group.subscription import CONSUMER, assignment_of
from kstore.errors import KStoreError, SourceError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kstore.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kstore.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kstore.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kstore.remote import client_assignors
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.coordinators import GROUP, ask_coordinator
from kstore.remote.groups import assigned_partitions, commit_offsets
from kstore.remote.membership_counts import MembershipCounts
from kstore.topic_partition import TopicPartition

_PAUSE = 0.1  # seconds between attempts to join
_PATIENCE = 2  # rebalances, each of its timeout, that other members may begin meanwhile
# Codes after which a member rejoins, and the code after which it needs a new member id.
_REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
_FORGOTTEN = ErrorCode.UNKNOWN_MEMBER_ID


class Membership:
    """Joins a group, stays in it and leaves it. For one thread.

    :meth:`is_current` sends the heartbeats; a reader must call it every few seconds. If it returns
    False, the reader calls :meth:`join` again; before that it gives up its partitions unless the
    member ``keeps_partitions``, and afterwards calls :meth:`take`.

    Parameters
    ----------
    session_timeout_ms
        How long the coordinator waits for a heartbeat before it removes the member.
    rebalance_timeout_ms
        How long a rebalance waits for this member to rejoin.
    group_instance_id
        Makes it a static member (KIP-345), which keeps its partitions while it restarts: ``leave``
        sends nothing.
    assignors
        Names of :mod:`~kstore.remote.client_assignors`; the group uses one that all members have.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        *,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        group_instance_id: str | None = None,
        assignors: Sequence[str] = (client_assignors.RANGE,),
    ) -> None:
        self.group = group
        self.group_instance_id = group_instance_id
        self.member_id = ""
        self.generation = -1
        self.has_lost = (
            False  # its partitions, while it tried to keep them; for the reader to reset
        )
        self._assignors = tuple(assignors)
        self._is_cooperative = set(assignors) == {client_assignors.COOPERATIVE}
        self._had: tuple[TopicPartition, ...] = ()  # for sticky assignors
        self._cluster = cluster
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._interval = heartbeat_interval_ms / 1000
        self._next_heartbeat = 0.0
        self._is_current = False
        self._counts = MembershipCounts(cluster.metrics)

    @property
    def keeps_partitions(self) -> bool:
        """Whether the partitions stay this member's while it rejoins."""
        return self._is_cooperative and bool(self.member_id) and self.generation >= 0

    # --- joining ----------------------------------------------------------------------------

    def join(
        self, topics: Iterable[str], owned: Iterable[TopicPartition] = ()
    ) -> tuple[TopicPartition, ...]:
        """Join the group, or rejoin after a rebalance, and return the assigned partitions.

        ``owned`` are those that a member that keeps partitions reads. Waits for the other members.
        Raises KStoreError with Kafka's code if the coordinator rejects the member, such as
        INCONSISTENT_GROUP_PROTOCOL if the members have no common assignor, and
        REBALANCE_IN_PROGRESS if the group does not end its rebalances within twice their timeout.
        """
        subscribed = list(topics)
        if self._is_cooperative:
            self._had = tuple(owned)
        deadline = time.monotonic() + _PATIENCE * self._rebalance_timeout_ms / 1000
        while True:
            joined = self._join(subscribed)
            assignment = None if joined is None else self._sync(joined)
            if assignment is not None:
                self._is_current = True
                self._next_heartbeat = time.monotonic() + self._interval
                self._had = assigned_partitions(assignment)
                return self._had
            if time.monotonic() > deadline:
                about = f"group {self.group} has no assignment for this member"
                raise_for(ErrorCode.REBALANCE_IN_PROGRESS, None, about)

    def _join(self, topics: list[str]) -> JoinGroupResponse | None:
        """Attempt to join once; None: retry."""
        subscription = client_assignors.subscription_of
        protocols = [
            JoinGroupRequest.Protocols(name, subscription(name, topics, self._had, self.generation))
            for name in self._assignors
        ]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=CONSUMER,
            protocols=protocols,
        )
        began = time.monotonic()
        answer = ask_coordinator(
            self._cluster,
            self.group,
            request,
            JoinGroupResponse,
            code_of=lambda answer: answer.error_code,
            timeout=self._rebalance_timeout_ms / 1000,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if self._lost(answer.error_code):
            time.sleep(_PAUSE)
            return None
        raise_for(answer.error_code, None, f"group {self.group}")
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self._counts.succeeded("join", "join-time", began)
        return answer

    def _sync(self, joined: JoinGroupResponse) -> bytes | None:
        """Get this member's assignment; the leader computes all. None: rejoin."""
        assignments = []
        if joined.leader == self.member_id:
            assignments = self._assign(joined)
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=joined.protocol_type or CONSUMER,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        began = time.monotonic()
        answer = ask_coordinator(
            self._cluster,
            self.group,
            request,
            SyncGroupResponse,
            code_of=lambda answer: answer.error_code,
            timeout=self._rebalance_timeout_ms / 1000,
        )
        if self._lost(answer.error_code):
            return None
        raise_for(answer.error_code, None, f"group {self.group}")
        self._counts.succeeded("sync", "sync-time", began)
        return answer.assignment

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.Assignments]:
        topics = client_assignors.topics_of(joined.members)
        numbers = {
            name: range(len(entry.partitions))
            for name, entry in self._cluster.metadata(topics).items()
            if not entry.error_code
        }
        assignor = joined.protocol_name or self._assignors[0]
        found = client_assignors.assign(assignor, joined.members, numbers)
        return [
            SyncGroupRequest.Assignments(member, assignment_of(partitions))
            for member, partitions in found.items()
        ]

    def _lost(self, code: int) -> bool:
        """Whether this error ends the membership in this generation."""
        if code == _FORGOTTEN:
            self.member_id = ""
        if code in (_FORGOTTEN, ErrorCode.ILLEGAL_GENERATION):
            self.generation, self.has_lost = -1, True
            if self._is_cooperative:
                self._had = ()
        if code == _FORGOTTEN or code in _REJOIN:
            self._is_current = False
            return True
        return False

    # --- as a member ------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Whether the assignment is still valid; sends a heartbeat if one is due."""
        if self._is_current and time.monotonic() >= self._next_heartbeat:
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.group_instance_id,
            )
            began = time.monotonic()
            answer = ask_coordinator(
                self._cluster,
                self.group,
                request,
                HeartbeatResponse,
                code_of=lambda answer: answer.error_code,
            )
            self._counts.heartbeat(began)
            if not self._lost(answer.error_code):
                raise_for(answer.error_code, None, f"group {self.group}")
            self._next_heartbeat = time.monotonic() + self._interval
        return self._is_current

    def take(self, owned: Iterable[TopicPartition], revoked: Iterable[TopicPartition]) -> None:
        """Rejoin if this member has given up partitions, so that others get them."""
        del owned
        if self._is_cooperative and any(True for _ in revoked):
            self._is_current = False

    def rejoin_soon(self) -> None:
        """Rejoin at the next opportunity, because the subscription changed."""
        self._is_current = False

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets in this generation; False if a newer generation has begun."""
        began = time.monotonic()
        try:
            commit_offsets(
                self._cluster,
                self.group,
                offsets,
                member_id=self.member_id,
                generation=self.generation,
                group_instance_id=self.group_instance_id,
            )
        except KStoreError as error:
            if self._lost(error.code):
                return False
            raise
        self._counts.succeeded("commit", "commit-latency", began)
        return True

    def leave(self) -> None:
        """Leave the group, so that other members take over immediately. Idempotent.

        Not in a forked child: the membership is its parent's.
        """
        if not self.member_id or self._cluster.is_forked:
            return
        member_id, self.member_id, self._is_current = self.member_id, "", False
        if self.group_instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=member_id,
            members=[LeaveGroupRequest.Members(member_id, None, "the consumer is being closed")],
        )
        node = self._cluster.coordinators.get((GROUP, self.group))
        # Not retried: the coordinator expires a member without heartbeats.
        with suppress(SourceError):
            self._cluster.ask(request, LeaveGroupResponse, node=node)
