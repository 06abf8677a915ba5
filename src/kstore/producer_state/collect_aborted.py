"""Looks up aborted transactions: the records that a read_committed consumer skips.

Kafka keeps them in transaction indexes (:mod:`kstore.segment.transaction_index`). Where an index is
missing, :class:`AbortedFinder` finds its entries in the segment's markers. A segment without
aborted transactions has no index either, so that its headers are read once after each start.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kstore._native.append.producer_table import ProducerTable
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.producer_state import replay
from kstore.producer_state.replay import base_offset_of
from kstore.segment import transaction_index
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.producer_state.state import ProducerState


def known_aborted(
    state: "ProducerState", segments: SegmentList, start: int, stop: int
) -> list[AbortedTransaction] | None:
    """Aborted transactions with offsets in [start, stop), earliest abort first.

    Kafka's LocalLog.collectAbortedTransactions and TransactionIndex.collectAbortedTxns: from the
    segment that contains ``start`` on, until an entry's last stable offset reaches ``stop``.
    Reads no file and takes no lock: None if it needs a segment that was not searched yet.
    """
    found: list[AbortedTransaction] = []
    for slot in state.slots_to_search(segments, max(0, segments.floor(start))):
        entries = state.known_aborted(segments.views[slot], start)
        if entries is None:
            return None
        for entry in entries:
            if entry.first_offset < stop:
                found.append(entry)
            if entry.last_stable_offset >= stop:
                return found
    return found


def collect_aborted(
    state: "ProducerState",
    segments: SegmentList,
    start: int,
    stop: int,
    search: "Callable[[SegmentView, AbortedFinder], list[AbortedTransaction]] | None" = None,
) -> list[AbortedTransaction]:
    """As :func:`known_aborted`; first searches the segments that it needs.

    ``search`` replaces ``ProducerState.aborted``, for a caller that locks each search.
    """
    search = search or state.aborted
    while (found := known_aborted(state, segments, start, stop)) is None:
        finder = AbortedFinder(state, segments.views)
        for view in segments.views[max(0, segments.floor(start)) :]:
            entries = search(view, finder)
            last = entries[-1] if entries else None
            # known_aborted skips an entry below ``start``: this loop would never end with it.
            if last and last.last_offset >= start and last.last_stable_offset >= stop:
                break
    return found


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
            size = replay.replay_segment(state._files, self._table, replayed, base, mapped=mapped)
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
        replay.correct_open_transactions(
            state._files, self._table, views, views[0].base_offset, base, mapped=state._writes
        )
