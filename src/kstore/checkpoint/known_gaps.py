"""``kstore.gaps``: offsets that are in no batch of a partition, and are no new loss.

The log's writer knew that these offsets stay empty: ``repair``, which could not save
them, or a follower whose leader had no records left there. An audit does not warn of such a gap.
The file holds no records: a log reads the same without it. Format: docs/format/kstore-files.md.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kstore.errors import CorruptFileError, NewerFormatError
from kstore.files.filenames import KNOWN_GAPS
from kstore.files.files import Files

FORMAT = 1
_MOST = 1 << 26  # bytes

Range = tuple[int, int]  # first offset, and the one after the last


def read_known_gaps(files: Files, directory: str | os.PathLike[str]) -> list[Range]:
    """The recorded ranges, ascending; none without the file.

    Raises CorruptFileError for a file that does not parse, NewerFormatError for a newer format.
    """
    path = os.path.join(directory, KNOWN_GAPS)
    if not files.exists(path):
        return []
    data = files.read(path, limit=_MOST)
    try:
        document = json.loads(data)
        number = int(document["format"])
        if number <= FORMAT:
            return sorted((int(first), int(end)) for first, end in document["gaps"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"{KNOWN_GAPS} does not parse: {error!r}", path=path) from None
    raise NewerFormatError(
        f"{KNOWN_GAPS} has format {number}, and this kstore knows format {FORMAT} only: "
        "use a newer one",
        path=path,
    )


def note_gaps(files: Files, directory: str | os.PathLike[str], gaps: Iterable[Range]) -> None:
    """Add ranges to the file, atomically; a file that does not parse is replaced."""
    try:
        known = read_known_gaps(files, directory)
    except CorruptFileError:
        known = []
    _write(files, os.path.join(directory, KNOWN_GAPS), sorted({*known, *gaps}))


def truncate_gaps(files: Files, directory: str | os.PathLike[str], end: int) -> None:
    """Remove ranges from a new log end on: those offsets will be assigned again.

    Does not change a file that cannot be read: its reader reports that.
    """
    path = os.path.join(directory, KNOWN_GAPS)
    if not files.exists(path):
        return
    try:
        known = read_known_gaps(files, directory)
    except (CorruptFileError, NewerFormatError):
        return
    kept = [(first, min(last, end)) for first, last in known if first < end]
    if not kept:
        files.remove(path)
    elif kept != known:
        _write(files, path, kept)


def _write(files: Files, path: str, ranges: Sequence[Range]) -> None:
    document = {"format": FORMAT, "gaps": [list(each) for each in ranges]}
    files.write_atomically(path, json.dumps(document).encode() + b"\n")


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Ascending ranges, merged where they overlap or touch."""
    merged: list[Range] = []
    for first, end in ranges:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return merged


def is_known(merged: Sequence[Range], first: int, end: int) -> bool:
    """Whether merged ranges cover every offset from first up to end (exclusive)."""
    slot = bisect_right(merged, first, key=lambda each: each[0]) - 1
    return first >= end or (slot >= 0 and merged[slot][1] >= end)
