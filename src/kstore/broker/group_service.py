"""Carries out what the group coordinator decides: timers, records, answers.

The coordinator's state belongs to the event loop's thread; disk workers read and append the
records, in order for each partition of ``__consumer_offsets``.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.broker.consumer_group_service import ConsumerGroupService
from kstore.broker.embedded_groups import EmbeddedGroups
from kstore.broker.handlers.controller_work import METADATA_KEY
from kstore.broker.offsets_appends import OffsetsAppends
from kstore.broker.partitions import error_code_of
from kstore.clock import now_ms
from kstore.coordinator.group.classic_coordinator import ClassicCoordinator, GroupLimits
from kstore.coordinator.group.classic_events import StoreGroupMetadata
from kstore.coordinator.group.consumer_events import Records
from kstore.coordinator.group.offset_expiration import (
    Retention,
    RetentionFacts,
    retention_facts,
)
from kstore.coordinator.group.offset_records import Commits, OffsetCommit, PartitionKey
from kstore.coordinator.group.offsets_store import (
    Appended,
    LoadedPartition,
    OffsetsStore,
)
from kstore.coordinator.group.offsets_table import OFFSETS_PROPERTIES, OFFSETS_TOPIC
from kstore.coordinator.group.reader_offsets_file import TopicIds
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.fields import partition_for_name

if TYPE_CHECKING:
    from kstore.broker.loop import Timer
    from kstore.broker.services import Services

_LOGGER = logging.getLogger("kstore.broker")
_RETRY_SECONDS = 5.0  # delay before loading a failed partition again

# The error code that a client gets for an append error (Kafka's GroupMetadataManager).
_COMMIT_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
_GROUP_ERRORS = {
    **_COMMIT_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

OnCommitted = Callable[[ErrorCode, frozenset[PartitionKey]], object]
OnDeleted = Callable[[ErrorCode], object]
OnFetched = Callable[[ErrorCode, Commits, set[PartitionKey]], object]


def group_service(services: "Services") -> "GroupService":
    """The broker's group service; the first call creates it."""
    if services.groups is None:
        services.groups = GroupService(services)
    return services.groups


class GroupService:
    """The groups of one broker. Loop's thread only."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        settings = services.settings
        self.coordinator = ClassicCoordinator(
            GroupLimits(
                settings.group_min_session_timeout_ms,
                settings.group_max_session_timeout_ms,
                settings.group_initial_rebalance_delay_ms,
                settings.group_max_size,
            )
        )
        self._offsets = OffsetsStore(services.store)
        self.consumers = ConsumerGroupService(services, self)
        self._appends = OffsetsAppends(services)
        self._loaded: dict[int, ErrorCode] = {}  # by partition: NONE if loaded, otherwise the error
        self._topic_id: bytes | None = None
        self._timer: Timer | None = None
        self._load_waiters: list[Callable[[], object]] = []
        self._topic_waiters: list[Callable[[ErrorCode], object]] = []
        self.embedded = EmbeddedGroups(services, self)
        services.store._has_group_members = self.has_members
        services.loop.call_soon(self._start)
        services.loop.call_soon(self._expire_later)

    def _start(self) -> None:
        """Load the partitions that have records, so that members need not wait later."""
        if self.partition_count:
            self._services.workers.submit(OFFSETS_TOPIC, self._offsets.filled, self._filled)

    def _filled(self, partitions: list[int] | None, error: BaseException | None) -> None:
        if partitions is None:
            _LOGGER.warning("%s cannot be listed: %s", OFFSETS_TOPIC, error)
        else:
            self._take_filled(partitions)

    def _take_filled(self, partitions: Collection[int]) -> None:
        """Load the partitions that have records; mark the empty ones as loaded."""
        for partition in range(self.partition_count):
            if partition in partitions:
                self._load(partition)
            else:
                self._loaded.setdefault(partition, ErrorCode.NONE)

    @property
    def now(self) -> float:
        return self._services.loop.time()

    # --- partitions and their loading -------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of partitions of ``__consumer_offsets``; 0 while it does not exist."""
        topic = self._services.metadata.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            self._unload()
            return 0
        if topic.topic_id != self._topic_id:
            self._unload()
            self._topic_id = topic.topic_id
        return len(topic.partitions)

    def _unload(self) -> None:
        """Unload all groups, since the topic was deleted."""
        self._topic_id = None
        if self._loaded:
            self._loaded.clear()
            groups = [group.group_id for group in self.coordinator]
            self.coordinator.unload(groups, ErrorCode.NOT_COORDINATOR, self.now)
            self.consumers.unload()
            self.carry_out()
            self._end_load_waits()

    def reload(self, partition: int) -> None:
        """Reload a partition after a failed append, so that memory matches the log."""
        if self._loaded.pop(partition, None) is not None:
            groups = [each.group_id for each in self.coordinator]
            lost = [each for each in groups if self.partition_of(each) == partition]
            self.coordinator.unload(lost, ErrorCode.NOT_COORDINATOR, self.now)
            self.consumers.unload(partition)
            self._load(partition)
            self.carry_out()

    def partition_of(self, group_id: str) -> int:
        return partition_for_name(group_id, self.partition_count)

    def check(self, group_id: str, *, allows_empty: bool = False) -> ErrorCode:
        """NONE if this broker coordinates a group now; otherwise INVALID_GROUP_ID, NOT_COORDINATOR,
        or the state of loading."""
        if not group_id and not allows_empty:
            return ErrorCode.INVALID_GROUP_ID
        count = self.partition_count
        if not count:
            return ErrorCode.NOT_COORDINATOR
        partition = partition_for_name(group_id, count)
        state = self._loaded.get(partition)
        if state is None:
            self._load(partition)
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return state

    @property
    def is_loading(self) -> bool:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in self._loaded.values()

    def _load(self, partition: int) -> None:
        if partition in self._loaded:
            return
        self._loaded[partition] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        topic_id = self._topic_id
        self._submit(
            partition,
            partial(self._offsets.load, partition),
            partial(self._load_ended, partition, topic_id),
        )

    def _load_ended(
        self,
        partition: int,
        topic_id: bytes | None,
        loaded: LoadedPartition | None,
        error: BaseException | None,
    ) -> None:
        if topic_id != self._topic_id:
            return
        if loaded is None:
            _LOGGER.warning("%s-%d cannot be loaded: %s", OFFSETS_TOPIC, partition, error)
            self._loaded[partition] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._services.loop.call_later(_RETRY_SECONDS, self._retry, partition)
        else:
            self._loaded[partition] = ErrorCode.NONE
            self._take_groups(loaded)
        if not self.is_loading:
            self._end_load_waits()

    def _end_load_waits(self) -> None:
        waiters, self._load_waiters = self._load_waiters, []
        for then in waiters:
            then()

    def _take_groups(self, loaded: LoadedPartition) -> None:
        now = self.now
        for snapshot in loaded.groups:
            self.coordinator.load(snapshot, now)
        self.consumers.load(loaded)
        for name in loaded.names:
            self._ensure(name)
        for name, corrupt in loaded.corrupt.items():
            _LOGGER.warning("group %s starts without members: %s", name, corrupt)
        self.carry_out()
        if loaded.groups or loaded.consumer_groups:
            self.tell_consumers()

    def has_members(self, group_id: str) -> bool:
        """Whether a group has members connected to this broker. Thread safe."""
        classic, consumer = self.coordinator.find(group_id), self.consumers.find(group_id)
        return bool(classic and classic.members) or bool(consumer and consumer.members)

    def tell_consumers(self) -> None:
        """Wake the consumers of this process: a group may have its first member, so that those
        that are assigned partitions by hand may no longer read for it."""
        self._services.store._manager.changes.nudge()

    def _ensure(self, name: str) -> None:
        """Create an empty classic group for a group id that has only offsets."""
        if self.consumers.find(name) is None:
            self.coordinator.ensure(name, self.now)

    def _retry(self, partition: int) -> None:
        if self._loaded.get(partition) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            del self._loaded[partition]

    # --- the topic --------------------------------------------------------------------------

    def with_topic(self, then: Callable[[ErrorCode], object]) -> None:
        """Create ``__consumer_offsets`` if it is missing, then call ``then`` with NONE or 15."""
        if self.partition_count:
            then(ErrorCode.NONE)
            return
        self._topic_waiters.append(then)
        if len(self._topic_waiters) == 1:
            self._services.workers.submit(METADATA_KEY, self._create_topic, self._topic_created)

    def _create_topic(self) -> bool:
        """Create the topic, on a disk worker; False if it exists already."""
        services = self._services
        if OFFSETS_TOPIC in services.metadata.image.topics:
            return False
        if any(each.offline is not None for each in services.store.log_dirs):
            raise OSError(f"{OFFSETS_TOPIC} is not created while a log directory is offline")
        services.metadata.create_topic(
            OFFSETS_TOPIC,
            partitions=services.settings.offsets_topic_num_partitions,
            config=OFFSETS_PROPERTIES,
        )
        return True

    def _topic_created(self, is_new: bool | None, error: BaseException | None) -> None:
        waiters, self._topic_waiters = self._topic_waiters, []
        if error is not None:
            _LOGGER.warning("%s was not created: %s", OFFSETS_TOPIC, error)
        exists = bool(self.partition_count)
        if exists and is_new:
            self._take_filled(())
        code = ErrorCode.NONE if exists else ErrorCode.COORDINATOR_NOT_AVAILABLE
        for then in waiters:
            then(code)

    # --- effects ----------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Execute the coordinator's effects, and set the timer for its next deadline."""
        self.consumers.carry_out()
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, StoreGroupMetadata):
                    self._store(effect)
                elif callable(effect.reply):
                    effect.reply(effect)
        self.embedded.check()
        self._arm()

    def _arm(self) -> None:
        deadlines = self.coordinator.next_deadline, self.consumers.next_deadline
        when = min((each for each in deadlines if each is not None), default=None)
        if when is None or (self._timer is not None and self._timer.when <= when):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._services.loop.call_later(max(0.0, when - self.now), self._advance)

    def _advance(self) -> None:
        self._timer = None
        self.coordinator.advance(self.now)
        self.consumers.advance(self.now)
        self.carry_out()

    def _store(self, effect: StoreGroupMetadata) -> None:
        snapshot = effect.snapshot
        if not self.partition_count:
            self.coordinator.stored(effect.ticket, ErrorCode.NOT_COORDINATOR, self.now)
            return
        partition = self.partition_of(snapshot.group_id)

        def stored(error: BaseException | None, _: Appended | None) -> None:
            code = _code(error, _GROUP_ERRORS)
            self.coordinator.stored(effect.ticket, code, self.now)
            self.carry_out()

        work = partial(self._offsets.append_group, partition, snapshot)
        self._appends.append(partition, work, stored)

    # --- offsets ----------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        commits: Mapping[PartitionKey, OffsetCommit],
        done: OnCommitted,
        topic_ids: TopicIds | None = None,
    ) -> None:
        """Append a group's commits, which the caller has checked. ``done`` gets an error, and the
        partitions that were refused because their topic was deleted.

        With ``topic_ids`` a topic of another identity is an error, and nothing is committed."""
        partition = self.partition_of(group_id)

        def committed(error: BaseException | None, appended: Appended | None) -> None:
            refused = frozenset() if appended is None else appended.refused
            done(_code(error, _COMMIT_ERRORS), refused)

        self._appends.append(
            partition,
            partial(self._offsets.commit, partition, group_id, commits, topic_ids),
            committed,
        )

    def commit_in_transaction(
        self,
        group_id: str,
        commits: Mapping[PartitionKey, OffsetCommit],
        producer_id: int,
        producer_epoch: int,
        done: OnCommitted,
    ) -> None:
        """Like ``commit``, in a producer's transaction: its COMMIT marker makes the offsets
        visible."""
        partition = self.partition_of(group_id)

        def committed(error: BaseException | None, appended: Appended | None) -> None:
            refused = frozenset() if appended is None else appended.refused
            done(_code(error, _COMMIT_ERRORS), refused)

        self._appends.append(
            partition,
            partial(
                self._offsets.commit_in_transaction,
                partition,
                group_id,
                commits,
                producer_id,
                producer_epoch,
            ),
            committed,
        )

    def fetch(self, group_id: str, done: OnFetched) -> None:
        """Read a group's committed offsets."""
        partition = self.partition_of(group_id)

        def fetched(
            found: tuple[Commits, set[PartitionKey]] | None, error: BaseException | None
        ) -> None:
            if found is None:
                done(_code(error, _COMMIT_ERRORS), {}, set())
            else:
                done(ErrorCode.NONE, *found)

        self._submit(partition, partial(self._offsets.fetch, partition, group_id), fetched)

    def delete_group(self, group_id: str, done: OnDeleted) -> None:
        """Delete a group, which the caller has checked; call ``done`` once that is on disk."""
        self.coordinator.forget(group_id, self.now)
        self.consumers.forget(group_id)
        self.delete_offsets(group_id, None, done)

    def delete_offsets(
        self, group_id: str, keys: set[PartitionKey] | None, done: OnDeleted
    ) -> None:
        """Delete a group's commits for ``keys``, or all its records if None; call ``done`` once
        that is on disk."""
        partition = self.partition_of(group_id)
        self._submit(
            partition,
            partial(self._offsets.delete, partition, group_id, keys),
            lambda _, error: done(_code(error, _COMMIT_ERRORS)),
        )

    def store_records(
        self, group_id: str, records: Records, done: Callable[[ErrorCode], object]
    ) -> None:
        """Append a group's records; call ``done`` once they are acknowledged, or with an error,
        REQUEST_TIMED_OUT if they are not acknowledged in time. If they fail after that, the
        partition is loaded again."""
        if not self.partition_count:
            done(ErrorCode.NOT_COORDINATOR)
            return
        partition = self.partition_of(group_id)
        self._appends.append(
            partition,
            partial(self._offsets.append_records, partition, records),
            lambda error, _: done(_code(error, _COMMIT_ERRORS)),
            partial(self._failed_later, group_id, self._topic_id),
        )

    def _failed_later(self, group_id: str, topic_id: bytes | None) -> None:
        _LOGGER.warning("records of group %s were not stored", group_id)
        if self.partition_count and self._topic_id == topic_id:
            self.reload(self.partition_of(group_id))

    # --- checks for either group protocol ---------------------------------------------------

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int | None,
    ) -> ErrorCode:
        """Whether a member with this generation or epoch may commit.

        ``version`` is the version of the OffsetCommit request; None for a commit in a transaction.
        """
        error = self.consumers.coordinator.check_commit(group_id, member_id, epoch, version)
        if error is not None:
            return error
        return self.coordinator.check_commit(
            group_id, member_id, instance_id, epoch, self.now, is_transactional=version is None
        )

    def check_delete(self, group_id: str) -> ErrorCode:
        error = self.consumers.check_delete(group_id)
        return self.coordinator.check_delete(group_id) if error is None else error

    def check_delete_offsets(self, group_id: str, topic: str) -> ErrorCode:
        error = self.consumers.check_delete_offsets(group_id, topic)
        return self.coordinator.check_delete_offsets(group_id, topic) if error is None else error

    def with_names(self, then: Callable[[], object]) -> None:
        """Call ``then()`` once the coordinator knows every group that has a record.

        An embedded consumer of this process may have committed for a group that the coordinator
        does not know. While partitions are being loaded ``then`` is called immediately, and must
        check for that.
        """
        if not self.partition_count or self.is_loading:
            then()
            return

        def named(names: dict[int, set[str]] | None, error: BaseException | None) -> None:
            if error is not None:
                _LOGGER.warning("groups cannot be listed: %s", error)
            self._take_filled(names or {})
            for partition, of_partition in (names or {}).items():
                if self._loaded.get(partition) == ErrorCode.NONE:
                    for name in of_partition:
                        self._ensure(name)
            if self.is_loading:
                self._load_waiters.append(then)
            else:
                then()

        self._services.workers.submit(OFFSETS_TOPIC, self._offsets.names, named)

    # --- expiry -----------------------------------------------------------------------------

    def _expire_later(self) -> None:
        seconds = self._services.settings.offsets_retention_check_interval_ms / 1000
        self._services.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        """Delete expired offsets, and groups that have neither offsets nor members."""
        self._expire_later()
        count, now, wall = self.partition_count, self.now, now_ms()
        facts: dict[int, dict[str, RetentionFacts]] = {}
        for group in self.coordinator if count else ():
            partition = partition_for_name(group.group_id, count)
            facts.setdefault(partition, {})[group.group_id] = retention_facts(group, now, wall)
        for group_id, of_group in self.consumers.retention_facts(wall).items() if count else ():
            facts.setdefault(partition_for_name(group_id, count), {})[group_id] = of_group
        retention = Retention(
            self._services.settings.offsets_retention_minutes * 60_000,
            self._services.metadata.served_since,
        )
        for partition, of_groups in facts.items():
            self._submit(
                partition,
                partial(self._offsets.expire, partition, of_groups, retention),
                self._expired,
            )

    def _expired(self, bare: set[str] | None, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.warning("expired offsets were not deleted: %s", error)
        for group_id in bare or ():
            group = self.coordinator.find(group_id)
            is_unused = self.consumers.is_empty(group_id) or (group is not None and group.is_unused)
            if is_unused and self.partition_count:
                self._delete_bare(group_id)

    def _delete_bare(self, group_id: str) -> None:
        """Delete a group without members and offsets, but no offset that is committed meanwhile.

        Such a commit may precede the deletion in the partition's queue, or be that of an embedded
        consumer.
        """
        partition = self.partition_of(group_id)
        self.coordinator.forget(group_id, self.now)
        self.consumers.forget(group_id)

        def deleted(is_bare: bool | None, error: BaseException | None) -> None:
            if error is not None:
                _LOGGER.warning("group %s was not deleted: %s", group_id, error)
            elif not is_bare and self._loaded.get(partition) == ErrorCode.NONE:
                self._ensure(group_id)

        self._submit(partition, partial(self._offsets.delete_bare, partition, group_id), deleted)

    def _submit(self, partition: int, work: Callable[[], Any], done: Callable[..., object]) -> None:
        self._services.workers.submit((OFFSETS_TOPIC, partition), work, done)


def _code(error: BaseException | None, mapping: Mapping[ErrorCode, ErrorCode]) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    code = error_code_of(error)
    return mapping.get(code, code)
