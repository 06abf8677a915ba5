"""The torn tail of a segment: cuts it, keeps its bytes as ``kstore.cut.*``, finds those files."""

import os
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

from kstore._native.recovery.segment_scan import SegmentScan
from kstore.checkpoint.quarantine import free_name
from kstore.files import filenames
from kstore.files.filenames import CLEANED_SUFFIX, TEMPORARY_SUFFIX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.segment.scan import READ_SIZE


def cut_tail(
    files: Files, directory: Path, scan: SegmentScan, names: set[str], *, is_last: bool, sync: bool
) -> str | None:
    """Remove the torn tail from a log file; its bytes are first made durable in another file.

    Returns that file's name, which is added to ``names`` (of the directory), or None where the
    tail was only zeros.

    The last segment is truncated in place: no reader maps it. A reader in another process may
    have mapped a segment with others behind it, and access to a page beyond a file's end kills
    the process: so a copy of its beginning replaces it, as in a truncation.
    """
    path = directory / filenames.log_name(scan.base_offset)
    with OpenFile(files, path, os.O_RDWR) as fd:
        kept = _keep_tail(files, fd, directory, scan, names)
        if is_last:
            files.truncate(fd, scan.valid_size)
            if sync:
                files.fsync(fd)
    if not is_last:
        copy = Path(f"{path}{CLEANED_SUFFIX}")  # which every loader removes as unfinished
        files.copy(path, copy, scan.valid_size)
        files.rename(copy, path)
        if sync:
            files.sync_directory(directory)
    return kept


def _keep_tail(
    files: Files, fd: int, directory: Path, scan: SegmentScan, names: set[str]
) -> str | None:
    if files.only_zeros(fd, scan.valid_size, scan.file_size):
        return None  # preallocated, or extended just before a power cut
    name = free_name(names, scan.base_offset, scan.valid_size)
    names.add(name)
    path = directory / name
    temporary = Path(f"{path}{TEMPORARY_SUFFIX}")
    with OpenFile(files, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND) as kept:
        for position in range(scan.valid_size, scan.file_size, READ_SIZE):
            chunk = files.pread(fd, min(READ_SIZE, scan.file_size - position), position)
            files.write(kept, chunk)
        files.fsync(kept)
    files.rename(temporary, path)
    files.sync_directory(directory)
    return name


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
        """Whether offsets behind a segment, up to the base ``end`` of the next one, were cut.

        A cut before bytes that the segment has does not count: the segment continued there.
        """
        slot = bisect_right(self._entire, base)
        is_entire = slot < len(self._entire) and self._entire[slot] < end
        return is_entire or self._last.get(base, -1) >= size
