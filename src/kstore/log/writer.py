"""The writer of one partition: one state, and a component for each kind of change.

Appends bypass it: :class:`kstore.log.writable_log.WritableLog` calls the
append kernel (:mod:`kstore._native.append.record_appender`), which calls :class:`ActiveSegment`
when its files have to be opened or a segment has to be rolled.
"""

from collections.abc import Callable

from kstore.config import LogConfig
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.log.active_segment import ActiveSegment
from kstore.log.delete_segments import SegmentDeleter
from kstore.log.flush import Flusher
from kstore.log.import_segment import SegmentImporter
from kstore.log.relocate import Relocator
from kstore.log.replace_segments import SegmentReplacer
from kstore.log.segment_access import SegmentAccess
from kstore.log.truncate import Truncator
from kstore.log.watch import LogEvents
from kstore.log.writer_state import WriterState
from kstore.recovery.loader import LoadedLog


class LogWriter:
    """One partition, open for writing. Thread safe.

    Attributes
    ----------
    state
        Segments, recovery point, locks, failure: what all components share.
    access
        Maps and reads segments while some leave the log.
    active_segment
        Opens, rolls and closes the segment that is appended to.
    flusher, truncator, deleter, replacer, relocator, importer
        One component for each kind of change, with the order of its steps on disk.
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
        self.state = WriterState(
            directory, loaded, config=config, files=files, maps=maps, clock=clock
        )
        self.access = SegmentAccess(self.state)
        self.active_segment = ActiveSegment(self.state, self.access, jitter)
        self.flusher = Flusher(self.state, self.active_segment)
        self.truncator = Truncator(self.state, self.access, self.active_segment, self.flusher)
        self.deleter = SegmentDeleter(self.state, self.active_segment)
        self.replacer = SegmentReplacer(self.state, self.access, self.active_segment, self.deleter)
        self.relocator = Relocator(self.state, self.access, self.active_segment)
        self.importer = SegmentImporter(self.state, self.active_segment)
        self.state.appender.epochs_ahead = loaded.epochs_changed
        self._is_clean = False  # closed, with everything on disk
        self._in_place_at = -1  # the log end when the active file was last seen at its name

    def park(self) -> bool:
        """Release descriptors and mappings until the next append or read.

        False where the log is busy: the caller may hold another log's lock and must not wait.
        """
        state = self.state
        with state.flush_lock.attempt() as unflushed, state.lock.attempt() as unused:
            idle = unflushed and unused
            if idle and not state.is_closed and not state.is_forked:
                self.active_segment.finish_truncation()
                self.active_segment.close_files()
                self.access.unmap_all()
            return idle

    def check_removed(self) -> None:
        """Refuse appends if the log's directory was removed, moved or replaced since the last one.

        Raises LogDirOfflineError then. Does not wait for a change of the log that takes long.
        """
        state = self.state
        end = state.segments.end_offset
        if end == self._in_place_at:
            return
        with state.lock.attempt() as is_free:
            if not is_free or state.is_closed or state.is_forked:
                return
            self.active_segment.check_in_place()
        if state.directory_gone is not None:
            raise state.directory_gone
        self._in_place_at = end

    def close(self) -> bool:
        """Flush, trim and close. Returns whether it was a clean stop, with everything on disk.

        Raises LogDirOfflineError, once, where the log's files were removed while records were not
        flushed.
        """
        state = self.state
        state.check_lock_order()
        state.is_closing = True  # ends a running compaction soon
        with state.cleaning, state.flush_lock:
            if state.is_closed:
                return self._is_clean
            if state.is_forked:
                state.is_closed = True
                return False
            clean = False
            try:
                if state.failure is None and not state.appender.broken:
                    self._write_all()
                    clean = True
            finally:
                with state.lock:
                    state.is_closed = True
                    self.active_segment.drop_files()
                    self.access.unmap_all()
                    state.wake(LogEvents.CLOSED)
            self._is_clean = clean and state.failure is None and not state.appender.broken
            if state.directory_gone is not None and state.data_end > state.recovery_point:
                raise state.directory_gone
            return self._is_clean

    def discard(self) -> None:
        """Close a log that is about to be deleted: nothing is flushed or written.

        The deletion must be recorded on disk before: a log that is loaded again would take what
        was not flushed as flushed.
        """
        state = self.state
        state.is_closing = True
        with state.cleaning, state.flush_lock, state.lock:
            if not state.is_closed and not state.is_forked:
                self.active_segment.drop_files()
                self.access.unmap_all()
            if not state.is_closed:
                state.is_closed = True
                state.wake(LogEvents.CLOSED)

    def _write_all(self) -> None:
        """Flush, write the producer state, trim the indexes, and sync them, too."""
        state, active = self.state, self.active_segment
        with state.lock:
            active.finish_truncation()
            active.discard_unfinished()
        self.flusher.flush()
        with state.lock:
            self._save_producers()
            active.close_files()
            dirty = state.directory_changes != state.directory_synced
            self.flusher.sync(-1, [state.active], dirty)

    def _save_producers(self) -> None:
        """Write a producer snapshot, so that the next start need not replay the log."""
        state = self.state
        state.producers.refresh(state.segments, state.now_ms())
        state.directory_changes += state.producers.take_snapshot(state.segments.end_offset)
