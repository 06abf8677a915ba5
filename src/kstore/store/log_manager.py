"""The log directories, partitions and open logs of a store (Kafka's LogManager).

:class:`kstore.store.store.Store` is the public interface in front of it. Stray directories, of
partitions that a broker does not have: :mod:`kstore.handover.stray_folders`.
"""

import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore.background.failures import BackgroundFailures, attempt
from kstore.background.scheduler import Schedule, ScheduledTask, Scheduler
from kstore.checkpoint.log_dir import LogDir
from kstore.compaction.log_cleaner import LogCleaner
from kstore.config import StoreConfig
from kstore.errors import (
    ClosedError,
    InconsistentTopicIdError,
    LogFailedError,
    StorageError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kstore.files.descriptor_limit import SpareDescriptors
from kstore.files.failure_detector import keeps_from_opening
from kstore.files.filenames import (
    INTERNAL_TOPICS,
    OFFSETS_PREFIX,
    partition_directory,
)
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.files.publish_barrier import check_barrier
from kstore.integers import INT64_MAX
from kstore.log.log import Log
from kstore.log.writer import LogWriter
from kstore.segment.scan import OnProgress
from kstore.store.alter_log_dir import MoveInfo, ReplicaMoves
from kstore.store.apply_topic_settings import TopicSettings
from kstore.store.background_tasks import background_tasks
from kstore.store.future_replica import Pace
from kstore.store.log_dir_checkpoints import LogDirCheckpoints
from kstore.store.log_dir_info import LogDirInfo, describe_log_dir
from kstore.store.missing_settings import check_settings
from kstore.store.open_file_lru import OpenLogs
from kstore.store.parallel_recovery import Progress, StoreRecovery
from kstore.store.partition_changes import PartitionToCreate
from kstore.store.partition_factory import (
    open_for_reading,
    open_for_writing,
    peek_if_certain,
)
from kstore.store.rolled_segments_flusher import RolledSegmentsFlusher
from kstore.store.staged_recovery import StagedRecovery
from kstore.store.store_retention import StoreRetention
from kstore.store.topic_identity import TopicIdentities
from kstore.store.topic_registry import TopicRegistry
from kstore.store.topic_watch import TopicChanges

if TYPE_CHECKING:
    from kstore.log.retention_report import RetentionReport
    from kstore.store.deleted_folders import DeletedFolders
    from kstore.store.store import Store

T = TypeVar("T")
PartitionKey = tuple[str, int]
_MAX_WAIT, _PAUSE = 1.0, 0.01  # seconds
_SPARE = 6  # descriptors: closing a log opens its three files, and syncs others one by one


class LogManager:
    """Log directories, topic registry, open logs and background thread of one store.

    ``lock`` guards the registry, the directories and the loading of logs. A thread that holds it
    never waits for the lock of an open log, because ``extend`` holds its log's lock while its
    source may open another log. ``store_ref`` returns the store, which must stay alive as long
    as one of its logs is referenced.
    """

    def __init__(
        self,
        files: Files,
        paths: tuple[str, ...],
        config: StoreConfig,
        *,
        writable: bool,
        store_ref: "Callable[[], Store | None]",
    ) -> None:
        self.config = config
        self.writable = writable
        self.closed = False
        self.lock = ReentrantLock()
        self.spare = SpareDescriptors(_SPARE if writable else 0)  # for the close
        self.logs = OpenLogs(config.max_open_logs)
        self._files = files
        self._store_ref = store_ref
        self._maps = MapBudget(max(config.max_mapped_segments, 1))
        self.loaded: Callable[[Log], None] | None = None  # called with each loaded log
        # Whether the coordinator that serves the store has a producer id. Takes no lock.
        self.owns_producer: Callable[[int], bool] | None = None
        self.on_epoch_begun: Callable[[str, int], None] | None = None  # with the partition
        self.on_offline: Callable[[], object] | None = None  # a directory failed; must not block
        self.last_failure: StorageError | None = None  # of a directory
        self._on_synced: Callable[[float], None] | None = None
        self.more_tasks: list[ScheduledTask] = []  # of the layers above
        self._scheduler: Scheduler | None = None
        self.moves = ReplicaMoves(self)
        self.writers: dict[PartitionKey, LogWriter] = {}
        self.background = BackgroundFailures(config.on_background_error)
        self.cleaner = LogCleaner(self, files)
        self.retention = StoreRetention(self)
        self.rolled = RolledSegmentsFlusher(self)
        self._deleted_folders: DeletedFolders | None = None
        self.settings = TopicSettings(self)
        self.checkpoints = LogDirCheckpoints(self)
        self._dirs: list[LogDir] = []
        self.recoveries = StagedRecovery(self, files)
        try:
            for path in paths:
                self._dirs.append(_open_log_dir(files, path, writable, alone=len(paths) == 1))
            self.catalog = TopicRegistry(self._dirs, config.log)
            self.identities = TopicIdentities(self.catalog, self.lock)
            self.changes = TopicChanges(
                self.lock, self.catalog, self.identities, self.background, store_ref
            )
            self.catalog.on_change = self.changes.note
            check_settings(self.catalog, writable=writable)
            if writable:
                self.catalog.resume()
                self.identities.stamp()
                self.retention.find_deleted_folders()
                for log_dir in self.catalog.live:
                    self.cleaner.load_uncleanable(log_dir.path, self._partitions_in(log_dir))
        except BaseException:
            self.release()
            raise
        for log_dir in self._dirs:
            log_dir.failed = partial(_go_offline, weakref.ref(self))

    # --- logs -----------------------------------------------------------------------------

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition, loaded on first use."""
        log = self.logs.get((topic, partition))
        if log is None:
            self.recoveries.wait((topic, partition))
            with self.lock:
                log = self.logs.get((topic, partition))
                if log is None:
                    if self.closed:
                        raise ClosedError("the store is closed", path=self._dirs[0].path)
                    if not self.writable:
                        self.follow()
                    log = self.load(topic, partition)
                    self.logs.add(log)
                    self.recoveries.failed.pop((topic, partition), None)
                    if self.loaded is not None:
                        self.loaded(log)
            self.start_background(log.config.flush_ms)
        return log

    def recover(self, progress: Progress | None) -> None:
        """Load all partitions of the directories that were not closed cleanly, in parallel."""
        with self.lock:
            self.recoveries.recover(progress)

    @property
    def recovery(self) -> StoreRecovery:
        """The recovery reports of the logs opened so far."""
        unrecognized, offline = self.catalog.unrecognized, self.catalog.offline
        return StoreRecovery(
            reports={
                (log.topic, log.partition): log.recovery
                for log in self.logs
                if log.recovery is not None
            },
            failed=dict(self.recoveries.failed),
            notes=(
                *(f"{path}: not a partition directory; ignored" for path in unrecognized),
                *(f"{log_dir.path}: offline, {log_dir.offline}" for log_dir in offline),
                *self.catalog.orphaned_future_replicas(),
                *(note for log_dir in self._dirs for note in log_dir.notes),
            ),
        )

    def recover_moves(self) -> None:
        """Recover the unfinished copies of moves; the caller holds the lock."""
        self.moves.recover_unfinished(self._maps)

    def load(self, topic: str, partition: int, on_progress: OnProgress | None = None) -> Log:
        """Open a partition, which is not open. The caller adds it to ``logs``."""
        log_dir = self.catalog.log_dir_of(topic, partition)
        if log_dir.offline is not None:
            raise log_dir.refusal()
        config, maps = self.catalog.config(topic), self._maps
        if not self.writable:
            own = self.catalog.is_own(topic) and self.config.max_mapped_segments > 0
            resolve = partial(self._resolve_log_dir, topic, partition)
            read_only, reader = open_for_reading(maps, resolve, topic, partition, config, own=own)
            reader.on_open = partial(self.logs.handles_opened, read_only)
            reader.on_deleted = partial(self.logs.remove, read_only)
            self.identities.add_reader((topic, partition), reader)
            return read_only
        mode = self.config.recovery
        log, writer = open_for_writing(maps, log_dir, topic, partition, config, mode, on_progress)
        check_barrier(self._files, log.path, (log_dir.path for log_dir in self._dirs))
        self.writers[topic, partition] = writer
        writer.flusher.on_synced = self._on_synced
        writer.active_segment.on_open = partial(self.logs.handles_opened, log)
        writer.active_segment.on_roll = partial(self.rolled.request, log)
        writer.active_segment.on_epoch_begun = partial(self._epoch_begun, topic, partition)
        writer.truncator.on_truncated = partial(self._after_truncation, self._store_ref(), log)
        writer.truncator.owns_producer = self._owns_producer
        _restore_ends(log, writer)
        return log

    def watch_syncs(self, on_synced: Callable[[float], None] | None) -> None:
        """Call with the seconds that each sync of a log takes, on its thread; None: no more."""
        with self.lock:
            self._on_synced = on_synced
            for writer in self.writers.values():
                writer.flusher.on_synced = on_synced

    def _epoch_begun(self, topic: str, partition: int) -> None:
        if self.on_epoch_begun is not None:
            self.on_epoch_begun(topic, partition)

    def _resolve_log_dir(self, topic: str, partition: int) -> LogDir:
        """The log directory of a partition that the writer, another process, may have moved.

        Called under a reader's lock, so it waits for the manager's lock for a limited time only.
        """
        log_dir = self.catalog.topics.get(topic, {}).get(partition)
        folder = partition_directory(topic, partition)
        if log_dir is not None and log_dir.files.kind(log_dir.join(folder)) is not None:
            return log_dir
        deadline = time.monotonic() + _MAX_WAIT
        while True:
            with self.lock if self.lock._is_owned() else self.lock.attempt() as is_held:
                if is_held:
                    self.catalog.refresh()
                if is_held or time.monotonic() > deadline:
                    return self.catalog.log_dir_of(topic, partition)
            time.sleep(_PAUSE)

    def follow(self) -> None:
        """Take over another process's changes of the directories.

        Ends the logs of deleted partitions and of recreated topics; the next use opens them
        again.
        """
        with self.lock:
            self.catalog.follow()
            self.identities.close_deleted()

    def _owns_producer(self, producer_id: int) -> bool:
        return self.owns_producer is not None and self.owns_producer(producer_id)

    def _after_truncation(self, _store_ref: object, log: Log) -> None:
        """A truncation lowered a recovery point: write a checkpoint that is not above it (Kafka).

        Also drops the unfinished copy of a move, which has truncated records, and writes again the
        markers that are gone.
        """
        if not self.closed:
            self.checkpoints.write()
            self.moves.drop_unfinished((log.topic, log.partition))
            writer = self.writers.get((log.topic, log.partition))
            if writer is not None:
                _restore_ends(log, writer)

    def end_offsets(self, topic: str | None) -> dict[PartitionKey, int]:
        """End offsets of one topic, or of all but internal ones; of offline logs only if open."""
        with self.lock:
            if topic is not None and topic not in self.catalog.topics:
                raise self.catalog.unknown(topic)
            selected = sorted(
                ((name, partition), log_dir)
                for name, partition, log_dir in self.catalog.partitions()
                if (name not in INTERNAL_TOPICS if topic is None else name == topic)
            )
        ends: dict[PartitionKey, int] = {}
        for key, log_dir in selected:
            log = self.logs.get(key)
            if log is None and log_dir.offline is not None:
                continue
            if log is None and (log_dir.clean or not self.writable):
                end = peek_if_certain(log_dir, key, writable=self.writable)
                if end is not None:
                    ends[key] = end
                    continue
            ends[key] = self.log(*key).end_offset
        return ends

    def move(
        self,
        topic: str,
        partition: int,
        path: str | os.PathLike[str],
        pace: Pace | None,
        progress: Progress | None,
    ) -> MoveInfo:
        """Move a partition to another directory of the store."""
        log = self.log(topic, partition)
        writer = self.writers[topic, partition]
        return self.moves.move(log, writer, path, pace, progress)

    def is_moving(self, topic: str, partition: int) -> bool:
        """Whether a partition is being moved to another directory."""
        return self.moves.is_moving((topic, partition))

    # --- topics ---------------------------------------------------------------------------

    def log_dirs(self) -> list[LogDirInfo]:
        """The current state of each directory."""
        uncleanable = self.cleaner.uncleanable if self.writable else None  # its lock comes first
        with self.lock:
            return [describe_log_dir(log_dir, uncleanable) for log_dir in self._dirs]

    def writers_in(self, log_dir: LogDir) -> list[tuple[PartitionKey, LogWriter]]:
        """The open logs of a directory, in order. Takes no lock."""
        return [
            (key, writer)
            for key, writer in sorted(self.writers.items())
            if self.catalog.topics.get(key[0], {}).get(key[1]) is log_dir
        ]

    def _partitions_in(self, log_dir: LogDir) -> list[PartitionKey]:
        return [
            (topic, partition)
            for topic, partition, directory in self.catalog.partitions()
            if directory is log_dir
        ]

    def create_partition(self, wanted: PartitionToCreate, *, exist_ok: bool) -> None:
        """Create one partition; the caller holds the lock, and opens it."""
        topic, partition = wanted[:2]
        if partition in self.catalog.topics.get(topic, ()):
            if wanted.topic_id is not None:
                self.identities.check_topic_id(topic, partition, wanted.topic_id)
            if not exist_ok:
                folder = partition_directory(topic, partition)
                path = self.catalog.log_dir_of(topic, partition).join(folder)
                raise TopicExistsError(f"partition {folder} already exists", path=path)
            return
        known_id = self.identities.topic_id_if_any(topic)
        if known_id is not None and wanted.topic_id not in (None, known_id):
            raise InconsistentTopicIdError(
                f"topic {topic!r} has the id {known_id} here, not {wanted.topic_id}",
                path=self._dirs[0].path,
            )
        self.catalog.partition_changes.create(wanted, known_id)

    def forget(self, log: Log) -> None:
        """A log is closed: its next use opens it again, unless the partition is deleted."""
        self.logs.remove(log)
        self.writers.pop((log.topic, log.partition), None)

    @property
    def deleted_folders(self) -> "DeletedFolders":
        """What removes the folders of deleted topics; made for the first of them."""
        with self.lock:
            if self._deleted_folders is None:
                from kstore.store.deleted_folders import DeletedFolders

                self._deleted_folders = DeletedFolders(self)
            return self._deleted_folders

    # --- background -----------------------------------------------------------------------

    def start_background(self, flush_ms: int) -> None:
        """Start or wake the background thread, unless the store is configured without."""
        if not (self.writable and self.config.background):
            return
        with self.lock:
            if self._scheduler is None and not self.closed:
                on_error = self.background.report
                scheduler = Scheduler(_weak_work(self), partial(on_error, "upkeep"))
                try:
                    scheduler.start()
                except RuntimeError as error:  # the next log that is opened tries again
                    on_error("upkeep", error)
                else:
                    self._scheduler = scheduler
            elif self._scheduler is not None and flush_ms < INT64_MAX:
                self._scheduler.wake()

    def stop_background(self) -> None:
        """End the background work."""
        upkeep, self._scheduler = self._scheduler, None
        self.recoveries.stop()
        self.cleaner.stop()
        self.rolled.stop()
        if self._deleted_folders is not None:
            self._deleted_folders.stop()
        if upkeep is not None:
            upkeep.stop()

    def request_stop(self) -> None:
        """Ask the background work to end, without waiting. Takes no lock: a finalizer calls it.

        Nothing is flushed or closed. File descriptors, and with them the locks of the directories,
        are released when the last reference to the logs is gone.
        """
        self.closed = True
        self.recoveries.request_stop()
        self.cleaner.request_stop()
        self.rolled.request_stop()
        if self._deleted_folders is not None:
            self._deleted_folders.request_stop()
        if self._scheduler is not None:
            self._scheduler.request_stop()

    def is_gone(self, key: PartitionKey, log: Log | None) -> bool:
        """Whether a partition was deleted, or the log closed: a failed task lost a race."""
        if self.closed or self._store_ref() is None:
            return True
        if log is not None and (log.closed or self.logs.get(key) is not log):
            return True
        return key[1] not in self.catalog.topics.get(key[0], {})

    def run(self, work: str, key: PartitionKey, do: Callable[[Log], object], log: Log) -> None:
        """Run a background task on a log; reports its failure, except after a lost race."""
        try:
            do(log)
        except Exception as error:
            if not isinstance(error, ClosedError) and not self.is_gone(key, log):
                self.background.report(work, error, *key)
        else:
            self.background.end(work, *key)

    def in_log_dir(self, log_dir: LogDir, work: Callable[[], T]) -> T | None:
        """Run background work; None, and the error logged, if the directory went offline."""
        try:
            return work()
        except StorageError:
            if log_dir.offline is None or not self.catalog.live:
                raise
        return None

    def flush_log(self, log: Log) -> None:
        """Flush for ``flush.ms``."""
        log_dir = self.catalog.log_dir_of(log.topic, log.partition)
        with suppress(LogFailedError):  # reported before, and the log raises it to its callers
            self.in_log_dir(log_dir, log.flush)

    def expire_producers(self, log: Log) -> None:
        """Drop the state of producers that were idle for too long."""
        with suppress(LogFailedError):
            log.expire_producers()

    def apply_retention(self) -> "RetentionReport":
        """Apply retention to topics with own settings; returns how many segments it drops.

        Raises the first error, after it has tried all partitions.
        """
        outcomes = [outcome for _, outcome in self.retention.run()]
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        from kstore.log.retention_report import RetentionReport

        return RetentionReport.merge(each for each in outcomes if isinstance(each, int))

    # --- the end --------------------------------------------------------------------------

    def close(self, errors: list[BaseException]) -> None:
        """Close logs, then write checkpoints and clean-shutdown files; adds errors to the list."""
        with self.lock:
            self.closed = True  # from here on no log is opened
        # Without the lock, because a thread that holds a log's lock may wait for it.
        unclean = {
            self.catalog.log_dir_of(log.topic, log.partition)
            for log in self.logs
            if not attempt(errors, log.close)
        }
        with self.lock:
            self.checkpoints.finish(self._dirs, unclean, errors)

    def release(self) -> None:
        """Release the locks of the directories and do nothing else."""
        for log_dir in self._dirs:
            log_dir.release()

    @property
    def reader_offset_files(self) -> list[str]:
        """Files of offsets that readers committed without a writer for ``__consumer_offsets``."""
        files = self.catalog.loose_files
        return [path for path in files if os.path.basename(path).startswith(OFFSETS_PREFIX)]


def _open_log_dir(files: Files, path: str, writable: bool, *, alone: bool) -> LogDir:
    """Open a log directory; offline if that fails and it is not the only one (as Kafka)."""
    try:
        return LogDir(files, path, writable=writable)
    except StorageError as error:
        if alone or not keeps_from_opening(error):
            raise
        return LogDir(files, path, writable=writable, offline=error)


def _restore_ends(log: Log, writer: LogWriter) -> None:
    """Write the markers again that a truncation removed, before others append to the log."""
    if writer.state.removed_ends is not None:
        from kstore.coordinator.transaction.end_markers import restore_removed_ends  # few need it

        restore_removed_ends(log, writer)


def _go_offline(manager: "weakref.ref[LogManager]", log_dir: LogDir) -> None:
    """A directory failed: its open logs refuse appends.

    Takes no lock, because the thread that detected the failure may hold any.
    """
    alive = manager()
    if alive is not None:
        for _, writer in alive.writers_in(log_dir):
            writer.state.go_offline(log_dir.refusal())
        alive.last_failure = log_dir.offline
        if alive.on_offline is not None:
            alive.on_offline()


def _weak_work(manager: LogManager) -> Callable[[], float | None]:
    """The background thread must not keep an otherwise unreferenced store alive."""
    reference = weakref.ref(manager)
    schedule = Schedule(partial(_report, reference), manager.background.end)

    def work() -> float | None:
        alive = reference()
        return None if alive is None or alive.closed else schedule.run(background_tasks(alive))

    return work


def _report(manager: "weakref.ref[LogManager]", work: str, error: Exception) -> None:
    """Report the failure of a task of the store.

    It is a lost race, not reported, if the store was closed or the topic was deleted.
    """
    alive = manager()
    if alive is None or alive.closed or alive._store_ref() is None:
        return
    if not isinstance(error, ClosedError | UnknownTopicOrPartitionError):
        alive.background.report(work, error)
