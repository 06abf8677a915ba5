"""The files of a segment that a compaction writes, with the suffix ``.cleaned``."""

import os
from collections.abc import Iterable
from typing import Any

from kstore._native.format.status import reason
from kstore._native.read.segment_view import SegmentView
from kstore.config import LogConfig
from kstore.errors import CorruptRecordError, StorageError
from kstore.files import filenames
from kstore.files.filenames import CLEANED_SUFFIX, SEGMENT_KINDS, SWAP_SUFFIX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.files.staging_area import StagingArea
from kstore.lazy_dataclass import lazy_dataclass
from kstore.segment import transaction_index
from kstore.segment.scan import scan_segment
from kstore.segment.transaction_index import AbortedTransaction


@lazy_dataclass(frozen=True)
class FinishedSegment:
    """Facts about a segment whose files are all on disk. ``next_offset``: base offset of the
    next segment."""

    base_offset: int
    size: int
    next_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    kinds: tuple[str, ...] = ()  # of its files

    def view(self, directory: str) -> SegmentView:
        """The segment as a rolled one of the log, under its final name."""
        path = os.path.join(directory, filenames.log_name(self.base_offset))
        view = SegmentView(self.base_offset, path, size=self.size, next_offset=self.next_offset)
        view.sealed = True
        view.note_timestamp(self.max_timestamp, self.max_timestamp_offset)
        view.is_largest_known = True
        return view


class CleanedSegment:
    """The files of a segment under construction, all with the suffix ``.cleaned``.

    They have no effect until they are swapped in; the next loader removes what is left of them.
    Used by one thread.
    """

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size = 0
        self.is_visible_to_loader = False  # all of it is on disk as .swap: a loader would use it
        self.finished: FinishedSegment | None = None
        self._files = files
        self._directory = directory
        self._fd = -1

    def begin(self) -> None:
        """Create the log file; first remove what an earlier attempt left."""
        self.discard()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._fd = self._files.open(self._path(filenames.LOG), flags)

    def adopt(self, finished: FinishedSegment, token: str | None = None) -> "CleanedSegment":
        """Use finished files; with a token, those that another process has staged under it
        (:mod:`kstore.files.staging_area`)."""
        if token is not None:
            self.discard()
            staged = StagingArea(self._files, self._directory, token)
            names = {
                kind: os.path.join(
                    staged.directory, filenames.file_name(self.base_offset, kind, CLEANED_SUFFIX)
                )
                for kind in finished.kinds
            }
            for path in names.values():
                self._check_staged(staged, path, finished, path == names[filenames.LOG])
            for kind, path in names.items():
                staged.rename(path, self._path(kind))
        self.size, self.finished = finished.size, finished
        return self

    @staticmethod
    def _check_staged(files: Files, path: str, finished: FinishedSegment, is_log: bool) -> None:
        """Raise where a staged file is missing: the staging host may see another directory."""
        if files.kind(path) is None or (is_log and files.size_of(path) != finished.size):
            raise StorageError(
                "a staged file is missing or incomplete: the host that staged it may have another "
                "directory under this path instead of the shared one; nothing was "
                "changed",
                path=path,
            )

    def _path(self, kind: str, suffix: str = CLEANED_SUFFIX) -> str:
        return os.path.join(self._directory, filenames.file_name(self.base_offset, kind, suffix))

    def write(self, data: Any) -> None:
        """Append complete batches."""
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

        ``next_offset`` is the base offset of the next segment; ``modified_ns`` is the age for
        retention and for old tombstones.
        """
        files = self._files
        path = self._path(filenames.LOG)
        scan = scan_segment(files, path, self.base_offset, config)
        if scan.status != 0 or scan.valid_size != self.size or scan.next_offset > next_offset:
            raise CorruptRecordError(
                f"the new segment is not valid: {reason(scan.status)}",
                path=path,
                position=scan.valid_size,
                offset=scan.next_offset,
            )
        data = {filenames.INDEX: scan.index, filenames.TIME_INDEX: scan.time_index}
        entries = transaction_index.encode(aborted)
        if entries:  # Kafka creates the file with its first entry
            data[filenames.TRANSACTION_INDEX] = entries
        for kind, content in data.items():
            with OpenFile(
                files, self._path(kind), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            ) as fd:
                files.write(fd, content)
                files.fsync(fd)
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
        """Remove its files, under either suffix; can be repeated.

        Does nothing once they count: the segments that they replace may be gone.
        """
        if self.is_visible_to_loader:
            return
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            for kind in SEGMENT_KINDS:
                path = self._path(kind, suffix)
                if self._files.kind(path) is not None:
                    self._files.remove(path)

    def rename(self, old: str, new: str) -> None:
        """Give all its files another suffix."""
        for kind in SEGMENT_KINDS:
            path = self._path(kind, old)
            if self._files.kind(path) is not None:
                self._files.rename(path, self._path(kind, new))
