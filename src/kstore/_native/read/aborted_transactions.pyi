from collections.abc import Iterable, Mapping
from typing import final

from _typeshed import ReadableBuffer

@final
class AbortedRanges:
    """(producer id, first offset, offset of the abort marker) of aborted transactions.

    A transactional batch of that producer with a base offset from the first up to the last is
    not committed. Immutable; safe to share between threads.
    """

    count: int
    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None: ...
    def __contains__(self, batch: tuple[int, int]) -> bool:
        """Whether (producer id, base offset) names an aborted batch."""

@final
class TransactionWalk:
    """Follows transactions over the headers of batches: which are open, which were aborted.

    ``open`` maps producer ids to first offsets, ``aborted`` lists (producer id, first offset,
    offset of the marker) since it was last emptied, ``next_offset`` is where the walk continues.
    ``unproven`` lists those of ``aborted`` that ended by a marker without a record: the cleaner
    has emptied it, and nothing in the log says that they were committed.
    Checksums are checked of markers only. One thread at a time.
    """

    open: dict[int, int]
    aborted: list[tuple[int, int, int]]
    unproven: list[tuple[int, int, int]]
    next_offset: int

    def __init__(
        self, next_offset: int, open_transactions: Mapping[int, int] | None = None
    ) -> None: ...
    def walk(
        self, data: ReadableBuffer, start: int, stop_offset: int, *, to_marker: bool = False
    ) -> int:
        """Walk the batches in ``data[start:]`` with base offsets below ``stop_offset``.

        Returns the position behind the last one, or -1 where a header is damaged. ``to_marker``
        ends the walk behind the first marker.
        """
