"""The rolled segments of a partition, for a reader in another process."""

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
    """A listed segment: its view is valid while its file is the same."""

    stamp: Stamp
    following: int  # base offset of the next segment
    view: SegmentView


class RolledSegments:
    """Views of rolled segments, by path; a view is kept while its file is the same.

    So after a roll, or a compaction of other segments, a reader keeps mappings and timestamps.
    Not thread safe.
    """

    def __init__(
        self, files: Files, maps: MapBudget, opener: Callable[[SegmentView], None]
    ) -> None:
        self._files = files
        self._maps = maps
        self._opener = opener
        self._listed: dict[str, _Listed] = {}

    def list(self, directory: str, bases: list[int], suffixes: dict[int, str]) -> list[SegmentView]:
        """The segments before the last base; StorageError where one was removed meanwhile."""
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
        """Changes when any segment is replaced."""
        return tuple(each.stamp for each in self._listed.values())

    def forget(self) -> None:
        """Drop all views and release their mappings."""
        self._keep({})

    def _keep(self, listed: dict[str, _Listed]) -> None:
        kept = {id(each.view) for each in listed.values()}
        for each in self._listed.values():
            if id(each.view) not in kept:
                self._maps.forget(each.view)
        self._listed = listed


def find_live(files: Files, directory: str, names: Iterable[str]) -> dict[int, str]:
    """Base offsets of the segments, and the suffix of each one's files.

    During a swap a complete compacted segment has no final name while the segments that it
    replaces are gone already; after a kill that state lasts until the log is opened.
    ``names`` are of one listing: between two a segment could be missed.
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
        # Segments that one was split into do not count while that one has its name.
        if before is not None and _end_of(files, directory, before, base, live[before]) > base:
            continue
        end = _end_of(files, directory, base, active, SWAP_SUFFIX)
        live = {each: suffix for each, suffix in live.items() if not base < each < end}
        live[base] = SWAP_SUFFIX
    return live


def _end_of(files: Files, directory: str, base: int, following: int, suffix: str) -> int:
    """The end offset of a segment according to its log."""
    view = segments_on_disk.sealed(files, directory, base, following, suffix)
    return segments_on_disk.walk_end(files, view, view.size)[1]
