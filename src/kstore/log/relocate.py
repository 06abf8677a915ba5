"""Moves an open log to another directory: the writer's side of a move.

:mod:`kstore.store.future_replica` moves the files. During the switch no thread appends; then the
log continues in the other directory. Readers that hold earlier segments keep their mappings, and
map the rest from the new directory, which has the same bytes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.files import filenames
from kstore.files.files import Files
from kstore.log.active_segment import ActiveSegment
from kstore.log.segment_access import SegmentAccess
from kstore.log.writer_state import WriterState
from kstore.segment import segment as segments_on_disk


class Relocator:
    """Switches a log to another directory."""

    def __init__(self, state: WriterState, access: SegmentAccess, active: ActiveSegment) -> None:
        self._state = state
        self._access = access
        self._active = active

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Stop appends, flushes and truncations; everything published is then in the files.

        It is not all on disk. The next append opens the files again in the current directory.
        """
        state, active = self._state, self._active
        state.check_lock_order()
        with state.flush_lock, state.lock:
            state.check_usable()
            active.finish_truncation()
            active.discard_unfinished()
            active.close_files()
            state.producers.write_aborted()
            yield

    def views_at(self, files: Files, found: str, directory: str) -> tuple[SegmentView, ...]:
        """The log's segments as they will be in ``directory``; their files are in ``found``."""
        views = []
        for old in self._state.segments.views:
            path = os.path.join(directory, filenames.log_name(old.base_offset))
            view = SegmentView(old.base_offset, path, size=old.size, next_offset=old.next_offset)
            view.sealed = old.sealed
            view.opener = self._access.map
            if not old.sealed:
                segments_on_disk.load_indexes(files, found, view)
            view.note_timestamp(old.max_timestamp, old.offset_of_max_timestamp)
            view.is_largest_known = old.is_largest_known
            view.is_time_index_wrong = old.is_time_index_wrong
            views.append(view)
        return tuple(views)

    def relocate(self, files: Files, directory: str, views: tuple[SegmentView, ...]) -> None:
        """Continue in another directory, which has all of the log on disk (at standstill)."""
        state = self._state
        for old, new in zip(state.segments.views, views, strict=True):
            self._access.follow_move(old, new.path)
        state.recovery_point = state.data_end
        state.unsynced_segments = []
        state.retired = []  # their files stay behind
        state.directory_changes = state.directory_synced
        state.files = files
        state.appender.relocate(files, directory)
        state.producers.relocate(files, directory)
        state.segments = SegmentList(views, state.segments.start_offset)
        state.appender.reset(views[-1])
        state.directory = directory
