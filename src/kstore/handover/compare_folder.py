"""Compares a broker's folder with the partition that is handed over to it."""

import os
from enum import Enum

from kstore.partition_files import Files, OpenFile, filenames

_CHUNK = 1 << 20


class TargetContents(Enum):
    """How much of a partition's log a folder contains."""

    NOTHING = "no record"
    BEGINNING = "the beginning of it"
    ALL = "all of it"
    MORE = "all of it, and what the broker appended"
    OTHER = "other records"


def is_copied(name: str) -> bool:
    """Whether a file is copied: segments, indexes, snapshots and leader epochs are."""
    found = filenames.parse(name)
    return name == filenames.LEADER_EPOCHS or (found is not None and not found.suffix)


def compare_logs(files: Files, source: str, target: str) -> TargetContents:
    """Compare the segments in two folders byte by byte, up to the first difference."""
    ours, theirs = _segments(files, source), _segments(files, target)
    if not any(theirs.values()):
        return TargetContents.NOTHING
    last = max((base for base, size in ours.items() if size), default=-1)
    longer = False
    for base, size in theirs.items():
        if base > last:
            longer = longer or size > 0
            continue
        if base not in ours or (size > ours[base] and base != last):
            return TargetContents.OTHER
        longer = longer or size > ours[base]
        if not _same(files, source, target, base, min(size, ours[base])):
            return TargetContents.OTHER
    missing = [base for base, size in ours.items() if theirs.get(base, 0) < size]
    if not missing:
        return TargetContents.MORE if longer else TargetContents.ALL
    return TargetContents.OTHER if longer else TargetContents.BEGINNING


def _segments(files: Files, folder: str) -> dict[int, int]:
    """Sizes of the log files by their base offsets."""
    found = {}
    for name in files.listdir(folder):
        parsed = filenames.parse(name)
        if parsed is not None and parsed.kind == filenames.LOG and not parsed.suffix:
            found[parsed.base_offset] = files.size_of(os.path.join(folder, name))
    return found


def _same(files: Files, source: str, target: str, base: int, size: int) -> bool:
    name = filenames.log_name(base)
    return have_same_bytes(files, os.path.join(source, name), os.path.join(target, name), size)


def have_same_bytes(files: Files, one: str, other: str, size: int) -> bool:
    """Whether the first ``size`` bytes of two files are the same."""
    with OpenFile(files, one) as first, OpenFile(files, other) as second:
        for position in range(0, size, _CHUNK):
            count = min(_CHUNK, size - position)
            data = files.pread(first, count, position)
            if len(data) != count or files.pread(second, count, position) != data:
                return False
    return True
