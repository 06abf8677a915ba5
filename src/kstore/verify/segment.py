"""The audit of one segment: its batches, indexes, header checksums and transactions."""

import errno
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kstore._native.index.index_audit import BatchAudit
from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.filenames import LEADER_EPOCHS
from kstore.files.files import Files
from kstore.recovery.emptied_segments import Signs, find_signs
from kstore.segment import header_checksums
from kstore.verify.losses import SegmentEnd
from kstore.verify.segment_walk import Bad, SegmentWalk, chunks_of
from kstore.verify.transactions import TransactionAudit

if TYPE_CHECKING:
    from kstore.verify.partition import Progress, VerifyReport

NO_INDEX = (
    "the segment has no offset index: reads search it from its beginning, and opening it for "
    "writing rebuilds it"
)
LARGEST_CHUNK = 1 << 23  # more bytes without an index entry are read window by window


def check_order(report: "VerifyReport", path: Path, base: int, previous_end: int) -> None:
    """Report a segment that begins below the end of the one before it."""
    if base < previous_end:
        report.add(
            "offsets",
            path,
            0,
            base,
            f"the segment begins below offset {previous_end}, where the one before it ends",
        )


class SegmentAudit(ABC):
    """The state and the steps of a segment's audit. Used by one thread."""

    files: Files
    directory: Path
    names: list[str]  # in the directory, when it was listed
    bases: list[int]  # of the segments in that listing, ascending
    absent: set[int]  # of those, the ones that have left the log since
    threads: int
    map_sealed: bool
    window: int  # bytes
    looks: int  # how often what may be in flight is checked again
    pause: Callable[[int], None]
    progress: "Progress | None"
    report: "VerifyReport"  # of this segment
    epochs: LeaderEpochs | None
    has_epochs: bool  # a batch has a leader epoch
    transactions: TransactionAudit
    end_offset: int  # of the segment before
    done: int  # bytes
    total: int

    @abstractmethod
    def _is_open(self) -> bool:
        """Whether a writer has the directory open."""

    def _path(self, base: int) -> Path:
        return self.directory / filenames.log_name(base)

    # --- one segment --------------------------------------------------------------------------

    def _segment(self, base: int, last: bool, pool: ThreadPoolExecutor | None) -> SegmentEnd | None:
        """Audit one segment; returns its end, None if it has left the log."""
        fd = self._open(base)
        if fd is None:
            return None
        try:
            return self._opened_segment(base, fd, last, pool)
        finally:
            self.files.close(fd)

    def _open(self, base: int) -> int | None:
        """A descriptor of a segment; None where it has left the log.

        One wait is for all segments that the listing after it does not have.
        """
        path, look, was_listed = self._path(base), 0, False
        while True:
            try:
                return self.files.open(path)
            except StorageError as error:
                if error.errno != errno.ENOENT or was_listed:
                    raise
            if base in self.absent:
                return None
            names = set(self.files.listdir(self.directory))
            was_listed = path.name in names  # a compaction has replaced it, or a link has no target
            if was_listed:
                continue
            if look >= self.looks or not self._is_open():
                self.absent = {each for each in self.bases if self._path(each).name not in names}
                return None
            self.pause(look)  # a compaction is replacing the file
            look += 1

    def _opened_segment(
        self, base: int, fd: int, last: bool, pool: ThreadPoolExecutor | None
    ) -> SegmentEnd:
        inode, _, size = self.files.stamp(fd)
        check_order(self.report, self._path(base), base, self.end_offset)
        index = self._index(filenames.index_name(base), base, size, last)
        times = self._time_index(filenames.time_index_name(base), base)
        audit = BatchAudit(base, size, index, times)
        found = self._load_checksums(base, fd, last)
        check = None if last or found is None else found.check
        walk = SegmentWalk(self, base, fd, size, last, audit, check)
        self.transactions.begin(base)
        done = self.done
        if pool is None:
            walk.on(size, done)
        else:
            self._in_chunks(walk, pool, chunks_of(index, size, self.window), done)
        if not walk.was_truncated:
            walk.note_events(audit.finish())
        if check is not None and not walk.was_truncated:
            walk.note_checksums(check.finish())
        self.transactions.end(
            base, audit.last_offset + 1, lambda: last and self.files.size(fd) > size
        )
        if audit.tail_position >= 0:
            self._note_tail(base, audit, size, last)
            walk.is_sound &= last
        elif not last and walk.is_sound:
            self._check_last_time(base, times, audit.last_offset)
        self.report.segments += 1
        self.report.batches += audit.batches
        self.report.bytes += size
        if check is None:
            self.report.unsealed_segments += 1
            self.report.unsealed_batches += audit.batches
        self.done += size
        self.on_progress(self.done)
        return SegmentEnd(
            base,
            audit.last_offset + 1,
            size,
            self.report.not_yet_there,
            walk.is_sound and not walk.was_truncated,
            audit.has_gaps,
            None if found is None else found.following,
            inode,
            self._find_signs(base, size),
        )

    def _find_signs(self, base: int, size: int) -> Signs | None:
        """What shows that an empty segment, which is not the last one, had records."""
        slot = bisect_right(self.bases, base)
        if size or slot == len(self.bases):
            return None
        return find_signs(self.files, self.directory, base, self.bases[slot], self.names)

    def _load_checksums(
        self, base: int, fd: int, last: bool
    ) -> header_checksums.HeaderChecksums | None:
        if last and filenames.header_checksums_name(base) not in self.names:
            return None
        try:
            return header_checksums.load(self.files, self.directory, base, fd)
        except NewerFormatError as error:
            path = self.directory / filenames.header_checksums_name(base)
            self.report.add("seal", path, None, None, error.reason)
            return None

    def _in_chunks(
        self,
        walk: "SegmentWalk",
        pool: ThreadPoolExecutor,
        chunks: list[tuple[int, int]],
        done: int,
    ) -> None:
        """Read and check chunks in parallel; walk their headers here, in order.

        The bounds of a chunk come from the index, or are guessed. If the walk reaches
        another position, the findings of the chunk do not count, and its bytes are walked
        window by window.
        """
        jobs: deque[tuple[int, int, Future[tuple[memoryview, list[Bad]]] | None]] = deque()
        waiting = iter(chunks)
        try:
            while True:
                while len(jobs) < 2 * self.threads and (chunk := next(waiting, None)) is not None:
                    large = chunk[1] - chunk[0] > LARGEST_CHUNK
                    jobs.append((*chunk, None if large else pool.submit(walk.check, *chunk)))
                if not jobs:
                    return
                start, end, job = jobs.popleft()
                if job is not None:
                    window, damage = job.result()
                    taken = walk.take(window) if walk.audit.position == start else 0
                    walk.note_damage([bad for bad in damage if bad[0] < start + taken])
                    walk.release(window)
                walk.on(end, done)
        finally:
            for *_, job in jobs:  # after an error: the descriptor is about to be closed
                if job is not None:
                    job.exception()

    def on_progress(self, done: int) -> None:
        if self.progress is not None:
            self.progress(min(done, self.total), self.total)

    # --- findings -----------------------------------------------------------------------------

    def _note_tail(self, base: int, audit: BatchAudit, size: int, last: bool) -> None:
        if last:
            self.report.not_yet_there += size - audit.tail_position
            return
        self.report.add(
            "structure",
            self._path(base),
            audit.tail_position,
            audit.last_offset + 1,
            "the segment ends within a batch, but there are later segments",
        )

    def check_epoch(self, base: int, position: int, offset: int, epoch: int) -> None:
        self.has_epochs |= epoch >= 0
        if self.epochs is None or self.epochs.earliest is None:
            return
        known = self.epochs.epoch_for(offset)
        if known not in (-1, epoch):
            self.report.add(
                "epochs",
                self._path(base),
                position,
                offset,
                f"the batch says leader epoch {epoch}, {LEADER_EPOCHS} says {known}",
            )

    # --- indexes ------------------------------------------------------------------------------

    def _read(self, path: Path) -> bytes | None:
        """A side file; None where it does not exist, or has gone since the listing."""
        if path.name not in self.names:
            return None
        try:
            return self.files.read(path)
        except StorageError as error:
            if error.errno == errno.ENOENT and path.name not in self.files.listdir(self.directory):
                return None
            raise

    def _index(self, name: str, base: int, log_size: int, last: bool) -> bytes:
        """Used entries of a valid offset index; b"" of an invalid or missing one."""
        path = self.directory / name
        data = self._read(path)
        if data is None:
            if not last and log_size:
                self.report.add("index", path, None, base, NO_INDEX)
            return b""
        index = OffsetIndex(data, base)
        # Beside a writer the index may be newer than the size of the last segment, read before.
        fault = index.find_fault(None if last else log_size)
        if fault is not None:
            sentence, position, offset = fault
            self.report.add("index", path, position, offset, sentence)
            return b""
        count = index.count
        while last and count > 0 and index[count - 1][1] >= log_size:
            count -= 1
        return data[: 8 * count]

    def _time_index(self, name: str, base: int) -> bytes:
        path = self.directory / name
        data = self._read(path)
        if data is None:
            return b""
        index = TimeIndex(data, base)
        fault = index.find_fault()
        if fault is not None:
            sentence, position, offset = fault
            self.report.add("time index", path, position, offset, sentence)
            return b""
        return data[: 12 * index.count]

    def _check_last_time(self, base: int, times: bytes, last_offset: int) -> None:
        """Report a rolled segment that has lost its end, which only its time index shows."""
        index = TimeIndex(times, base)
        if index.count and index[index.count - 1][1] > last_offset:
            self.report.add(
                "time index",
                self.directory / filenames.time_index_name(base),
                12 * (index.count - 1),
                index[index.count - 1][1],
                f"the last entry is of a record behind the segment's end, offset {last_offset + 1}",
            )
