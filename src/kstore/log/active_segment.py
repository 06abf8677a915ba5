"""The active segment: opening its files, rolling to the next one, closing.

The append kernel (:mod:`kstore._native.append.record_appender`) handles most appends alone. It
calls this module to open the files, to roll a segment, and after it wrote index entries. Whether a
roll is due (Kafka's ``shouldRoll``) is decided in ``_native/append/roll_due.pxd``, less the jitter
of :mod:`kstore.log.roll_jitter`.

The log stays usable after an interruption at any step. Files of a segment that was not published
are removed at once, or, where the disk refuses that too, before the next write.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kstore._native.append.record_appender import RecordAppender
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.config import LogConfig, codec_of_batches
from kstore.errors import CorruptRecordError, FencedLeaderEpochError, StorageError
from kstore.files import filenames
from kstore.files.open_file import OpenFile
from kstore.log import leader_errors
from kstore.log.roll_jitter import draw_jitter
from kstore.log.segment_access import SegmentAccess
from kstore.log.watch import LogEvents
from kstore.log.writer_state import WriterState
from kstore.record import codec
from kstore.record.format_conversion import with_codec
from kstore.segment import preallocate
from kstore.segment import segment as segments_on_disk


class ActiveSegment:
    """Opens, rolls, trims and closes the segment that is appended to.

    The caller holds the log's lock, except for :meth:`configure` and :meth:`roll`.

    Attributes
    ----------
    opened
        Descriptors of the active segment's files, or of the segment that was active before; None
        while they are closed.
    on_open
        Called when files were opened (a store closes those of the log least recently used).
    on_roll
        Called after a roll (a store syncs the rolled segment in the background).
    on_epoch_begun
        Called after ``begin_epoch`` has begun one (a broker shows it to its clients).
    """

    def __init__(self, state: WriterState, access: SegmentAccess, jitter: int) -> None:
        self._state = state
        self._access = access
        self._jitter = jitter
        self.opened: segments_on_disk.WritableFiles | None = None
        self.on_open: Callable[[], None] | None = None
        self.on_roll: Callable[[], None] | None = None
        self.on_epoch_begun: Callable[[], None] | None = None
        self._is_trimmed = False  # the log file's zeros were cut, perhaps not yet on disk
        self._unfinished: int | None = None  # base offset of a segment that is being created
        appender = state.appender
        self._configure(appender, jitter)
        appender.prepare = self.prepare
        appender.roll = self.roll_at
        appender.on_index_write = self._on_index_write
        appender.epoch_begins = self._assign_epoch
        appender.aborted = self._write_aborted
        appender.refuse = self._refuse
        appender.refuse_producer = leader_errors.refuse_producer
        appender.refuse_own = leader_errors.refuse_own
        appender.prewrite = self._prewrite
        appender.reset(state.active)

    def _refuse(self, *facts: Any) -> None:
        topic_partition = os.path.basename(self._state.directory)
        leader_errors.refuse(*facts, topic_partition=topic_partition)

    # --- settings ---------------------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        """Apply other settings, from the next append on."""
        state = self._state
        with state.lock:
            state.config = config
            state.producers.expiration_ms = config.producer_id_expiration_ms
            self._configure(state.appender, min(self._jitter, config.segment_jitter_ms))
            if self.opened is not None and self.opened.prewritten != config.preallocate:
                state.appender.ready = False  # the active segment has to be opened another way
            state.appender.flush_at = state.next_flush_offset()

    def _configure(self, appender: RecordAppender, jitter: int) -> None:
        config = self._state.config
        if filenames.is_of_internal_topic(self._state.directory):
            config = replace(config, compression_type="producer")  # keep the coordinator's bytes
        segment_ms = config.segment_ms
        if "compact" in config.cleanup_policy:  # the cleaner skips the active segment
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
            codec=codec.codec_id(codec_of_batches(config)),
            target_codec=_target_codec(config.compression_type),
            message_magic=config.message_magic,
            compress=codec.compress,
            decompress=codec.decompress,
            recompress=with_codec,
            clock=self._state.clock,
        )

    # --- opening ----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the appender ready; undo what an interrupted roll or append began."""
        state, appender = self._state, self._state.appender
        state.check_usable()
        if appender.broken:
            state.fail(
                StorageError("an unfinished append could not be cut off", path=state.directory)
            )
            state.check_usable()
        self.finish_truncation()
        self.check_in_place()
        state.check_usable()
        active = state.active
        self.discard_unfinished()
        self._drop_epochs_ahead()
        fd = self._open(active).log_fd
        state.producers.attach(state.segments, state.now_ms())
        # A log begins epoch 0 by itself, a leader the others; messages v0 and v1 have none.
        if state.epochs.latest is None and state.config.message_magic == 2:
            state.epochs.assign(0, active.next_offset)
        state.save_epochs(not state.epochs.is_saved)  # also those of an interrupted attempt
        appender.leader_epoch = state.latest_epoch()
        appender.created_ms = state.now_ms()
        appender.rolling_timestamp = segments_on_disk.rolling_timestamp(state.files, active)
        assert self.opened is not None
        self._attach(active, state.files.size(fd) if self.opened.prewritten else -1)
        if self.on_open is not None:
            self.on_open()

    def _open(self, active: SegmentView) -> segments_on_disk.WritableFiles:
        """The active segment's files, opened as the settings require."""
        state, opened = self._state, self.opened
        if opened is not None and self._is_opened_for(opened, active):
            return opened
        if opened is not None:
            if opened.base_offset == active.base_offset:
                self._trim(opened)
            opened.close(state.files)
            self.opened = None
        self.cut_unpublished()
        self.opened = segments_on_disk.open_for_append(
            state.files, state.directory, active, state.config
        )
        return self.opened

    def _is_opened_for(self, opened: segments_on_disk.WritableFiles, active: SegmentView) -> bool:
        return (
            opened.base_offset == active.base_offset
            and opened.prewritten == self._state.config.preallocate
        )

    def _attach(self, active: SegmentView, file_size: int) -> None:
        assert self.opened is not None
        opened, appender = self.opened, self._state.appender
        appender.flush_at = self._state.next_flush_offset()
        appender.attach(active, opened.log_fd, opened.index_fd, opened.time_fd, file_size)
        if self._state.failure is not None:  # meanwhile, noted by a thread without the lock
            appender.ready = False

    def check_in_place(self) -> None:
        """Take the log offline where the active segment's file is no longer at its name.

        An append after a removal, move or replacement of the directory would be lost: the open
        descriptor writes into a file that has no name. Kafka notices at its next roll. The next
        append or flush raises LogDirOfflineError.
        """
        state = self._state
        if state.failure is not None or state.pending_truncation is not None:
            return
        active, opened = state.active, self.opened
        found = state.files.identity_of(active.path)
        if found is not None and opened is not None and opened.base_offset == active.base_offset:
            if opened.inode < 0:
                opened.inode = state.files.stamp(opened.log_fd)[0]
            if found[0] == opened.inode:
                return
        elif found is not None:
            return
        state.fail_directory_gone()

    def _on_index_write(self) -> None:
        """Check the file's name when an append has written 64 index entries, once in 256 KiB with
        the default ``index.interval.bytes``: a check at each append would cost a system call.

        The append in progress has succeeded; the next one runs :meth:`prepare`, which raises.
        """
        files, opened = self._state.files, self.opened
        with suppress(StorageError):  # the next append checks again
            found = files.identity_of(self._state.active.path)
            if opened is not None and opened.inode < 0:
                opened.inode = files.stamp(opened.log_fd)[0]
            if opened is None or found is None or found[0] != opened.inode:
                self._state.appender.detach()

    # --- undoing interrupted changes --------------------------------------------------------

    def finish_truncation(self) -> None:
        """Make the files match the segments after a truncation; can be repeated."""
        state = self._state
        cut = state.pending_truncation
        if cut is None:
            return
        if cut.view is state.active:  # else the truncation was interrupted before it took effect
            state.directory_changes += 1
            with state.names_lock:
                segments_on_disk.finish_truncation(state.files, state.directory, cut)
            if cut.view.mapped:
                state.maps.add(cut.view)
        state.pending_truncation = None

    def cut_unpublished(self) -> None:
        """Truncate to the published end, after an append that was interrupted before that."""
        files, active = self._state.files, self._state.active
        size = files.size_of(active.path)
        if size < active.size:
            raise CorruptRecordError(
                f"another process truncated the file: it had {active.size} bytes; "
                "close the store and open it again to recover the rest",
                path=active.path,
                position=size,
            )
        if size > active.size:
            with OpenFile(files, active.path, os.O_WRONLY) as fd:
                self._state.appender.ready = False  # it may rely on zeros that are cut here
                files.truncate(fd, active.size)

    def discard_unfinished(self) -> None:
        """Remove the files of a segment that an interrupted roll began."""
        state, base = self._state, self._unfinished
        if base is not None and base != state.active.base_offset:
            state.directory_changes += 1
            segments_on_disk.remove_files(state.files, state.directory, base)
        self._unfinished = None

    # --- zeros written ahead (preallocate) --------------------------------------------------

    def allow_prewriting(self, is_allowed: bool) -> None:
        """Allow or forbid zeros ahead of the log end."""
        self._state.appender.prewrite = self._prewrite if is_allowed else None

    def _prewrite(self, start: int, end: int) -> bool:
        assert self.opened is not None
        return preallocate.prewrite(self._state.files, self.opened, start, end)

    def _trim(self, opened: segments_on_disk.WritableFiles) -> None:
        """Cut a prewritten active segment to what was appended; not yet on disk."""
        if opened.prewritten:
            self._is_trimmed = True
            self._state.appender.ready = False
            preallocate.trim_log(self._state.files, self._state.active, opened)

    def _trim_and_sync(self, opened: segments_on_disk.WritableFiles) -> None:
        """Trim, and sync: the last batch ends a segment that another one follows.

        Otherwise a power cut could leave zeros before the next segment. A loader reads them as
        corruption, and Kafka's consumers stop at them. Without preallocation this costs nothing.
        """
        self._trim(opened)
        try:
            self._state.files.fdatasync(opened.log_fd)
        except BaseException as error:
            self._state.fail(error)
            raise
        self._is_trimmed = False

    # --- epochs and aborted transactions ----------------------------------------------------

    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the log end; it is on disk then. Acquires the log's lock.

        Raises FencedLeaderEpochError for one below the latest.
        """
        state, appender = self._state, self._state.appender
        with state.lock:
            state.check_usable()
            if state.config.message_magic < 2:
                return
            self._drop_epochs_ahead()
            latest = state.epochs.latest
            if latest is not None and epoch < latest.epoch:
                raise FencedLeaderEpochError(
                    f"the log is in leader epoch {latest.epoch} already, beyond {epoch}",
                    path=state.directory,
                )
            try:
                self._assign_epoch(epoch, appender.next_offset)
            except BaseException:
                appender.ready, appender.epochs_ahead = False, True
                raise
            state.begun_epoch = epoch
        if self.on_epoch_begun is not None and (latest is None or epoch > latest.epoch):
            self.on_epoch_begun()

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Record an epoch that begins at start_offset, before its first batch is written.

        A follower's batch may have a lower one than an epoch that has no batch: that one goes.
        """
        state = self._state
        latest = state.epochs.latest
        changed = False
        if latest is not None and epoch < latest.epoch:
            changed = state.epochs.truncate_from_end(start_offset)
            latest = state.epochs.latest
        if latest is None or epoch > latest.epoch:
            changed |= state.epochs.assign(epoch, start_offset)
        state.save_epochs(changed)
        state.appender.leader_epoch = state.latest_epoch()

    def _drop_epochs_ahead(self) -> None:
        """Remove epochs that the file may have of an append that failed."""
        state, appender = self._state, self._state.appender
        if appender.epochs_ahead:
            state.epochs.truncate_from_end(appender.next_offset)
            state.keep_begun_epoch(appender.next_offset)
            state.save_epochs(True)
            appender.epochs_ahead = False

    def _write_aborted(self) -> None:
        """Write the entry of a transaction that was just aborted.

        A failure does not fail the append: the entry stays in memory and is written later, at the
        latest when the segment is rolled.
        """
        with suppress(StorageError):
            self._state.directory_changes += self._state.producers.write_aborted()

    # --- rolling ----------------------------------------------------------------------------

    def roll(self) -> None:
        """Roll the active segment; nothing if it is empty."""
        state = self._state
        with state.lock:
            state.appender.make_ready()
            if state.active.size > 0:
                self.roll_at(state.appender.next_offset)

    def roll_at(self, first_offset: int) -> None:
        """Start a segment at max(first_offset, log end) (Kafka's roll)."""
        state = self._state
        base = max(first_offset, state.appender.next_offset)
        if base == state.active.base_offset:
            return  # the active segment is empty and has this base offset
        self.begin(
            base,
            lambda: segments_on_disk.create(state.files, state.directory, base),
        )

    def begin(self, base: int, make: Callable[[], SegmentView]) -> None:
        """Roll to the segment with this base offset that ``make`` creates."""
        state = self._state
        old, old_files = state.active, self.opened
        assert old_files is not None
        state.appender.ready = False  # until it is attached, every append calls prepare
        self._unfinished = base
        view, opened = self._make_next(base, make, old_files)
        state.directory_changes += 1
        state.unsynced_segments.append(old)
        # First, so that a reader finds the aborted transactions of both segments without a lock.
        state.producers.seal(old, base)
        state.segments = SegmentList((*state.segments.views, view), state.segments.start_offset)
        state.watchers.note(LogEvents.ROLLED)
        self.opened = opened
        old.sealed = True
        if state.config.segment_jitter_ms:  # drawn for each segment, as in Kafka
            self._jitter = draw_jitter(state.config)
            self._configure(state.appender, self._jitter)
        self._unfinished = None
        state.appender.created_ms = state.now_ms()
        state.appender.rolling_timestamp = -1
        self._attach(view, view.size if opened.prewritten else -1)
        old_files.close(state.files)
        if self.on_roll is not None:
            self.on_roll()

    def _make_next(
        self,
        base: int,
        make: Callable[[], SegmentView],
        old_files: segments_on_disk.WritableFiles,
    ) -> tuple[SegmentView, segments_on_disk.WritableFiles]:
        """Create the next segment, open its files, and write the old one's indexes and producers.

        Publishes nothing. After a failure the new files are removed.
        """
        state, old = self._state, self._state.active
        opened: segments_on_disk.WritableFiles | None = None
        try:
            if old_files.prewritten or self._is_trimmed:
                self._trim_and_sync(old_files)
            view = make()
            view.opener = self._access.map
            opened = segments_on_disk.open_for_append(
                state.files, state.directory, view, state.config
            )
            old.close_time_index()
            segments_on_disk.trim_indexes(state.files, old, old_files)
            state.producers.write_aborted()
            state.producers.expire(state.now_ms())
            state.producers.take_snapshot(base)
        except BaseException:
            # Now, not before the next write: the new files may have batches already.
            with suppress(StorageError):  # the first error is the one to report
                self.discard_unfinished()
            if opened is not None:
                with suppress(StorageError):
                    opened.close(state.files)
            raise
        return view, opened

    # --- closing ----------------------------------------------------------------------------

    def close_files(self) -> None:
        """Trim the active indexes and close; the next append opens the files again."""
        state = self._state
        state.appender.ready = False
        if self.opened is not None and state.failure is None:
            active = state.active
            if self.opened.base_offset == active.base_offset:
                active.close_time_index()
                self._trim(self.opened)
                segments_on_disk.trim_indexes(state.files, active, self.opened)
                state.directory_changes += state.producers.write_aborted()
        self.drop_files()

    def drop_files(self) -> None:
        """Close the files without trimming them."""
        self._state.appender.detach()
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.close(self._state.files)


def _target_codec(compression_type: str) -> int:
    """The codec that ``compression.type`` names; -1 to keep the producer's."""
    if compression_type == "producer":
        return -1
    return codec.codec_id("none" if compression_type == "uncompressed" else compression_type)
