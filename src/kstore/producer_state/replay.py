"""Replays the batches and markers of segments into a producer table."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.segment_view import SegmentView
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.segment import transaction_index
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.producer_state.state import ProducerState

_MAX_OFFSET = 2**63 - 1
_CHUNK = 8 << 20  # bytes read at a time if the segment is not mapped


def replay_segment(
    files: Files,
    table: ProducerTable,
    view: SegmentView,
    start: int,
    *,
    mapped: bool,
    stop: int = _MAX_OFFSET,
) -> int:
    """Replay a segment's published batches in [start, stop); returns the number of bytes read.

    That is the segment's size, unless damage or ``stop`` ends the replay. It parses only headers
    and markers. ``mapped``: the file may be mapped, since no other process truncates it.
    """
    size = view.size
    if size == 0:
        return 0
    with OpenFile(files, view.path) as fd:
        if mapped and files.native:
            with files.map(fd, size) as pages, memoryview(pages) as data:
                return table.replay(data, start, stop)
        position = 0
        while position < size:
            step = _CHUNK
            chunk = files.pread(fd, min(step, size - position), position)
            done = table.replay(chunk, start, stop)
            while done == 0 and step < size - position:
                step *= 8  # one batch is larger than a chunk
                chunk = files.pread(fd, min(step, size - position), position)
                done = table.replay(chunk, start, stop)
            if done == 0:
                break
            position += done
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
    """Close transactions that a snapshot has as open though an emptied control batch ended them.

    The writer of the snapshot at ``stop`` (a Kafka follower, an older kstore) may have skipped a
    control batch without records. This function reads the headers from the earliest open
    transaction, or from the log start, up to the snapshot.
    """
    opened = {entry[0]: entry[-1] for entry in table.entries() if entry[-1] >= 0}
    begin = max(start, min(opened.values(), default=stop))
    if begin >= stop:
        return
    replayed = ProducerTable()
    replayed.load(entry for entry in table.entries() if 0 <= entry[-1] < begin)
    for view in views:
        if view.base_offset < stop and view.next_offset > begin:
            replay_segment(files, replayed, view, begin, stop=stop, mapped=mapped)
    now_open = {entry[0]: entry[-1] for entry in replayed.entries()}
    for ended in transaction_index.parse(replayed.aborted):
        if opened.get(ended.producer_id) == ended.first_offset:
            table.set_open_transaction(ended.producer_id, now_open[ended.producer_id])


class AbortedFinder:
    """Finds the aborted transactions of segments, in ascending order, and reads each segment once.

    The state before a segment comes from the snapshot at its base offset, else from a replay from
    the last snapshot, or from the last segment that was searched. Used by one thread.
    """

    def __init__(self, state: "ProducerState", views: Sequence[SegmentView]) -> None:
        self._state = state
        self._views = views
        self._table = ProducerTable()
        self._slot = 0  # of the first segment that is not in the table
        self._is_complete = True  # no damage hides a transaction from the table

    def find(self, view: SegmentView) -> tuple[list[AbortedTransaction], bytes | None]:
        """The aborted transactions of a segment, and the bytes of its transaction index.

        The bytes are None if damage may hide other transactions: an index is final, and no reader
        would search the segment again.
        """
        state = self._state
        replayed_index = state._replayed_indexes.get(view)
        if replayed_index is not None:
            return transaction_index.parse(replayed_index), replayed_index
        slot = bisect_left(self._views, view.base_offset, key=base_offset_of)
        for replayed in self._views[self._begin(slot) : slot + 1]:
            self._table.begin_segment(replayed.base_offset)
            base, mapped = replayed.base_offset, state._writes
            size = replay_segment(state._files, self._table, replayed, base, mapped=mapped)
            self._is_complete = self._is_complete and size == replayed.size
        self._slot = slot + 1
        data = self._table.aborted
        return transaction_index.parse(data), data if self._is_complete else None

    def _begin(self, slot: int) -> int:
        """Load the state before a segment at or before ``slot``; returns that segment's slot."""
        if slot < self._slot:
            self._table.clear()
            self._slot, self._is_complete = 0, True
        for first in range(slot, self._slot - 1, -1):
            if first == 0 or (first == self._slot and self._is_complete):
                return first
            base = self._views[first].base_offset
            known = self._state._snapshot_at(base)
            if known is not None:
                self._table.clear()
                self._table.load(known)
                self._correct(base)
                self._is_complete = True
                return first
            self._state._remove_if_present(self._state._path(base))
        return self._slot

    def _correct(self, base: int) -> None:
        state, views = self._state, self._views
        correct_open_transactions(
            state._files, self._table, views, views[0].base_offset, base, mapped=state._writes
        )


def base_offset_of(view: SegmentView) -> int:
    return view.base_offset
