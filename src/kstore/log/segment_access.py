"""Reads of a writer's segments, while truncation, retention and compaction change the log.

The name of a segment that left the log may belong to another one's file. So a file is opened by
name under ``names_lock`` only, and never for a segment that has left the log. A read
that fails on such a segment is repeated with the current segments.
"""

import os
from collections.abc import Callable
from errno import ENOENT
from functools import partial
from typing import TypeVar

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.errors import CorruptRecordError, StorageError
from kstore.log.writer_state import WriterState
from kstore.producer_state.collect_aborted import AbortedFinder, collect_aborted, known_aborted
from kstore.recovery.lost_segments import LostRecords
from kstore.segment import segment as segments_on_disk
from kstore.segment.transaction_index import AbortedTransaction

Result = TypeVar("Result")


class SegmentAccess:
    """Maps and reads the segments of a log that is open for writing. Thread safe."""

    def __init__(self, state: WriterState) -> None:
        self._state = state
        for view in state.segments.views:
            view.opener = self.map

    @property
    def lost(self) -> LostRecords:
        """Records that were lost when the log was opened."""
        return self._state.lost

    def map(self, view: SegmentView) -> None:
        """Map a segment on its first read; in the new directory where the log has just moved."""
        try:
            self._map_current(view)
        except StorageError:
            if os.path.dirname(view.path) == self._state.directory:
                raise
            view.opener(view)

    def _map_current(self, view: SegmentView) -> None:
        """Map a segment of the log; the active one with space to grow.

        Not while a compaction swaps files: the name could lead an old view to a new file.
        """
        state = self._state
        with state.names_lock:
            if view.maps_published:
                return
            self._check_current(view)
            reserve = 0
            if view is state.active:
                reserve = max(state.config.segment_bytes, view.size)
            elif view.index_count == 0:
                segments_on_disk.load_indexes(state.files, state.directory, view)
            segments_on_disk.map_log(state.files, view, reserve)
            state.maps.add(view)

    def follow_move(self, old: SegmentView, path: str) -> None:
        """The log moves: map a segment of the previous list from ``path``."""
        old.opener = partial(self._map_elsewhere, path)
        self._state.maps.forget(old)

    def _map_elsewhere(self, path: str, view: SegmentView) -> None:
        state = self._state
        if view.index_count == 0:
            segments_on_disk.load_indexes(state.files, state.directory, view)
        segments_on_disk.map_log(state.files, view, 0, path=path)
        state.maps.add(view)

    def keep_mapped(self, view: SegmentView) -> None:
        """Map a segment while its view is in use: its name is about to be removed."""
        maps = self._state.maps
        while view.size > 0 and not view.maps_published:
            self.map(view)
            maps.release(view)
        maps.release(view)

    def unmap_all(self) -> None:
        """Release the mappings; a segment is mapped again when it is read."""
        for view in self._state.segments.views:
            self._state.maps.forget(view)

    def _check_current(self, view: SegmentView) -> None:
        """Raise StorageError for a segment that left the log: its name may be another one's.

        The caller holds ``names_lock``, under which segments leave.
        """
        segments = self._state.segments
        if segments.views[max(segments.floor(view.base_offset), 0)] is not view:
            raise StorageError(
                "the segment is not part of the log any more", errno=ENOENT, path=view.path
            )

    # --- reading ----------------------------------------------------------------------------

    def on_current_segments(self, use: Callable[[SegmentList], Result]) -> Result:
        """Call a function with the segments; repeat it if it fails while some leave the log."""
        while True:
            segments = self._state.segments
            try:
                return use(segments)
            except (StorageError, CorruptRecordError):
                # The list is assigned after the files are renamed, both under this lock.
                with self._state.names_lock:
                    if self._state.segments is segments:
                        raise

    def read_current(
        self, offset: int, max_bytes: int, up_to: int | None, min_one_batch: bool
    ) -> Slice | None:
        """As SegmentList.read; repeated where it fails while segments leave the log.

        Raises OffsetOutOfRangeError outside the log.
        """
        state = self._state
        try:
            return self.on_current_segments(
                lambda segments: segments.read(offset, max_bytes, up_to, min_one_batch)
            )
        except LookupError:
            raise segments_on_disk.out_of_range(state.directory, state.segments, offset) from None

    def load_entries(self, view: SegmentView) -> None:
        """Load the index entries of a segment; StorageError where it left the log."""
        if view.sealed and view.index_count == view.time_index_count == 0:
            state = self._state
            with state.names_lock:
                self._check_current(view)
                segments_on_disk.load_indexes(state.files, state.directory, view)
                state.maps.add(view)

    def learn_times(self, view: SegmentView) -> None:
        """Find a segment's largest timestamp; StorageError where it left the log."""
        if view.is_largest_known:
            return
        state = self._state
        files = state.files
        with state.names_lock:
            self._check_current(view)
            opened = segments_on_disk.open_times(files, state.directory, view)
        segments_on_disk.learn_times(files, view, *opened)

    def read_segment(self, view: SegmentView, offset: int, max_bytes: int) -> Slice | None:
        """As SegmentList.read, within one segment: its batches from the one that reaches offset.

        A mapped segment is read even after it left the log; otherwise StorageError is raised.
        """
        return SegmentList((view,), view.base_offset).read(
            max(view.base_offset, min(offset, view.next_offset)), max_bytes
        )

    def check_lost(self, start: int, stop: int | None, ms: int) -> None:
        """Raise CorruptRecordError if lost records in [start, stop) may be at or after ms."""
        self._state.lost.check_time(start, stop, ms)

    def collect_aborted(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Aborted transactions in [start, stop). May read the headers of segments.

        Waits for a truncation: its replay of the log fills the active segment's index again.
        """
        state = self._state
        while True:
            if state.producers.stale:
                with state.lock:
                    state.producers.refresh(state.segments, state.now_ms())
            loads = state.producers.loads
            found = self.on_current_segments(
                lambda segments: collect_aborted(
                    state.producers, segments, start, stop, self._search_aborted
                )
            )
            if not state.producers.stale and state.producers.loads == loads:
                return found

    def known_aborted(self, start: int, stop: int) -> list[AbortedTransaction] | None:
        """As collect_aborted, without a lock or a file; None if that needs one of them."""
        state = self._state
        producers, segments = state.producers, state.segments
        loads = producers.loads
        if producers.stale:
            return None
        found = known_aborted(producers, segments, start, stop)
        is_current = state.segments is segments and producers.loads == loads
        return found if is_current and not producers.stale else None

    def _search_aborted(self, view: SegmentView, finder: AbortedFinder) -> list[AbortedTransaction]:
        """Locks one segment at a time: to read the headers of a long log takes minutes."""
        state = self._state
        with state.names_lock:
            self._check_current(view)
            return state.producers.aborted(view, finder)
