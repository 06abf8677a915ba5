"""How the transactions ended whose end markers a truncation removes."""

from collections.abc import Iterable

from kstore._native.read.aborted_transactions import TransactionWalk
from kstore._native.read.segment_view import SegmentList
from kstore.integers import INT64_MAX

_MAPPED = 1 << 40  # bytes: more than any segment


def removed_ends(
    segments: SegmentList, producer_ids: Iterable[int], offset: int
) -> dict[int, bool]:
    """By producer id whether the first marker from an offset on is a commit, else an abort.

    Producers without a marker there are omitted. Walks the headers up to the end; corrupt batches
    end the walk.
    """
    walk = TransactionWalk(offset, dict.fromkeys(producer_ids, offset))
    if not walk.open:
        return {}
    while walk.next_offset < segments.end_offset:
        begin = walk.next_offset
        data = segments.read(begin, _MAPPED)
        if data is None:
            break
        walk.walk(data, 0, INT64_MAX)
        if walk.next_offset == begin:
            break
    aborted = {producer_id for producer_id, first, _ in walk.aborted if first == offset}
    ended = [each for each in producer_ids if walk.open.get(each) != offset]
    return {producer_id: producer_id not in aborted for producer_id in ended}
