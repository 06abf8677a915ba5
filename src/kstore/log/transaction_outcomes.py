"""Which transactions of a log were aborted, for a read_committed reader that scans its records.

A scan reads a slice of the log and asks for the outcomes of its transactions, which are decided by
markers in the slice or behind it. Compaction, truncation or deletion may come between: the log has
other files than the slice by then.

A compaction removes the records of an aborted transaction first, and its marker in a later round:
as long as the log has a file, it has the markers for that file's records. So a walk of the log
decides for a slice of a file that the log still has. Of any other slice it cannot: the log may not
show a transaction any more whose records the slice has. There the slice decides what ends in it.
Of a transaction that is open at its end, the log either has batches up to there, and then its
marker behind; or the cleaner has removed them all, because the transaction was aborted or later
records have all of its keys: either way it counts as aborted.
"""

import threading
from typing import TYPE_CHECKING

from kstore._native.format.batch_fields import TRANSACTIONAL_BIT
from kstore._native.format.batch_scan import BatchTable, scan
from kstore._native.read.aborted_transactions import AbortedRanges
from kstore._native.read.segment_view import SegmentList, Slice
from kstore.errors import LogTruncationError, OffsetOutOfRangeError
from kstore.integers import INT64_MAX
from kstore.log.read_committed import HeaderWalker

if TYPE_CHECKING:
    from kstore.log.readable_log import ReadableLog

_Ranges = list[tuple[int, int, int]]  # producer id, first and last offset
_Outcomes = tuple[_Ranges, _Ranges]  # aborted, and open at the log end
_MAX_ABORTED = 4096  # transactions; above it, those before the current offset are dropped


class TransactionOutcomes:
    """Which transactions in a range of a log were aborted, found on request.

    Continues where the last request ended, so that reading a log in small windows walks it
    once; after a change of its segments it begins again. Thread safe. Memory: 24 bytes and a tuple
    for each transaction aborted in the range.
    """

    def __init__(self, log: "ReadableLog") -> None:
        self._log = log
        self._lock = threading.Lock()
        self._walker: HeaderWalker | None = None
        self._start = 0  # of the range walked
        self._segments: SegmentList | None = None  # that it walks

    def mark(self) -> int:
        """How many truncations by this process there were; those of another are not known."""
        return len(self._log._truncations)

    def aborted_within(
        self,
        first: int,
        stop: int,
        data: Slice | None = None,
        mark: int = 0,
        *,
        beyond_stable: bool = False,
    ) -> AbortedRanges:
        """The aborted transactions with batches in [first, stop).

        One that is still open at the log end counts as aborted: it is not committed. ``data`` is
        the slice, read for ``first``, that the answer is for; ``mark`` is from before it was read.
        ``beyond_stable``: stop may lie beyond the last stable offset.

        Where the outcome of a transaction in the slice is not known any more, it raises
        LogTruncationError if the log was truncated meanwhile, OffsetOutOfRangeError if the slice
        was deleted.
        """
        with self._lock:
            while (found := self._find(first, stop, data, mark)) is None:
                pass  # the segments changed meanwhile
            aborted, unknown = found
            if unknown and not beyond_stable and self._log.last_stable_offset < stop:
                raise self._truncated(first)
            return AbortedRanges([*aborted, *unknown])

    def _find(self, first: int, stop: int, data: Slice | None, mark: int) -> _Outcomes | None:
        """The outcomes; None if the log was changed during the walk."""
        now = self._log.segments
        if data is not None and not _has_segment_of(now, data):
            return self._find_for_old(first, stop, data, mark, now)
        walker = self._continued(first, now)
        if not self._has_finished(walker, stop, now):
            self._walker = None
            return None
        state = walker.state
        unknown = [(producer, at, INT64_MAX) for producer, at in state.open.items() if at < stop]
        return state.aborted, unknown

    def _find_for_old(
        self, first: int, stop: int, data: Slice, mark: int, now: SegmentList
    ) -> _Outcomes | None:
        """The same for a slice of a file that the log does not have any more."""
        own = HeaderWalker(self._log, first)
        own.walk_slice(data, stop)
        aborted, unknown = own.state.aborted, []
        if not own.state.open:
            return aborted, []
        end = own.state.next_offset
        walker = HeaderWalker(self._log, first)
        try:
            walker.advance(end)
            was_cut = self._was_cut(own, data, mark)
        except OffsetOutOfRangeError:
            was_cut = True
        if was_cut:
            raise self._truncated(first)
        remaining = dict(walker.state.open)
        if not self._has_finished(walker, end, now):
            return None
        ends = {(producer, at): last for producer, at, last in walker.state.aborted}
        for producer, at in own.state.open.items():
            begin = remaining.get(producer)
            if begin is None:
                aborted.append((producer, at, end))  # below its marker
            elif (producer, begin) in ends:
                aborted.append((producer, at, ends[producer, begin]))
            elif walker.state.open.get(producer) == begin:
                unknown.append((producer, at, INT64_MAX))
        return aborted, unknown

    def _was_cut(self, own: HeaderWalker, data: Slice, mark: int) -> bool:
        """Whether the log was truncated below the end of a slice's walk, since the mark.

        OffsetOutOfRangeError if the log was truncated or deleted just now.
        """
        log, end = self._log, own.state.next_offset
        if log.end_offset < end:
            return True
        if log.writable:
            return min(log._truncations[mark:], default=end) < end and not own.is_in_log()
        if own.is_in_log():
            return False
        # Another process may have compacted the slice's batches: none looks the same.
        return "compact" not in log.config.cleanup_policy or self._has_others(own, data)

    def _has_others(self, own: HeaderWalker, data: Slice) -> bool:
        """Whether the log has other batches at the offsets of the open transactions' ones, which
        the log cleaner leaves with other records, and the same offsets and sequences."""
        table = scan(data, 0, data.size, check_crc=False)
        for row in reversed(range(len(table))):  # a truncation removes the last ones first
            begin = own.state.open.get(table.producer_id[row], INT64_MAX)
            batch = _identity(table, row)
            if begin <= table.base_offset[row] < own.state.next_offset and batch[-1]:
                found = self._read_header(table.base_offset[row])
                if found is not None and found.base_offset[0] <= table.last_offset[row]:
                    return _identity(found, 0) != batch
        return False

    def _read_header(self, offset: int) -> BatchTable | None:
        """The header of the batch with an offset, or of the next one; None if there is none."""
        found = self._log.read(offset, 1)
        if found is None:
            return None
        table = scan(found, 0, found.size, check_crc=False)
        return table if len(table) else None

    def _continued(self, first: int, now: SegmentList) -> HeaderWalker:
        """The walk of the last request if it can continue, else a new one."""
        walker = self._walker
        if (
            walker is None
            or not _is_unchanged(self._segments, now)
            or not self._start <= first <= walker.state.next_offset
        ):
            walker = self._walker = HeaderWalker(self._log, first)
            self._start = first
        self._segments = now
        state = walker.state
        if len(state.aborted) > _MAX_ABORTED:
            state.aborted = [each for each in state.aborted if each[2] > first]
            self._start = first
        return walker

    def _has_finished(self, walker: HeaderWalker, stop: int, before: SegmentList) -> bool:
        """Walk to stop, and on to the ends of the transactions that are open there.

        False if the log was changed meanwhile: the walk may have mixed the old log and the new.
        """
        state = walker.state
        try:
            walker.advance(stop)
            end = self._log.end_offset
            while min(state.open.values(), default=stop) < stop:
                if state.next_offset >= end or not walker.advance(end, to_marker=True):
                    break
        except OffsetOutOfRangeError:
            if _is_unchanged(before, self._log.segments):
                raise
        return _is_unchanged(before, self._log.segments)

    def _truncated(self, offset: int) -> OffsetOutOfRangeError:
        start = self._log.start_offset
        if offset < start:
            return OffsetOutOfRangeError(
                f"the log starts at offset {start} now: records were deleted while they were read",
                path=self._log.path,
                offset=offset,
            )
        return LogTruncationError(
            "the log was truncated while it was read: which transactions were committed from this "
            "offset on is not known any more; read it again",
            path=self._log.path,
            offset=offset,
        )


def _has_segment_of(segments: SegmentList, data: Slice) -> bool:
    """Whether the log has the file of a slice. A segment with another file has another view."""
    view = data.segment
    return segments.views[max(segments.floor(view.base_offset), 0)] is view


def _is_unchanged(before: SegmentList | None, now: SegmentList) -> bool:
    """Whether the log has the same files as before, and perhaps new ones at its end."""
    if before is None or before is now:
        return before is now
    return now.views[: len(before.views)] == before.views


def _identity(table: BatchTable, row: int) -> tuple[int, int, int, int, int, bool]:
    """What a compaction leaves as it is; at the end whether it is a transaction's batch."""
    return (
        table.base_offset[row],
        table.last_offset[row],
        table.producer_id[row],
        table.producer_epoch[row],
        table.base_sequence[row],
        bool(table.attributes[row] & TRANSACTIONAL_BIT),
    )
