"""Executes the decisions of the consumer group coordinator (KIP-848).

The coordinator's state belongs to the event loop's thread; disk workers append the records and
match the topic patterns.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kstore.broker.topic_patterns import match_topics
from kstore.clock import now_ms
from kstore.cluster.settings.group_settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from kstore.coordinator.group.classic_events import (
    Join,
    JoinAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from kstore.coordinator.group.classic_records import (
    encode_group_key,
    encode_group_value,
)
from kstore.coordinator.group.classic_requests import ClassicRequests
from kstore.coordinator.group.consumer_coordinator import (
    ConsumerCoordinator,
    ConsumerGroupLimits,
)
from kstore.coordinator.group.consumer_events import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    HeartbeatAnswer,
    PlainHeartbeat,
    Records,
)
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.group_migration import (
    CannotUpgradeError,
    MigrationPolicy,
    can_downgrade,
    downgraded,
    upgraded,
)
from kstore.coordinator.group.offset_expiration import RetentionFacts, consumer_retention_facts
from kstore.coordinator.group.server_assignors import assignors_of
from kstore.errors import CorruptRecordError, InvalidConfigError
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.group_service import GroupService
    from kstore.broker.services import Services
    from kstore.cluster.image import ClusterImage
    from kstore.coordinator.group.offsets_store import LoadedPartition

_LOGGER = logging.getLogger("kstore.broker")
_PATTERNS = "patterns of topics"  # the disk workers' key for pattern matching

OnAnswer = Callable[[HeartbeatAnswer], object]
MayDescribe = Callable[[str], bool]  # a topic, by its name
OnJoined = Callable[[JoinAnswer], object]
OnLeft = Callable[[list[ErrorCode]], object]


class ConsumerGroupService:
    """The consumer groups of one broker. Loop's thread only."""

    def __init__(self, services: "Services", groups: "GroupService") -> None:
        self._services = services
        self._groups = groups
        settings = services.settings
        self.coordinator = ConsumerCoordinator(
            ConsumerGroupLimits(
                settings.group_consumer_session_timeout_ms,
                settings.group_consumer_heartbeat_interval_ms,
                settings.group_consumer_max_size,
                assignors_of(settings.group_consumer_assignors),
            ),
            session_timeout_ms=self._session_timeout_ms,
        )
        self._classic = ClassicRequests(self.coordinator)
        self._policy = MigrationPolicy(settings.group_consumer_migration_policy.lower())
        self._acls = None if services.acls is None else services.acls.acls

    # --- settings of a group ----------------------------------------------------------------

    def heartbeat_interval_ms(self, group_id: str) -> int:
        own = self._services.metadata.image.group_config.get(group_id, {})
        of_broker = self._services.settings.group_consumer_heartbeat_interval_ms
        return int(own.get(HEARTBEAT_INTERVAL, of_broker))

    def _session_timeout_ms(self, group_id: str) -> int:
        own = self._services.metadata.image.group_config.get(group_id, {})
        of_broker = self._services.settings.group_consumer_session_timeout_ms
        return int(own.get(SESSION_TIMEOUT, of_broker))

    # --- group lifecycle ------------------------------------------------------------------

    def find(self, group_id: str) -> ConsumerGroup | None:
        return self.coordinator.find(group_id)

    def count_by_state(self) -> Counter[str]:
        """How many groups are in each state, by Kafka's names. From any thread."""
        return Counter(group.state for group in self.coordinator)

    def load(self, loaded: "LoadedPartition") -> None:
        for group_id, records in loaded.consumer_groups.items():
            try:
                self.coordinator.load(group_id, records, self._groups.now)
            except CorruptRecordError as error:
                _LOGGER.warning("group %s starts without members: %s", group_id, error)

    def unload(self, partition: int | None = None) -> None:
        """Unload the groups of a partition; of all partitions if None."""
        for group in self.coordinator:
            if partition is None or self._groups.partition_of(group.group_id) == partition:
                self.coordinator.forget(group.group_id)

    def forget(self, group_id: str) -> None:
        self.coordinator.forget(group_id)

    def is_empty(self, group_id: str) -> bool:
        """Whether it is a consumer group without members."""
        group = self.find(group_id)
        return group is not None and not group.members

    @property
    def next_deadline(self) -> float | None:
        return self.coordinator.next_deadline

    def advance(self, now: float) -> None:
        self.coordinator.advance(now)

    def carry_out(self) -> None:
        """Append the records of timeouts that have expired."""
        by_group: dict[str, Records] = {}
        for effect in self.coordinator.take_effects():
            by_group.setdefault(effect.group_id, []).extend(effect.records)
        for group_id, records in self._downgrade().items():
            by_group.setdefault(group_id, []).extend(records)
        for group_id, records in by_group.items():
            self._store(group_id, records, lambda _: None)

    def retention_facts(self, wall_ms: int) -> dict[str, RetentionFacts]:
        now = self._groups.now
        return {
            group.group_id: consumer_retention_facts(group, now, wall_ms)
            for group in self.coordinator
        }

    # --- protocol conversion ----------------------------------------------------------------

    def convert_to_classic(self, group_id: str) -> None:
        """Convert a consumer group without members to a classic group."""
        if self.find(group_id) is not None:
            self._store(group_id, self.coordinator.forget(group_id), lambda _: None)
            self._groups.coordinator.ensure(group_id, self._groups.now)

    def _convert_to_consumer(
        self, request: ConsumerHeartbeat, image: "ClusterImage"
    ) -> HeartbeatAnswer | None:
        """Let a group be a consumer group: a classic one without members makes room, and one with
        members is upgraded. The answer, if it stays a classic one."""
        group_id, now = request.group_id, self._groups.now
        classic = self._groups.coordinator.find(group_id)
        if classic is None:
            return None
        if request.member_epoch != JOIN_EPOCH:
            return _not_found(f"Group {group_id} is not a consumer group.")
        refused = self.coordinator.refuse(request)
        if refused is not None:
            return refused
        records: Records = []
        if classic.protocol_type is not None:
            records.append((encode_group_key(group_id), None))
        if classic.is_unused:
            self._groups.coordinator.forget(group_id, now)
        else:
            most = self._services.settings.group_consumer_max_size
            try:
                group = upgraded(classic, self._policy, most, image, now)
            except CannotUpgradeError as error:
                _LOGGER.info("%s", error)
                return _not_found(str(error))
            _LOGGER.info("group %s is a consumer group from now on", group_id)
            # Those who wait join again, and find the consumer group.
            self._groups.coordinator.unload([group_id], ErrorCode.REBALANCE_IN_PROGRESS, now)
            self.coordinator.adopt(group, now)
            records += group.all_records()
        self._store(group_id, records, lambda _: None)
        return None

    def _downgrade(self) -> dict[str, Records]:
        """Make classic groups of those that have lost their last member of this protocol; the
        records of that."""
        records: dict[str, Records] = {}
        image, now = self._services.metadata.image, self._groups.now
        most = self._services.settings.group_max_size
        for group in self.coordinator.take_shrunk():
            if can_downgrade(group, self._policy, most):
                _LOGGER.info("group %s is a classic group from now on", group.group_id)
                self.coordinator.forget(group.group_id)
                classic = downgraded(group, image, now)
                value = encode_group_value(classic.snapshot(now), now_ms())
                records[group.group_id] = [
                    *group.all_tombstones(),
                    (encode_group_key(group.group_id), value),
                ]
                self._groups.coordinator.adopt(classic, now)
        return records

    # --- classic members of consumer groups -------------------------------------------------

    def shared(self, group_id: str) -> ConsumerGroup | None:
        """A consumer group that has members; requests of classic members to it come here."""
        group = self.find(group_id)
        return group if group is not None and group.members else None

    def join_classic(
        self, group: ConsumerGroup, request: Join, image: "ClusterImage", done: OnJoined
    ) -> None:
        """``done`` with the answer when what it depends on is stored."""
        settings = self._services.settings
        shortest = settings.group_min_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= settings.group_max_session_timeout_ms:
            invalid = ErrorCode.INVALID_SESSION_TIMEOUT
            done(JoinAnswer(reply=None, error=invalid, member_id=request.member_id))
            return
        answer, records = self._classic.join(group, request, image, self._groups.now)

        def stored(error: ErrorCode) -> None:
            if error != ErrorCode.NONE:
                done(JoinAnswer(reply=None, error=error, member_id=request.member_id))
            else:
                done(answer)

        self._store_with_downgrade(group.group_id, records, stored)

    def sync_classic(
        self, group: ConsumerGroup, request: Sync, image: "ClusterImage"
    ) -> SyncAnswer:
        answer = self._classic.sync(group, request, image, self._groups.now)
        self._groups.carry_out()
        return answer

    def heartbeat_classic(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        now = self._groups.now
        error = self._classic.heartbeat(group, member_id, instance_id, generation, now)
        self._groups.carry_out()
        return error

    def leave_classic(
        self, group: ConsumerGroup, leaving: list[LeavingMember], done: OnLeft
    ) -> None:
        """``done`` with an error for each member when that is stored."""
        errors, records = self._classic.leave(group, leaving, self._groups.now)

        def stored(error: ErrorCode) -> None:
            done(errors if error == ErrorCode.NONE else [error for _ in errors])

        self._store_with_downgrade(group.group_id, records, stored)

    def _store_with_downgrade(
        self, group_id: str, records: Records, done: Callable[[ErrorCode], object]
    ) -> None:
        """Store records of a group, with those of its downgrade if that follows, as one batch."""
        downgrades = self._downgrade()
        self._store(group_id, [*records, *downgrades.pop(group_id, [])], done)
        for other, of_other in downgrades.items():
            self._store(other, of_other, lambda _: None)
        self._groups.carry_out()

    # --- ConsumerGroupHeartbeat -------------------------------------------------------------

    def renew(self, beat: PlainHeartbeat, image: "ClusterImage") -> bool:
        """Renew a session, where that is all; False: :meth:`heartbeat` has to answer."""
        self._notice_acls()
        return self.coordinator.renew(beat, image, self._groups.now)

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        image: "ClusterImage",
        done: OnAnswer,
        may_describe: MayDescribe | None,
    ) -> None:
        """``done`` with the answer when what it depends on is stored.

        A pattern matches only topics that the client may describe; None: all. As in Kafka, the
        member whose heartbeat comes first decides for all members with that pattern. The first
        heartbeat after a change of ACLs matches again; Kafka 4.1 does so within
        ``group.consumer.regex.refresh.interval.ms``, 10 minutes.
        """
        self._notice_acls()
        patterns = self.coordinator.patterns_to_match(request, image)
        if not patterns:
            self._heartbeat(request, image, done)
            return
        acls = self._acls

        def matched(
            found: Mapping[str, frozenset[str]] | None, error: BaseException | None
        ) -> None:
            if isinstance(error, InvalidConfigError):
                code = ErrorCode.INVALID_REGULAR_EXPRESSION
                done(HeartbeatAnswer(error=code, message=str(error), records=[]))
            elif found is None:
                _LOGGER.warning("patterns of group %s: %s", request.group_id, error)
                done(HeartbeatAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, records=[]))
            else:
                self._heartbeat(request, image, done, found)
                if self._acls is not acls:  # another heartbeat has noticed the change meanwhile
                    self.coordinator.forget_matches()

        names = tuple(image.topics)
        self._services.workers.submit(
            _PATTERNS, lambda: _matches(patterns, names, may_describe), matched
        )

    def _notice_acls(self) -> None:
        """Let patterns be matched again if ACLs have changed: a change makes another set."""
        acls = self._services.acls
        if acls is not None and acls.acls is not self._acls:
            self._acls = acls.acls
            self.coordinator.forget_matches()

    def _heartbeat(
        self,
        request: ConsumerHeartbeat,
        image: "ClusterImage",
        done: OnAnswer,
        matches: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        refused = self._convert_to_consumer(request, image)
        if refused is not None:
            self._groups.carry_out()
            done(refused)
            return
        if matches is not None:
            self.coordinator.take_matches(request.group_id, matches, image)
            self._groups.carry_out()
        answer = self.coordinator.heartbeat(request, image, self._groups.now, matches)
        if request.member_epoch == JOIN_EPOCH:
            self._groups.tell_consumers()

        def stored(error: ErrorCode) -> None:
            done(answer if error == ErrorCode.NONE else HeartbeatAnswer(error=error, records=[]))

        self._store_with_downgrade(request.group_id, answer.records, stored)

    def _store(self, group_id: str, records: Records, done: Callable[[ErrorCode], object]) -> None:
        def stored(error: ErrorCode) -> None:
            if error == ErrorCode.REQUEST_TIMED_OUT:  # the log may yet have the records
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif error != ErrorCode.NONE:
                _LOGGER.warning("records of group %s were not stored: %s", group_id, error.name)
                if self._groups.partition_count:
                    self._groups.reload(self._groups.partition_of(group_id))
            done(error)

        if records:
            self._groups.store_records(group_id, records, stored)
        else:
            done(ErrorCode.NONE)

    # --- administration ---------------------------------------------------------------------

    def check_delete(self, group_id: str) -> ErrorCode | None:
        """Whether a group may be deleted; None if it is not a consumer group."""
        group = self.find(group_id)
        if group is None:
            return None
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def check_delete_offsets(self, group_id: str, topic: str) -> ErrorCode | None:
        """Whether a topic's offsets may be deleted; None if the group is not a consumer group."""
        group = self.find(group_id)
        if group is None:
            return None
        is_used = topic in group.topics
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE


def _matches(
    patterns: set[str], names: tuple[str, ...], may_describe: MayDescribe | None
) -> Mapping[str, frozenset[str]]:
    found = match_topics(patterns, names)
    if may_describe is None:
        return found
    return {each: frozenset(filter(may_describe, topics)) for each, topics in found.items()}


def _not_found(message: str) -> HeartbeatAnswer:
    return HeartbeatAnswer(error=ErrorCode.GROUP_ID_NOT_FOUND, message=message, records=[])
