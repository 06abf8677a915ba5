"""Compaction in the background: threads that take the dirtiest log, again and again.

Kafka's LogCleaner and LogCleanerManager. Only topics whose own settings have
``cleanup.policy=compact`` are looked at. A log that cannot be cleaned (a damaged batch, say) is
left alone until the store is opened again; a full disk is tried again after a pause.
"""

import logging
import threading
import weakref
from time import monotonic
from typing import TYPE_CHECKING

from kstore.errors import (
    ClosedError,
    CompactionAbandonedError,
    KStoreError,
    LogFailedError,
    StorageError,
)
from kstore.log import cleaner
from kstore.log.files import Files
from kstore.log.upkeep import Upkeep

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.manager import LogManager

_LOGGER = logging.getLogger("kstore")


class CleanerThread(Upkeep):
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
        self._busy: set[tuple[str, int]] = set()
        self._uncleanable: set[tuple[str, int]] = set()
        self._stopping = False

    def wake(self) -> None:
        """Look for work now; the threads begin with the first topic that is to be compacted."""
        manager = self._manager()
        if manager is None or not _compacted(manager):
            return
        with self._lock:
            if not self._threads and not self._stopping:
                count = manager.config.log_cleaner_threads
                self._threads = [CleanerThread(self._work) for _ in range(count)]
                for thread in self._threads:
                    thread.start()
        for thread in self._threads:
            thread.wake()

    def stop(self) -> None:
        """End the threads; a compaction under way is abandoned, and its log is as it was."""
        self._stopping = True
        for thread in self._threads:
            thread.stop()

    def raise_error(self) -> None:
        """Raise, once, what went wrong in a thread."""
        for thread in self._threads:
            thread.raise_error()

    def _work(self) -> float | None:
        """Clean one log; the seconds until it is worth looking again."""
        manager = self._manager()
        if manager is None or manager.closed or self._stopping:
            return None
        backoff = manager.config.log_cleaner_backoff_ms / 1000
        log = self.grab_filthiest(manager)
        if log is None:
            return backoff
        key = (log.topic, log.partition)
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
        with self._lock:
            found: list[tuple[float, Log]] = []
            for name, partition in _compacted(manager):
                key = (name, partition)
                taken = key in self._busy or manager.is_moving(*key)
                if taken or key in self._uncleanable:
                    continue
                try:
                    log = manager.log(name, partition)
                    facts = cleaner.facts_of(log, self._files)
                    now = log._writing().now_ms()
                    cleanable = cleaner.range_of(log, facts, self._files, now)
                except KStoreError as error:
                    self._give_up(key, error)
                    continue
                if cleanable.cleanable_bytes and cleanable.eligible(log.config):
                    found.append((cleanable.dirty_ratio, log))
            if not found:
                return None
            log = max(found, key=lambda each: each[0])[1]
            self._busy.add((log.topic, log.partition))
            return log

    def _clean(self, manager: "LogManager", log: "Log") -> None:
        config = manager.config
        started = monotonic()
        try:
            report = cleaner.compact(
                log,
                log._writing(),
                self._files,
                dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size
                // config.log_cleaner_threads,
                load_factor=config.log_cleaner_io_buffer_load_factor,
                throttle=self._throttle,
                check=self._check,
                rounds=1,
            )
        except (ClosedError, CompactionAbandonedError, LogFailedError) as error:
            if not self._stopping:
                _LOGGER.info("%s: compaction ended early: %s", log.path, error)
        except StorageError:
            raise  # of the disk, not of the log: told, and tried again
        except Exception as error:
            self._give_up((log.topic, log.partition), error)
            raise
        else:
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

    def _give_up(self, key: tuple[str, int], error: Exception) -> None:
        self._uncleanable.add(key)
        _LOGGER.warning("%s-%d is not compacted any more: %s", *key, error)


def _compacted(manager: "LogManager") -> list[tuple[str, int]]:
    """Partitions of topics with an entry of their own that says compact."""
    with manager.lock:
        return [
            (name, partition)
            for name in manager.catalog.configured()
            if "compact" in manager.catalog.config(name).cleanup_policy
            for partition in sorted(manager.catalog.places.get(name, ()))
        ]
