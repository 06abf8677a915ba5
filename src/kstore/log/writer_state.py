"""The shared state of a log's writer: its segments, its locks, and whether it may write.

:class:`kstore.log.writer.LogWriter` creates it and passes it to every component. The
appender is the kernel (:mod:`kstore._native.append.record_appender`), which handles most appends
alone.

The log stays usable when any change of it is interrupted: a segment counts from the moment
a :class:`SegmentList` with it is assigned to ``segments``.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from errno import EDQUOT, ENOENT, ENOSPC

from kstore._native.append.record_appender import RecordAppender
from kstore._native.append.reentrant_lock import ReentrantLock
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.config import LogConfig
from kstore.errors import (
    ClosedError,
    ForkedError,
    LogDirOfflineError,
    LogFailedError,
    StorageError,
)
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.integers import INT64_MAX
from kstore.log.watch import LogEvents, Watchers
from kstore.record import timestamp
from kstore.recovery.failed_sync import note_failed_sync
from kstore.recovery.loader import LoadedLog
from kstore.recovery.lost_segments import LostRecords
from kstore.segment.segment import Truncation

_LOGGER = logging.getLogger("kstore")
_STATES: "weakref.WeakSet[WriterState]" = weakref.WeakSet()


class WriterState:
    """State of one log that is open for writing. Its components change it under ``lock``.

    Lock order: ``cleaning``, ``flush_lock``, ``lock``, ``names_lock``. Readers take none but
    the last one, and that only for a segment that is not mapped yet.

    Attributes
    ----------
    segments
        The published segments; replaced as a list, never changed.
    begun_epoch
        The epoch that a leader began in this process, or last before it; -1: none.
    lost
        Records that were lost when the log was opened.
    removed_ends
        Ends of transactions that a truncation removed and that are not in the log again.
    recovery_point
        Everything below this offset is on disk.
    flush_lock
        Held for a sync, a truncation or a replacement of segments; appends continue.
    names_lock
        Held while files of rolled segments change their names.
    high_watermark
        The offset below which the log is replicated; -1 until someone sets it: then the log end.
    cleaning
        Held while the log is compacted.
    directory_changes, directory_synced
        How many names were created, changed or removed, and how many of those are on disk.
    unsynced_segments
        Rolled segments that are not on disk yet.
    pending_truncation
        A truncation whose files are not changed yet.
    truncations
        The offsets to which the log was truncated since it was opened, in order. Only added to.
    epochs_due
        The leader epoch checkpoint could not be written: the next change writes it.
    retired
        A heap of (time after which the files are removed, base offset).
    """

    def __init__(
        self,
        directory: str,
        loaded: LoadedLog,
        *,
        config: LogConfig,
        files: Files,
        maps: MapBudget,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.directory = directory
        self.config = config
        self.files = files
        self.maps = maps
        self.clock = clock
        self.lock = ReentrantLock()
        self.flush_lock = ReentrantLock()
        self.names_lock = threading.RLock()
        self.cleaning = ReentrantLock()
        self.segments: SegmentList = loaded.segments
        self.recovery_point = loaded.recovery_point
        self.high_watermark = -1
        self.epochs: LeaderEpochs = loaded.epochs
        latest = loaded.epochs.latest
        is_ahead = latest is not None and latest.start_offset >= loaded.segments.end_offset
        self.begun_epoch = latest.epoch if latest is not None and is_ahead else -1
        self.producers = loaded.producers
        self.removed_ends = loaded.removed_ends
        self.lost = LostRecords(directory, loaded.lost)
        self.unsynced_segments = _recovered_segments(loaded)
        self.is_extending = False  # an extend iterates its source, and its thread holds the lock
        self.directory_changes = 0
        self.directory_synced = 0
        self.pending_truncation: Truncation | None = None
        self.truncations: list[int] = []
        self.epochs_due = False
        self.retired: list[tuple[int, int]] = []
        self.is_closing = False  # ends a running compaction soon
        self.is_closed = False
        self.is_forked = False
        self.failure: BaseException | None = None
        self.directory_gone: LogDirOfflineError | None = None
        # (offset after the last batch, log end), if nothing was appended since they differed.
        self._gap = (loaded.data_end, self.segments.end_offset)
        self._wakers = threading.Condition(self.lock)  # type: ignore[arg-type]  # an RLock to it
        self.appender = RecordAppender(self.lock, files, timestamp.to_record_timestamp, directory)
        self.appender.usable = self.check_usable
        self.appender.wake = self.wake
        self.watchers = Watchers(self.lock, self.appender)
        self.appender.producers = self.producers.table
        _STATES.add(self)

    @property
    def active(self) -> SegmentView:
        return self.segments.views[-1]

    def now_ms(self) -> int:
        return self.clock() if self.clock is not None else time.time_ns() // 1_000_000

    # --- whether it may write ---------------------------------------------------------------

    def check_usable(self) -> None:
        """Raise if the log must not be written: it is closed, forked, or failed."""
        if self.is_forked:
            raise ForkedError(
                "this store was opened before the process forked; open a new one in the child",
                path=self.directory,
            )
        if self.is_closed:
            raise ClosedError("the log is closed", path=self.directory)
        if isinstance(self.failure, LogDirOfflineError):
            raise LogDirOfflineError(
                self.failure.reason, errno=self.failure.errno, path=self.directory
            ) from self.failure
        if self.failure is not None:
            raise LogFailedError(
                f"the log failed ({self.failure}) and is read-only until it is reopened: "
                "it is unknown what is on disk",
                path=self.directory,
            ) from self.failure

    def fail(self, error: BaseException) -> None:
        """Refuse appends until the log is reopened: its files cannot be trusted.

        Waits for no lock: the thread that holds it may wait for the caller.
        """
        self._refuse(error)
        note_failed_sync(self.files, self.directory)

    def _refuse(self, error: BaseException) -> None:
        if not isinstance(self.failure, LogDirOfflineError):  # which is more specific
            self.failure = error
        self.appender.ready = False

    def go_offline(self, error: LogDirOfflineError) -> None:
        """The disk of the directory failed: refuse appends from the next one on.

        Takes no lock: the caller may hold any.
        """
        if self.failure is None:
            self.failure = error
        self.appender.ready = False

    def fail_directory_gone(self) -> None:
        """Take the log offline: the active segment's file is not at its name any more."""
        self.directory_gone = LogDirOfflineError(
            "the file of the active segment is no longer at its name: another process removed, "
            "moved or replaced the directory of the log while it was open. Appends are refused, "
            f"and records from offset {self.recovery_point} on, which were not flushed, may be "
            "lost: close the store, restore the directory, and open it again",
            errno=ENOENT,
            path=self.active.path,
        )
        self._refuse(self.directory_gone)

    # --- offsets and epochs -----------------------------------------------------------------

    @property
    def data_end(self) -> int:
        """The offset after the last batch: after truncation or deletion perhaps below the end.

        A recovery point beyond it would make an append that a kill interrupted look like lost data.
        """
        data_end, end = self._gap
        now = self.segments.end_offset
        return data_end if now == end else now

    def note_data_end(self, data_end: int, end: int) -> None:
        """The log ends at ``end`` now, and its last batch at ``data_end``."""
        self._gap = (data_end, end)

    def next_flush_offset(self) -> int:
        """The log end at which ``flush.messages`` requires a flush."""
        every = self.config.flush_messages
        return INT64_MAX if every == INT64_MAX else min(self.recovery_point + every, INT64_MAX)

    def latest_epoch(self) -> int:
        latest = self.epochs.latest
        return 0 if latest is None else latest.epoch

    def keep_begun_epoch(self, start_offset: int) -> bool:
        """Begin the leader's epoch at start_offset if its entry was removed; whether it was.

        No later append may carry a lower epoch.
        """
        latest = self.epochs.latest
        if self.begun_epoch <= (-1 if latest is None else latest.epoch):
            return False
        return self.epochs.assign(self.begun_epoch, start_offset)

    def save_epochs(self, is_changed: bool) -> None:
        """Write the leader epoch checkpoint, if the epochs have changed."""
        if is_changed or self.epochs_due:
            self.epochs.save(self.files, os.path.join(self.directory, filenames.LEADER_EPOCHS))
            self.epochs_due = False

    def save_shorter_epochs(self, is_changed: bool) -> None:
        """The same after a deletion of old records; later, on a full disk, so that a deletion can
        free space: until then the file has epochs that begin before the log does, as after a crash.
        """
        try:
            self.save_epochs(is_changed)
        except StorageError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            self.epochs_due = True
            _LOGGER.warning("%s: the epochs of deleted records remain: %s", self.directory, error)

    @property
    def is_source(self) -> bool:
        """Whether the calling thread iterates the source of an extend, and so holds the lock."""
        return self.is_extending and self.lock._is_owned()

    def check_lock_order(self) -> None:
        """Refuse to wait for another thread that may wait for this one.

        The source of an `extend` runs while its thread holds `lock`. A sync of rolled segments in
        another thread holds `flush_lock`, and waits for `lock`. Without an extend a thread that
        holds `lock` may continue: an interrupt can have left it so.
        """
        if self.is_source and not self.flush_lock._is_owned():
            raise RuntimeError("the source of an extend must not change or close the same log")

    # --- waking followers -------------------------------------------------------------------

    def wake(self, events: LogEvents = LogEvents.END) -> None:
        with self._wakers:
            self._wakers.notify_all()
            self.watchers.note(events)

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Wait until the log end lies beyond offset; False when the time is over, the log closes,
        or its end is lowered."""
        if self.is_forked:
            self.check_usable()
        with self._wakers:
            count = len(self.truncations)
            self.appender.waiters += 1
            try:
                self._wakers.wait_for(
                    lambda: (
                        self.is_closed
                        or self.segments.end_offset > offset
                        or len(self.truncations) > count
                    ),
                    timeout,
                )
                return self.segments.end_offset > offset
            finally:
                self.appender.waiters -= 1

    def after_fork(self) -> None:
        """In a forked child: refuse everything, and free locks that other threads may have held."""
        self.is_forked = True
        self.lock._at_fork_reinit()
        self.flush_lock = ReentrantLock()
        self.cleaning = ReentrantLock()
        self.names_lock = threading.RLock()
        self._wakers = threading.Condition(self.lock)  # type: ignore[arg-type]  # an RLock to it
        self.watchers = Watchers(self.lock, self.appender)
        self.appender.detach()


def _recovered_segments(loaded: LoadedLog) -> list[SegmentView]:
    """Rolled segments that a recovery read, and that a killed writer may not have synced."""
    if loaded.recovery_point >= loaded.data_end:
        return []
    return [view for view in loaded.segments.views[:-1] if view.next_offset > loaded.recovery_point]


def _disable_in_child() -> None:
    for state in list(_STATES):
        state.after_fork()


os.register_at_fork(after_in_child=_disable_in_child)
