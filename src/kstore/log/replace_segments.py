"""Replaces segments by compacted ones, as Kafka's replaceSegments.

A loader, Kafka's or kstore's, can finish or undo the renames at every step: ``.cleaned`` becomes
``.swap`` (all of a segment's files, synced: from here on a loader completes the swap), the old
files become ``.deleted``, the suffix ``.swap`` is removed. The directory is synced in between, so
that no file system can reorder the steps.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heappush
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.errors import ClosedError, CompactionAbandonedError, StorageError
from kstore.files.filenames import CLEANED_SUFFIX, SWAP_SUFFIX
from kstore.log.active_segment import ActiveSegment
from kstore.log.delete_segments import SegmentDeleter
from kstore.log.segment_access import SegmentAccess
from kstore.log.writer_state import WriterState
from kstore.segment import segment as segments_on_disk

if TYPE_CHECKING:
    from kstore.segment.cleaned_segment import CleanedSegment


class SegmentReplacer:
    """The swap at the end of a compaction. The thread that compacts holds ``cleaning``."""

    def __init__(
        self,
        state: WriterState,
        access: SegmentAccess,
        active: ActiveSegment,
        deleter: SegmentDeleter,
    ) -> None:
        self._state = state
        self._access = access
        self._active = active
        self._deleter = deleter
        self._is_paused = False  # no compaction may begin, and a running one ends

    @contextmanager
    def without_cleaning(self) -> Iterator[None]:
        """Abandon a running compaction, and allow no other until the end of the block.

        Kafka's LogCleanerManager.abortAndPauseCleaning. The caller holds no other lock.
        """
        try:
            self._is_paused = True
            with self._state.cleaning:
                pass
            yield
        finally:
            self._is_paused = False

    def check_cleaning(self) -> None:
        """Raise where a compaction must end: the log failed, closes, or is being moved."""
        state = self._state
        state.check_usable()
        if state.is_closing:
            raise ClosedError("the log is closed", path=state.directory)
        if self._is_paused:
            raise CompactionAbandonedError(
                "the partition is being moved to another directory; compact it afterwards",
                path=state.directory,
            )

    def replace_segments(
        self, new: "Sequence[CleanedSegment]", old: Sequence[SegmentView]
    ) -> tuple[SegmentView, ...]:
        """Replace adjacent rolled segments by finished ones.

        Returns the new segments' views; the caller writes their header checksums. Readers that
        hold an old view keep its file. Raises CompactionAbandonedError, with nothing changed,
        where the old segments have left the log. If the disk fails before the new ones count, the
        log does not change; if later, it is read-only until it is reopened, which finishes the
        swap.
        """
        state = self._state
        state.check_lock_order()
        with state.flush_lock, state.lock, state.names_lock:
            state.check_usable()
            self._active.finish_truncation()
            first = self._find(old)
            views = [each.finished.view(state.directory) for each in new if each.finished]
            assert len(views) == len(new)
            state.files.sync_directory(state.directory)
            try:
                # From the last one to the first: a loader undoes all behind a .cleaned one.
                for each in reversed(new):
                    each.rename(CLEANED_SUFFIX, SWAP_SUFFIX)
                    state.files.sync_directory(state.directory)
                for view in old:
                    self._access.keep_mapped(view)
            except BaseException as error:
                self._undo(new, error)
                raise
            for each in new:
                each.is_visible_to_loader = True
            try:
                self._swap(new, old)
            except BaseException as error:
                state.fail(error)
                raise
            for view in views:
                view.opener = self._access.map
            before, after = state.segments.views[:first], state.segments.views[first + len(old) :]
            state.segments = SegmentList((*before, *views, *after), state.segments.start_offset)
            for view in old:
                state.producers.forget(view)
            old_views = frozenset(old)
            state.unsynced_segments = [
                view for view in state.unsynced_segments if view not in old_views
            ]
            self._deleter.remove_retired()
        return tuple(views)

    def _find(self, old: Sequence[SegmentView]) -> int:
        """Index of the first old segment in the log; never that of the active one."""
        state = self._state
        views = state.segments.views
        first = max(0, state.segments.floor(old[0].base_offset))
        found = views[first : first + len(old)]
        if len(found) != len(old) or any(a is not b for a, b in zip(found, old, strict=True)):
            raise CompactionAbandonedError(
                "the log was truncated, or lost segments to retention, while it was compacted",
                path=state.directory,
            )
        assert old[-1] is not state.active
        return first

    def _undo(self, new: "Sequence[CleanedSegment]", error: BaseException) -> None:
        """Remove the new files; where that fails, a later loader could find them complete."""
        state = self._state
        try:
            if len(new) > 1:  # a crash meanwhile must not leave some of them complete
                new[0].rename(SWAP_SUFFIX, CLEANED_SUFFIX)
                state.files.sync_directory(state.directory)
            for each in reversed(new):
                each.discard()
            state.files.sync_directory(state.directory)
        except StorageError:
            state.fail(error)

    def _swap(self, new: "Sequence[CleanedSegment]", old: Sequence[SegmentView]) -> None:
        state = self._state
        due = state.now_ms() + state.config.file_delete_delay_ms
        bases = {each.base_offset for each in new}
        for view in old:
            base = view.base_offset
            heappush(state.retired, (due, base))
            # The producer snapshot at the base offset is valid for the new segment, too.
            segments_on_disk.retire(state.files, state.directory, base, keep_snapshot=base in bases)
        state.files.sync_directory(state.directory)
        for each in new:  # from the first one to the last: a loader finishes the rest
            each.rename(SWAP_SUFFIX, "")
        state.files.sync_directory(state.directory)

    def abandon(self, cleaned: "CleanedSegment") -> None:
        """Remove an output that is not going to be swapped in, as far as the disk allows."""
        with suppress(StorageError):
            cleaned.close()
        if not (self._state.is_closed or self._state.is_forked):
            with suppress(StorageError):
                cleaned.discard()
