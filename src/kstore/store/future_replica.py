"""Copies a partition to another log directory while the partition is read and appended to.

Kafka's ReplicaAlterLogDirs: the copy grows in a folder ``<topic>-<partition>.<uuid>-future``
until nothing is missing, then replaces the partition. Kafka copies by fetching; kstore copies
the files in chunks, so that segments, offsets, leader epochs and indexes stay unchanged. The
files of an earlier attempt (Kafka's too) are compared and kept up to the first difference.
"""

import os
from collections.abc import Callable
from typing import Protocol

from kstore._native.read.segment_view import SegmentView
from kstore.errors import ClosedError, StorageError
from kstore.files import filenames
from kstore.files.filenames import TEMPORARY_SUFFIX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.writer import LogWriter
from kstore.recovery.failed_sync import forget_failed_sync, has_failed_sync, note_failed_sync
from kstore.segment import header_checksums, segment
from kstore.store.parallel_recovery import Progress

COPY_CHUNK = 1 << 20  # bytes copied at a time
MAX_BLOCKING_BYTES = 1 << 20  # at most so many bytes are copied while appends wait


class Pace(Protocol):
    """Limits how fast a copy grows (:class:`kstore.compaction.throttler.Throttler`)."""

    def passed(self, size: int, check: Callable[[], None]) -> None:
        """Account for copied bytes and sleep to keep a rate; ``check`` may raise meanwhile."""


@lazy_dataclass()
class _Copied:
    """The progress of a segment's copy. A rewritten segment has another view."""

    view: SegmentView
    size: int
    is_finished: bool = False  # with its indexes on disk, and the segment is rolled


class FutureReplica:
    """The copy of one log in ``folder``; used by one thread.

    ``pace`` limits what is copied while appends continue; None: no limit. ``progress`` is called
    with the bytes copied so far and the size of the log.
    """

    def __init__(
        self,
        writer: LogWriter,
        files: Files,
        folder: str,
        pace: Pace | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._writer = writer
        self._files = files
        self._folder = folder
        self._pace = pace
        self._progress = progress
        self._segments: dict[int, _Copied] = {}
        self.written = 0  # bytes of logs, without those of an earlier attempt

    # --- while appends continue ------------------------------------------------------------

    def catch_up(self) -> None:
        """Copy until the rest is small enough to be copied while appends wait."""
        self._side_file(filenames.PARTITION_METADATA)
        while self._pass(self._pace) > MAX_BLOCKING_BYTES:
            pass
        for copied in self._segments.values():
            if not copied.is_finished:
                self._sync(copied.view)

    def _pass(self, pace: Pace | None) -> int:
        """Copy the missing bytes; returns how many there were."""
        views = self._writer.state.segments.views
        for base in self._segments.keys() - {view.base_offset for view in views}:
            del self._segments[base]
            self._remove_segment(base)
        count = 0
        for view in views:
            try:
                count += self._copy(view, pace)
            except StorageError:
                if view in self._writer.state.segments.views:
                    raise
                return MAX_BLOCKING_BYTES + 1  # retired or rewritten meanwhile: repeat
        return count

    def _copy(self, view: SegmentView, pace: Pace | None) -> int:
        """Extend a segment's copy to the published size; returns the bytes copied."""
        copied = self._segments.get(view.base_offset)
        if copied is None or copied.view is not view:
            copied = _Copied(view, self._same(view))
            if copied.size < view.size:
                # A crash must not leave a gap in front of segments copied earlier.
                self._remove_from(view.base_offset + 1)
            self._segments[view.base_offset] = copied
        if copied.is_finished:
            return 0
        end, begun = view.size, copied.size
        with (
            OpenFile(self._writer.state.files, view.path) as source,
            OpenFile(self._files, self._path(view), os.O_WRONLY | os.O_CREAT) as target,
        ):
            self._files.truncate(target, copied.size)
            while copied.size < end:
                size = min(COPY_CHUNK, end - copied.size)
                data = self._writer.state.files.pread(source, size, copied.size)
                if not data:
                    raise StorageError("another process truncated the file", path=view.path)
                self._files.pwrite(target, data, copied.size)
                copied.size += len(data)
                self.written += len(data)
                self._report()
                self._check()
                if pace is not None:
                    pace.passed(len(data), self._check)
        if view.sealed:
            self._finish(copied)
        return copied.size - begun

    def _same(self, view: SegmentView) -> int:
        """How many of the segment's first bytes the copy has already; 0 after a failed sync, when
        equal bytes in the page cache say nothing of the disk."""
        path = self._path(view)
        if self._files.kind(path) is None or has_failed_sync(self._files, self._folder):
            return 0
        files, position = self._writer.state.files, 0
        with OpenFile(files, view.path) as source, OpenFile(self._files, path) as target:
            while position < view.size:
                size = min(COPY_CHUNK, view.size - position)
                data = files.pread(source, size, position)
                if not data or self._files.pread(target, size, position) != data:
                    break
                position += len(data)
                self._check()
            return position

    def _check(self) -> None:
        if self._writer.state.is_closed:
            raise ClosedError("the log was closed during its move", path=self._folder)

    def _report(self) -> None:
        if self._progress is not None:
            total = sum(view.size for view in self._writer.state.segments.views)
            self._progress(
                min(sum(copied.size for copied in self._segments.values()), total), total
            )

    # --- while appends wait ---------------------------------------------------------------

    def complete(self) -> None:
        """Copy the rest and all side files, and sync them. The caller keeps the writer idle."""
        self._pass(None)
        for copied in self._segments.values():
            if not copied.is_finished:
                self._finish(copied)
        kept = {filenames.LEADER_EPOCHS, filenames.UNSYNCED}
        for name in self._writer.state.files.listdir(self._writer.state.directory):
            found = filenames.parse(name)
            if found is not None and (found.suffix or found.kind != filenames.SNAPSHOT):
                continue
            if name.startswith(filenames.SEAL):  # rewritten: it refers to its file by the inode
                continue
            if name not in kept and not name.endswith(TEMPORARY_SUFFIX):
                self._side_file(name)
                kept.add(name)
        if len(self._writer.state.epochs):
            epochs = os.path.join(self._folder, filenames.LEADER_EPOCHS)
            self._writer.state.epochs.save(self._files, epochs)
        for name in self._files.listdir(self._folder):
            found = filenames.parse(name)
            live = found is not None and not found.suffix and found.base_offset in self._segments
            if found is not None and name not in kept and not live:
                self._remove(name)
        sealed = [base for base, copied in self._segments.items() if copied.is_finished]
        header_checksums.remove_others(self._files, self._folder, sealed)
        self._files.sync_directory(self._folder)
        forget_failed_sync(self._files, self._folder)

    def _finish(self, copied: _Copied) -> None:
        """Copy the indexes of a segment whose log file is copied, and sync all of its files."""
        view = copied.view
        for kind in filenames.SEGMENT_KINDS[1:]:
            name = filenames.file_name(view.base_offset, kind)
            if not self._side_file(name):
                self._remove(name)
        self._sync(view)
        # Retention uses it for records without timestamps.
        self._files.set_modified_ns(
            self._path(view), self._writer.state.files.modified_ns(view.path)
        )
        if view.sealed:
            header_checksums.write(self._files, self._folder, view.base_offset)
            copied.is_finished = True

    def _side_file(self, name: str) -> bool:
        """Copy and sync a small file; False if the log has no file of that name."""
        source = os.path.join(self._writer.state.directory, name)
        if self._writer.state.files.kind(source) != "file":
            return False
        data = self._writer.state.files.read(source, limit=1 << 31)
        with OpenFile(
            self._files, os.path.join(self._folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        ) as fd:
            self._files.pwrite(fd, data, 0)
            self._files.fsync(fd)
        return True

    # --- after an interruption ------------------------------------------------------------

    def truncate_unfinished(self) -> None:
        """Truncate an unfinished copy after its last complete batch, for the next attempt."""
        unfinished = [copied for copied in self._segments.values() if not copied.is_finished]
        for copied in unfinished:
            self._remove_from(copied.view.base_offset + 1)
            if self._files.kind(self._path(copied.view)) is None:
                continue
            for kind in filenames.SEGMENT_KINDS[1:]:
                self._remove(filenames.file_name(copied.view.base_offset, kind))
            size = self._files.size_of(self._path(copied.view))
            bare = SegmentView(copied.view.base_offset, self._path(copied.view))
            valid_end = segment.walk_end(self._files, bare, size)[0]
            with OpenFile(self._files, bare.path, os.O_WRONLY) as fd:
                self._files.truncate(fd, valid_end)
                self._files.fsync(fd)

    # --- files ----------------------------------------------------------------------------

    def _path(self, view: SegmentView) -> str:
        return os.path.join(self._folder, filenames.log_name(view.base_offset))

    def _sync(self, view: SegmentView) -> None:
        fd = self._files.open(self._path(view))
        try:
            self._files.fsync(fd)
        except OSError:
            note_failed_sync(self._files, self._folder)
            raise
        finally:
            self._files.close(fd)

    def _remove_segment(self, base: int) -> None:
        for kind in filenames.SEGMENT_KINDS:
            self._remove(filenames.file_name(base, kind))

    def _remove_from(self, base: int) -> None:
        """Remove the copies of all segments from a base offset on, last first."""
        found = map(filenames.parse, self._files.listdir(self._folder))
        bases = {
            parsed.base_offset
            for parsed in found
            if parsed is not None and parsed.base_offset >= base
        }
        for segment_base in sorted(bases | {b for b in self._segments if b >= base}, reverse=True):
            self._segments.pop(segment_base, None)
            self._remove_segment(segment_base)

    def _remove(self, name: str) -> None:
        path = os.path.join(self._folder, name)
        if self._files.kind(path) is not None:
            self._files.remove(path)
