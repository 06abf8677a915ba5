"""What read_committed has to know: where the log is stable, and which transactions were aborted.

Kafka's consumer is told both by the broker, which keeps them in memory and in ``.txnindex``
files. Here both come from the markers in the log itself: a lost or short ``.txnindex`` cannot
make a reader show aborted records. Only headers are walked, and only where a scan has met a
transactional batch; a log without transactions is not walked at all by its writer, and by a
reader from the newest producer snapshot on.

Rules: Kafka's ProducerStateManager (first unstable offset), Fetcher (read_committed).
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from os.path import join
from typing import TYPE_CHECKING

from kstore._native.format.batch_table import scan
from kstore._native.read.aborted_transactions import AbortedRanges, TransactionWalk
from kstore._native.read.segment_view import SegmentList, Slice
from kstore.errors import CorruptFileError, InvalidConfigError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.producer_state import snapshot

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.producer_state.snapshot import ProducerEntry

UNCOMMITTED, COMMITTED = ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_INT64_MAX = 2**63 - 1
_PIECE = 8 << 20  # bytes of a segment that is read rather than mapped
_MAPPED = 1 << 40
_SNAPSHOT_LIMIT = 1 << 30
_CONTROL = 0x20
_KEPT = 4096  # aborted transactions, before those behind the reader are let go


def check_isolation(level: object) -> bool:
    """Whether a level is read_committed; InvalidConfigError for one that Kafka does not know."""
    if level not in ISOLATION_LEVELS:
        raise InvalidConfigError(
            f"isolation.level must be one of {', '.join(ISOLATION_LEVELS)}, not {level!r}"
        )
    return level == COMMITTED


class _Walker:
    """Walks the headers of a log forward, piece by piece, from an offset on."""

    def __init__(
        self, log: "Log", offset: int, open_transactions: Mapping[int, int] | None = None
    ) -> None:
        self._log = log
        self._piece: Slice | None = None
        self._at = 0
        self.state = TransactionWalk(offset, open_transactions or {})

    def advance(self, stop: int, *, to_marker: bool = False) -> bool:
        """Walk to stop, or only to behind the next marker; False where the log ends before."""
        state = self.state
        size = _MAPPED if self._log.writable else _PIECE
        while state.next_offset < stop:
            if self._piece is None:
                self._piece, self._at = self._log.read(state.next_offset, size), 0
                if self._piece is None:
                    return False
            piece, before = self._piece, self._at
            self._at = state.walk(piece, before, stop, to_marker=to_marker)
            state.unproven.clear()  # they count as aborted, and are in that list, too
            if self._at < 0 or (self._at == before == 0 and state.next_offset < stop):
                # Damage: nothing can be told of what lies behind it in this segment.
                state.next_offset = max(piece.next_offset, state.next_offset)
                self._piece = None
            elif self._at == len(piece) or (self._at == before and state.next_offset < stop):
                self._piece = None
            if to_marker:
                break
        return True


class StableEnd:
    """The last stable offset of a log, kept up to date by walking what was appended since.

    For a log that another process writes: its state of producers cannot be seen from here.
    Starts from the newest producer snapshot that can be read, else from the log start. Thread
    safe. Memory: one entry for each open transaction, and a piece of the log while it is walked.
    """

    def __init__(self, log: "Log", files: Files) -> None:
        self._log = log
        self._files = files
        self._lock = threading.Lock()
        self._walker: _Walker | None = None

    def offset(self) -> int:
        """First offset of the earliest open transaction; the log end where none is open."""
        with self._lock:
            log = self._log
            start, end = log.start_offset, log.end_offset
            walker = self._walker
            if walker is None or not start <= walker.state.next_offset <= end:
                walker = self._walker = self._begin(start, end)
            walker.advance(end)
            walker.state.aborted.clear()
            earliest = min(walker.state.open.values(), default=end)
            return min(max(earliest, start), end)

    def _begin(self, start: int, end: int) -> _Walker:
        """A walk from the newest snapshot on; without one everything is closed at the start."""
        names = map(filenames.parse, self._files.listdir(self._log.path))
        offsets = (
            name.base_offset
            for name in names
            if name is not None and name.kind == filenames.SNAPSHOT and not name.suffix
        )
        for offset in sorted(offsets, reverse=True):
            if not start <= offset <= end:
                continue
            path = join(self._log.path, filenames.snapshot_name(offset))
            with suppress(CorruptFileError, StorageError):  # gone meanwhile, or no good: an older
                entries = snapshot.parse(self._files.read(path, _SNAPSHOT_LIMIT))
                opened = {
                    entry.producer_id: entry.current_transaction_first_offset
                    for entry in entries
                    if entry.current_transaction_first_offset >= 0
                }
                # From the earliest of them on: what a control batch without records has ended,
                # the writer of the snapshot may have left open.
                begin = max(start, min(opened.values(), default=offset))
                before = {producer: at for producer, at in opened.items() if at < begin}
                return _Walker(self._log, min(begin, offset), before)
        return _Walker(self._log, start)


class Outcomes:
    """Which transactions of a stretch of a log were aborted, found when it is asked for.

    Goes on from where the last question ended, so that reading a log in small windows walks it
    once. Thread safe. Memory: 24 bytes and a tuple for each transaction aborted in the stretch.
    """

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._lock = threading.Lock()
        self._walker: _Walker | None = None
        self._start = 0  # of what the walk has seen

    def aborted_within(self, first: int, stop: int) -> AbortedRanges:
        """The aborted transactions with batches in [first, stop).

        One that is not closed where the log ends counts as aborted: it is not committed.
        """
        with self._lock:
            walker = self._walker
            if walker is None or not self._start <= first <= walker.state.next_offset:
                walker = self._walker = _Walker(self._log, first)
                self._start = first
            state = walker.state
            if len(state.aborted) > _KEPT:
                state.aborted = [each for each in state.aborted if each[2] > first]
                self._start = first
            walker.advance(stop)
            end = self._log.end_offset
            while min(state.open.values(), default=stop) < stop:
                if state.next_offset >= end or not walker.advance(end, to_marker=True):
                    break
            unknown = [
                (producer_id, offset, _INT64_MAX)
                for producer_id, offset in state.open.items()
                if offset < stop
            ]
            return AbortedRanges([*state.aborted, *unknown])


def began_after(log: "Log", entry: "ProducerEntry", when_ms: int) -> bool:
    """Whether a producer's open transaction began after one that was decided had ended here.

    A marker has the time of its decision (where the log appends its own times: a later one), and
    each decision of an id a later time than whatever came before it.
    """
    offset = entry.current_transaction_first_offset
    return offset >= 0 and last_marker_time(log, entry.producer_id, offset) >= when_ms


def last_marker_time(log: "Log", producer_id: int, before: int) -> int:
    """When the last transaction of a producer below an offset was ended, ms; -1: not found.

    That is the producer's last batch there, if it is a marker. Walks the headers of one segment
    after the other, back to that batch. Not for a log that others write.
    """
    return log._source.on_current_segments(partial(_last_marker_time, log, producer_id, before))


def _last_marker_time(log: "Log", producer_id: int, before: int, segments: SegmentList) -> int:
    for view in reversed(segments.views):
        if view.base_offset >= before:
            continue
        with log._read_whole(view).memory() as data:
            found, position, size = None, 0, _PIECE
            while position < len(data):
                table = scan(data, position, min(position + size, len(data)), check_crc=False)
                if not len(table):
                    if position + size >= len(data):
                        break
                    size *= 2  # the batch is larger
                    continue
                producers, offsets = table.producer_id, table.base_offset
                for row in range(len(table)):
                    if producers[row] == producer_id and offsets[row] < before:
                        is_marker = table.attributes[row] & _CONTROL
                        found = table.max_timestamp[row] if is_marker else -1
                position = table.position[-1] + table.size[-1]
        if found is not None:
            return found
    return -1
