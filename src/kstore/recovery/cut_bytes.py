"""Which bytes recovery cut from the segments of a log, by the files ``kstore.cut.*``."""

from bisect import bisect_right
from collections.abc import Iterable

from kstore.files import filenames

Cut = tuple[int, int]  # a segment's base offset, and the position from which its bytes were cut


def find_cut(names: Iterable[str]) -> frozenset[Cut]:
    """The bytes that recovery cut from segments and kept; position 0: an entire segment."""
    parsed = map(filenames.parse_cut_name, names)
    return frozenset(found[:2] for found in parsed if found is not None)


class CutBytes:
    """Gaps that are explained by the bytes that recovery cut. Immutable."""

    def __init__(self, cut: Iterable[Cut]) -> None:
        self._last = dict(sorted(cut))  # base offset: position of the last cut
        self._entire = sorted(base for base, position in cut if position == 0)

    def explains(self, base: int, size: int, end: int) -> bool:
        """Whether offsets behind a segment, up to the base ``end`` of the next one, were cut.

        A cut before bytes that the segment has does not count: the segment continued there.
        """
        slot = bisect_right(self._entire, base)
        is_entire = slot < len(self._entire) and self._entire[slot] < end
        return is_entire or self._last.get(base, -1) >= size
