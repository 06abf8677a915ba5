"""Quarantined files, by name: bytes that recovery cut, and side files that do not parse."""

import os
from bisect import bisect_right
from collections.abc import Container, Iterable
from itertools import count

from kstore.files import filenames
from kstore.files.files import Files


def free_name(names: Container[str], base_offset: int, position: int) -> str:
    """A name for cut bytes that is not among the directory's names."""
    return next(
        name
        for number in count()
        if (name := filenames.cut_name(base_offset, position, number)) not in names
    )


def keep_unreadable(files: Files, directory: str | os.PathLike[str], name: str) -> str:
    """Rename a side file that does not parse, to keep it for inspection; returns the name."""
    names = set(files.listdir(directory))
    kept = next(
        kept for number in count() if (kept := filenames.unreadable_name(name, number)) not in names
    )
    files.rename(os.path.join(directory, name), os.path.join(directory, kept))
    return kept


Cut = tuple[int, int]  # a segment's base offset, and the position from which its bytes were cut


def list_quarantined(names: Iterable[str]) -> frozenset[Cut]:
    """The bytes that recovery cut from segments and kept; position 0: an entire segment."""
    parsed = map(filenames.parse_cut_name, names)
    return frozenset(found[:2] for found in parsed if found is not None)


class CutBytes:
    """Gaps that are explained by the bytes that recovery cut. Immutable."""

    def __init__(self, cut: Iterable[Cut]) -> None:
        self._last = dict(sorted(cut))  # base offset: position of the last cut
        self._entire = sorted(base for base, position in cut if position == 0)

    def explains(self, base: int, size: int, end: int) -> bool:
        """Whether offsets after a segment, up to the base ``end`` of the next one, were cut.

        A cut before bytes that the segment has does not count: the segment continued there.
        """
        slot = bisect_right(self._entire, base)
        is_entire = slot < len(self._entire) and self._entire[slot] < end
        return is_entire or self._last.get(base, -1) >= size
