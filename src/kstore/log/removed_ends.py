"""How the transactions ended whose end markers a truncation removes."""

from collections.abc import Iterable

from kstore._native.read.aborted_transactions import TransactionWalk
from kstore._native.read.segment_view import SegmentList
from kstore.errors import CorruptRecordError, StorageError
from kstore.integers import INT64_MAX

_MAPPED = 1 << 40  # bytes: more than any segment


def removed_ends(
    segments: SegmentList, producer_ids: Iterable[int], offset: int
) -> dict[int, bool]:
    """By producer id whether the first marker from an offset on is a commit, else an abort.

    Producers without a marker there are omitted. Walks the headers up to the end, or to where they
    cannot be read: a truncation may be there to remove what is corrupt.
    """
    walk = TransactionWalk(offset, dict.fromkeys(producer_ids, offset))
    if not walk.open:
        return {}
    while walk.next_offset < segments.end_offset:
        begin = walk.next_offset
        try:
            data = segments.read(begin, _MAPPED)
        except (CorruptRecordError, StorageError):
            break
        if data is None or walk.walk(data, 0, INT64_MAX) < 0 or walk.next_offset == begin:
            break
    aborted = {producer_id for producer_id, first, _ in walk.aborted if first == offset}
    ended = [each for each in producer_ids if walk.open.get(each) != offset]
    return {producer_id: producer_id not in aborted for producer_id in ended}
