"""Putting compacted segments in the place of the old ones, as Kafka's replaceSegments does.

The order of renames is what a loader, Kafka's or kstore's, can finish or undo at every point:
``.cleaned`` becomes ``.swap`` (all of a segment's files, synced: from here on it counts), the old
files become ``.deleted``, ``.swap`` goes from the names. The directory is synced in between, so
that no file system may bring the steps out of order.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kstore._native.locate import SegmentList, SegmentView
from kstore._native.status import reason
from kstore.config import LogConfig
from kstore.errors import ClosedError, CompactionAbandonedError, CorruptRecordError, StorageError
from kstore.log import filenames, transaction_index
from kstore.log import segment as segments_on_disk
from kstore.log.filenames import CLEANED_SUFFIX, SEGMENT_KINDS, SWAP_SUFFIX
from kstore.log.files import Files
from kstore.log.segment_scan import scan_segment
from kstore.log.shortening import ShorteningWriter
from kstore.log.staged import StagedFiles
from kstore.log.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True)
class FinishedSegment:
    """What has to be known of a segment whose files are all on disk. ``next_offset`` is where
    the next segment begins."""

    base_offset: int
    size: int
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    kinds: tuple[str, ...] = ()  # of its files

    def view(self, directory: str) -> SegmentView:
        """As a sealed segment of the log, under its final name."""
        path = os.path.join(directory, filenames.log_name(self.base_offset))
        view = SegmentView(self.base_offset, path, size=self.size, next_offset=self.next_offset)
        view.sealed = True
        view.note_timestamp(self.max_timestamp, self.max_timestamp_offset)
        return view


class CleanedSegment:
    """The files of a segment under construction, all with the ending ``.cleaned``.

    Nothing counts before they are swapped in; whatever is left of them is removed by the next
    loader. Used by one thread.
    """

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size = 0
        self.counts = False  # all of it is on disk as .swap: whoever loads the log will use it
        self.finished: FinishedSegment | None = None
        self._files = files
        self._directory = directory
        self._fd = -1

    def begin(self) -> None:
        """Make the log file; what an earlier attempt left goes first."""
        self.discard()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._fd = self._files.open(self._path(filenames.LOG), flags)

    def adopt(self, finished: FinishedSegment, token: str | None = None) -> "CleanedSegment":
        """Take finished files over, with a token those that another process has staged under it
        (:mod:`kstore.log.staged`)."""
        if token is not None:
            self.discard()
            staged = StagedFiles(self._files, self._directory, token)
            names = {
                kind: os.path.join(
                    staged.directory, filenames.file_name(self.base_offset, kind, CLEANED_SUFFIX)
                )
                for kind in finished.kinds
            }
            for path in names.values():
                self._check_there(staged, path, finished, path == names[filenames.LOG])
            for kind, path in names.items():
                staged.rename(path, self._path(kind))
        self.size, self.finished = finished.size, finished
        return self

    @staticmethod
    def _check_there(files: Files, path: str, finished: FinishedSegment, is_log: bool) -> None:
        """What is not here must not replace what is: another host may have its own directory."""
        if files.kind(path) is None or (is_log and files.size_of(path) != finished.size):
            raise StorageError(
                "what was staged is not here, or not whole: the host that staged it may have a "
                "directory of its own under the path instead of the shared one; nothing was "
                "changed",
                path=path,
            )

    def _path(self, kind: str, suffix: str = CLEANED_SUFFIX) -> str:
        return os.path.join(self._directory, filenames.file_name(self.base_offset, kind, suffix))

    def write(self, data: Any) -> None:
        """Append whole batches."""
        self._files.write(self._fd, data)
        self.size += len(data)

    def finish(
        self,
        aborted: Iterable[AbortedTransaction],
        next_offset: int,
        modified_ns: int,
        config: LogConfig,
    ) -> FinishedSegment:
        """Read the log back, write the indexes, sync everything.

        next_offset is where the next segment begins; modified_ns the age that retention and
        old tombstones go by.
        """
        files = self._files
        path = self._path(filenames.LOG)
        scan = scan_segment(files, path, self.base_offset, config)
        if scan.status != 0 or scan.valid_size != self.size or scan.next_offset > next_offset:
            raise CorruptRecordError(
                f"the new segment is not right: {reason(scan.status)}",
                path=path,
                position=scan.valid_size,
                offset=scan.next_offset,
            )
        data = {filenames.INDEX: scan.index, filenames.TIME_INDEX: scan.time_index}
        entries = transaction_index.encode(aborted)
        if entries:  # Kafka makes the file with its first entry
            data[filenames.TRANSACTION_INDEX] = entries
        for kind, content in data.items():
            fd = files.open(self._path(kind), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
            try:
                files.write(fd, content)
                files.fsync(fd)
            finally:
                files.close(fd)
        files.set_modified_ns(path, modified_ns)
        files.fsync(self._fd)
        self.close()
        self.finished = FinishedSegment(
            self.base_offset,
            self.size,
            next_offset,
            scan.max_timestamp,
            scan.max_timestamp_offset,
            (filenames.LOG, *data),
        )
        return self.finished

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.close(fd)

    def discard(self) -> None:
        """Remove whatever there is of it, under either ending; again is harmless.

        Not once it counts: the segments that it stands for may be gone already.
        """
        if self.counts:
            return
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            for kind in SEGMENT_KINDS:
                path = self._path(kind, suffix)
                if self._files.kind(path) is not None:
                    self._files.remove(path)

    def rename(self, old: str, new: str) -> None:
        """Give all files another ending; those that there are."""
        for kind in SEGMENT_KINDS:
            path = self._path(kind, old)
            if self._files.kind(path) is not None:
                self._files.rename(path, self._path(kind, new))


class ReplacingWriter(ShorteningWriter):
    """Adds the swap at the end of a compaction. ``cleaning`` is held by who compacts the log."""

    @contextmanager
    def without_cleaning(self) -> Iterator[None]:
        """No compaction meanwhile: one under way is abandoned, none begins.

        Kafka's LogCleanerManager.abortAndPauseCleaning. Not while holding other locks.
        """
        try:
            self.pausing = True
            with self.cleaning:
                pass
            yield
        finally:
            self.pausing = False

    def check_cleaning(self) -> None:
        """Raise where a compaction may not go on: the log fails, closes, or is moved."""
        self.check_usable()
        if self.closing:
            raise ClosedError("the log is closed", path=self.directory)
        if self.pausing:
            raise CompactionAbandonedError(
                "the partition is being moved to another directory; compact it afterwards",
                path=self.directory,
            )

    def replace_segments(
        self, new: Sequence[CleanedSegment], old: Sequence[SegmentView]
    ) -> tuple[SegmentView, ...]:
        """Put finished segments in the place of sealed ones that lie side by side.

        Returns the new segments' views; sealing them is the caller's. Readers that hold an old
        view keep its file. Raises CompactionAbandonedError, with nothing changed, where the log
        does not have the old segments any more. A disk that fails before the new ones count
        leaves the log as it was; later, the log is read-only until it is reopened, which
        finishes the swap.
        """
        with self._flush_lock, self.lock, self._names:
            self.check_usable()
            self._finish_cut()
            first = self._find(old)
            views = [each.finished.view(self.directory) for each in new if each.finished]
            assert len(views) == len(new)
            self.files.sync_directory(self.directory)
            try:
                # From the last one down: while one is .cleaned, a loader undoes those behind it.
                for each in reversed(new):
                    each.rename(CLEANED_SUFFIX, SWAP_SUFFIX)
                    self.files.sync_directory(self.directory)
                for view in old:
                    self._keep_mapped(view)
            except BaseException as error:
                self._undo(new, error)
                raise
            for each in new:
                each.counts = True
            try:
                self._swap(new, old)
            except BaseException as error:
                self._fail(error)
                raise
            for view in views:
                view.opener = self._map
            before, after = self.segments.views[:first], self.segments.views[first + len(old) :]
            self.segments = SegmentList((*before, *views, *after), self.segments.start_offset)
            self._unsynced = [view for view in self._unsynced if view not in old]
            self.remove_retired()
        return tuple(views)

    def _find(self, old: Sequence[SegmentView]) -> int:
        """Where the old segments stand among the log's; never the active one."""
        views = self.segments.views
        first = next((n for n, view in enumerate(views) if view is old[0]), -1)
        found = views[first : first + len(old)] if first >= 0 else ()
        if len(found) != len(old) or any(a is not b for a, b in zip(found, old, strict=True)):
            raise CompactionAbandonedError(
                "the log was truncated, or lost segments to retention, while it was compacted",
                path=self.directory,
            )
        assert old[-1] is not self.active
        return first

    def _keep_mapped(self, view: SegmentView) -> None:
        """Map a segment for as long as anybody holds its view: its name is about to go."""
        while view.size > 0 and not view.holds_log:
            self._map(view)
            self._maps.release(view)
        self._maps.release(view)

    def _undo(self, new: Sequence[CleanedSegment], error: BaseException) -> None:
        """Remove the new files; where even that fails, a later loader would find them whole."""
        try:
            if len(new) > 1:  # a crash meanwhile must not leave some of them whole
                new[0].rename(SWAP_SUFFIX, CLEANED_SUFFIX)
                self.files.sync_directory(self.directory)
            for each in reversed(new):
                each.discard()
            self.files.sync_directory(self.directory)
        except StorageError:
            self._fail(error)

    def _swap(self, new: Sequence[CleanedSegment], old: Sequence[SegmentView]) -> None:
        due = self.now_ms() + self.config.file_delete_delay_ms
        bases = {each.base_offset for each in new}
        for view in old:
            base = view.base_offset
            self._retired.append((base, due))
            # The producers' state before the new segment is what it was before the old one.
            segments_on_disk.retire(self.files, self.directory, base, keep_snapshot=base in bases)
        self.files.sync_directory(self.directory)
        for each in new:  # from the first one up: a loader puts the rest behind it
            each.rename(SWAP_SUFFIX, "")
        self.files.sync_directory(self.directory)

    def abandon(self, cleaned: CleanedSegment) -> None:
        """Remove an output that will not be swapped in, as far as the disk allows."""
        with suppress(StorageError):
            cleaned.close()
        if not (self._closed or self._forked):
            with suppress(StorageError):
                cleaned.discard()
