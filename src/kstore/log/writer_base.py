"""What all parts of a log's writer share: state, the active segment, rolling, waking followers.

The append kernel (:mod:`kstore._native.append`) does the steady state and calls back here when
a decision is due. The parts, each a layer on the one before: this, then
:mod:`kstore.log.durability`, :mod:`kstore.log.shortening`, :mod:`kstore.log.writer`.

Every step leaves the log usable when it is interrupted: a new segment counts from the moment
its :class:`SegmentList` is assigned, and files of a segment that never got that far are removed:
at once, or, where the disk refuses that too, before the next write.
"""

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from random import randrange

from kstore._native.append import Appender
from kstore._native.locate import SegmentList, SegmentView
from kstore._native.lock import ReentrantLock
from kstore.config import INT64_MAX, LogConfig
from kstore.errors import (
    ClosedError,
    CorruptRecordError,
    ForkedError,
    LogDirOfflineError,
    LogFailedError,
    StorageError,
)
from kstore.log import filenames, validator
from kstore.log import segment as segments_on_disk
from kstore.log.files import Files
from kstore.log.leader_epochs import LeaderEpochs
from kstore.log.loader import LoadedLog
from kstore.log.maps import MapBudget
from kstore.record import codec, timestamp

_WRITERS: "weakref.WeakSet[WriterBase]" = weakref.WeakSet()


class WriterBase(ABC):
    """What all parts of a writer share: its state, its appender, its active segment, rolling."""

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
        self.producers = loaded.producers
        self.opened: Callable[[], None] | None = None  # told when files are opened (store's LRU)
        self.shortened: Callable[[], None] | None = None  # told when the recovery point went down
        self._maps = maps
        self._clock = clock
        self._jitter = jitter
        self._flush_lock = ReentrantLock()
        self._files: segments_on_disk.WritableFiles | None = None
        self._unsynced: list[SegmentView] = []  # rolled, not yet on disk
        self._directory_changes = 0  # names made, renamed or removed, and how many are on disk
        self._directory_synced = 0
        self._shortenings = 0  # truncations of which the checkpoint does not tell yet
        self._trimmed = False  # zeros were cut off the active segment, perhaps not yet on disk
        self._begun = (-1, 0)  # base offset, and how far the disk was told to begin with it
        self._unfinished: int | None = None  # base offset of a segment that is being made
        self._cut: segments_on_disk.Cut | None = None  # a truncation that is not yet on disk
        self._retired: list[tuple[int, int]] = []  # (base offset, when its files may go)
        self._wakers = threading.Condition(self.lock)  # type: ignore[arg-type]  # an RLock to it
        self._closed = False
        self._clean = False  # closed, and all is on disk
        self._forked = False
        self._failure: BaseException | None = None
        self.cleaning = ReentrantLock()  # held while the log is compacted
        self._names = threading.RLock()  # held while files of sealed segments change their names
        self.closing = False  # a compaction is to end
        self.pausing = False  # the same, and none may begin: the log is moved
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
        appender.producers = self.producers.table
        appender.aborted = self._write_aborted
        appender.refuse = validator.refuse
        appender.refuse_producer = validator.refuse_producer
        appender.refuse_own = validator.refuse_own
        appender.prewrite = self._prewrite
        appender.reset(self.segments.views[-1])
        return appender

    def _configure(self, appender: Appender, jitter: int) -> None:
        config = self.config
        segment_ms = config.segment_ms
        if "compact" in config.cleanup_policy:  # what is to be compacted must not stay active
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        appender.configure(
            segment_bytes=config.segment_bytes,
            roll_ms=max(0, segment_ms - jitter),
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
            message_magic=config.message_magic,
            compress=codec.compress,
            decompress=codec.decompress,
            recompress=validator.recompress,
            clock=self._clock,
        )

    def configure(self, config: LogConfig) -> None:
        """Take other settings over, from the next append on."""
        with self.lock:
            self.config = config
            self.producers.expiration_ms = config.producer_id_expiration_ms
            self._configure(self.appender, min(self._jitter, config.segment_jitter_ms))
            if self._files is not None and self._files.prewritten != config.preallocate:
                self.appender.ready = False  # the active segment is to be opened another way
            self.appender.flush_at = self._flush_at()

    def now_ms(self) -> int:
        return self._clock() if self._clock is not None else time.time_ns() // 1_000_000

    @abstractmethod
    def flush(self) -> None:
        """Return when everything appended before the call is on disk."""

    @abstractmethod
    def _finish_cut(self) -> None:
        """Bring a truncation's files in line with the segments; nothing if there is none."""

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
        if isinstance(self._failure, LogDirOfflineError):
            raise LogDirOfflineError(
                self._failure.reason, errno=self._failure.errno, path=self.directory
            ) from self._failure
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
        if not isinstance(self._failure, LogDirOfflineError):  # which says more
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
        if self._files is None or not self._is_opened_for(self._files, active):
            if self._files is not None:
                if self._files.base_offset == active.base_offset:
                    self._trim(self._files)
                self._files.close(self.files)
                self._files = None
            self._cut_unpublished(active)
            self._files = segments_on_disk.open_for_append(
                self.files, self.directory, active, self.config
            )
        self.producers.attach(self.segments, self.now_ms())
        # kstore never raises an epoch, it only begins the first; messages v0 and v1 have none.
        if self.epochs.latest is None and self.config.message_magic == 2:
            self._epochs_changed(self.epochs.assign(0, active.next_offset))
        self.appender.leader_epoch = self._latest_epoch()
        self.appender.created_ms = self.now_ms()
        self.appender.rolling_timestamp = segments_on_disk.first_timestamp(self.files, active)
        fd = self._files.log_fd
        self._attach(active, self.files.size(fd) if self._files.prewritten else -1)
        if self.opened is not None:
            self.opened()

    def _attach(self, active: SegmentView, file_size: int) -> None:
        assert self._files is not None
        opened = self._files
        self.appender.flush_at = self._flush_at()
        self.appender.attach(active, opened.log_fd, opened.index_fd, opened.time_fd, file_size)

    def _is_opened_for(self, opened: segments_on_disk.WritableFiles, active: SegmentView) -> bool:
        """Whether these are the active segment's files, and opened as the settings want it."""
        return (
            opened.base_offset == active.base_offset
            and opened.prewritten == self.config.preallocate
        )

    def _prewrite(self, start: int, end: int) -> bool:
        assert self._files is not None
        return segments_on_disk.prewrite(self.files, self._files, start, end)

    def _trim(self, opened: segments_on_disk.WritableFiles) -> None:
        """Cut a prewritten active segment to what was appended; not yet on disk."""
        if opened.prewritten:
            self._trimmed = True
            self.appender.ready = False
            segments_on_disk.trim_log(self.files, self.active, opened)

    def _trim_for_good(self, opened: segments_on_disk.WritableFiles) -> None:
        """The same, on disk: a segment that others follow ends with its last batch.

        Else a power cut could leave zeros in front of later segments, which a loader must take
        for damage, and Kafka's consumers stop at. A log that is not prewritten pays nothing.
        """
        self._trim(opened)
        try:
            self.files.fdatasync(opened.log_fd)
        except BaseException as error:
            self._fail(error)
            raise
        self._trimmed = False

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
                self.appender.ready = False  # it may count on zeros that are cut here
                self.files.truncate(fd, active.size)
            finally:
                self.files.close(fd)

    def _discard_unfinished(self) -> None:
        base = self._unfinished
        if base is not None and base != self.active.base_offset:
            self._directory_changes += 1
            segments_on_disk.remove_files(self.files, self.directory, base)
        self._unfinished = None

    def _map(self, view: SegmentView) -> None:
        """Map a segment on its first read; the active one with room to grow.

        Not while a compaction swaps files: the name would lead an old view to a new file.
        """
        with self._names:
            if view.holds_log:
                return
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

    def _write_aborted(self) -> None:
        """Write the entry of a transaction that was just aborted.

        A failure is not the append's: the entry stays in memory and is tried again, at the
        latest when the segment is sealed.
        """
        with suppress(StorageError):
            self._directory_changes += self.producers.write_aborted()

    def expire_producers(self) -> int:
        """Forget producers idle for ``producer.id.expiration.ms``; returns how many."""
        with self.lock:
            return self.producers.expire(self.now_ms())

    def _latest_epoch(self) -> int:
        latest = self.epochs.latest
        return 0 if latest is None else latest.epoch

    def _epochs_changed(self, changed: bool) -> None:
        if changed:
            self.epochs.save(self.files, os.path.join(self.directory, filenames.LEADER_EPOCHS))

    def _close_files(self) -> None:
        """Trim the active indexes and close; the appender asks for them again when needed."""
        self.appender.ready = False
        if self._files is not None and self._failure is None:
            active = self.active
            if self._files.base_offset == active.base_offset:
                active.close_time_index()
                self._trim(self._files)
                segments_on_disk.trim_indexes(self.files, active, self._files)
                self._directory_changes += self.producers.write_aborted()
        self._drop_files()

    def _drop_files(self) -> None:
        self.appender.detach()
        opened, self._files = self._files, None
        if opened is not None:
            opened.close(self.files)

    def after_fork(self) -> None:
        """In a forked child: refuse everything, and free the lock another thread may have held."""
        self._forked = True
        self.lock._at_fork_reinit()
        self._flush_lock = ReentrantLock()
        self.cleaning = ReentrantLock()
        self._names = threading.RLock()
        self._wakers = threading.Condition(self.lock)  # type: ignore[arg-type]  # an RLock to it
        self.appender.detach()

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
        if base == self.active.base_offset:
            return  # the active segment is empty and already stands there
        self._begin_segment(
            base,
            lambda: segments_on_disk.create(self.files, self.directory, base, self.config),
        )

    def _begin_segment(self, base: int, make: Callable[[], SegmentView]) -> None:
        """Seal the active segment; the one that is made of base, behind it, is active then."""
        old, old_files = self.active, self._files
        assert old_files is not None
        self.appender.ready = False  # until attached again, every path leads through _prepare
        self._unfinished = base
        opened: segments_on_disk.WritableFiles | None = None
        try:
            if old_files.prewritten or self._trimmed:
                self._trim_for_good(old_files)
            view = make()
            view.opener = self._map
            opened = segments_on_disk.open_for_append(self.files, self.directory, view, self.config)
            old.close_time_index()
            segments_on_disk.trim_indexes(self.files, old, old_files)
            self.producers.write_aborted()
            self.producers.expire(self.now_ms())
            self.producers.take_snapshot(base)
        except BaseException:
            # Now, not before the next write: what was made may have batches in it already.
            with suppress(StorageError):  # the first error is the one to report
                self._discard_unfinished()
            if opened is not None:
                with suppress(StorageError):
                    opened.close(self.files)
            raise
        self._directory_changes += 1
        self._unsynced.append(old)
        self.segments = SegmentList((*self.segments.views, view), self.segments.start_offset)
        self._files = opened
        self.producers.seal(old, base)
        old.sealed = True
        if self.config.segment_jitter_ms:  # drawn anew for each segment, as in Kafka
            self._jitter = draw_jitter(self.config)
            self._configure(self.appender, self._jitter)
        self._unfinished = None
        self.appender.created_ms = self.now_ms()
        self.appender.rolling_timestamp = -1
        self._attach(view, view.size if opened.prewritten else -1)
        old_files.close(self.files)


def draw_jitter(config: LogConfig) -> int:
    """By how many ms a segment rolls earlier than ``segment.ms`` says, lest all roll at once.

    Kafka's LogConfig.randomSegmentJitter: below ``segment.jitter.ms``, or ``segment.ms``.
    """
    return randrange(min(config.segment_jitter_ms, config.segment_ms) or 1)


def _target_codec(compression_type: str) -> int:
    """The codec that ``compression.type`` asks for; -1 for the producer's own."""
    if compression_type == "producer":
        return -1
    return codec.codec_id("none" if compression_type == "uncompressed" else compression_type)


def _forget_in_child() -> None:
    for writer in list(_WRITERS):
        writer.after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
