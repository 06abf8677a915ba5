"""The partitions that this broker serves: the log of each, or the error to return instead."""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from kstore._native.append.record_appender import append_unless_blocked
from kstore.broker.request import Answer, Pending
from kstore.cluster.image import NO_EPOCH, ZERO_UUID, ClusterImage, PartitionImage, TopicImage
from kstore.cluster.local_image import LocalPartitions
from kstore.config import LogConfig
from kstore.errors import (
    ClosedError,
    ForkedError,
    KStoreError,
    LogDirOfflineError,
    LogFailedError,
    ReadOnlyError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import INT64_MAX
from kstore.kafka_uuid import uuid_from_text
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore._native.broker.produce_turn import ProduceTarget
    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.loop import Loop
    from kstore.cluster.metadata import Metadata
    from kstore.log.log import Log
    from kstore.store.store import Store

_Appended = TypeVar("_Appended")

_LOGGER = logging.getLogger("kstore.broker")
_RETRY_SECONDS = 5.0  # delay before opening a failed log again
# how long a request waits for logs to open; then clients get LEADER_NOT_AVAILABLE and retry
_LOADING_SECONDS = 0.5
_SECONDS_BETWEEN_REPORTS = 10.0  # about a full or failed disk
_LOCKED_SECONDS = 0.005  # delay before trying again to lock a log
_OPENED_EARLY = 64  # partitions of a new topic whose logs open before a request needs them
PARTITIONS_A_TURN = 256  # that one turn of the loop updates to a new image, or describes
_LOG_DIRS_KEY = "log dirs"  # of the disk workers
_CODES = frozenset(int(code) for code in ErrorCode)


def error_code_of(error: BaseException) -> ErrorCode:
    """Kafka's error code for an exception of the engine; logs unexpected exceptions."""
    if isinstance(error, ClosedError | ForkedError | ReadOnlyError):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if isinstance(error, KStoreError) and error.code in _CODES and error.code != -1:
        return ErrorCode(error.code)
    if isinstance(error, OSError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    _LOGGER.error("a request failed unexpectedly", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _report_failed_refresh(_: object, error: BaseException | None) -> None:
    if error is not None:
        _LOGGER.error("the metadata still has partitions of a failed directory", exc_info=error)


def must_begin_epoch(log: "Log") -> bool:
    """Whether recovery lost acknowledged records and the log has not begun a new leader epoch."""
    epoch = None if log.recovery is None else log.recovery.next_epoch
    return epoch is not None and log.leader_epoch < epoch and log.config.message_magic == 2


def append_at_once(log: "Log", size: int, append: Callable[[], _Appended]) -> _Appended | None:
    """Append so many bytes on the event loop's thread; None, without any effect, if it may block.

    It may block if another thread holds the log's lock (a truncation, or a long ``extend`` by this
    process), if the segment is full, or if ``flush.messages`` asks for a sync. The rare rolls by
    ``segment.ms`` or a full index happen on the loop's thread. Raises the errors of ``append``.
    """
    state = log._require_writer().state
    if state.appender.ready:
        return append_unless_blocked(log, size, append)
    if not state.lock.acquire(False):
        return None
    try:
        is_full = log.segments.views[-1].size + size > log.config.segment_bytes
        return None if is_full or log.config.flush_messages != INT64_MAX else append()
    finally:
        state.lock.release()


class Waiter(Protocol):
    """A parked request. The event loop's thread calls ``partition_changed``."""

    def partition_changed(self, hosted: "HostedPartition") -> None: ...


class HostedPartition:
    """One partition of this broker. Loop's thread only, except where noted.

    ``error`` is NONE if ``log`` is usable, LEADER_NOT_AVAILABLE while the log is being opened or
    recovered, otherwise the error for clients: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER
    or KAFKA_STORAGE_ERROR.
    """

    __slots__ = (
        "_is_wake_scheduled",
        "_loop",
        "_other_waiters",
        "_retry_at",
        "_waiters",
        "_watch",
        "config",
        "error",
        "image",
        "is_plain",
        "is_recovering",
        "key",
        "log",
        "number",
        "produce_target",
        "topic",
        "topic_id",
        "topic_image",
        "version",
    )

    def __init__(self, loop: "Loop", topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.key: Hashable = (topic, number)  # for its work on the disk workers
        self.topic_id = ZERO_UUID
        self.topic_image: TopicImage | None = None
        self.image: PartitionImage | None = None
        self.version = -1  # of the cluster image
        self.log: Log | None = None
        self.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.config: LogConfig | None = None
        self.is_plain = False
        self.produce_target: ProduceTarget | None = None  # for ProduceTurns
        self.is_recovering = False  # as of the last lookup
        self._loop = loop
        self._retry_at = 0.0
        self._watch: object = None
        self._waiters: dict[Waiter, None] = {}
        self._other_waiters: dict[Waiter, None] = {}  # for changes of the partition only
        self._is_wake_scheduled = False

    @property
    def leader_epoch(self) -> int:
        """The current leader epoch, -1 for an unknown partition or an epoch that is not read."""
        return NO_EPOCH if self.image is None else self.image.leader_epoch

    @property
    def lacks_epoch(self) -> bool:
        """Whether the leader epoch of an existing partition is not read yet."""
        return self.image is not None and self.image.leader_epoch == NO_EPOCH

    @property
    def needs_opening(self) -> bool:
        """Whether a disk worker must open the log before it can be used.

        False while the store recovers the log: clients get LEADER_NOT_AVAILABLE and retry.
        """
        return self.error == ErrorCode.LEADER_NOT_AVAILABLE and not self.is_recovering

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """FENCED_LEADER_EPOCH for an epoch older than the partition's, UNKNOWN_LEADER_EPOCH for a
        newer one; -1 skips the check (Kafka's Partition.checkCurrentLeaderEpoch)."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if self.lacks_epoch:  # its log is not open either: the request is checked again once it is
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def read_config(self, config: LogConfig) -> None:
        """Cache the log settings that appends need."""
        self.config = config
        self.is_plain = (
            config.compression_type == "producer"
            and config.message_magic == 2
            and config.flush_messages == INT64_MAX
        )

    # --- waiting ----------------------------------------------------------------------------

    def add_waiter(self, waiter: Waiter, *, of_log: bool = True) -> None:
        """Call ``waiter.partition_changed`` after each change of the partition, such as a new
        leader, and if ``of_log``, of its log.

        Another thread may change the log between the caller's last read and this call, so the
        caller must read again afterwards.
        """
        if not of_log:
            self._other_waiters[waiter] = None
            return
        self._waiters[waiter] = None
        if self._watch is None and self.log is not None:
            self._start_watching(self.log)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._other_waiters.pop(waiter, None)

    def _log_changed(self, log: "Log", events: object) -> None:
        """Called on the thread that changed the log."""
        if not self._is_wake_scheduled:
            self._is_wake_scheduled = True
            self._loop.call_soon_threadsafe(self.wake if self._waiters else self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        """Stop watching a log without waiters, because a notification costs more than an append."""
        self._is_wake_scheduled = False
        if self._waiters:
            self.wake()
        else:
            self.stop_watching()

    def _start_watching(self, log: "Log") -> None:
        """Watch the log; try again later if another thread holds its lock."""
        try:
            lock = log._require_writer().state.lock
            if not lock.acquire(False):
                self._loop.call_later(_LOCKED_SECONDS, self._watch_again)
                return
            try:
                self._watch = log.watch(self._log_changed)
            finally:
                lock.release()
        except (ClosedError, LogDirOfflineError) as error:  # closed just now
            self.drop_log(error_code_of(error), retry=True)
            self._loop.call_soon(self.wake)
        except LogFailedError:
            return  # a failed log is readable, and does not change until the store is reopened

    def _watch_again(self) -> None:
        if self._watch is None and self._waiters and self.log is not None:
            self._start_watching(self.log)
            if self._watch is not None:
                self.wake()  # the log may have changed in between

    def wake(self) -> None:
        """Let every parked request check the partition again."""
        self._is_wake_scheduled = False  # first: a later change schedules another call
        for waiter in (*self._waiters, *self._other_waiters):
            try:
                waiter.partition_changed(self)
            except Exception:  # in one request: still wake the others
                _LOGGER.exception("a parked request of %s-%d failed", self.topic, self.number)

    # --- for Partitions ---------------------------------------------------------------------

    def take_log(self, log: "Log") -> None:
        """Start using an open log."""
        if self.log is log:
            return
        self.stop_watching()
        self.log, self.produce_target = log, None
        self.error = ErrorCode.NONE
        self.read_config(log.config)
        if self._waiters:
            self._start_watching(log)

    def drop_log(self, error: ErrorCode, *, retry: bool = False) -> None:
        """Return an error to clients; with ``retry``, open the log again after some seconds."""
        self.stop_watching()
        self.log = self.produce_target = None
        self.error = error
        self._retry_at = self._loop.time() + _RETRY_SECONDS if retry else INT64_MAX

    def is_retry_due(self) -> bool:
        return self.log is None and self._loop.time() >= self._retry_at

    def stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()  # type: ignore[attr-defined]


class Partitions:
    """All hosted partitions by topic and number; opens their logs. Loop's thread only."""

    def __init__(
        self, store: "Store", metadata: "Metadata", loop: "Loop", workers: "DiskWorkers"
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._loop = loop
        self._workers = workers
        self._hosted: dict[tuple[str, int], HostedPartition] = {}
        self._opening: dict[HostedPartition, list[Callable[[], None]]] = {}
        # logs that begin a leader epoch; changed by disk workers
        self._beginning: set[Hashable] = set()
        self._report_again_at: dict[str, float] = {}  # by operation
        self._registration = metadata.on_change(self._image_changed)
        store._manager.on_offline = self._log_dir_failed

    def report_storage_error(
        self, hosted: HostedPartition, tried: str, error: BaseException
    ) -> None:
        """Log that a disk is full or failed, at most every ten seconds; clients see only timeouts.

        ``tried``: "append" or "read".
        """
        now = self._loop.time()
        if now >= self._report_again_at.get(tried, 0.0):
            self._report_again_at[tried] = now + _SECONDS_BETWEEN_REPORTS
            _LOGGER.error("%s-%d: cannot %s: %s", hosted.topic, hosted.number, tried, error)

    @property
    def by_key(self) -> dict[tuple[str, int], HostedPartition]:
        """The existing partitions that were looked up, as of that lookup; always the same dict."""
        return self._hosted

    def close(self) -> None:
        """Stop following the metadata and the logs."""
        self._store._manager.recoveries.on_recovered = None
        self._store._manager.on_offline = None
        self._registration.close()
        for hosted in self._hosted.values():
            hosted.stop_watching()

    def get(self, topic: str, number: int, image: ClusterImage | None = None) -> HostedPartition:
        """A partition by topic and number; a nonexistent partition has its ``error`` set.

        Never blocks. ``image`` is the request's cluster image; a newer image seen before takes
        precedence.
        """
        hosted = self._hosted.get((topic, number))
        version = (self._metadata.image if image is None else image).version
        if hosted is None or hosted.version < version:
            return self._update(topic, number, image or self._metadata.image)
        log = hosted.log
        if log is None:
            if hosted.is_retry_due():
                return self._update(topic, number, image or self._metadata.image)
        elif log.closed:
            hosted.drop_log(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return self._update(topic, number, image or self._metadata.image)
        elif log.config is not hosted.config:
            hosted.read_config(log.config)
        return hosted

    def is_recovering(self, topic: str, number: int) -> bool:
        """Whether a partition is in, or waits for, recovery after an unclean shutdown."""
        return self._store._manager.recoveries.is_waiting((topic, number))

    @property
    def is_any_recovering(self) -> bool:
        """Whether the store recovers any partition."""
        return self._store._manager.recoveries.is_any_waiting

    def open_log(self, hosted: HostedPartition) -> "Log":
        """Open a partition's log, and recover it if necessary. Blocks: for disk workers only.

        Raises the store's errors, and UnknownTopicOrPartitionError if the topic was deleted and
        recreated. A log that lost acknowledged records begins a new leader epoch, so that consumers
        detect the loss. ``opened`` receives the result on the event loop's thread.
        """
        log = hosted.log
        if hosted.lacks_epoch and hosted.topic_image is not None:
            hosted.topic_image.partitions.get(hosted.number)  # reads its leader epoch
        if log is None or log.closed:
            log = self._store._log(hosted.topic, hosted.number)
            # read after opening the log, so that it is not that of a later topic
            found = self._store._catalog.topic_id(hosted.topic)
            if (ZERO_UUID if found is None else uuid_from_text(found)) != hosted.topic_id:
                raise UnknownTopicOrPartitionError(
                    f"topic {hosted.topic!r} was deleted and created again"
                )
        if must_begin_epoch(log):
            self._begin_next_epoch(hosted, log)
        return log

    def _begin_next_epoch(self, hosted: HostedPartition, log: "Log") -> None:
        """On a disk worker."""
        assert log.recovery is not None
        assert log.recovery.next_epoch is not None
        self._beginning.add(hosted.key)
        try:
            log.begin_epoch(log.recovery.next_epoch)  # the metadata follows
        finally:
            self._beginning.discard(hosted.key)
        _LOGGER.warning(
            "%s-%d has lost acknowledged records: leader epoch %d begins at offset %d",
            hosted.topic, hosted.number, log.leader_epoch, log.end_offset,
        )  # fmt: skip

    def begin_epochs_after_losses(self) -> None:
        """Begin a leader epoch in each log whose recovery lost, or will lose, acknowledged records,
        even if no client uses the log: a later clean shutdown would hide the loss."""
        self._store._manager.recoveries.on_recovered = self._recovered
        for log in tuple(self._store._logs):
            self._recovered(log)

    def _recovered(self, log: "Log") -> None:
        """Called on the thread that recovered the log."""
        if must_begin_epoch(log):
            self._loop.call_soon_threadsafe(self._begin_epoch, log.topic, log.partition)

    def _begin_epoch(self, topic: str, number: int) -> None:
        hosted = self.get(topic, number)
        if hosted.needs_opening:
            self._open_in_background(hosted, lambda: None)

    def opened(
        self, hosted: HostedPartition, log: "Log | None", error: BaseException | None
    ) -> None:
        """Apply the result of ``open_log``."""
        if hosted.lacks_epoch and self._hosted.get((hosted.topic, hosted.number)) is hosted:
            self._update(hosted.topic, hosted.number, self._metadata.image)
        if log is not None and not log.closed:
            hosted.take_log(log)
        elif hosted.needs_opening:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if error is None else error_code_of(error)
            if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
                _LOGGER.warning("%s-%d cannot be served: %s", hosted.topic, hosted.number, error)
            hosted.drop_log(code, retry=True)
        for then in self._opening.pop(hosted, ()):
            then()

    def when_open(
        self, partitions: Iterable[HostedPartition], handle: Callable[[], Answer]
    ) -> Answer:
        """Call ``handle()`` for the response once the logs of these partitions are open.

        If they are open already, it is called immediately. The wait is short: a log that takes
        longer, because it is being recovered, gives LEADER_NOT_AVAILABLE.
        """
        closed = [hosted for hosted in partitions if hosted.needs_opening]
        if not closed:
            return handle()
        pending = Pending()
        waiting = _Countdown(len(closed), partial(continue_with, pending, handle))
        timer = self._loop.call_later(_LOADING_SECONDS, waiting.finish)
        waiting.on_finish = timer.cancel
        for hosted in closed:
            self._open_in_background(hosted, waiting.step)
        return pending

    def open_new_topic(self, topic: str) -> None:
        """Start opening the logs of a topic that a client is about to use.

        Otherwise a ListOffsets request, which waits for all logs that it names, would often return
        the end after a later Produce to one of them, and a new consumer would miss the record.
        """
        image = self._metadata.image.topics.get(topic)
        for number in islice(() if image is None else image.partitions, _OPENED_EARLY):
            hosted = self.get(topic, number)
            if hosted.needs_opening:
                self._open_in_background(hosted, lambda: None)

    def _open_in_background(self, hosted: HostedPartition, then: Callable[[], None]) -> None:
        waiting = self._opening.get(hosted)
        if waiting is not None:
            waiting.append(then)
            return
        self._opening[hosted] = [then]
        self._workers.submit(
            hosted.key, partial(self.open_log, hosted), partial(self.opened, hosted)
        )

    def _update(self, topic: str, number: int, image: ClusterImage) -> HostedPartition:
        """Update a partition from a cluster image and the store."""
        key = topic, number
        hosted = self._hosted.get(key)
        topic_image = image.topics.get(topic)
        if topic_image is None or number not in topic_image.partitions:
            if hosted is not None:
                self._remove(hosted)
            return HostedPartition(self._loop, topic, number)
        if hosted is not None and hosted.topic_id != topic_image.topic_id:
            self._remove(hosted)  # the topic was deleted and created again
            hosted = None
        if hosted is None:
            hosted = self._hosted[key] = HostedPartition(self._loop, topic, number)
            hosted.topic_id = topic_image.topic_id
            hosted.error = ErrorCode.LEADER_NOT_AVAILABLE
        hosted.topic_image = topic_image
        partitions = topic_image.partitions
        if (
            (hosted.image is None or hosted.lacks_epoch)
            and isinstance(partitions, LocalPartitions)
            and not partitions.is_quick(number)
        ):  # open_log reads the file with the epoch; the next lookup finds it
            hosted.image = partitions.unread(number)
            hosted.is_recovering = self.is_recovering(topic, number)
            return hosted
        hosted.image = partitions[number]
        hosted.version = max(hosted.version, image.version)
        self._check_leader(hosted, hosted.image)
        return hosted

    def _check_leader(self, hosted: HostedPartition, image: PartitionImage) -> None:
        """Use the log if this broker leads the partition; otherwise set the error."""
        if image.leader != self._metadata.node_id:
            is_offline = self._metadata.node_id in image.offline_replicas
            hosted.drop_log(
                ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            return
        if hosted.log is not None and not hosted.log.closed:
            hosted.error = ErrorCode.NONE
            return
        log = self._store._logs.get((hosted.topic, hosted.number))
        is_beginning = hosted.key in self._beginning or (log is not None and must_begin_epoch(log))
        if log is not None and not log.closed and not is_beginning:
            hosted.take_log(log)
        else:
            hosted.log = hosted.produce_target = None
            hosted.error = ErrorCode.LEADER_NOT_AVAILABLE
            hosted.is_recovering = self.is_recovering(hosted.topic, hosted.number)

    def _remove(self, hosted: HostedPartition) -> None:
        """Remove a deleted partition, and complete its parked requests."""
        self._hosted.pop((hosted.topic, hosted.number), None)
        hosted.drop_log(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        hosted.wake()

    def _log_dir_failed(self) -> None:
        """Called on the thread that detected the failure, which may hold any lock."""
        self._loop.call_soon_threadsafe(
            self._workers.submit, _LOG_DIRS_KEY, self._metadata.refresh, _report_failed_refresh
        )

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """Called on the thread that changed the metadata."""
        self._loop.call_soon_threadsafe(self._take_image, new)

    def _take_image(self, image: ClusterImage) -> None:
        """Wake the requests parked on partitions that are deleted or have a new leader or epoch."""
        self._update_some(image, iter(list(self._hosted)))

    def _update_some(self, image: ClusterImage, keys: Iterator[tuple[str, int]]) -> None:
        """Update a bounded number of partitions now, and the others in later turns of the loop."""
        few = list(islice(keys, PARTITIONS_A_TURN))
        for topic, number in few:
            hosted = self._hosted.get((topic, number))
            if (
                hosted is not None
                and hosted.version < image.version
                and image.topics.get(topic) is not hosted.topic_image
            ):
                before = hosted.image
                self._update(topic, number, image)
                if hosted.image is not before:
                    hosted.wake()
        if len(few) == PARTITIONS_A_TURN:
            self._loop.call_soon(self._update_some, image, keys)


class _Countdown:
    """Calls ``then`` once: after ``count`` steps, or when ``finish`` is called earlier."""

    __slots__ = ("_left", "_then", "on_finish")

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self._left = count
        self._then: Callable[[], None] | None = then
        self.on_finish: Callable[[], None] | None = None

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.finish()

    def finish(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            if self.on_finish is not None:
                self.on_finish()
            then()


def continue_with(pending: Pending, handle: Callable[[], Answer]) -> None:
    """Complete a parked request with the response of ``handle()``, which may itself be pending."""
    if pending.is_cancelled:
        return
    try:
        answer = handle()
    except Exception as error:  # CloseConnection, too
        pending.fail(error)
        return
    if not isinstance(answer, Pending):
        pending.complete(answer)
        return
    pending.on_cancel, pending.on_stop = answer.cancel, answer.stop

    def deliver(response: object) -> None:
        if isinstance(response, BaseException):
            pending.fail(response)
        else:
            pending.complete(response)  # type: ignore[arg-type]

    answer.deliver_to(deliver)
