"""What read_committed needs: where a reader ends, and walks of the log's transactions.

A broker keeps the last stable offset and the aborted transactions in memory and in ``.txnindex``
files, and sends them to Kafka's consumer. Here both come from the markers in the log itself, so
that a lost or short ``.txnindex`` cannot make a reader show aborted records. Only headers are
walked, and only where a scan has met a transactional batch. The writer of a log without
transactions walks none of it; a reader walks it from the newest producer snapshot on
(:mod:`kstore.log.last_stable_offset`).

A writer's last stable offset and aborted transactions are in :mod:`kstore.producer_state.state`
and :mod:`kstore.producer_state.collect_aborted`.

Rules: Kafka's ProducerStateManager (first unstable offset), Fetcher (read_committed).
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Never, TypedDict

from kstore._native.format import batch_fields
from kstore._native.format.batch_scan import scan
from kstore._native.read.aborted_transactions import TransactionWalk
from kstore._native.read.segment_view import SegmentList, Slice
from kstore.errors import InvalidConfigError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from kstore.log.readable_log import ReadableLog
    from kstore.producer_state.snapshot import ProducerEntry

UNCOMMITTED, COMMITTED = ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_READ = 8 << 20  # bytes of a segment to read at a time where it is not mapped
_MAPPED = 1 << 40
_CONTROL = 0x20


def check_isolation(level: object) -> bool:
    """Whether a level is read_committed; InvalidConfigError for an unknown one."""
    if level not in ISOLATION_LEVELS:
        raise InvalidConfigError(
            f"isolation.level must be one of {', '.join(ISOLATION_LEVELS)}, not {level!r}"
        )
    return level == COMMITTED


class Isolation(TypedDict, total=False):
    """The isolation level as a keyword: a log's name of it, or a consumer's and Kafka's."""

    isolation: str
    isolation_level: str


def isolation_of(
    *, isolation: str = UNCOMMITTED, isolation_level: str | None = None, **unknown: Never
) -> str:
    """The level that a caller passes under either name; InvalidConfigError for two levels."""
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {next(iter(unknown))!r}")
    if isolation_level is None:
        return isolation
    if isolation not in (UNCOMMITTED, isolation_level):
        raise InvalidConfigError("isolation and isolation_level are the same: pass one of them")
    return isolation_level


def end_at(log: "ReadableLog", isolation: str) -> int:
    """Where a reader of this level ends: the last stable offset, or the log end."""
    return log.last_stable_offset if check_isolation(isolation) else log.end_offset


class HeaderWalker:
    """Walks the headers of a log forward from an offset, slice by slice."""

    def __init__(
        self, log: "ReadableLog", offset: int, open_transactions: Mapping[int, int] | None = None
    ) -> None:
        self._log = log
        self._slice: Slice | None = None
        self._at = 0
        self.state = TransactionWalk(offset, open_transactions or {})

    def walk_slice(self, data: Slice, stop: int) -> None:
        """Walk to stop, or to the end of a slice that was read for the walk's offset: a part of a
        segment ends before the offset after it."""
        self.state.walk(data, 0, stop)
        self.state.unproven.clear()

    def is_in_log(self, beginning: bytes | None = None) -> bool:
        """Whether the log still has a batch that was walked, with this beginning, or (None) the
        last one; False if there was none."""
        if beginning is None:
            beginning = self.state.last_beginning
        if not beginning:
            return False
        try:
            found = self._log.read(batch_fields.base_offset(beginning), 1)
        except OffsetOutOfRangeError:
            return False
        return found is not None and found.memory()[: len(beginning)] == beginning

    def advance(self, stop: int, *, to_marker: bool = False) -> bool:
        """Walk to stop, or only past the next marker; False where the log ends before."""
        state = self.state
        size = _MAPPED if self._log.writable else _READ
        while state.next_offset < stop:
            if self._slice is None:
                self._slice, self._at = self._log.read(state.next_offset, size), 0
                if self._slice is None:
                    return False
            data, before = self._slice, self._at
            self._at = state.walk(data, before, stop, to_marker=to_marker)
            state.unproven.clear()  # they are among the aborted ones, too
            if self._at < 0 or (self._at == before == 0 and state.next_offset < stop):
                # Corrupt: skip the rest of this segment.
                state.next_offset = max(data.next_offset, state.next_offset)
                self._slice = None
            elif self._at == len(data) or (self._at == before and state.next_offset < stop):
                self._slice = None
            if to_marker:
                break
        return True


def began_after(log: "ReadableLog", entry: "ProducerEntry", when_ms: int) -> bool:
    """Whether a producer's open transaction began after the end of one decided at ``when_ms``.

    A marker has the time of its decision (where the log appends its own times: a later one), and
    each decision of a transactional id has a later time than the one before.
    """
    offset = entry.current_transaction_first_offset
    return offset >= 0 and last_marker_time(log, entry.producer_id, offset) >= when_ms


def last_marker_time(log: "ReadableLog", producer_id: int, before: int) -> int:
    """When a producer's last transaction below an offset ended, in ms; -1: not found.

    That is the time of the producer's last batch there, if it is a marker. Walks the headers of
    the segments from the newest back to that batch. Not for a log of another process.
    """
    return log._source.on_current_segments(partial(_last_marker_time, log, producer_id, before))


def _last_marker_time(
    log: "ReadableLog", producer_id: int, before: int, segments: SegmentList
) -> int:
    for view in reversed(segments.views):
        if view.base_offset >= before:
            continue
        with log._read_whole(view).memory() as data:
            found, position, size = None, 0, _READ
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
