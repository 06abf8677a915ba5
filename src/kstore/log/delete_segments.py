"""Deleting a log's oldest segments, and raising its start (Kafka's LocalLog.deleteSegments).

Segments leave the log at once. Their files get the suffix ``.deleted`` and are removed after
``file.delete.delay.ms``, so that readers which know their names can finish.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentList
from kstore.errors import OffsetOutOfRangeError, PolicyViolationError
from kstore.files.filenames import DELETED_SUFFIX
from kstore.integers import check_integer
from kstore.log.active_segment import ActiveSegment
from kstore.log.watch import LogEvents
from kstore.log.writer_state import WriterState
from kstore.segment import segment as segments_on_disk

if TYPE_CHECKING:
    from kstore.log.log import Log


def checked_log_start(log: "Log", before_offset: int) -> int:
    """The offset to which ``delete_records`` raises a log's start; -1: the high watermark.

    Raises PolicyViolationError for a compacted topic, OffsetOutOfRangeError beyond the log.
    """
    before_offset = check_integer("before_offset", before_offset)
    if "delete" not in log.config.cleanup_policy:
        raise PolicyViolationError("records of a compacted topic cannot be deleted by offset")
    end = log.high_watermark
    offset = end if before_offset == -1 else before_offset
    if 0 <= offset <= end:
        return offset
    what = "high watermark" if end < log.end_offset else "log end"
    raise OffsetOutOfRangeError(
        f"offset {before_offset} is not between 0 and the {what} {end}",
        path=log.path,
        offset=before_offset,
    )


class SegmentDeleter:
    """Raises the log start and deletes the oldest segments. Thread safe."""

    def __init__(self, state: WriterState, active: ActiveSegment) -> None:
        self._state = state
        self._active = active

    def raise_start(self, offset: int) -> None:
        """Make offset the log start; drop segments completely below it.

        Kafka's deleteLogStartOffsetBreachedSegments.
        """
        state = self._state
        with state.lock:
            state.check_usable()
            if offset > state.segments.start_offset:
                state.segments = SegmentList(state.segments.views, offset)
                state.watchers.note(LogEvents.START)
                state.save_shorter_epochs(state.epochs.truncate_from_start(offset))
            views = state.segments.views
            below = 0
            while below + 1 < len(views) and views[below + 1].base_offset <= offset:
                below += 1
            self.drop_oldest(below)

    def drop_oldest(self, count: int) -> None:
        """Drop the oldest segments now; remove their files after file.delete.delay.ms."""
        state = self._state
        with state.lock:
            if count == 0:
                return
            if count == len(state.segments.views):
                self._active.roll()
            views = state.segments.views
            gone, kept = views[:count], views[count:]
            start = max(state.segments.start_offset, kept[0].base_offset)
            state.segments = SegmentList(kept, start)  # the start first, then the files
            state.watchers.note(LogEvents.START)
            gone_views = frozenset(gone)
            state.unsynced_segments = [
                view for view in state.unsynced_segments if view not in gone_views
            ]
            state.save_shorter_epochs(state.epochs.truncate_from_start(start))
            due = state.now_ms() + state.config.file_delete_delay_ms
            for number, view in enumerate(gone):
                if number:  # a power cut must not keep a later rename and lose an earlier one
                    state.files.sync_directory(state.directory)
                heappush(state.retired, (due, view.base_offset))
                with state.names_lock:
                    state.maps.forget(view)
                    state.producers.forget(view)
                    segments_on_disk.retire(state.files, state.directory, view.base_offset)
            state.directory_changes += 1
            self.remove_retired()

    def remove_retired(self) -> None:
        """Remove files of dropped segments whose delay is over."""
        state = self._state
        with state.lock:
            now = state.now_ms()
            while state.retired and state.retired[0][0] <= now:
                base = state.retired[0][1]
                segments_on_disk.remove(state.files, state.directory, base, DELETED_SUFFIX)
                heappop(state.retired)
