"""Moves a log's end: truncation, or a higher end offset.

Published bytes are never truncated in place: the beginning of the segment is copied and renamed
over it, so readers keep the old file.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentList
from kstore.checkpoint.known_gaps import note_gaps, truncate_gaps
from kstore.errors import OffsetOutOfRangeError
from kstore.log.active_segment import ActiveSegment
from kstore.log.flush import Flusher
from kstore.log.segment_access import SegmentAccess
from kstore.log.watch import LogEvents
from kstore.log.writer_state import WriterState
from kstore.producer_state.snapshot import ProducerEntry
from kstore.recovery.loader import load_active
from kstore.segment import header_checksums
from kstore.segment import segment as segments_on_disk

if TYPE_CHECKING:
    from kstore.recovery.removed_ends import RemovedEnds


class Truncator:
    """Lowers the log end by truncation; raises it where a leader has no records up to there.

    Thread safe. ``on_truncated`` is called without a lock when the recovery point was lowered.
    ``owns_producer``: whether transactions of a producer id have their coordinator here, so that
    ends that a truncation removes are to be written again. It is called with the log's lock.
    """

    def __init__(
        self, state: WriterState, access: SegmentAccess, active: ActiveSegment, flusher: Flusher
    ) -> None:
        self._state = state
        self._access = access
        self._active = active
        self._flusher = flusher
        self._unreported = 0  # truncations that the checkpoint does not contain yet
        self.on_truncated: Callable[[], None] | None = None
        self.owns_producer: Callable[[int], bool] | None = None

    def truncate_to(self, offset: int) -> int:
        """Make offset the log end, and return it; removes complete batches, also the one that
        holds offset.

        Inside a batch an empty segment begins at offset, so that the log end is the same after
        reopening and for readers, and no offset below it is assigned again. Kafka keeps that end
        in memory only. A log that loses everything begins at offset.

        Published bytes are never truncated in place: the segment's beginning is copied and renamed
        over it, so readers keep the old file (Kafka: UnifiedLog.truncateTo, by complete batches).
        """
        return self._truncate_to(offset, is_own=True)

    def _truncate_to(self, offset: int, *, is_own: bool) -> int:
        """``is_own``: not for a leader, whose log has the ends of transactions that are removed."""
        state, active = self._state, self._active
        state.check_lock_order()
        with state.flush_lock, state.lock:
            state.check_usable()
            start_offset = state.segments.start_offset
            if offset < 0:
                raise OffsetOutOfRangeError("cannot truncate to a negative offset", offset=offset)
            if offset < state.segments.end_offset:
                boundary = state.segments.views[max(state.segments.floor(offset), 0)]
                header_checksums.forget_following(
                    state.files, state.directory, boundary.base_offset
                )
            self._remove_unpublished()  # syncs the directory
            if offset >= state.segments.end_offset:
                self._truncate_epochs(state.segments.end_offset, start_offset)
                return state.segments.end_offset
            self._note_removed_ends(offset, is_own=is_own)
            active.close_files()
            # Zeros below the checkpoint's recovery point would count as corruption.
            self._unreported += 1
            active.allow_prewriting(False)
            state.recovery_point = min(state.recovery_point, offset)
            if offset < state.segments.views[0].base_offset:
                self._restart_at(offset)
            else:
                self._cut_at(offset)
            state.truncations.append(offset)  # before an append can end beyond it again
            active.finish_truncation()
            state.lost = state.lost.truncate(state.files, state.directory, offset)
            truncate_gaps(state.files, state.directory, offset)
            self._truncate_epochs(offset, start_offset)
            state.producers.refresh(state.segments, state.now_ms())
            state.files.sync_directory(state.directory)
            state.wake(LogEvents.END | LogEvents.TRUNCATED)
        if self.on_truncated is not None:
            self.on_truncated()
        with state.lock:
            self._unreported -= 1
            if self._unreported == 0:
                active.allow_prewriting(True)
        with state.flush_lock, state.lock:
            if state.segments.end_offset == offset and state.data_end < offset:
                self._begin_segment_at(offset)
        return offset

    def _note_removed_ends(self, offset: int, *, is_own: bool) -> None:
        """Write to disk which ends this truncation removes, before it changes a file."""
        state, removed = self._state, None
        producers = state.producers.table.entries()
        if not producers and state.removed_ends is None:
            return
        from kstore.recovery.removed_ends import forget_removed_ends, write_removed_ends

        if is_own and producers and self.owns_producer is not None:
            from kstore.log.find_removed_ends import find_removed_ends  # few truncations need it

            removed = find_removed_ends(
                state.segments,
                offset,
                [ProducerEntry(*each) for each in producers],
                self.owns_producer,
                state.removed_ends,
            )
        if removed is not None:
            write_removed_ends(state.files, state.directory, removed)
        elif state.removed_ends is not None:
            forget_removed_ends(state.files, state.directory)
        state.removed_ends = removed

    def forget_removed_ends(self, restored: "RemovedEnds") -> None:
        """These are in the log again, on disk, unless another truncation has followed."""
        from kstore.recovery.removed_ends import forget_removed_ends

        state = self._state
        with state.lock:
            if state.removed_ends is restored:
                forget_removed_ends(state.files, state.directory)
                state.removed_ends = None

    def truncate_to_epoch(self, epoch: int) -> int:
        """Remove the batches of later epochs, and those epochs; returns the log end.

        Kafka's ReplicaFetcherThread.truncate with the end of the epoch in this log.
        """
        state = self._state
        state.check_lock_order()
        with state.flush_lock:
            with state.lock:
                state.check_usable()
                known, end = state.epochs.end_of(epoch, state.segments.end_offset)
                latest = state.epochs.latest
                if latest is None or known < 0 or latest.epoch <= epoch:
                    return state.segments.end_offset
                state.begun_epoch = -1
            self._truncate_to(end, is_own=False)
        return state.segments.end_offset

    def _truncate_epochs(self, end: int, start_offset: int) -> None:
        """Remove the epochs from the log end on, except the leader's own.

        The epoch at the log start before the truncation, ``start_offset``, also stands for batches
        below it. Where such batches remain it is kept: no later append may carry a lower epoch.
        Kafka removes it, because there the controller decides the next epoch.
        """
        state = self._state
        earliest = state.epochs.earliest
        changed = state.epochs.truncate_from_end(end)
        if (
            earliest is not None
            and state.epochs.latest is None
            and earliest.start_offset == start_offset
            and (state.active.size > 0 or len(state.segments.views) > 1)
        ):
            changed = state.epochs.assign(earliest.epoch, end)
        state.save_epochs(state.keep_begun_epoch(end) or changed)
        state.appender.leader_epoch = state.latest_epoch()

    def _remove_unpublished(self) -> None:
        """Remove from the files what a failed append or roll left behind the log end, and sync.

        The next append would remove it, but a reader or loader in another process would see it.
        """
        self._active.finish_truncation()
        self._active.discard_unfinished()
        self._active.cut_unpublished()
        self._flusher.sync(-1, [self._state.active], True)

    def skip_to(self, offset: int) -> None:
        """Make a higher offset the log end: the next segment begins there.

        For a follower whose leader has no records left between its end and there (Kafka's
        truncateFullyAndStartAt, but the log keeps its records). An empty log begins at offset.
        """
        state, active = self._state, self._active
        state.check_lock_order()
        with state.flush_lock, state.lock:
            state.check_usable()
            end = state.segments.end_offset
            if offset < end:
                raise OffsetOutOfRangeError(f"the log ends at {end} already", offset=offset)
            if offset == end:
                return
            active.finish_truncation()
            self._begin_segment_at(offset)

    def _begin_segment_at(self, offset: int) -> None:
        """Begin a segment at an offset beyond the last batch, and record the gap on disk."""
        state, active = self._state, self._active
        data_end = state.data_end
        if data_end < offset and (state.active.size > 0 or len(state.segments.views) > 1):
            note_gaps(state.files, state.directory, [(data_end, offset)])
        if state.active.size > 0:
            state.appender.make_ready()
            active.roll_at(offset)
            state.note_data_end(data_end, offset)
        else:
            active.close_files()
            self._restart_empty_at(offset, data_end)
        state.producers.refresh(state.segments, state.now_ms())
        state.files.sync_directory(state.directory)
        state.wake()

    def _restart_empty_at(self, offset: int, data_end: int) -> None:
        """Replace the empty active segment by one that begins at offset."""
        state = self._state
        views = state.segments.views
        kept = len(views) - 1
        if kept and header_checksums.forget_following(
            state.files, state.directory, views[-2].base_offset
        ):
            state.files.sync_directory(state.directory)
        view = segments_on_disk.empty(state.directory, offset)
        cut = segments_on_disk.Truncation(view, (state.active,), None)
        if kept == 0:
            state.save_epochs(state.epochs.truncate_from_end(0))
            state.recovery_point = data_end = offset
        start = state.segments.start_offset if kept else offset
        self._replace_last(cut, kept, start, data_end)
        self._active.finish_truncation()

    def _restart_at(self, offset: int) -> None:
        view = segments_on_disk.empty(self._state.directory, offset)
        cut = segments_on_disk.Truncation(view, self._state.segments.views, None)
        self._replace_last(cut, 0, offset, offset)

    def _cut_at(self, offset: int) -> None:
        state = self._state
        views = state.segments.views
        last = state.segments.floor(offset)
        boundary = views[last]
        found = SegmentList((boundary,), boundary.base_offset).read(
            min(offset, boundary.next_offset), 0
        )
        copy = None
        if found is None:  # no batch of the segment is removed
            view = load_active(state.files, state.directory, boundary.base_offset)
        else:
            view = segments_on_disk.beginning(boundary, found)
            reserve = max(state.config.segment_bytes, view.size)
            copy = segments_on_disk.copy_beginning(state.files, view, reserve)
        data_end = view.next_offset
        state.recovery_point = min(state.recovery_point, data_end)
        view.publish(view.size, offset)
        cut = segments_on_disk.Truncation(view, views[last + 1 :], copy)
        self._replace_last(cut, last, min(state.segments.start_offset, offset), data_end)

    def _replace_last(
        self, cut: segments_on_disk.Truncation, kept: int, start: int, data_end: int
    ) -> None:
        """The log ends with the cut's view now; ``finish_truncation`` changes the files."""
        state = self._state
        views = state.segments.views
        state.producers.stale = True
        cut.view.opener = self._access.map
        state.pending_truncation = cut
        state.note_data_end(data_end, cut.view.next_offset)
        state.segments = SegmentList((*views[:kept], cut.view), start)
        state.high_watermark = min(state.high_watermark, cut.view.next_offset)
        state.appender.reset(cut.view)
        kept_views = frozenset(views[:kept])
        state.unsynced_segments = [view for view in state.unsynced_segments if view in kept_views]
        for view in views[kept:]:
            state.maps.forget(view)
