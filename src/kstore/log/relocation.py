"""A log changes its directory while it is open: what the writer does for a move.

The move itself, files and names, is :mod:`kstore.log.move`'s. Here nobody appends meanwhile,
and then the log goes on in the other directory. Readers that hold the segments of before keep
what they have mapped; what they have not mapped yet they find in the new place, byte for byte.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from kstore._native.locate import SegmentList, SegmentView
from kstore.errors import LogDirOfflineError, StorageError
from kstore.log import filenames
from kstore.log import segment as segments_on_disk
from kstore.log.files import Files
from kstore.log.replacing import ReplacingWriter


class RelocatingWriter(ReplacingWriter):
    """Adds moving to another directory, and refusing because the directory's disk failed."""

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """No append, flush or cut meanwhile; everything published is in the files.

        Not all of it on disk. The next append opens the files again, wherever they are then.
        """
        with self._flush_lock, self.lock:
            self.check_usable()
            self._finish_cut()
            self._discard_unfinished()
            self._close_files()
            self.producers.write_aborted()
            yield

    @property
    def data_end(self) -> int:
        """The offset after the last batch (the log's end, where none was cut away before it)."""
        return self._data_end()

    def fail(self, error: BaseException) -> None:
        """Take no more appends: nobody could tell which copy of the log has them."""
        with self.lock:
            self._fail(error)

    def go_offline(self, error: LogDirOfflineError) -> None:
        """The disk of the directory failed, whoever saw it: refuse from the next append on.

        Takes no lock: whoever sees a disk fail may hold any.
        """
        if self._failure is None:
            self._failure = error
        self.appender.ready = False

    def views_at(self, files: Files, found: str, directory: str) -> tuple[SegmentView, ...]:
        """The log's segments as they will be in a directory, whose files are in ``found`` now."""
        views = []
        for old in self.segments.views:
            path = os.path.join(directory, filenames.log_name(old.base_offset))
            view = SegmentView(old.base_offset, path, size=old.size, next_offset=old.next_offset)
            view.sealed = old.sealed
            view.opener = self._map
            if not old.sealed:
                segments_on_disk.load_indexes(files, found, view)
            view.note_timestamp(old.max_timestamp, old.offset_of_max_timestamp)
            views.append(view)
        return tuple(views)

    def relocate(self, files: Files, directory: str, views: tuple[SegmentView, ...]) -> None:
        """Go on in another directory, which holds the log whole and on disk (at standstill)."""
        for old, new in zip(self.segments.views, views, strict=True):
            old.opener = partial(self._map_elsewhere, new.path)
            self._maps.forget(old)
        self.recovery_point = self._data_end()
        self._unsynced = []
        self._retired = []  # their files stay behind
        self._directory_changes = self._directory_synced
        self.files = files
        self.appender.relocate(files, directory)
        self.producers.relocate(files, directory)
        self.segments = SegmentList(views, self.segments.start_offset)
        self.appender.reset(views[-1])
        self.directory = directory

    def _map(self, view: SegmentView) -> None:
        """Map a segment; where the log moved at just that moment, from where it is now."""
        try:
            super()._map(view)
        except StorageError:
            if view.opener == self._map:
                raise
            view.opener(view)

    def _map_elsewhere(self, path: str, view: SegmentView) -> None:
        """Map a segment of a list from before a move."""
        if view.index_count == 0:
            segments_on_disk.load_indexes(self.files, self.directory, view)
        segments_on_disk.map_log(self.files, view, 0, path=path)
        self._maps.add(view)
