"""The sealed segments of a partition as a reader in another process lists them."""

import itertools
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kstore._native.read.segment_view import SegmentView
from kstore.files import filenames
from kstore.files.filenames import CLEANED_SUFFIX, LOG, SWAP_SUFFIX
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.segment import segment as segments_on_disk

Stamp = tuple[int, int, int]  # of a log file: inode, change time, size


class _Listed(NamedTuple):
    """A segment as it was listed: as long as its file is the same, so is its view."""

    stamp: Stamp
    following: int  # base offset of the next segment
    view: SegmentView


class RolledSegments:
    """Views of sealed segments, by path; of one whose file is the same, the view is kept.

    So a roll, or a compaction of other segments, costs a reader neither the mappings nor what it
    has learned. Not thread safe.
    """

    def __init__(
        self, files: Files, maps: MapBudget, opener: Callable[[SegmentView], None]
    ) -> None:
        self._files = files
        self._maps = maps
        self._opener = opener
        self._listed: dict[str, _Listed] = {}

    def list(self, directory: str, bases: list[int], suffixes: dict[int, str]) -> list[SegmentView]:
        """The segments in front of the last base; StorageError where one is gone meanwhile."""
        listed = {}
        for base, following in itertools.pairwise(bases):
            name = filenames.file_name(base, LOG, suffixes[base])
            path = os.path.join(directory, name)
            about = self._files.about(path)
            stamp = about.st_ino, about.st_ctime_ns, about.st_size
            found = self._listed.get(path)
            if found is None or found[:2] != (stamp, following):
                view = SegmentView(base, path, size=about.st_size, next_offset=following)
                view.sealed, view.inode = True, about.st_ino
                view.opener = self._opener
                found = _Listed(stamp, following, view)
            listed[path] = found
        self._keep(listed)
        return [each.view for each in listed.values()]

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """What tells whether any segment was replaced."""
        return tuple(each.stamp for each in self._listed.values())

    def forget(self) -> None:
        """Keep no view, and let go of all mappings."""
        self._keep({})

    def _keep(self, listed: dict[str, _Listed]) -> None:
        kept = {id(each.view) for each in listed.values()}
        for each in self._listed.values():
            if id(each.view) not in kept:
                self._maps.forget(each.view)
        self._listed = listed


def find_live(files: Files, directory: str, names: Iterable[str]) -> dict[int, str]:
    """Base offsets of the segments, and the suffix of each one's files.

    A complete segment of a compaction may have no name of its own yet while those that it
    replaces are gone already: for a moment, or for ever where its process was killed then.
    ``names`` are from one listing: a segment must not be missed between two.
    """
    logs: dict[str, set[int]] = {"": set(), SWAP_SUFFIX: set(), CLEANED_SUFFIX: set()}
    for parsed in map(filenames.parse, names):
        if parsed is not None and parsed.kind == LOG and parsed.suffix in logs:
            logs[parsed.suffix].add(parsed.base_offset)
    live = dict.fromkeys(logs[""], "")
    active = max(live, default=-1)
    unfinished = min(logs[CLEANED_SUFFIX], default=active)
    for base in sorted(logs[SWAP_SUFFIX] - logs[""]):
        before = max((each for each in live if each < base), default=None)
        if base >= min(unfinished, active):
            continue
        # What one segment is to be split into does not count while that one has its name.
        if before is not None and _end_of(files, directory, before, base, live[before]) > base:
            continue
        end = _end_of(files, directory, base, active, SWAP_SUFFIX)
        live = {each: suffix for each, suffix in live.items() if not base < each < end}
        live[base] = SWAP_SUFFIX
    return live


def _end_of(files: Files, directory: str, base: int, following: int, suffix: str) -> int:
    """Where a segment ends, as its log says."""
    view = segments_on_disk.sealed(files, directory, base, following, suffix)
    return segments_on_disk.walk_end(files, view, view.size)[1]
