"""Known reasons for gaps between segments; recovery reports other gaps.

The reasons are those of an audit (:mod:`kstore.verify.losses`), except the topic's policy, and
records that are missing within segments, for which recovery would have to read more.
"""

import logging
import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from kstore.checkpoint.known_gaps import Range, is_known, merge_ranges, read_known_gaps
from kstore.checkpoint.quarantine import CutBytes, list_quarantined
from kstore.errors import CorruptFileError, NewerFormatError
from kstore.files.files import Files
from kstore.recovery.lost_segments import LostRange, following_segment

_LOGGER = logging.getLogger("kstore")


class GapReasons:
    """Finds the reason of a gap. The files with reasons are read at the first gap.

    ``names`` is a listing of the directory, ``lost`` are the losses that are reported already.
    """

    def __init__(
        self,
        files: Files,
        directory: str | os.PathLike[str],
        names: Collection[str],
        *,
        log_start: int,
        cleaned_below: Callable[[], int],
        lost: Sequence[LostRange],
    ) -> None:
        self._files = files
        self._directory = directory
        self._names = names
        self._log_start = log_start
        self._cleaned_below = cleaned_below
        self._lost = lost

    def is_explained(self, base: int, size: int, first: int, end: int) -> bool:
        """Whether the reason is known why no record has the offsets from first up to end.

        ``base`` and ``size`` are those of the segment before the gap, without a torn tail.
        """
        return (
            end <= self._log_start
            or end <= self._cleaned_below()
            or is_known(self._known, max(first, self._log_start), end)
            or self._cut.explains(base, size, end)
            or following_segment(self._files, self._directory, base, self._names, is_checked=True)
            == end
        )

    @cached_property
    def _known(self) -> list[Range]:
        try:
            gaps = read_known_gaps(self._files, self._directory)
            return merge_ranges(sorted([*gaps, *(each[:2] for each in self._lost)]))
        except (CorruptFileError, NewerFormatError) as error:
            _LOGGER.warning("%s", error)  # then the gaps are reported
            return []

    @cached_property
    def _cut(self) -> CutBytes:
        return CutBytes(list_quarantined(self._names))
