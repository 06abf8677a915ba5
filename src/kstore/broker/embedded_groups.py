"""Connects embedded consumers to the group coordinator of the broker that serves the store.

Embedded consumers and clients of the broker are members of one group, in one generation.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kstore.broker.member_requests import MemberRequests
from kstore.coordinator.group.classic_events import (
    Join,
    JoinAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from kstore.coordinator.group.embedded_member import EmbeddedMember, MemberAssignment, commit_failed
from kstore.coordinator.group.offset_records import OffsetCommit, PartitionKey
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.coordinator.group.store_group import check_topic_ids
from kstore.errors import ClosedError, StorageError
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.group_service import GroupService
    from kstore.broker.loop import Timer
    from kstore.broker.services import Services
    from kstore.coordinator.group.store_group import StoreGroup

_LOGGER = logging.getLogger("kstore.broker")
_SESSION_TIMEOUT_MS = 45_000  # Kafka's session.timeout.ms of a consumer
_HEARTBEAT_SECONDS = 1.0  # at most; also how soon a collected consumer leaves
_RETRY_LIMIT_SECONDS = 30.0  # time limit for retries of a commit
_RETRY_SECONDS = 0.02
_COMMIT_VERSION = 9  # of OffsetCommit: the newest checks
_REFUSED = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    )
)


class EmbeddedGroups:
    """Implements GroupOwner with a broker's coordinator. Thread safe.

    Its context is the event loop's thread, on which the blocking methods must not be called.
    """

    def __init__(self, services: "Services", groups: "GroupService") -> None:
        self._services = services
        self._groups = groups
        self._requests = MemberRequests(groups)
        self._members: dict[EmbeddedMember, float] = {}  # with the time of the last known poll
        self._abandoned: deque[EmbeddedMember] = deque()
        self._is_checking = False
        self._timer: Timer | None = None
        self._closed = threading.Event()
        settings = services.settings
        self.session_timeout_ms = min(
            max(_SESSION_TIMEOUT_MS, settings.group_min_session_timeout_ms),
            settings.group_max_session_timeout_ms,
        )
        self._interval = min(_HEARTBEAT_SECONDS, self.session_timeout_ms / 3000)

    # --- the end of the broker --------------------------------------------------------------

    def leave_all(self) -> None:
        """Let all members leave, since the broker stops. Loop's thread only."""
        for member in list(self._members):
            self._leave(member)

    def close(self) -> None:
        """Call it after the loop has ended. Embedded consumers continue without a broker."""
        self._closed.set()
        if self._services.store._group_owner is self:
            self._services.store._group_owner = None
            self._services.store._manager.changes.nudge()

    # --- members ----------------------------------------------------------------------------

    def submit(self, work: Callable[[], object]) -> None:
        self._services.loop.call_soon_threadsafe(work)

    def nudge(self) -> None:
        """Does nothing: the loop's timers handle deadlines."""

    def add(self, member: EmbeddedMember) -> None:
        self.submit(lambda: self._add(member))

    def _add(self, member: EmbeddedMember) -> None:
        self._members[member] = self._groups.now
        if self._timer is None:
            self._beat()

    def _beat(self) -> None:
        """Keep the members' sessions alive, as a client's heartbeat thread does."""
        self._timer = None
        while self._abandoned:
            self._leave(self._abandoned.popleft())
        now = self._groups.now
        for member, polled_at in list(self._members.items()):
            if member.was_polled:
                member.was_polled = False
                self._members[member] = now
            elif member.member_id and now - polled_at > member.rebalance_timeout_ms / 1000:
                _LOGGER.warning(
                    "an embedded consumer of group %s has not polled for max_poll_interval_ms: it "
                    "leaves the group", member.group_id,
                )  # fmt: skip
                self._send_leave(member)
                member.lose()
        self.check()
        if self._members:
            self._timer = self._services.loop.call_later(self._interval, self._beat)

    def check(self) -> None:
        """Let the members notice rebalances."""
        if self._is_checking:
            return
        self._is_checking = True
        try:
            for member in list(self._members):
                member.check()
        finally:
            self._is_checking = False

    def leave(self, member: EmbeddedMember) -> None:
        done = threading.Event()

        def run() -> None:
            try:
                self._leave(member)
            finally:
                done.set()

        if not self._closed.is_set():
            self.submit(run)
            if not self._services.loop.is_own_thread:
                self._wait(done, None)

    def abandon(self, member: EmbeddedMember) -> None:
        self._abandoned.append(member)  # a finalizer must not wake the loop, whose lock it may hold

    def _leave(self, member: EmbeddedMember) -> None:
        member.end()
        self._members.pop(member, None)
        self._send_leave(member)

    def _send_leave(self, member: EmbeddedMember) -> None:
        if member.member_id and self._groups.check(member.group_id) == ErrorCode.NONE:
            leaving = [LeavingMember(member.member_id)]
            self._requests.leave(member.group_id, leaving, lambda _: None)

    # --- requests, on the loop's thread -----------------------------------------------------

    def join(
        self, request: Join, reply: Callable[[JoinAnswer], object], waiting: Callable[[], object]
    ) -> None:
        def checked(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                error = self._groups.check(request.group_id)
            if error != ErrorCode.NONE:
                reply(JoinAnswer(reply=None, error=error, member_id=request.member_id))
                return
            self._requests.join(request, self._services.metadata.image, reply)
            waiting()  # no effect if the join is already answered

        self._groups.with_topic(checked)

    def sync(self, request: Sync, reply: Callable[[SyncAnswer], object]) -> None:
        error = self._groups.check(request.group_id)
        if error != ErrorCode.NONE:
            reply(SyncAnswer(reply=None, error=error))
        else:
            self._requests.sync(request, self._services.metadata.image, reply)

    def heartbeat(self, group_id: str, member_id: str, generation: int) -> ErrorCode:
        error = self._groups.check(group_id)
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error != ErrorCode.NONE:
            return error
        return self._requests.heartbeat(group_id, member_id, None, generation)

    # --- committed offsets, on other threads ------------------------------------------------

    def commit(
        self,
        group: "StoreGroup",
        assigned: MemberAssignment,
        commits: Mapping[PartitionKey, OffsetCommit],
        topic_ids: TopicIds,
    ) -> None:
        store = self._services.store
        name, deadline = group.name, self._services.loop.time() + _RETRY_LIMIT_SECONDS
        check_topic_ids(store, topic_ids, {topic for topic, _ in commits})
        while True:
            error, refused = self._commit(name, assigned, commits, topic_ids)
            if error == ErrorCode.UNKNOWN_TOPIC_ID or refused:
                check_topic_ids(store, topic_ids, {topic for topic, _ in commits})
            if error == ErrorCode.NONE and not refused:
                return
            if error in _REFUSED:
                raise commit_failed(error, name, commits)
            is_late = self._services.loop.time() > deadline
            if not error.is_retriable or is_late or refused:
                raise StorageError(
                    f"the offsets of group {name!r} were not committed: {error.name}"
                )
            if self._closed.wait(_RETRY_SECONDS):
                raise _stopped(name)

    def _commit(
        self,
        name: str,
        assigned: MemberAssignment,
        commits: Mapping[PartitionKey, OffsetCommit],
        topic_ids: TopicIds,
    ) -> tuple[ErrorCode, frozenset[PartitionKey]]:
        answers: list[tuple[ErrorCode, frozenset[PartitionKey]]] = []
        done = threading.Event()

        def answer(error: ErrorCode, refused: frozenset[PartitionKey]) -> None:
            answers.append((error, refused))
            done.set()

        def run() -> None:
            error = self._check(name, assigned, is_transactional=False)
            if error != ErrorCode.NONE:
                answer(error, frozenset())
            else:
                self._groups.commit(name, commits, answer, topic_ids)

        self.submit(run)
        self._wait(done, name)
        return answers[0]

    def check_transaction(self, group_id: str, assigned: MemberAssignment) -> None:
        errors: list[ErrorCode] = []
        done = threading.Event()

        def run() -> None:
            errors.append(self._check(group_id, assigned, is_transactional=True))
            done.set()

        self.submit(run)
        self._wait(done, group_id)
        if errors[0] != ErrorCode.NONE:
            raise commit_failed(errors[0], group_id)

    def _check(
        self, group_id: str, assigned: MemberAssignment, *, is_transactional: bool
    ) -> ErrorCode:
        error = self._groups.check(group_id)
        if error != ErrorCode.NONE:
            return error
        version = None if is_transactional else _COMMIT_VERSION
        return self._groups.check_commit(
            group_id, assigned.member_id, None, assigned.generation, version
        )

    def _wait(self, done: threading.Event, group_id: str | None) -> None:
        while not done.wait(0.5):
            if self._closed.is_set():
                if group_id is None:
                    return
                raise _stopped(group_id)


def _stopped(group_id: str) -> ClosedError:
    return ClosedError(
        f"the broker that coordinated group {group_id!r} has stopped: poll, and process again the "
        "records that are not committed"
    )
