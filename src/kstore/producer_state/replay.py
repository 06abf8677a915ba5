"""Replaying segments for what their batches and markers say of producers and transactions."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.segment_view import SegmentView
from kstore.files.files import Files
from kstore.segment import transaction_index
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.producer_state.state import ProducerState

_MAX_OFFSET = 2**63 - 1
_PIECE = 8 << 20  # bytes read at a time where nothing is mapped


def replay_segment(
    files: Files,
    table: ProducerTable,
    view: SegmentView,
    start: int,
    *,
    mapped: bool,
    stop: int = _MAX_OFFSET,
) -> int:
    """Note a segment's published batches in [start, stop); returns how many bytes were walked.

    That is the segment's size, unless damage or ``stop`` ends the walk. Only headers and markers
    are looked at. mapped: nobody cuts the file, so it may be.
    """
    size = view.size
    if size == 0:
        return 0
    fd = files.open(view.path)
    try:
        if mapped and files.native:
            with files.map(fd, size) as pages, memoryview(pages) as data:
                return table.replay(data, start, stop)
        position = 0
        while position < size:
            step = _PIECE
            piece = files.pread(fd, min(step, size - position), position)
            done = table.replay(piece, start, stop)
            while done == 0 and step < size - position:
                step *= 8  # one batch is larger than a piece
                piece = files.pread(fd, min(step, size - position), position)
                done = table.replay(piece, start, stop)
            if done == 0:
                break
            position += done
    finally:
        files.close(fd)
    return position


def correct_open_transactions(
    files: Files,
    table: ProducerTable,
    views: Sequence[SegmentView],
    start: int,
    stop: int,
    *,
    mapped: bool,
) -> None:
    """Close what a control batch without records has ended, though a snapshot says "open".

    Whoever took the snapshot at ``stop`` (a Kafka follower, an older kstore) may have passed over
    that batch. The headers from the earliest open transaction, or from the log start, up to the
    snapshot are walked.
    """
    opened = {entry[0]: entry[-1] for entry in table.entries() if entry[-1] >= 0}
    begin = max(start, min(opened.values(), default=stop))
    if begin >= stop:
        return
    seen = ProducerTable()
    seen.load(entry for entry in table.entries() if 0 <= entry[-1] < begin)
    for view in views:
        if view.base_offset < stop and view.next_offset > begin:
            replay_segment(files, seen, view, begin, stop=stop, mapped=mapped)
    now_open = {entry[0]: entry[-1] for entry in seen.entries()}
    for ended in transaction_index.parse(seen.aborted):
        if opened.get(ended.producer_id) == ended.first_offset:
            table.correct_open(ended.producer_id, now_open[ended.producer_id])


class AbortedFinder:
    """Aborted transactions of segments that are asked for in ascending order, read once each.

    The state before a segment comes from the snapshot at its base, else from replaying what lies
    between it and the last snapshot, or the last segment that was asked for. Used by one thread.
    """

    def __init__(self, state: "ProducerState", views: Sequence[SegmentView]) -> None:
        self._state = state
        self._views = views
        self._table = ProducerTable()
        self._slot = 0  # of the first segment that the table does not know
        self._is_whole = True  # no damage hides a transaction from the table

    def find(self, view: SegmentView) -> tuple[list[AbortedTransaction], bytes | None]:
        """The aborted transactions of a segment, and the index that says so.

        The index is None where damage may hide others: nobody would look again behind it.
        """
        state = self._state
        walked = state._walked.get(view)
        if walked is not None:
            return transaction_index.parse(walked), walked
        slot = bisect_left(self._views, view.base_offset, key=base_offset_of)
        for each in self._views[self._begin(slot) : slot + 1]:
            self._table.begin_segment(each.base_offset)
            base, mapped = each.base_offset, state._writes
            size = replay_segment(state._files, self._table, each, base, mapped=mapped)
            self._is_whole = self._is_whole and size == each.size
        self._slot = slot + 1
        data = self._table.aborted
        return transaction_index.parse(data), data if self._is_whole else None

    def _begin(self, slot: int) -> int:
        """Bring the table to the base of a segment at or before a slot; returns its slot."""
        if slot < self._slot:
            self._table.clear()
            self._slot, self._is_whole = 0, True
        for first in range(slot, self._slot - 1, -1):
            if first == 0 or (first == self._slot and self._is_whole):
                return first
            base = self._views[first].base_offset
            known = self._state._snapshot_at(base)
            if known is not None:
                self._table.clear()
                self._table.load(known)
                self._correct(base)
                self._is_whole = True
                return first
            self._state._remove_if_there(self._state._path(base))
        return self._slot

    def _correct(self, base: int) -> None:
        state, views = self._state, self._views
        correct_open_transactions(
            state._files, self._table, views, views[0].base_offset, base, mapped=state._writes
        )


def base_offset_of(view: SegmentView) -> int:
    return view.base_offset
