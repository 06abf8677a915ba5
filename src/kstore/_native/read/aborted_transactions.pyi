from collections.abc import Iterable, Mapping
from typing import final

from _typeshed import ReadableBuffer

@final
class AbortedRanges:
    """Aborted transactions, each as (producer id, first offset, offset of the abort marker).

    A transactional batch is aborted if a range of its producer contains its base offset.
    Immutable; safe to share between threads.
    """

    count: int
    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None: ...
    def __contains__(self, batch: tuple[int, int]) -> bool:
        """Whether (producer id, base offset) names an aborted batch."""

@final
class TransactionWalk:
    """Tracks open and aborted transactions while it walks batch headers.

    ``open`` maps each producer id with an open transaction to its first offset. ``aborted`` lists
    (producer id, first offset, offset of the marker) since the caller last emptied the list.
    ``unproven`` lists the transactions in ``aborted`` whose marker the cleaner has emptied: the
    log does not show whether they were committed. ``next_offset`` is where the walk continues.

    Verifies the checksums of markers only. One thread at a time.
    """

    open: dict[int, int]
    aborted: list[tuple[int, int, int]]
    unproven: list[tuple[int, int, int]]
    next_offset: int

    @property
    def last_beginning(self) -> bytes:
        """The first 21 bytes of the last batch walked, with its base offset and, in every format,
        its checksum; empty before the first."""
    def __init__(
        self, next_offset: int, open_transactions: Mapping[int, int] | None = None
    ) -> None: ...
    def walk(
        self, data: ReadableBuffer, start: int, stop_offset: int, *, to_marker: bool = False
    ) -> int:
        """Walk the batches in ``data[start:]`` with base offsets below ``stop_offset``.

        Returns the position after the last one, or -1 at a corrupt header. ``to_marker`` ends the
        walk after the first marker.
        """
