"""``kstore.lost``: offsets whose segments disappeared while no program had the log open.

A listing shows a lost segment by its indexes, whose log file is missing or empty. The header
checksums of the segment before it name it, and the checkpoint of log starts has offsets before the
first segment. A writer records a loss in ``kstore.lost`` before it removes any of these
signs, for readers and audits. Kafka opens such a log without a warning. Format:
docs/format/kstore-files.md.
"""

import json
import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kstore._native.index.index_lookup import TimeIndex
from kstore._native.read.segment_view import SegmentView
from kstore.checkpoint.known_gaps import Range, is_known, merge_ranges, read_known_gaps
from kstore.checkpoint.quarantine import CutBytes, list_quarantined
from kstore.errors import CorruptFileError, CorruptRecordError, NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.filenames import LOST_SEGMENTS
from kstore.files.files import Files
from kstore.recovery.emptied_segments import StopState, find_signs
from kstore.segment import header_checksums
from kstore.segment.index_sanity import used_size

_LOGGER = logging.getLogger("kstore")
FORMAT = 1
_MOST = 1 << 26  # bytes
_LOG_SUFFIX = f".{filenames.LOG}"
_INDEX_SUFFIXES = tuple(f".{kind}" for kind in filenames.SEGMENT_KINDS if kind != filenames.LOG)
_TIME_ENTRY = 12
_BASE = 20  # digits of a base offset in a file name


class LostRange(NamedTuple):
    """Offsets of lost records, and their largest timestamp, None if unknown."""

    first: int
    end: int  # the offset after the last
    largest: int | None = None
    is_certain: bool = True  # False: may be an interrupted deletion, or a power cut

    def describe(self) -> str:
        """A sentence with the offsets."""
        doubt = (
            ""
            if self.is_certain
            else " (uncertain: a broker killed while it deletes the segment, a compaction or a "
            "power cut leaves the same files)"
        )
        return (
            f"the records at offsets {self.first} to {self.end - 1} are lost: "
            f"their segment is gone or empty{doubt}"
        )


class LostRecords:
    """The lost ranges of one log. Immutable."""

    __slots__ = ("_directory", "ranges")

    def __init__(self, directory: str, ranges: Iterable[LostRange] = ()) -> None:
        self._directory = directory
        self.ranges = tuple(ranges)

    def truncate(self, files: Files, directory: str, end: int) -> "LostRecords":
        """The ranges that remain below a new log end; updates the file."""
        kept = [each for each in self.ranges if each.first < end]
        if len(kept) == len(self.ranges):
            return self
        write_lost(files, directory, kept)
        return LostRecords(directory, kept)

    def check_offset(self, offset: int) -> None:
        """Raise CorruptRecordError if the record at an offset may be a lost one."""
        for lost in self.ranges:
            if lost.is_certain and lost.first <= offset < lost.end:
                raise self._error(lost)

    def find_errors(self, start: int, stop: int) -> list[tuple[LostRange, CorruptRecordError]]:
        """Each range that is lost for certain and has offsets in [start, stop), and its error."""
        return [
            (lost, self._error(lost))
            for lost in self.ranges
            if lost.is_certain and lost.first < stop and start < lost.end
        ]

    def check_time(self, start: int, stop: int | None, ms: int) -> None:
        """Raise CorruptRecordError if a lost record may be the first at or after ms.

        ``stop`` is the offset that was found, None if none was. A range that ends where the log
        starts counts: the start moved up because the segment was lost.
        """
        for lost in self.ranges:
            is_between = lost.end >= start and (stop is None or lost.first < stop)
            is_new_enough = lost.largest is None or lost.largest >= ms
            if lost.is_certain and is_between and is_new_enough:
                raise self._error(lost)

    def _error(self, lost: LostRange) -> CorruptRecordError:
        return CorruptRecordError(
            f"{lost.describe()}. Restore the files, or remove {LOST_SEGMENTS} to accept the loss",
            path=self._directory,
            offset=lost.first,
        )


# --- finding -----------------------------------------------------------------------------------


def find_lost_segments(
    files: Files,
    directory: str,
    names: Sequence[str],
    sizes: Mapping[int, int],
    *,
    log_start: int,
    stop: StopState,
) -> list[LostRange]:
    """Segments that are lost according to the files of a partition, by offset.

    Records lost after the last segment are not included: the recovery point shows those.

    Parameters
    ----------
    names
        One listing of the directory.
    sizes
        Of the log files of the live segments, by base offset.
    log_start
        The log start by the checkpoint; 0 without an entry.
    stop
        How the log directory was left. If it was not closed cleanly, an index without its log
        proves nothing, and a power cut may have left an empty log.
    """
    bases = sorted(sizes)
    if not bases:
        return []
    existing = set(names)
    missing = {base for base in find_indexes_without_log(names) if base < bases[-1]}
    emptied = find_emptied(files, directory, names, sizes, stop)
    certain = {base for base, is_certain in emptied.items() if is_certain}
    if stop.is_clean:
        certain |= missing
    missing |= emptied.keys()
    for base, end in pairwise(bases):
        following = following_segment(files, directory, base, existing, is_checked=True)
        # Else a broker truncated the log between the two, and appended there.
        if following is not None and base < following < end:
            certain.add(following)
    ends = sorted(missing.union(certain, bases))
    ranges = []
    for base in sorted(missing | certain):
        end = ends[bisect_right(ends, base)]
        largest = _largest_timestamp(files, directory, base, end, existing)
        ranges.append(LostRange(base, end, largest, base in certain))
    if stop.is_clean and 0 < log_start < bases[0]:
        ranges = merge_lost(ranges, [LostRange(log_start, bases[0])])
    gaps = merge_ranges(_read_known_gaps(files, directory)) if ranges else []
    return [
        each for each in clip(ranges, log_start, sizes) if not is_known(gaps, each.first, each.end)
    ]


def find_emptied(
    files: Files, directory: str, names: Sequence[str], sizes: Mapping[int, int], stop: StopState
) -> dict[int, bool]:
    """Empty segments that had records, by base offset, and whether their loss is certain.

    Not those that recovery emptied: it kept their bytes.
    """
    empty = [each for each in pairwise(sorted(sizes)) if not sizes[each[0]]]
    if not empty:
        return {}
    filled = max((base for base, size in sizes.items() if size), default=-1)
    existing, cut = set(names), CutBytes(list_quarantined(names))
    found = {}
    for base, end in empty:
        if cut.explains(base, 0, end):
            continue
        signs = find_signs(files, directory, base, end, existing)
        certainty = signs.find_certainty(base, stop, is_end=base > filled)
        if certainty is not None:
            found[base] = certainty
    return found


def _read_known_gaps(files: Files, directory: str) -> list[Range]:
    try:
        return read_known_gaps(files, directory)
    except (CorruptFileError, NewerFormatError):  # then no gap is explained
        return []


def find_indexes_without_log(names: Iterable[str]) -> dict[int, str]:
    """Indexes whose log file is missing, one for each segment, by base offset.

    Not those of a segment that is being retired or replaced: its log is renamed first. If the
    index, too, has a file of that name, that one is of an older segment with the same base.
    """
    indexes, logs, retired, existing = [], set(), set(), set()
    for name in names:
        if name.endswith(_INDEX_SUFFIXES):
            indexes.append(name)
        elif name.endswith(filenames.DELETED_SUFFIX):
            existing.add(name)
            if name.startswith(_LOG_SUFFIX, _BASE):
                retired.add(name[:_BASE])
        elif name.startswith(_LOG_SUFFIX, _BASE):
            logs.add(name[:_BASE])
    found = {}
    for name in indexes:
        base = name[:_BASE]
        is_retiring = base in retired and name + filenames.DELETED_SUFFIX not in existing
        if base not in logs and not is_retiring and (parsed := filenames.parse(name)) is not None:
            found[parsed.base_offset] = name
    return found


def forget_lost_following(
    files: Files,
    directory: str,
    names: Sequence[str],
    sizes: Mapping[int, int],
    lost: Sequence[LostRange],
) -> None:
    """Remove references to lost segments from header checksum files.

    ``kstore.lost`` names the ranges by then. A user accepts a loss by removing that file: without
    this the loss would be found again.
    """
    there, last = set(names), max(sizes, default=0)
    for base in sizes:
        following = following_segment(files, directory, base, there, is_checked=True)
        if following is not None and following < last and following not in sizes:
            header_checksums.drop_following(files, directory, base)
        if not sizes[base] and any(each.first <= base < each.end for each in lost):
            header_checksums.remove(files, directory, base)


def following_segment(
    files: Files,
    directory: str | os.PathLike[str],
    base: int,
    names: Collection[str],
    *,
    is_checked: bool,
) -> int | None:
    """The next segment by header checksums; checked: that they are of the present log file."""
    if filenames.header_checksums_name(base) not in names:
        return None
    try:
        stamp = None
        if is_checked:
            about = files.about(os.path.join(directory, filenames.log_name(base)))
            stamp = about.st_ino, about.st_ctime_ns, about.st_size
        return header_checksums.read_following(files, directory, base, stamp)
    except (StorageError, NewerFormatError):  # an audit reports it
        return None


def _largest_timestamp(
    files: Files, directory: str, base: int, end: int, names: set[str]
) -> int | None:
    """The largest timestamp of a lost segment, by its time index.

    Only if its header checksums say that no other segment was lost behind it.
    """
    name = filenames.time_index_name(base)
    if name not in names:
        return None
    if following_segment(files, directory, base, names, is_checked=False) != end:
        return None
    path = os.path.join(directory, name)
    size = used_size(files, path, _TIME_ENTRY)
    index = TimeIndex(files.read(path, limit=_MOST)[:size], base)
    if not index.count or index.find_fault() is not None:
        return None
    largest: int = index[index.count - 1][0]
    return largest


# --- the file ----------------------------------------------------------------------------------


def read_lost(files: Files, directory: str | os.PathLike[str]) -> list[LostRange]:
    """The recorded ranges, ascending; none without the file.

    Raises CorruptFileError for a file that does not parse, NewerFormatError for a newer format.
    """
    path = os.path.join(directory, LOST_SEGMENTS)
    if not files.exists(path):
        return []
    try:
        document = json.loads(files.read(path, limit=_MOST))
        number = int(document["format"])
        if number <= FORMAT:
            return sort_ranges(
                LostRange(int(first), int(end), largest and int(largest), bool(is_certain))
                for first, end, largest, is_certain in document["lost"]
            )
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"{LOST_SEGMENTS} does not parse: {error!r}", path=path) from None
    raise NewerFormatError(
        f"{LOST_SEGMENTS} has format {number}, and this kstore knows format {FORMAT} only: "
        "use a newer one",
        path=path,
    )


def write_lost(files: Files, directory: str, ranges: Iterable[LostRange]) -> None:
    """Replace the file, durably; an empty list removes it."""
    path = os.path.join(directory, LOST_SEGMENTS)
    kept = sort_ranges(ranges)
    if kept:
        document = {"format": FORMAT, "lost": [list(each) for each in kept]}
        files.write_atomically(path, json.dumps(document).encode() + b"\n")
    elif files.exists(path):
        files.remove(path)


def sort_ranges(ranges: Iterable[LostRange]) -> list[LostRange]:
    return sorted(ranges, key=lambda each: each[:2])


def clip(ranges: Iterable[LostRange], log_start: int, sizes: Mapping[int, int]) -> list[LostRange]:
    """The ranges that are still lost, given these segments with their sizes, by base offset.

    Drops what lies below the log start or was truncated, and ranges that contain a segment: its
    files were restored.
    """
    ranges = list(ranges)
    if not ranges:
        return ranges
    last = max(sizes, default=0)
    filled = sorted(base for base, size in sizes.items() if size)
    return [
        each._replace(first=max(each.first, log_start), end=min(each.end, last))
        for each in ranges
        if each.end > log_start
        and each.first < last
        and bisect_left(filled, each.first) == bisect_left(filled, each.end)
    ]


def merge_lost(known: Iterable[LostRange], found: Iterable[LostRange]) -> list[LostRange]:
    """Known ranges, and the found ones that none of them covers."""
    merged = list(known)
    for each in found:
        if not any(one.first <= each.first and each.end <= one.end for one in merged):
            merged.append(each)
    return sort_ranges(merged)


# --- readers -----------------------------------------------------------------------------------


class LostRecordsFinder:
    """Finds the lost ranges of a log for a reader.

    Not thread safe. A writer records losses in ``kstore.lost`` when it opens the log. If no
    writer has opened it since the loss, the files show it.
    """

    def __init__(
        self,
        files: Files,
        condition: Callable[[], str],
        recovery_point: Callable[[], int],
        was_compacted: Callable[[], bool],
    ) -> None:
        self._files = files
        self._condition = condition
        self._recovery_point = recovery_point
        self._was_compacted = was_compacted
        self._reported: set[str] = set()

    def find(
        self, directory: str, names: Sequence[str], views: Sequence[SegmentView], log_start: int
    ) -> LostRecords:
        """The lost ranges by a listing; logs a warning once for each.

        ``views`` are the segments of the listing. Raises StorageError for a file that vanishes.
        """
        ranges: list[LostRange] = []
        if LOST_SEGMENTS in names:
            try:
                ranges = read_lost(self._files, directory)
            except (CorruptFileError, NewerFormatError) as error:
                self._report(str(error))
        sizes = {view.base_offset: view.size for view in views}
        if len(views) > 1 and (condition := self._condition()) != "owned":
            found = find_lost_segments(
                self._files,
                directory,
                names,
                sizes,
                log_start=log_start,
                stop=StopState(condition == "clean", self._recovery_point, self._was_compacted),
            )
            ranges = merge_lost(ranges, found)
        ranges = clip(ranges, log_start, sizes) if ranges else []
        for each in ranges:
            self._report(f"{directory}: {each.describe()}")
        return LostRecords(directory, ranges)

    def _report(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            _LOGGER.warning("%s", sentence)
