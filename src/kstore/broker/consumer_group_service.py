"""Carries out what the coordinator of consumer groups (KIP-848) decides.

Its state lives on the loop's thread; records are appended, and patterns matched, on disk workers.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kstore.broker.topic_patterns import match_topics
from kstore.coordinator.group.consumer_coordinator import (
    ConsumerCoordinator,
    ConsumerGroupLimits,
)
from kstore.coordinator.group.consumer_events import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    HeartbeatAnswer,
    Records,
)
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.group_metadata_records import encode_group_key
from kstore.coordinator.group.offset_expiration import RetentionFacts, consumer_retention_facts
from kstore.errors import CorruptRecordError, InvalidConfigError
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.group_service import GroupService
    from kstore.broker.services import Services
    from kstore.cluster.image import ClusterImage
    from kstore.coordinator.group.offsets_store import LoadedPartition

_LOGGER = logging.getLogger("kstore.broker")
_PATTERNS = "patterns of topics"  # the key of their work on the disk workers

OnAnswer = Callable[[HeartbeatAnswer], object]


class ConsumerGroupService:
    """The consumer groups of one broker. Loop's thread only."""

    def __init__(self, services: "Services", groups: "GroupService") -> None:
        self._services = services
        self._groups = groups
        settings = services.settings
        self.heartbeat_interval_ms = settings.group_consumer_heartbeat_interval_ms
        self.coordinator = ConsumerCoordinator(
            ConsumerGroupLimits(
                settings.group_consumer_session_timeout_ms,
                settings.group_consumer_heartbeat_interval_ms,
                settings.group_consumer_max_size,
            )
        )

    # --- the life of groups -----------------------------------------------------------------

    def find(self, group_id: str) -> ConsumerGroup | None:
        return self.coordinator.find(group_id)

    def load(self, loaded: "LoadedPartition") -> None:
        for group_id, records in loaded.consumer_groups.items():
            try:
                self.coordinator.load(group_id, records, self._groups.now)
            except CorruptRecordError as error:
                _LOGGER.warning("group %s begins without members: %s", group_id, error)

    def unload(self, partition: int | None = None) -> None:
        """Forget the groups of a partition, or (None) all."""
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
        """Store what follows from time."""
        for effect in self.coordinator.take_effects():
            self._store(effect.group_id, effect.records, lambda _: None)

    def retention_facts(self, wall_ms: int) -> dict[str, RetentionFacts]:
        now = self._groups.now
        return {
            group.group_id: consumer_retention_facts(group, now, wall_ms)
            for group in self.coordinator
        }

    # --- the other protocol -----------------------------------------------------------------

    def make_room(self, group_id: str) -> ErrorCode:
        """Let a group be a classic one: a consumer group without members makes room."""
        group = self.find(group_id)
        if group is None:
            return ErrorCode.NONE
        if group.members:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        self._store(group_id, self.coordinator.forget(group_id), lambda _: None)
        self._groups.coordinator.ensure(group_id, self._groups.now)
        return ErrorCode.NONE

    def _take_over(self, request: ConsumerHeartbeat) -> HeartbeatAnswer | None:
        """Let a group be a consumer group: a classic one without members makes room."""
        classic = self._groups.coordinator.find(request.group_id)
        if classic is None:
            return None
        if request.member_epoch != JOIN_EPOCH or not classic.is_unused:
            return HeartbeatAnswer(
                error=ErrorCode.GROUP_ID_NOT_FOUND,
                message=f"Group {request.group_id} is not a consumer group.",
                records=[],
            )
        self._groups.coordinator.forget(request.group_id, self._groups.now)
        if classic.protocol_type is not None:
            tombstone: Records = [(encode_group_key(request.group_id), None)]
            self._store(request.group_id, tombstone, lambda _: None)
        return None

    # --- ConsumerGroupHeartbeat -------------------------------------------------------------

    def heartbeat(self, request: ConsumerHeartbeat, image: "ClusterImage", done: OnAnswer) -> None:
        """``done`` with the answer when what it depends on is stored."""
        refused = self._take_over(request)
        if refused is not None:
            done(refused)
            return
        patterns = self.coordinator.patterns_to_match(request, image)
        if not patterns:
            self._heartbeat(request, image, done)
            return

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
                self.coordinator.take_matches(request.group_id, found, image)
                self._heartbeat(request, image, done, found)

        names = tuple(image.topics)
        self._services.workers.submit(_PATTERNS, lambda: match_topics(patterns, names), matched)

    def _heartbeat(
        self,
        request: ConsumerHeartbeat,
        image: "ClusterImage",
        done: OnAnswer,
        matches: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        answer = self.coordinator.heartbeat(request, image, self._groups.now, matches)
        self._groups.carry_out()
        if not answer.records:
            done(answer)
            return

        def stored(error: ErrorCode) -> None:
            done(answer if error == ErrorCode.NONE else HeartbeatAnswer(error=error, records=[]))

        self._store(request.group_id, answer.records, stored)

    def _store(self, group_id: str, records: Records, done: Callable[[ErrorCode], object]) -> None:
        def stored(error: ErrorCode) -> None:
            if error != ErrorCode.NONE:
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
        """Whether a group may be deleted; None: it is no consumer group."""
        group = self.find(group_id)
        if group is None:
            return None
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def check_delete_offsets(self, group_id: str, topic: str) -> ErrorCode | None:
        """Whether offsets of a topic may be deleted; None: it is no consumer group."""
        group = self.find(group_id)
        if group is None:
            return None
        is_used = topic in group.topics
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE
