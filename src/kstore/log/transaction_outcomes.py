"""Which transactions of a log were aborted, for a read_committed reader that scans its records.

A scan reads a slice of the log and asks for the outcomes of its transactions, which are decided by
markers in the slice or behind it. A truncation may come between: the markers are then another
log's than the slice. What the slice itself decides remains valid; for the rest the log must still
have the slice.
"""

import threading
from typing import TYPE_CHECKING

from kstore._native.format.batch_fields import TRANSACTIONAL_BIT
from kstore._native.format.batch_scan import BatchTable, scan
from kstore._native.read.aborted_transactions import AbortedRanges
from kstore._native.read.segment_view import Slice
from kstore.errors import LogTruncationError, OffsetOutOfRangeError
from kstore.integers import INT64_MAX
from kstore.log.read_committed import HeaderWalker

if TYPE_CHECKING:
    from kstore.log.readable_log import ReadableLog

_MAX_ABORTED = 4096  # transactions; above it, those before the current offset are dropped


class TransactionOutcomes:
    """Which transactions in a range of a log were aborted, found on request.

    Continues where the last request ended, so that reading a log in small windows walks it
    once; after a truncation it begins again. Thread safe. Memory: 24 bytes and a tuple for each
    transaction aborted in the range.
    """

    def __init__(self, log: "ReadableLog") -> None:
        self._log = log
        self._lock = threading.Lock()
        self._walker: HeaderWalker | None = None
        self._start = 0  # of the range walked
        self._mark: object = None  # when its walk began

    def mark(self) -> object:
        """Differs after a truncation; of a log that another process writes, also after each new
        list of its segments."""
        return len(self._log._truncations) if self._log.writable else self._log.segments

    def aborted_within(
        self,
        first: int,
        stop: int,
        data: Slice | None = None,
        mark: object = None,
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
            walker = self._walk(first, stop, data, mark)
            unknown = [
                (producer_id, offset, INT64_MAX)
                for producer_id, offset in walker.state.open.items()
                if offset < stop
            ]
            if unknown and not beyond_stable and self._log.last_stable_offset < stop:
                raise self._truncated(first)
            return AbortedRanges([*walker.state.aborted, *unknown])

    def _walk(self, first: int, stop: int, data: Slice | None, mark: object) -> HeaderWalker:
        now = self.mark()
        if mark is None or mark == now:
            walker = self._continued(first, now)
            if self._has_finished(walker, stop, now):
                return walker
            self._walker = None
        while True:
            now = self.mark()
            if data is not None:
                walker = HeaderWalker(self._log, first)
                walker.walk_slice(data, stop)
                if min(walker.state.open.values(), default=stop) >= stop:
                    return walker
                if not walker.is_in_log():
                    if not self._may_be_compacted or not self._keep_compacted(walker, data):
                        raise self._truncated(first)
                    if self._has_finished(walker, stop, now):  # continued behind the slice
                        return walker
                    continue
            walker = self._continued(first, now)
            if self._has_finished(walker, stop, now):
                return walker
            self._walker = None  # the log was changed during the walk

    @property
    def _may_be_compacted(self) -> bool:
        """Whether another process may have compacted the slice's batches: none looks the same."""
        return not self._log.writable and "compact" in self._log.config.cleanup_policy

    def _keep_compacted(self, walker: HeaderWalker, data: Slice) -> bool:
        """Whether the log has the slice's batches of transactions that are open at its end, as the
        log cleaner leaves them: with other records, and the same offsets and sequences.

        Where it has removed all of a transaction, that was aborted, or later records have all of
        its keys: either way it counts as aborted.
        """
        state = walker.state
        table = scan(data, 0, data.size, check_crc=False)
        unseen = dict(state.open)
        for row in reversed(range(len(table))):  # a truncation removes the last ones first
            producer_id = table.producer_id[row]
            if table.base_offset[row] < unseen.get(producer_id, INT64_MAX):
                continue
            if (batch := _identity(table, row))[-1]:
                found = self._read_header(table.base_offset[row])
                if found is None:
                    return False
                if found.base_offset[0] <= table.last_offset[row]:
                    if _identity(found, 0) != batch:
                        return False
                    del unseen[producer_id]
        for producer_id, first in unseen.items():
            del state.open[producer_id]
            state.aborted.append((producer_id, first, state.next_offset - 1))
        return True

    def _read_header(self, offset: int) -> BatchTable | None:
        """The header of the batch with an offset, or of the next one; None: the log ends before."""
        try:
            found = self._log.read(offset, 1)
        except OffsetOutOfRangeError:
            return None
        if found is None:
            return None
        table = scan(found, 0, found.size, check_crc=False)
        return table if len(table) else None

    def _continued(self, first: int, now: object) -> HeaderWalker:
        """The walk of the last request if it can continue, else a new one."""
        walker = self._walker
        if (
            walker is None
            or self._mark != now
            or not self._start <= first <= walker.state.next_offset
        ):
            walker = self._walker = HeaderWalker(self._log, first)
            self._start, self._mark = first, now
        state = walker.state
        if len(state.aborted) > _MAX_ABORTED:
            state.aborted = [each for each in state.aborted if each[2] > first]
            self._start = first
        return walker

    def _has_finished(self, walker: HeaderWalker, stop: int, mark: object) -> bool:
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
            if self.mark() == mark:
                raise
        return self.mark() == mark

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
