"""Truncating a log's end, raising its start or its end, dropping its oldest segments.

Published bytes are never cut in place: a truncated segment's first part is copied and renamed
over it. Retired files go after ``file.delete.delay.ms``.
"""

from kstore._native.locate import SegmentList
from kstore.errors import (
    OffsetOutOfRangeError,
)
from kstore.log import segment as segments_on_disk
from kstore.log.durability import DurableWriter
from kstore.log.loader import load_active


class ShorteningWriter(DurableWriter):
    """Adds what makes a log shorter: its end comes back, or its start goes on."""

    def truncate_to(self, offset: int) -> None:
        """Make offset the log end; whole batches go, the one that holds offset included.

        Published bytes are never cut in place: the segment's first part is copied and renamed
        over it, so readers keep the old file (Kafka: UnifiedLog.truncateTo, by whole batches).
        """
        with self._flush_lock, self.lock:
            self.check_usable()
            if offset < 0:
                raise OffsetOutOfRangeError("cannot truncate to a negative offset", offset=offset)
            self._settle()
            if offset >= self.segments.end_offset:
                self._epochs_changed(self.epochs.truncate_from_end(self.segments.end_offset))
                return
            self._close_files()
            # Until the checkpoint says so, zeros would lie below what it promises: damage.
            self._shortenings += 1
            self.appender.prewrite = None
            self.recovery_point = min(self.recovery_point, offset)
            if offset < self.segments.views[0].base_offset:
                self._restart_at(offset)
            else:
                self._cut_at(offset)
            self._finish_cut()
            self._epochs_changed(self.epochs.truncate_from_end(offset))
            self.producers.refresh(self.segments, self.now_ms())
            self.files.sync_directory(self.directory)
            self._wake()
        if self.shortened is not None:
            self.shortened()
        with self.lock:
            self._shortenings -= 1
            if self._shortenings == 0:
                self.appender.prewrite = self._prewrite

    def _settle(self) -> None:
        """Take out of the files, on disk, what a failed append or roll left behind the log's end.

        The next append would do it; a reader in another process and the next loader do not wait.
        """
        self._finish_cut()
        self._discard_unfinished()
        self._cut_unpublished(self.active)
        self._sync(-1, [self.active], True)

    def skip_to(self, offset: int) -> None:
        """Make a higher offset the log end: the next segment begins there.

        What a follower does whose leader has nothing between its end and there any more (Kafka's
        truncateFullyAndStartAt, without dropping what is there). An empty log begins at offset.
        """
        with self._flush_lock, self.lock:
            self.check_usable()
            end = self.segments.end_offset
            if offset < end:
                raise OffsetOutOfRangeError(f"the log ends at {end} already", offset=offset)
            if offset == end:
                return
            self._finish_cut()
            data_end = self._data_end()
            if self.active.size > 0:
                self.appender.make_ready()
                self._roll(offset)
                self._gap = (data_end, offset)
            else:
                self._close_files()
                self._begin_anew_at(offset, data_end)
            self.producers.refresh(self.segments, self.now_ms())
            self.files.sync_directory(self.directory)
            self._wake()

    def _begin_anew_at(self, offset: int, data_end: int) -> None:
        """Replace the empty active segment by one that begins at offset."""
        views = self.segments.views
        kept = len(views) - 1
        view = segments_on_disk.bare(self.directory, offset)
        cut = segments_on_disk.Cut(view, (self.active,), None)
        if kept == 0:
            self._epochs_changed(self.epochs.truncate_from_end(0))
            self.recovery_point = data_end = offset
        start = self.segments.start_offset if kept else offset
        self._replace_last(cut, kept, start, data_end)
        self._finish_cut()

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
        self.producers.stale = True
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
            for number, view in enumerate(gone):
                if number:  # a power cut may keep any of two renames: not the later one alone
                    self.files.sync_directory(self.directory)
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
