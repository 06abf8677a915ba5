"""How the transactions ended whose end markers a truncation removes."""

from collections.abc import Callable, Sequence

from kstore._native.read.aborted_transactions import TransactionWalk
from kstore._native.read.segment_view import SegmentList
from kstore.errors import CorruptRecordError, StorageError
from kstore.integers import INT64_MAX
from kstore.producer_state.snapshot import ProducerEntry
from kstore.recovery.removed_ends import BEFORE, RemovedEnd, RemovedEnds

_MAPPED = 1 << 40  # bytes: more than any segment


def find_removed_ends(
    segments: SegmentList,
    offset: int,
    producers: Sequence[ProducerEntry],
    owns: Callable[[int], bool],
    earlier: RemovedEnds | None,
) -> RemovedEnds | None:
    """The markers from an offset on of transactions that begin before it, or before a later
    segment that has their marker; None: there are none.

    Of producers for which ``owns`` is true. ``earlier`` are the ends that an earlier truncation
    removed, and that are not in the log again.
    """
    before = TransactionWalk(offset, {each.producer_id: offset for each in producers})
    within = TransactionWalk(offset)
    open_at_cuts = _walk(segments, before, within)
    aborted = {producer_id for producer_id, first, _ in before.aborted if first == offset}
    ends = [
        RemovedEnd(each.producer_id, BEFORE, each.producer_id not in aborted)
        for each in producers
        if before.open.get(each.producer_id) != offset
    ]
    begun_and_aborted = {(producer_id, first) for producer_id, first, _ in within.aborted}
    ends += [
        RemovedEnd(*each, each not in begun_and_aborted)
        for each in sorted(open_at_cuts - set(within.open.items()))
    ]
    for entry in producers:
        is_commit = None if earlier is None else earlier.is_commit(entry)
        if is_commit is not None:
            first = entry.current_transaction_first_offset
            ends.append(RemovedEnd(entry.producer_id, first, is_commit))
    owned = {each for each in {end.producer_id for end in ends} if owns(each)}
    ends = [each for each in ends if each.producer_id in owned]
    if not ends:
        return None
    views = segments.views[max(segments.floor(offset), 0) :]
    log_ends = tuple(each.next_offset for each in views if each.next_offset > offset)
    return RemovedEnds(offset, log_ends, tuple(ends), offset)


def _walk(
    segments: SegmentList, before: TransactionWalk, within: TransactionWalk
) -> set[tuple[int, int]]:
    """Walk the headers up to the end, or to where they cannot be read: a truncation may be there to
    remove what is corrupt. Returns what ``within`` has open at the ends of segments."""
    found: set[tuple[int, int]] = set()
    while before.next_offset < segments.end_offset:
        begin = before.next_offset
        try:
            data = segments.read(begin, _MAPPED)  # to the end of its segment
        except (CorruptRecordError, StorageError):
            break
        if data is None:
            break
        within.walk(data, 0, INT64_MAX)
        if before.walk(data, 0, INT64_MAX) < 0 or before.next_offset == begin:
            break
        found.update(within.open.items())
    return found
