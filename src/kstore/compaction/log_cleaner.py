"""The cleaner threads: each repeatedly compacts the dirtiest log.

Kafka's LogCleaner and LogCleanerManager. The threads compact only topics whose own settings have
``cleanup.policy=compact``.

After a transient error (:func:`is_lasting`) the compaction of a log is retried after
``log.cleaner.backoff.ms``. A missing file, an I/O error, a missing permission and a read-only file
system are transient for a few attempts, and lasting if nothing has changed by then. After a
lasting error, such as a corrupt batch, the partition is *uncleanable*, as in Kafka (KIP-346): the
cleaner skips it until a truncation, retention, a change of settings or of bytes may have removed
the cause, or until the store is opened again.
"""

import errno
import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from kstore.background.scheduler import Scheduler
from kstore.checkpoint.uncleanable_partitions import (
    UncleanablePartition,
    read_uncleanable,
    write_uncleanable,
)
from kstore.clock import now_ms
from kstore.compaction.throttler import Throttler
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
from kstore.files.descriptor_limit import loading
from kstore.files.files import Files

if TYPE_CHECKING:
    from kstore.config import StoreConfig
    from kstore.log.log import Log
    from kstore.store.log_manager import LogManager

_LOGGER = logging.getLogger("kstore")
_COMPACTION = "compaction"  # in reports of failures
# Transient for _MAX_ATTEMPTS: a missing file, an I/O error, no permission, a read-only disk.
_MAY_BE_LASTING = (errno.ENOENT, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS)
_MAX_ATTEMPTS = 5  # with the same settings, log start and segments
_SHORTEST_BACKOFF = 1.0  # seconds before the compaction of a log is retried

PartitionKey = tuple[str, int]


def is_lasting(error: Exception) -> bool:
    """Whether compacting a log again is pointless after this error, until something changes.

    ===========================================================  =========
    full disk, no descriptors, interrupted: OSError                transient
    missing file, I/O error, no permission, read-only file system  transient for a few attempts
    no memory                                                      transient
    log closed, failed, deleted, truncated or moved meanwhile      transient
    ``compact`` was removed from the settings                      transient
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
    """The cleaner threads of one store; ``wake`` starts them once a topic is compacted.

    Thread safe. Holds the manager weakly, so that an unreferenced store can be collected.
    """

    def __init__(self, manager: "LogManager", files: Files) -> None:
        self._manager = weakref.ref(manager)
        self._files = files
        rate = manager.config.log_cleaner_io_max_bytes_per_second
        self._throttle = Throttler(rate)  # shared by all threads, as in Kafka
        self._lock = threading.Lock()
        self._threads: list[CleanerThread] = []
        self._ending: list[CleanerThread] = []  # were too many after a change of settings
        self._busy: set[PartitionKey] = set()
        self._retry_at: dict[PartitionKey, float] = {}  # after a transient error
        self._attempts: dict[PartitionKey, tuple[object, int]] = {}  # failed, by unchanged state
        self._uncleanable: dict[PartitionKey, _Uncleanable] = {}
        self._stopping = False

    def wake(self) -> None:
        """Check for logs to compact now; starts the threads if a topic is compacted."""
        manager = self._manager()
        if manager is None:
            return
        compacted = _compacted(manager)
        self._forget(manager, lambda key: key not in compacted)
        if not compacted:
            return
        with self._lock:
            if not self._stopping:
                self._start_or_end_threads(manager)
        for thread in self._threads:
            thread.wake()

    def _start_or_end_threads(self, manager: "LogManager") -> None:
        """Have as many as the settings ask for; one that is too many ends after its compaction."""
        surplus = len(self._threads) - manager.config.log_cleaner_threads
        for _ in range(surplus):
            thread = self._threads.pop()
            thread.request_stop()
            self._ending.append(thread)
        for _ in range(-surplus):
            thread = CleanerThread(self._work, partial(manager.background.report, _COMPACTION))
            thread.start()
            self._threads.append(thread)

    def reconfigure(self, config: "StoreConfig") -> None:
        """Follow other settings of the manager; compactions in work keep the old ones."""
        self._throttle.set_rate(config.log_cleaner_io_max_bytes_per_second)
        if self._threads:
            self.wake()

    def request_stop(self) -> None:
        """Stop the threads without waiting for them; takes no lock."""
        self._stopping = True
        for thread in (*self._threads, *self._ending):
            thread.request_stop()

    def stop(self) -> None:
        """Stop the threads and wait; a running compaction is abandoned, its log stays as it is."""
        self._stopping = True
        with self._lock:
            threads = (*self._threads, *self._ending)
        for thread in threads:
            thread.stop()

    # --- partitions that cannot be compacted ------------------------------------------------

    def load_uncleanable(self, directory: str, partitions: Iterable[PartitionKey]) -> None:
        """Load the uncleanable partitions that the last writer saved; each is retried once."""
        present = set(partitions)
        try:
            found = read_uncleanable(self._files, directory)
        except (KStoreError, OSError) as error:
            _LOGGER.warning("%s", error)
            return
        for partition in found:
            if partition[:2] in present:
                self._uncleanable[partition[:2]] = _Uncleanable(partition, None)

    @property
    def uncleanable(self) -> tuple[UncleanablePartition, ...]:
        """The partitions that the cleaner skips, with the reason, in order."""
        with self._lock:
            return tuple(sorted(known.shown for known in self._uncleanable.values()))

    def forget_topic(self, topic: str, partition: int | None = None) -> None:
        """The topic or partition was deleted: a new one of its name has no failures."""
        manager = self._manager()
        if manager is not None:
            self._forget(manager, lambda key: key[0] == topic and partition in (None, key[1]))

    def _forget(self, manager: "LogManager", is_obsolete: Callable[[PartitionKey], bool]) -> None:
        """Forget the failures of these partitions."""
        with self._lock:
            obsolete = [key for key in (*self._uncleanable, *self._retry_at) if is_obsolete(key)]
            for key in obsolete:
                self._retry_at.pop(key, None)
                self._attempts.pop(key, None)
            removed = [key for key in obsolete if self._uncleanable.pop(key, None) is not None]
        for key in obsolete:
            manager.background.end(_COMPACTION, *key)
        if removed:
            self._save(manager)

    def _is_skipped(self, manager: "LogManager", key: PartitionKey) -> bool:
        """Whether it is too early for a retry, or nothing has changed since a lasting error."""
        if self._retry_at.get(key, 0.0) > monotonic():
            return True
        known = self._uncleanable.get(key)
        return (
            known is not None
            and known.state is not None
            and known.state == self._state_of(manager, key, known.path)
        )

    def _state_of(self, manager: "LogManager", key: PartitionKey, path: str | None) -> object:
        """What must change before an uncleanable partition is retried.

        Its settings, its log start, and the file that the error names, or else its segments.
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
        """The partition was compacted, or has nothing to compact."""
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
        """Handle an error: ignore a lost race, else retry later or mark as uncleanable."""
        if self._stopping:
            return
        backoff = manager.config.log_cleaner_backoff_ms / 1000
        is_race = is_race or isinstance(error, _LOST_RACES) or manager.is_gone(key, log)
        lasting = not is_race and (
            is_lasting(error) or self._has_exhausted_attempts(manager, key, error)
        )
        if not lasting:
            with self._lock:
                self._retry_at[key] = monotonic() + max(backoff, _SHORTEST_BACKOFF)
        if is_race:
            _LOGGER.info("%s-%d: compaction ended early: %s", *key, error)
            return
        if lasting:
            path = getattr(error, "path", None)
            known = self._uncleanable.get(key)
            text = str(error) if isinstance(error, KStoreError) else repr(error)
            since = now_ms()
            if known is not None and known.shown.error == text:
                since = known.shown.since_ms
            shown = UncleanablePartition(*key, text, since)
            with self._lock:
                state = self._state_of(manager, key, path)
                self._uncleanable[key] = _Uncleanable(shown, state, path)
            self._save(manager)
        manager.background.report(_COMPACTION, error, *key, is_lasting=lasting)

    def _has_exhausted_attempts(
        self, manager: "LogManager", key: PartitionKey, error: Exception
    ) -> bool:
        """Whether the same I/O error was repeated often enough on an unchanged log."""
        if getattr(error, "errno", None) not in _MAY_BE_LASTING:
            return False
        state = self._state_of(manager, key, None)
        with self._lock:
            before, attempts = self._attempts.get(key, (None, 0))
            attempts = attempts + 1 if before == state else 1
            self._attempts[key] = state, attempts
        return attempts >= _MAX_ATTEMPTS

    def _save(self, manager: "LogManager") -> None:
        """Write the files that show other processes the uncleanable partitions."""
        uncleanable = self.uncleanable
        with manager.lock:
            topics = manager.catalog.topics
            for log_dir in manager.catalog.live:
                in_log_dir = tuple(
                    entry
                    for entry in uncleanable
                    if topics.get(entry.topic, {}).get(entry.partition) is log_dir
                )
                write_uncleanable(log_dir.files, log_dir.path, in_log_dir)

    # --- the work of a thread ---------------------------------------------------------------

    def _work(self) -> float | None:
        """Clean one log; returns the seconds until the next check."""
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
        """Mark the eligible log with the highest dirty ratio as busy and return it.

        Kafka's grabFilthiestCompactedLog. The caller removes the log from ``_busy``.
        """
        with loading("cannot compact"):  # once a topic is compacted
            from kstore.compaction.round_plan import facts_of, range_of

        found: list[tuple[float, Log]] = []
        for key in _compacted(manager):
            is_busy = key in self._busy or manager.is_moving(*key)
            if is_busy or self._is_skipped(manager, key):
                continue
            log, views = None, None
            try:
                log = manager.log(*key)
                views = log.segments.views
                facts = facts_of(log, self._files)
                now = log._require_writer().state.now_ms()
                cleanable = range_of(log, facts, self._files, now)
            except Exception as error:
                has_changed = log is not None and log.segments.views is not views
                self._failed(manager, key, log, error, is_race=has_changed)
                continue
            if cleanable.cleanable_bytes and cleanable.eligible(log.config):
                found.append((cleanable.dirty_ratio, log))
            else:
                self._succeeded(manager, key)
        with self._lock:
            found = [candidate for candidate in found if _key_of(candidate[1]) not in self._busy]
            if not found:
                return None
            log = max(found, key=itemgetter(0))[1]
            self._busy.add(_key_of(log))
            return log

    def _clean(self, manager: "LogManager", log: "Log") -> None:
        config = manager.config
        started, key = monotonic(), _key_of(log)
        try:
            with loading("cannot compact"):
                from kstore.compaction import cleaner
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
    """An uncleanable partition; it is retried when its state differs from this one or is None."""

    shown: UncleanablePartition
    state: object
    path: str | None = None  # the file that the error names


def _key_of(log: "Log") -> PartitionKey:
    return log.topic, log.partition


def _compacted(manager: "LogManager") -> list[tuple[str, int]]:
    """The partitions of topics whose own settings have ``cleanup.policy=compact``."""
    with manager.lock:
        return [
            (name, partition)
            for name in manager.catalog.configured()
            if "compact" in manager.catalog.config(name).cleanup_policy
            for partition in sorted(manager.catalog.topics.get(name, ()))
        ]
