"""The writing half of a log: what happens around the append kernel.

Rolling, flushing, truncating, dropping old segments, parking and closing. The kernel
(:mod:`kstore._native.append`) does the steady state and calls back here when a decision is due.

Every step leaves the log usable when it is interrupted: a new segment counts from the moment
its :class:`SegmentList` is assigned, and files of a segment that never got that far are removed
before the next write.
"""

import errno
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable

from kstore._native.append import Appender
from kstore._native.locate import SegmentList, SegmentView
from kstore._native.lock import ReentrantLock
from kstore.config import INT64_MAX, LogConfig
from kstore.errors import (
    ClosedError,
    CorruptRecordError,
    ForkedError,
    LogFailedError,
    OffsetOutOfRangeError,
    StorageError,
)
from kstore.log import filenames, validator
from kstore.log import segment as segments_on_disk
from kstore.log.files import Files
from kstore.log.leader_epochs import LeaderEpochs
from kstore.log.loader import LoadedLog, load_active
from kstore.log.maps import MapBudget
from kstore.record import codec, timestamp

_LOGGER = logging.getLogger("kstore")
_WRITERS: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()


class LogWriter:
    """One partition, open for writing. Thread safe: ``lock`` guards every change.

    Lock order: ``_flush_lock`` before ``lock``. Readers take neither.
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
        jitter: int = 0,
    ) -> None:
        self.directory = directory
        self.config = config
        self.files = files
        self.lock = ReentrantLock()
        self.extending = False  # an extend is under way; its own source must not append
        self.segments: SegmentList = loaded.segments
        self.recovery_point = loaded.recovery_point
        # (offset after the last batch, log end) where nothing was appended since they differed.
        self._gap = (loaded.data_end, self.segments.end_offset)
        self.epochs: LeaderEpochs = loaded.epochs
        self.opened: Callable[[], None] | None = None  # told when files are opened (store's LRU)
        self.shortened: Callable[[], None] | None = None  # told when the recovery point went down
        self._maps = maps
        self._clock = clock
        self._jitter = jitter
        self._flush_lock = threading.Lock()
        self._files: segments_on_disk.WritableFiles | None = None
        self._unsynced: list[SegmentView] = []  # rolled, not yet on disk
        self._directory_changes = 0  # names made, renamed or removed, and how many are on disk
        self._directory_synced = 0
        self._unfinished: int | None = None  # base offset of a segment that is being made
        self._cut: segments_on_disk.Cut | None = None  # a truncation that is not yet on disk
        self._retired: list[tuple[int, int]] = []  # (base offset, when its files may go)
        self._wakers = threading.Condition(self.lock)  # type: ignore[arg-type]  # an RLock to it
        self._closed = False
        self._clean = False  # closed, and all is on disk
        self._forked = False
        self._failure: BaseException | None = None
        self.appender = self._make_appender(jitter)
        self.appender.epochs_ahead = loaded.epochs_changed
        for view in self.segments.views:
            view.opener = self._map
        _WRITERS.add(self)

    def _make_appender(self, jitter: int) -> Appender:
        appender = Appender(self.lock, self.files, timestamp.to_milliseconds, self.directory)
        self._configure(appender, jitter)
        appender.usable = self.check_usable
        appender.prepare = self._prepare
        appender.roll = self._roll
        appender.flush_due = self.flush
        appender.wake = self._wake
        appender.epoch_begins = self._epoch_begins
        appender.refuse = validator.refuse
        appender.refuse_own = validator.refuse_own
        appender.reset(self.segments.views[-1])
        return appender

    def _configure(self, appender: Appender, jitter: int) -> None:
        config = self.config
        appender.configure(
            segment_bytes=config.segment_bytes,
            roll_ms=max(0, config.segment_ms - jitter),
            index_interval_bytes=config.index_interval_bytes,
            segment_index_bytes=config.segment_index_bytes,
            max_message_bytes=config.max_message_bytes,
            batch_size=config.batch_size,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            key_required="compact" in config.cleanup_policy,
            codec=codec.codec_id(config.batch_compression),
            target_codec=_target_codec(config.compression_type),
            compress=codec.compress,
            decompress=codec.decompress,
            recompress=validator.recompress,
            clock=self._clock,
        )

    def configure(self, config: LogConfig) -> None:
        """Take other settings over, from the next append on."""
        with self.lock:
            self.config = config
            self._configure(self.appender, min(self._jitter, config.segment_jitter_ms))
            self.appender.flush_at = self._flush_at()

    def now_ms(self) -> int:
        return self._clock() if self._clock is not None else time.time_ns() // 1_000_000

    # --- state ---------------------------------------------------------------------------

    def check_usable(self) -> None:
        """Raise if nothing may be written: closed, forked, or failed."""
        if self._forked:
            raise ForkedError(
                "this store was opened before the process forked; open a new one in the child",
                path=self.directory,
            )
        if self._closed:
            raise ClosedError("the log is closed", path=self.directory)
        if self._failure is not None:
            raise LogFailedError(
                f"the log failed ({self._failure}) and is read-only until it is reopened: "
                "nobody knows what is on disk",
                path=self.directory,
            ) from self._failure

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def active(self) -> SegmentView:
        return self.segments.views[-1]

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.appender.detach()

    def _prepare(self) -> None:
        """Make the appender ready; the lock is held. Undoes what an interrupted roll began."""
        self.check_usable()
        if self.appender.broken:
            self._fail(
                StorageError("an unfinished append could not be cut off", path=self.directory)
            )
            self.check_usable()
        self._finish_cut()
        active = self.active
        self._discard_unfinished()
        if self.appender.epochs_ahead:  # their file knows some of an append that failed, or more
            self.epochs.truncate_from_end(active.next_offset)
            self._epochs_changed(True)
            self.appender.epochs_ahead = False
        if self._files is None or self._files.base_offset != active.base_offset:
            if self._files is not None:
                self._files.close(self.files)
                self._files = None
            self._cut_unpublished(active)
            self._files = segments_on_disk.open_for_append(
                self.files, self.directory, active, self.config
            )
        if self.epochs.latest is None:  # kstore never raises an epoch, it only begins the first
            self._epochs_changed(self.epochs.assign(0, active.next_offset))
        self.appender.leader_epoch = self._latest_epoch()
        self.appender.created_ms = self.now_ms()
        self.appender.rolling_timestamp = segments_on_disk.first_timestamp(self.files, active)
        self._attach(active)
        if self.opened is not None:
            self.opened()

    def _attach(self, active: SegmentView) -> None:
        assert self._files is not None
        self.appender.flush_at = self._flush_at()
        self.appender.attach(active, self._files.log_fd, self._files.index_fd, self._files.time_fd)

    def _flush_at(self) -> int:
        every = self.config.flush_messages
        return INT64_MAX if every == INT64_MAX else min(self.recovery_point + every, INT64_MAX)

    def _cut_unpublished(self, active: SegmentView) -> None:
        """Cut bytes beyond the published end: an append was interrupted before it counted."""
        size = self.files.size_of(active.path)
        if size < active.size:
            raise CorruptRecordError(
                f"the file was cut by somebody else: {active.size} bytes were in it; "
                "close the store, and open it again to recover what is there",
                path=active.path,
                position=size,
            )
        if size > active.size:
            fd = self.files.open(active.path, os.O_WRONLY)
            try:
                self.files.truncate(fd, active.size)
            finally:
                self.files.close(fd)

    def _discard_unfinished(self) -> None:
        base = self._unfinished
        if base is not None and base != self.active.base_offset:
            segments_on_disk.remove_files(self.files, self.directory, base)
        self._unfinished = None

    def _map(self, view: SegmentView) -> None:
        """Map a segment on its first read; the active one with room to grow."""
        reserve = 0
        if view is self.active:
            reserve = max(self.config.segment_bytes, view.size)
        elif view.index_count == 0:
            segments_on_disk.load_indexes(self.files, self.directory, view)
        segments_on_disk.map_log(self.files, view, reserve)
        self._maps.add(view)

    def _epoch_begins(self, epoch: int, start_offset: int) -> None:
        self._epochs_changed(self.epochs.assign(epoch, start_offset))
        self.appender.leader_epoch = self._latest_epoch()

    def _latest_epoch(self) -> int:
        latest = self.epochs.latest
        return 0 if latest is None else latest.epoch

    def _epochs_changed(self, changed: bool) -> None:
        if changed:
            self.epochs.save(self.files, os.path.join(self.directory, filenames.LEADER_EPOCHS))

    # --- waking followers ----------------------------------------------------------------

    def _wake(self) -> None:
        with self._wakers:
            self._wakers.notify_all()

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Sleep until the log end lies beyond offset, which is returned; or until the time is
        over, the log closes, or its end goes back."""
        if self._forked:
            self.check_usable()
        with self._wakers:
            end = self.segments.end_offset
            self.appender.waiters += 1
            try:
                self._wakers.wait_for(
                    lambda: self._closed or not end <= self.segments.end_offset <= offset, timeout
                )
                return self.segments.end_offset > offset
            finally:
                self.appender.waiters -= 1

    # --- rolling -------------------------------------------------------------------------

    def roll(self) -> None:
        """Seal the active segment and start a new one at the log end; nothing if it is empty."""
        with self.lock:
            self.appender.make_ready()
            if self.active.size > 0:
                self._roll(self.appender.next_offset)

    def _roll(self, first_offset: int) -> None:
        """Start a segment at max(first_offset, log end); the lock is held (Kafka's roll)."""
        base = max(first_offset, self.appender.next_offset)
        old, old_files = self.active, self._files
        assert old_files is not None
        if base == old.base_offset:
            return  # the active segment is empty and already stands there
        self.appender.ready = False  # until attached again, every path leads through _prepare
        self._unfinished = base
        view = segments_on_disk.create(self.files, self.directory, base, self.config)
        view.opener = self._map
        opened = segments_on_disk.open_for_append(self.files, self.directory, view, self.config)
        try:
            old.close_time_index()
            segments_on_disk.trim_indexes(self.files, old, old_files)
        except BaseException:
            opened.close(self.files)
            raise
        self._directory_changes += 1
        self._unsynced.append(old)
        self.segments = SegmentList((*self.segments.views, view), self.segments.start_offset)
        self._files = opened
        old.sealed = True
        self._unfinished = None
        self.appender.created_ms = self.now_ms()
        self.appender.rolling_timestamp = -1
        self._attach(view)
        old_files.close(self.files)

    # --- durability ----------------------------------------------------------------------

    def flush(self) -> None:
        """Return when everything appended before the call is on disk.

        Concurrent calls share one sync. After a failed sync the log takes no more appends.
        """
        with self._flush_lock:
            self._flush_locked()

    def _flush_locked(self) -> None:
        with self.lock:
            self.check_usable()
            target = self._data_end()
            sealed = list(self._unsynced)
            changes = self._directory_changes
            dirty = changes != self._directory_synced or self._cut is not None
            if target <= self.recovery_point and not sealed and not dirty:
                return
            self.appender.make_ready()
            assert self._files is not None
            changes = self._directory_changes
            # Appends go on meanwhile, and a roll closes its own descriptor.
            fd = self.files.duplicate(self._files.log_fd)
            base = self._files.base_offset
        try:
            self._sync(fd if target > base else -1, sealed, dirty or self.recovery_point <= base)
        finally:
            self.files.close(fd)
        with self.lock:
            self._unsynced = [view for view in self._unsynced if view not in sealed]
            self._directory_synced = max(self._directory_synced, changes)
            self.recovery_point = max(self.recovery_point, target)
            self.appender.flush_at = self._flush_at()

    def _data_end(self) -> int:
        """The offset after the last batch, which truncating and deleting may leave below the end.

        A recovery point beyond it would make the torn append of a kill look like lost data.
        """
        data_end, end = self._gap
        now = self.segments.end_offset
        return data_end if now == end else now

    def _sync(self, active_fd: int, sealed: list[SegmentView], directory: bool) -> None:
        """Sync these files and the directory; only a failed sync makes the log fail."""
        opened: list[int] = []
        try:
            for view in sealed:
                try:
                    opened += segments_on_disk.open_for_sync(self.files, self.directory, view)
                except StorageError:
                    if view in self.segments.views:
                        raise  # else retention dropped it meanwhile: its files have other names
            try:
                for fd in (*opened, active_fd):
                    if fd >= 0:
                        self.files.fdatasync(fd)
                if directory:
                    self.files.sync_directory(self.directory)
            except OSError as error:
                # Without a free descriptor nothing was asked of the disk: try again later.
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    with self.lock:
                        self._fail(error)
                raise
        finally:
            for fd in opened:
                self.files.close(fd)

    # --- shortening ----------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Make offset the log end; whole batches go, the one that holds offset included.

        Published bytes are never cut in place: the segment's first part is copied and renamed
        over it, so readers keep the old file (Kafka: UnifiedLog.truncateTo, by whole batches).
        """
        with self._flush_lock, self.lock:
            self.check_usable()
            if offset < 0:
                raise OffsetOutOfRangeError("cannot truncate to a negative offset", offset=offset)
            if offset >= self.segments.end_offset:
                self._epochs_changed(self.epochs.truncate_from_end(self.segments.end_offset))
                return
            self._finish_cut()
            self._close_files()
            self.recovery_point = min(self.recovery_point, offset)
            if offset < self.segments.views[0].base_offset:
                self._restart_at(offset)
            else:
                self._cut_at(offset)
            self._finish_cut()
            self._epochs_changed(self.epochs.truncate_from_end(offset))
            self.files.sync_directory(self.directory)
            self._wake()
        if self.shortened is not None:
            self.shortened()

    def _restart_at(self, offset: int) -> None:
        view = segments_on_disk.bare(self.directory, offset)
        cut = segments_on_disk.Cut(view, self.segments.views, None)
        self._replace_last(cut, 0, offset, offset)

    def _cut_at(self, offset: int) -> None:
        views = self.segments.views
        last = self.segments.floor(offset)
        boundary = views[last]
        found = SegmentList((boundary,), boundary.base_offset).read(
            min(offset, boundary.next_offset), 0
        )
        copy = None
        if found is None:  # the segment stays whole
            view = load_active(self.files, self.directory, boundary.base_offset)
        else:
            view = segments_on_disk.beginning(boundary, found)
            reserve = max(self.config.segment_bytes, view.size)
            copy = segments_on_disk.copy_beginning(self.files, view, reserve)
        data_end = view.next_offset
        self.recovery_point = min(self.recovery_point, data_end)
        view.publish(view.size, offset)
        cut = segments_on_disk.Cut(view, views[last + 1 :], copy)
        self._replace_last(cut, last, min(self.segments.start_offset, offset), data_end)

    def _replace_last(
        self, cut: segments_on_disk.Cut, kept: int, start: int, data_end: int
    ) -> None:
        """The log ends with the cut's view from now on; its files follow in _finish_cut."""
        views = self.segments.views
        cut.view.opener = self._map
        self._cut = cut
        self._gap = (data_end, cut.view.next_offset)
        self.segments = SegmentList((*views[:kept], cut.view), start)
        self.appender.reset(cut.view)
        self._unsynced = [view for view in self._unsynced if view in views[:kept]]
        for view in views[kept:]:
            self._maps.forget(view)

    def _finish_cut(self) -> None:
        """Bring a truncation's files in line with the segments; again after an interrupt."""
        cut = self._cut
        if cut is None:
            return
        if cut.view is self.active:  # else it was interrupted before it counted
            self._directory_changes += 1
            segments_on_disk.finish_cut(self.files, self.directory, cut, self.config)
            if cut.view.mapped:
                self._maps.add(cut.view)
        self._cut = None

    def raise_start(self, offset: int) -> None:
        """Make offset the log start; segments wholly below it are dropped (Kafka's rule A)."""
        with self.lock:
            self.check_usable()
            if offset > self.segments.start_offset:
                self.segments = SegmentList(self.segments.views, offset)
                self._epochs_changed(self.epochs.truncate_from_start(offset))
            views = self.segments.views
            below = 0
            while below + 1 < len(views) and views[below + 1].base_offset <= offset:
                below += 1
            self.drop_oldest(below)

    def drop_oldest(self, count: int) -> None:
        """Retire the oldest segments: out of the log now, files gone after file.delete.delay.ms."""
        with self.lock:
            if count == 0:
                return
            if count == len(self.segments.views):
                self.roll()
            views = self.segments.views
            gone, kept = views[:count], views[count:]
            start = max(self.segments.start_offset, kept[0].base_offset)
            self.segments = SegmentList(kept, start)  # the start first, then the files
            self._unsynced = [view for view in self._unsynced if view not in gone]
            self._epochs_changed(self.epochs.truncate_from_start(start))
            due = self.now_ms() + self.config.file_delete_delay_ms
            for view in gone:
                self._maps.forget(view)
                self._retired.append((view.base_offset, due))
                segments_on_disk.retire(self.files, self.directory, view.base_offset)
            self._directory_changes += 1
            self.remove_retired()

    def remove_retired(self) -> None:
        """Remove files of retired segments whose delay is over."""
        with self.lock:
            now = self.now_ms()
            for base, due in list(self._retired):
                if due <= now:
                    segments_on_disk.remove(self.files, self.directory, base, ".deleted")
                    self._retired.remove((base, due))

    # --- giving files back ---------------------------------------------------------------

    def park(self) -> bool:
        """Give descriptors and mappings back until the next append or read.

        False where the log is busy: whoever asks may hold another log's lock and must not wait.
        """
        if not self._flush_lock.acquire(blocking=False):
            return False
        try:
            if not self.lock.acquire(blocking=False):
                return False
            try:
                if not self._closed and not self._forked:
                    self._finish_cut()
                    self._close_files()
                    for view in self.segments.views:
                        self._maps.forget(view)
            finally:
                self.lock.release()
        finally:
            self._flush_lock.release()
        return True

    def _close_files(self) -> None:
        """Trim the active indexes and close; the appender asks for them again when needed."""
        self.appender.ready = False
        if self._files is not None and self._failure is None:
            active = self.active
            if self._files.base_offset == active.base_offset:
                active.close_time_index()
                segments_on_disk.trim_indexes(self.files, active, self._files)
        self._drop_files()

    def _drop_files(self) -> None:
        self.appender.detach()
        opened, self._files = self._files, None
        if opened is not None:
            opened.close(self.files)

    def close(self) -> bool:
        """Flush, trim and close. Returns whether all is on disk, so that it is a clean stop."""
        with self._flush_lock:
            if self._closed:
                return self._clean
            if self._forked:
                self._closed = True
                return False
            clean = False
            try:
                if self._failure is None and not self.appender.broken:
                    with self.lock:
                        self._finish_cut()
                        self._discard_unfinished()
                    self._flush_locked()
                    with self.lock:
                        self._close_files()
                        self._sync(-1, [self.active], False)
                    clean = True
            finally:
                with self.lock:
                    self._closed = True
                    self._drop_files()
                    for view in self.segments.views:
                        self._maps.forget(view)
                    self._wake()
            self._clean = clean and self._failure is None and not self.appender.broken
            return self._clean

    def after_fork(self) -> None:
        """In a forked child: refuse everything, and free the lock another thread may have held."""
        self._forked = True
        self.lock._at_fork_reinit()
        self._flush_lock = threading.Lock()
        self._wakers = threading.Condition(self.lock)  # type: ignore[arg-type]  # an RLock to it
        self.appender.detach()


def _target_codec(compression_type: str) -> int:
    """The codec that ``compression.type`` asks for; -1 for the producer's own."""
    if compression_type == "producer":
        return -1
    return codec.codec_id("none" if compression_type == "uncompressed" else compression_type)


def _forget_in_child() -> None:
    for writer in list(_WRITERS):
        writer.after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
