"""The logs of a store: which directories, what is in them, what is open (Kafka's LogManager).

The store in front of it is what people hold; here is what it does with directories and logs.
"""

import logging
import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore.background.failures import BackgroundFailures, attempt
from kstore.background.scheduler import Schedule, ScheduledTask, Scheduler
from kstore.checkpoint.log_dir import LogDir, LogState
from kstore.checkpoint.uncleanable import UncleanablePartition, read_uncleanable
from kstore.compaction.threads import LogCleaner
from kstore.config import StoreConfig
from kstore.errors import (
    ClosedError,
    CorruptFileError,
    KStoreError,
    LogDirOfflineError,
    LogFailedError,
    NewerFormatError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.files.descriptor_limit import SpareDescriptors
from kstore.files.failure_detector import keeps_from_opening
from kstore.files.filenames import DELETE, FUTURE, OFFSETS_PREFIX, STRAY, partition_directory
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.files.publish_barrier import check_barrier
from kstore.integers import INT64_MAX
from kstore.log.log import Log
from kstore.log.writer import LogWriter
from kstore.segment.scan import Tell
from kstore.store.alter_log_dir import MoveInfo, Moves
from kstore.store.apply_topic_settings import TopicSettings
from kstore.store.background_tasks import background_tasks
from kstore.store.missing_settings import check_settings
from kstore.store.open_file_lru import OpenLogs
from kstore.store.parallel_recovery import Progress, StoreRecovery, recover_all
from kstore.store.partition_factory import (
    open_for_reading,
    open_for_writing,
    try_to_peek_end_offset,
)
from kstore.store.store_retention import StoreRetention
from kstore.store.topic_identity import TopicIdentities
from kstore.store.topic_registry import TopicRegistry

PartitionKey = tuple[str, int]
_LOGGER = logging.getLogger("kstore")
_PATIENCE, _PAUSE = 1.0, 0.01  # seconds
_NAMES = 10  # partitions that one error names
_SPARE = 6  # descriptors: a log that closes opens its three files, and syncs others one by one


class LogDirInfo(NamedTuple):
    """A log directory of a store, as it is now. Folders are named as they are on disk."""

    path: str
    offline: StorageError | None  # why it is left alone until the store is reopened
    partitions: tuple[PartitionKey, ...]
    futures: tuple[str, ...]  # -future: copies that a move has not finished
    deleted: tuple[str, ...]  # -delete: wait for their removal
    strays: tuple[str, ...]  # -stray: put aside by a Kafka broker, never touched
    strangers: tuple[str, ...]  # nobody's: Kafka does not start beside them
    uncleanable: tuple[UncleanablePartition, ...] = ()  # not compacted until a cause is removed


class LogManager:
    """Directories, catalog and open logs of one store, and the thread that looks after them.

    ``lock`` guards catalog, directories and the loading of logs. Nobody waits for the lock of an
    open log while holding it: an ``extend`` holds its log's, and its source may open another
    log. ``keeper`` gives what must stay alive while somebody holds a log: the store.
    """

    def __init__(
        self,
        files: Files,
        paths: tuple[str, ...],
        config: StoreConfig,
        *,
        writable: bool,
        keeper: Callable[[], object],
    ) -> None:
        self.config = config
        self.writable = writable
        self.closed = False
        self.lock = ReentrantLock()
        self.spare = SpareDescriptors(_SPARE if writable else 0)  # for the close
        self.logs = OpenLogs(config.max_open_logs)
        self._files = files
        self._keeper = keeper
        self._maps = MapBudget(max(config.max_mapped_segments, 1))
        self.loaded: Callable[[Log], None] | None = None  # told of each log that was loaded
        self.more_tasks: list[ScheduledTask] = []  # of the layers above
        self._scheduler: Scheduler | None = None
        self._moves = Moves(self)
        self._writers: dict[PartitionKey, LogWriter] = {}
        self.background = BackgroundFailures(config.on_background_error)
        self.cleaner = LogCleaner(self, files)
        self.retention = StoreRetention(self)
        self.settings = TopicSettings(self)
        self._dirs: list[LogDir] = []
        self._recovered = False  # until all that was due has been tried
        self._unrecovered: dict[PartitionKey, KStoreError] = {}
        try:
            for each in paths:
                self._dirs.append(_open_dir(files, each, writable, alone=len(paths) == 1))
            self.catalog = TopicRegistry(self._dirs, config.log)
            self.identities = TopicIdentities(self.catalog, self.lock)
            check_settings(self.catalog, writable=writable)
            if writable:
                self.catalog.resume()
                self.identities.stamp()
                self.retention.find_deleted_folders()
                for place in self.catalog.live:
                    self.cleaner.load_uncleanable(place.path, self._partitions_in(place))
        except BaseException:
            self.release()
            raise
        for place in self._dirs:
            place.failed = partial(_go_offline, weakref.ref(self))

    # --- logs -----------------------------------------------------------------------------

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition, loaded on first use."""
        log = self.logs.get((topic, partition))
        if log is None:
            with self.lock:
                log = self.logs.get((topic, partition))
                if log is None:
                    if self.closed:
                        raise ClosedError("the store is closed", path=self._dirs[0].path)
                    if not self.writable:
                        self.follow()
                    log = self._load(topic, partition)
                    self.logs.add(log)
                    self._unrecovered.pop((topic, partition), None)
                    if self.loaded is not None:
                        self.loaded(log)
            self.start_upkeep(log.config.flush_ms)
        return log

    def recover(self, progress: Progress | None) -> None:
        """Load every partition of the directories that were not closed cleanly, side by side."""
        with self.lock:
            for place in self.catalog.live:
                if not place.clean:
                    self.in_log_dir(place, place.begin)
            due = [
                ((topic, partition), place)
                for topic, partition, place in self.catalog.partitions()
                if not place.clean and place.offline is None
            ]
            logs, self._unrecovered = recover_all(
                self._files,
                due,
                self._load,
                threads=self.config.num_recovery_threads_per_data_dir,
                progress=progress,
            )
            for log in logs:
                self.logs.add(log)
            self._moves.recover_unfinished(self._maps)
            self._recovered = True
        if logs:
            self.start_upkeep(min(log.config.flush_ms for log in logs))

    @property
    def recovery(self) -> StoreRecovery:
        """What opening each of the logs found and did; grows as logs are opened."""
        return StoreRecovery(
            reports={
                (log.topic, log.partition): log.recovery
                for log in self.logs
                if log.recovery is not None
            },
            failed=dict(self._unrecovered),
            notes=(
                *(f"{path}: no partition; left alone" for path in self.catalog.strangers),
                *(f"{place.path}: offline, {place.offline}" for place in self.catalog.offline),
                *self.catalog.lone_copies(),
                *(note for place in self._dirs for note in place.notes),
            ),
        )

    def _load(self, topic: str, partition: int, tell: Tell | None = None) -> Log:
        place = self.catalog.place(topic, partition)
        if place.offline is not None:
            raise place.refusal()
        config, maps = self.catalog.config(topic), self._maps
        if not self.writable:
            own = self.catalog.is_own(topic) and self.config.max_mapped_segments > 0
            where = partial(self._place_now, topic, partition)
            seen, reader = open_for_reading(maps, where, topic, partition, config, own=own)
            reader.opened = partial(self.logs.woken, seen)
            reader.on_end = partial(self.logs.remove, seen)
            self.identities.add_reader((topic, partition), reader)
            return seen
        mode = self.config.recovery
        log, writer = open_for_writing(maps, place, topic, partition, config, mode, tell)
        check_barrier(self._files, log.path, (each.path for each in self._dirs))
        self._writers[topic, partition] = writer
        writer.active_segment.on_open = partial(self.logs.woken, log)
        writer.truncator.on_truncated = partial(self._note_shortened, self._keeper(), log)
        return log

    def _place_now(self, topic: str, partition: int) -> LogDir:
        """Where a reader finds a partition that its owner, elsewhere, may have moved.

        Called under a reader's lock, so it does not wait for ever for this one.
        """
        place = self.catalog.places.get(topic, {}).get(partition)
        folder = partition_directory(topic, partition)
        if place is not None and place.files.kind(place.join(folder)) is not None:
            return place
        deadline = time.monotonic() + _PATIENCE
        while True:
            with self.lock if self.lock._is_owned() else self.lock.attempt() as held:
                if held:
                    self.catalog.refresh()
                if held or time.monotonic() > deadline:
                    return self.catalog.place(topic, partition)
            time.sleep(_PAUSE)

    def follow(self) -> None:
        """Take over what another process did to the directories.

        Logs of partitions that are gone, and of topics that were deleted and made again, end:
        they are opened anew when they are asked for.
        """
        with self.lock:
            self.catalog.follow()
            self.identities.end_readers()

    def _note_shortened(self, _keeper: object, log: Log) -> None:
        """A truncation lowered a recovery point: the checkpoint must not promise more (Kafka).

        An unfinished copy of a move has records that are gone, and goes too.
        """
        if not self.closed:
            self.checkpoint()
            self._moves.forget_unfinished((log.topic, log.partition))

    def end_offsets(self, topic: str | None) -> dict[PartitionKey, int]:
        """The end offset of every partition (of one topic), without keeping files open.

        Partitions in a directory that is offline are left out, unless they were open before.
        """
        with self.lock:
            if topic is not None and topic not in self.catalog.places:
                raise self.catalog.unknown(topic)
            wanted = sorted(
                ((name, partition), place)
                for name, partition, place in self.catalog.partitions()
                if topic is None or name == topic
            )
        ends: dict[PartitionKey, int] = {}
        for key, place in wanted:
            log = self.logs.get(key)
            if log is None and place.offline is not None:
                continue
            if log is None and (place.clean or not self.writable):
                path, start = place.join(partition_directory(*key)), place.log_start(key)
                check = not self.writable  # whose own appends are whole
                end, is_whole = try_to_peek_end_offset(place.files, path, start, check=check)
                if is_whole or not (self.writable or end < place.current_recovery_point(key)):
                    ends[key] = end
                    continue
            ends[key] = self.log(*key).end_offset
        return ends

    def move(
        self,
        topic: str,
        partition: int,
        path: str | os.PathLike[str],
        max_bytes_per_second: int | None,
        progress: Progress | None,
    ) -> MoveInfo:
        """Move a partition to another directory of the store."""
        log = self.log(topic, partition)
        writer = self._writers[topic, partition]
        return self._moves.move(log, writer, path, max_bytes_per_second, progress)

    def is_moving(self, topic: str, partition: int) -> bool:
        """Whether a partition is on its way to another directory."""
        return self._moves.under_way((topic, partition))

    # --- topics ---------------------------------------------------------------------------

    def log_dirs(self) -> list[LogDirInfo]:
        """What is in each directory now."""
        uncleanable = self.cleaner.uncleanable  # before the lock: the cleaner's comes first
        with self.lock:
            return [self._describe(place, uncleanable) for place in self._dirs]

    def _describe(self, place: LogDir, uncleanable: tuple[UncleanablePartition, ...]) -> LogDirInfo:
        contents = None
        if place.offline is None:
            contents = place.scan()
            if not self.writable:
                uncleanable = _read_uncleanable(place)
        partitions = (
            () if contents is None else tuple(sorted(each[:2] for each in contents.partitions))
        )
        folders = {} if contents is None else contents.retired

        def named(state: str) -> tuple[str, ...]:
            return tuple(sorted(name for name, found in folders.items() if found.state == state))

        return LogDirInfo(
            place.path,
            place.offline,
            partitions,
            named(FUTURE),
            named(DELETE),
            named(STRAY),
            () if contents is None else tuple(contents.strangers),
            tuple(each for each in uncleanable if each[:2] in partitions),
        )

    def _partitions_in(self, place: LogDir) -> list[PartitionKey]:
        return [
            (topic, partition)
            for topic, partition, directory in self.catalog.partitions()
            if directory is place
        ]

    def delete(self, topic: str, *, foreign: bool) -> None:
        """Close a topic's logs, then delete its directories."""
        with self.lock:
            self.catalog.check_deletable(topic, foreign=foreign)
            self._moves.refuse_during(topic)
        for log in self.logs.of_topic(topic):
            try:
                log.close()
            finally:
                self.logs.remove(log)
                self._writers.pop((topic, log.partition), None)
        with self.lock:
            for log in self.logs.of_topic(topic):  # opened since
                self.logs.remove(log)
                log.close()
            for key in [each for each in self._unrecovered if each[0] == topic]:
                del self._unrecovered[key]
            self.catalog.delete(topic)
        self.cleaner.forget_topic(topic)
        self.background.forget_topic(topic)

    # --- background -----------------------------------------------------------------------

    def start_upkeep(self, flush_ms: int) -> None:
        """Have background work done, from the first log on, if it is not switched off."""
        if not (self.writable and self.config.background):
            return
        with self.lock:
            if self._scheduler is None and not self.closed:
                on_error = self.background.report
                self._scheduler = Scheduler(_weak_work(self), partial(on_error, "upkeep"))
                self._scheduler.start()
            elif self._scheduler is not None and flush_ms < INT64_MAX:
                self._scheduler.wake()

    def stop_upkeep(self) -> None:
        """End the background work."""
        upkeep, self._scheduler = self._scheduler, None
        self.cleaner.stop()
        if upkeep is not None:
            upkeep.stop()

    def let_go(self) -> None:
        """Have background work end, without waiting for it. Takes no lock: a finalizer calls it.

        Nothing is flushed or closed. Descriptors, and with them the locks of the directories, are
        given back when nothing refers to the logs any more.
        """
        self.closed = True
        self.cleaner.let_go()
        if self._scheduler is not None:
            self._scheduler.let_go()

    def is_gone(self, key: PartitionKey, log: Log | None) -> bool:
        """Whether a partition was deleted, or the log closed: what fails then is a lost race."""
        if self.closed or self._keeper() is None:
            return True
        if log is not None and (log.closed or self.logs.get(key) is not log):
            return True
        return key[1] not in self.catalog.places.get(key[0], {})

    def run(self, work: str, key: PartitionKey, do: Callable[[Log], object], log: Log) -> None:
        """Do background work on a log; its failure is reported, a lost race is not one."""
        try:
            do(log)
        except Exception as error:
            if not isinstance(error, ClosedError) and not self.is_gone(key, log):
                self.background.report(work, error, *key)
        else:
            self.background.end(work, *key)

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks of open logs.

        A directory that fails does not keep the others from being written; its error is raised.
        """
        errors: list[BaseException] = []
        with self.lock:
            for place in self.catalog.live:
                states = self._states(place)
                if states:
                    attempt(
                        errors, partial(self.in_log_dir, place, partial(place.checkpoint, states))
                    )
        if errors:
            raise errors[0]

    def in_log_dir(self, place: LogDir, work: Callable[[], object]) -> None:
        """Work in the background; a directory that fails meanwhile does not trouble the others.

        It was said in the log, and its own logs say so to whoever uses them.
        """
        try:
            work()
        except StorageError:
            if place.offline is None or not self.catalog.live:
                raise

    def flush_log(self, log: Log) -> None:
        """Flush for ``flush.ms``."""
        place = self.catalog.place(log.topic, log.partition)
        with suppress(LogFailedError):  # reported before, and the log itself says it to callers
            self.in_log_dir(place, log.flush)

    def expire_producers(self, log: Log) -> None:
        """Forget producers that were idle for too long."""
        with suppress(LogFailedError):
            log.expire_producers()

    def apply_retention(self) -> None:
        """Drop what retention allows in topics with settings of their own; remove old files.

        A partition that fails does not keep the others from being shortened; the first error is
        raised after them.
        """
        errors = [error for _, error in self.retention.run() if error is not None]
        if errors:
            raise errors[0]

    def _states(self, place: LogDir) -> dict[PartitionKey, LogState]:
        return {
            (log.topic, log.partition): self.state_of(log)
            for log in self.logs
            if self.catalog.places.get(log.topic, {}).get(log.partition) is place
        }

    def state_of(self, log: Log) -> LogState:
        """What checkpoints are to say of a log."""
        first = log.segments.views[0].base_offset
        start = log.start_offset if log.start_offset > first else None
        return LogState(log.recovery_point, start, log.end_offset)

    # --- the end --------------------------------------------------------------------------

    def close(self, errors: list[BaseException]) -> None:
        """Close logs, then write checkpoints and markers; errors are added to the list."""
        with self.lock:
            self.closed = True  # no log is opened from here on
        # Without the lock: whoever holds a log's may be waiting for it, to be told so.
        unclean = {
            self.catalog.place(log.topic, log.partition)
            for log in self.logs
            if not attempt(errors, log.close)
        }
        with self.lock:
            for place in self._dirs:
                whole = place not in unclean and self._is_whole(place)
                attempt(errors, partial(self._close_dir, place, whole))
                attempt(errors, partial(self._tell_unflushed, place))

    def _tell_unflushed(self, place: LogDir) -> None:
        """Raise where a directory went offline with records that nobody knows to be on disk."""
        if place.offline is None:
            return
        found = [
            f"{topic}-{partition} from offset {writer.state.recovery_point} to "
            f"{writer.state.segments.end_offset - 1}"
            for (topic, partition), writer in sorted(self._writers.items())
            if self.catalog.places.get(topic, {}).get(partition) is place
            and writer.state.recovery_point < writer.state.segments.end_offset
        ]
        if found:
            more = f" and {len(found) - _NAMES} more partitions" if len(found) > _NAMES else ""
            raise LogDirOfflineError(
                f"closed, but the directory is offline ({place.offline}) and these records may "
                f"not be on its disk: {', '.join(found[:_NAMES])}{more}",
                errno=place.offline.errno,
                path=place.path,
            ) from place.offline

    def _is_whole(self, place: LogDir) -> bool:
        """Whether no log of a directory is left that needs recovery."""
        return place.clean or (
            self._recovered
            and not any(
                self.catalog.places.get(topic, {}).get(partition) is place
                for topic, partition in self._unrecovered
            )
        )

    def _close_dir(self, place: LogDir, whole: bool) -> None:
        try:
            states = self._states(place) if self.writable and place.offline is None else {}
            if states:
                place.checkpoint(states)
            place.finish(clean=whole)
        finally:
            place.release()

    def release(self) -> None:
        """Give the directories' locks back and do nothing else."""
        for place in self._dirs:
            place.release()

    @property
    def loose_files(self) -> list[str]:
        """Offsets that readers committed while nobody could write ``__consumer_offsets``."""
        files = self.catalog.loose_files
        return [path for path in files if os.path.basename(path).startswith(OFFSETS_PREFIX)]


def _open_dir(files: Files, path: str, writable: bool, *, alone: bool) -> LogDir:
    """A log directory; offline where it cannot be opened and is not the only one (as Kafka)."""
    try:
        return LogDir(files, path, writable=writable)
    except StorageError as error:
        if alone or not keeps_from_opening(error):
            raise
        return LogDir(files, path, writable=writable, offline=error)


def _go_offline(manager: "weakref.ref[LogManager]", place: LogDir) -> None:
    """A directory failed: its open logs take no more.

    Locks nothing, because whoever saw it may hold any lock.
    """
    alive = manager()
    if alive is not None:
        for (topic, partition), writer in list(alive._writers.items()):
            if alive.catalog.places.get(topic, {}).get(partition) is place:
                writer.state.go_offline(place.refusal())


def _weak_work(manager: LogManager) -> Callable[[], float | None]:
    """The thread must not keep a store alive that nobody else holds."""
    reference = weakref.ref(manager)
    schedule = Schedule(partial(_report, reference), manager.background.end)

    def work() -> float | None:
        alive = reference()
        return None if alive is None or alive.closed else schedule.run(background_tasks(alive))

    return work


def _report(manager: "weakref.ref[LogManager]", work: str, error: Exception) -> None:
    """A task that is not about one log failed.

    It lost a race where its store is gone, or the topic that it worked on was deleted.
    """
    alive = manager()
    if alive is None or alive.closed or alive._keeper() is None:
        return
    if not isinstance(error, ClosedError | UnknownTopicOrPartitionError):
        alive.background.report(work, error)


def _read_uncleanable(place: LogDir) -> tuple[UncleanablePartition, ...]:
    """What the writer of a directory says; a file that does not parse says nothing."""
    try:
        return read_uncleanable(place.files, place.path)
    except (CorruptFileError, NewerFormatError) as error:
        _LOGGER.warning("%s", error)
        return ()
