"""Compaction in the background: threads that take the dirtiest log, again and again.

Kafka's LogCleaner and LogCleanerManager. Only topics whose own settings have
``cleanup.policy=compact`` are looked at.

A log whose compaction failed is retried after ``log.cleaner.backoff.ms`` when the error is a
transient one (:func:`is_lasting`). A missing file, a failing disk, a missing permission and a
read-only file system are transient for a few tries, and lasting if nothing has changed by then.
After a lasting error (a corrupt batch, say) the
partition is *uncleanable*, as in Kafka (KIP-346): it is left alone until the cause of the error is
removed, by a truncation, retention, other settings or other bytes, or until the store is opened
again.
"""

import errno
import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic, time_ns
from typing import TYPE_CHECKING, NamedTuple

from kstore.background.scheduler import Scheduler
from kstore.checkpoint.uncleanable_partitions import (
    UncleanablePartition,
    read_uncleanable,
    write_uncleanable,
)
from kstore.compaction import cleaner
from kstore.errors import (
    ClosedError,
    CompactionAbandonedError,
    ForkedError,
    KStoreError,
    LogFailedError,
    PolicyViolationError,
    RecoveryNeededError,
    UnknownTopicOrPartitionError,
)
from kstore.files.files import Files

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.manager import LogManager

_LOGGER = logging.getLogger("kstore")
_COMPACTION = "compaction"  # in reports of failures
# Transient for _TRIES tries: a file is missing, the disk fails, or nothing may be written.
_MAY_BE_LASTING = (errno.ENOENT, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS)
_TRIES = 5  # with the same settings, log start and segments
_SHORTEST_BACKOFF = 1.0  # seconds before a log is retried whose compaction failed

PartitionKey = tuple[str, int]


def is_lasting(error: Exception) -> bool:
    """Whether compacting a log again is pointless after this error, until something changes.

    ===========================================================  =========
    full disk, no descriptors, interrupted: OSError                transient
    missing file, I/O error, no permission, read-only file system  transient for a few tries
    no memory                                                      transient
    log closed, failed, deleted, truncated or moved meanwhile      transient
    settings without ``compact`` since                             transient
    corrupt batch, index or metadata; recovery needed              lasting
    key map too small for one batch                                lasting
    anything else                                                  lasting
    ===========================================================  =========
    """
    if isinstance(error, RecoveryNeededError):  # an OSError
        return True
    return not isinstance(error, (OSError, MemoryError, *_LOST_RACES, PolicyViolationError))


_LOST_RACES = (
    ClosedError,
    CompactionAbandonedError,
    ForkedError,
    LogFailedError,
    UnknownTopicOrPartitionError,
)


class CleanerThread(Scheduler):
    """One of ``log.cleaner.threads``."""

    NAME = "kstore-cleaner"


class LogCleaner:
    """The cleaner threads of one store. Started by the first ``wake`` that finds work.

    Thread safe. Holds the manager weakly: it does not keep a store alive that nobody else holds.
    """

    def __init__(self, manager: "LogManager", files: Files) -> None:
        self._manager = weakref.ref(manager)
        self._files = files
        rate = manager.config.log_cleaner_io_max_bytes_per_second
        self._throttle = cleaner.Throttle(rate)  # of all threads together, as Kafka's
        self._lock = threading.Lock()
        self._threads: list[CleanerThread] = []
        self._busy: set[PartitionKey] = set()
        self._retry_at: dict[PartitionKey, float] = {}  # after a transient error
        self._tries: dict[PartitionKey, tuple[object, int]] = {}  # what has not changed since
        self._uncleanable: dict[PartitionKey, _Uncleanable] = {}
        self._stopping = False

    def wake(self) -> None:
        """Look for work now; the threads begin with the first topic that is to be compacted."""
        manager = self._manager()
        if manager is None:
            return
        wanted = _compacted(manager)
        self._forget(manager, lambda key: key not in wanted)
        if not wanted:
            return
        with self._lock:
            if not self._threads and not self._stopping:
                count = manager.config.log_cleaner_threads
                self._threads = [
                    CleanerThread(self._work, partial(manager.background.report, _COMPACTION))
                    for _ in range(count)
                ]
                for thread in self._threads:
                    thread.start()
        for thread in self._threads:
            thread.wake()

    def let_go(self) -> None:
        """End the threads without waiting for them; takes no lock."""
        self._stopping = True
        for thread in self._threads:
            thread.let_go()

    def stop(self) -> None:
        """End the threads; a compaction under way is abandoned, and its log is as it was."""
        self._stopping = True
        for thread in self._threads:
            thread.stop()

    # --- partitions that cannot be compacted ------------------------------------------------

    def load_uncleanable(self, directory: str, partitions: Iterable[PartitionKey]) -> None:
        """Take over what the last writer of a log directory left; each is tried again."""
        here = set(partitions)
        try:
            found = read_uncleanable(self._files, directory)
        except (KStoreError, OSError) as error:
            _LOGGER.warning("%s", error)
            return
        for each in found:
            if each[:2] in here:
                self._uncleanable[each[:2]] = _Uncleanable(each, None)

    @property
    def uncleanable(self) -> tuple[UncleanablePartition, ...]:
        """The partitions that are left alone, and why, in order."""
        with self._lock:
            return tuple(sorted(each.shown for each in self._uncleanable.values()))

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: one of the same name starts from nothing."""
        manager = self._manager()
        if manager is not None:
            self._forget(manager, lambda key: key[0] == topic)

    def _forget(self, manager: "LogManager", is_over: Callable[[PartitionKey], bool]) -> None:
        """Drop what is known of failures of these partitions."""
        with self._lock:
            over = [key for key in (*self._uncleanable, *self._retry_at) if is_over(key)]
            for key in over:
                self._retry_at.pop(key, None)
                self._tries.pop(key, None)
            removed = [key for key in over if self._uncleanable.pop(key, None) is not None]
        for key in over:
            manager.background.end(_COMPACTION, *key)
        if removed:
            self._save(manager)

    def _is_left_alone(self, manager: "LogManager", key: PartitionKey) -> bool:
        """Whether nothing has changed since the partition failed."""
        if self._retry_at.get(key, 0.0) > monotonic():
            return True
        known = self._uncleanable.get(key)
        return (
            known is not None
            and known.cause is not None
            and known.cause == self._cause(manager, key, known.path)
        )

    def _cause(self, manager: "LogManager", key: PartitionKey, path: str | None) -> object:
        """What has to change before an uncleanable partition is tried again.

        Its settings, its log start, the file that the error names, or else its segments.
        """
        config = manager.catalog.config(key[0])
        log = manager.logs.get(key)
        start = None if log is None else log.start_offset
        if path is not None:
            try:
                about = self._files.about(path)
            except OSError:
                return config, start, None
            return config, start, (about.st_ino, about.st_size, about.st_mtime_ns)
        views = () if log is None else log.segments.views
        return config, start, tuple((view.base_offset, view.path) for view in views)

    def _succeeded(self, manager: "LogManager", key: PartitionKey) -> None:
        """The partition is compacted, or has nothing that is to be."""
        if key in self._uncleanable or key in self._retry_at:
            self._forget(manager, key.__eq__)

    def _failed(
        self,
        manager: "LogManager",
        key: PartitionKey,
        log: "Log | None",
        error: Exception,
        *,
        is_race: bool = False,
    ) -> None:
        """Judge an error: a lost race is none, others are retried or make it uncleanable."""
        if self._stopping:
            return
        backoff = manager.config.log_cleaner_backoff_ms / 1000
        lost = is_race or isinstance(error, _LOST_RACES) or manager.is_gone(key, log)
        lasting = not lost and (is_lasting(error) or self._is_tried_enough(manager, key, error))
        if not lasting:
            with self._lock:
                self._retry_at[key] = monotonic() + max(backoff, _SHORTEST_BACKOFF)
        if lost:
            _LOGGER.info("%s-%d: compaction ended early: %s", *key, error)
            return
        if lasting:
            path = getattr(error, "path", None)
            known = self._uncleanable.get(key)
            text = str(error) if isinstance(error, KStoreError) else repr(error)
            since = time_ns() // 1_000_000
            if known is not None and known.shown.error == text:
                since = known.shown.since_ms
            shown = UncleanablePartition(*key, text, since)
            with self._lock:
                self._uncleanable[key] = _Uncleanable(shown, self._cause(manager, key, path), path)
            self._save(manager)
        manager.background.report(_COMPACTION, error, *key, is_lasting=lasting)

    def _is_tried_enough(self, manager: "LogManager", key: PartitionKey, error: Exception) -> bool:
        """Whether a file stays missing, or unreadable, while nothing of the log changes."""
        if getattr(error, "errno", None) not in _MAY_BE_LASTING:
            return False
        cause = self._cause(manager, key, None)
        with self._lock:
            before, tries = self._tries.get(key, (None, 0))
            tries = tries + 1 if before == cause else 1
            self._tries[key] = cause, tries
        return tries >= _TRIES

    def _save(self, manager: "LogManager") -> None:
        """Write the files by which other processes see what is uncleanable."""
        found = self.uncleanable
        with manager.lock:
            for place in manager.catalog.live:
                here = tuple(
                    each
                    for each in found
                    if manager.catalog.topics.get(each.topic, {}).get(each.partition) is place
                )
                write_uncleanable(place.files, place.path, here)

    # --- the work of a thread ---------------------------------------------------------------

    def _work(self) -> float | None:
        """Clean one log; the seconds until it is worth looking again."""
        manager = self._manager()
        if manager is None or manager.closed or self._stopping:
            return None
        backoff = manager.config.log_cleaner_backoff_ms / 1000
        log = self.grab_filthiest(manager)
        manager.background.end(_COMPACTION)
        if log is None:
            return backoff
        key = _key_of(log)
        try:
            self._clean(manager, log)
        finally:
            with self._lock:
                self._busy.discard(key)
        return 0.0

    def grab_filthiest(self, manager: "LogManager") -> "Log | None":
        """The log with the highest dirty ratio of those that are due, marked as taken.

        Kafka's grabFilthiestCompactedLog. Its ``_busy`` mark is the caller's to remove.
        """
        found: list[tuple[float, Log]] = []
        for key in _compacted(manager):
            taken = key in self._busy or manager.is_moving(*key)
            if taken or self._is_left_alone(manager, key):
                continue
            log, views = None, None
            try:
                log = manager.log(*key)
                views = log.segments.views
                facts = cleaner.facts_of(log, self._files)
                now = log._require_writer().state.now_ms()
                cleanable = cleaner.range_of(log, facts, self._files, now)
            except Exception as error:
                has_changed = log is not None and log.segments.views is not views
                self._failed(manager, key, log, error, is_race=has_changed)
                continue
            if cleanable.cleanable_bytes and cleanable.eligible(log.config):
                found.append((cleanable.dirty_ratio, log))
            else:
                self._succeeded(manager, key)
        with self._lock:
            found = [each for each in found if _key_of(each[1]) not in self._busy]
            if not found:
                return None
            log = max(found, key=lambda each: each[0])[1]
            self._busy.add(_key_of(log))
            return log

    def _clean(self, manager: "LogManager", log: "Log") -> None:
        config = manager.config
        started, key = monotonic(), _key_of(log)
        try:
            report = cleaner.compact(
                log,
                log._require_writer(),
                self._files,
                dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size
                // config.log_cleaner_threads,
                load_factor=config.log_cleaner_io_buffer_load_factor,
                throttle=self._throttle,
                check=self._check,
                rounds=1,
            )
        except Exception as error:
            self._failed(manager, key, log, error)
            return
        self._succeeded(manager, key)
        _LOGGER.info(
            "%s: compacted %d records to %d, %d bytes to %d, in %.1f s",
            log.path,
            report.records_read,
            report.records_kept,
            report.bytes_before,
            report.bytes_after,
            monotonic() - started,
        )

    def _check(self) -> None:
        if self._stopping:
            raise CompactionAbandonedError("the store is being closed")


class _Uncleanable(NamedTuple):
    """What is known of an uncleanable partition; without a cause it is tried again."""

    shown: UncleanablePartition
    cause: object
    path: str | None = None  # the file that the error names


def _key_of(log: "Log") -> PartitionKey:
    return log.topic, log.partition


def _compacted(manager: "LogManager") -> list[tuple[str, int]]:
    """Partitions of topics with an entry of their own that says compact."""
    with manager.lock:
        return [
            (name, partition)
            for name in manager.catalog.configured()
            if "compact" in manager.catalog.config(name).cleanup_policy
            for partition in sorted(manager.catalog.topics.get(name, ()))
        ]
