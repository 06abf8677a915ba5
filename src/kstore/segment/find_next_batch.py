"""Finds the next valid batch behind corrupt bytes of a segment file. Only reads.

A corrupt header is trusted only where a valid batch confirms it, and so are the positions that the
files beside a log have: :func:`known_boundaries`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kstore._native.format import batch_fields
from kstore._native.recovery.find_valid_batches import (
    find_end_by_checksum,
    find_valid_batch,
    scan_valid_batches,
)
from kstore.errors import NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.integers import INT64_MAX
from kstore.segment import header_checksums
from kstore.segment.index_entry import OFFSET_ENTRY_SIZE, positions
from kstore.segment.index_sanity import read_entries

_HEADER = batch_fields.HEADER_UP_TO_MAGIC
_LEAST_SIZE = batch_fields.LOG_OVERHEAD + batch_fields.V0_OVERHEAD
_MOST_DAMAGED = 16  # consecutive corrupt batches whose sizes are trusted
_MOST_SUMMED = 1 << 26  # bytes to search for the end of a batch with a wrong size


def find_next(
    data: memoryview | bytes,
    position: int,
    size: int,
    last_offset: int,
    high: int,
    boundaries: Sequence[int] = (),
) -> int:
    """Position of the next valid batch behind corruption; the end where no batch follows.

    A record's value may contain complete batches, by accident or on purpose. So the result of a
    search counts only where nothing better is known, in this order: the corrupt batch's own
    checksum, if only its size is wrong; its size; a boundary at which a valid batch begins.

    Parameters
    ----------
    size
        The size that the corrupt batch declares, 0 if that is unreadable.
    last_offset
        Of the batch before it.
    high
        Upper limit of the next batch's base offset.
    boundaries
        Positions, ascending, at which batches began according to side files.
    """
    declared, end, low = position + size, len(data), last_offset + 1
    known = next(
        (
            mark
            for mark in boundaries[bisect_right(boundaries, position) :]
            if _begins_batch(data, mark, low, high)
        ),
        None,
    )
    stop = min(position + _MOST_SUMMED, end) if known is None else known
    if (found := find_end_by_checksum(data, position, stop, low, high)) >= 0:
        return found
    if size > 0 and (declared == end or _leads_to_batch(data, declared, low, high)):
        return declared  # the size is right, the payload is corrupt
    if known is not None:
        # The corrupt batch had offsets of its own; the next batch's are higher.
        after = low + (batch_fields.base_offset(data, position) == low)
        before = batch_fields.base_offset(data, known) - 1
        found = find_valid_batch(data, position + 1, after, before, known)
        if found < 0:
            found = find_valid_batch(data[:known], position + 1, after, before)
        return known if found < 0 else found
    for least, top in ((low, high), (0, INT64_MAX)):
        found = find_valid_batch(data, position + 1, least, top)
        if found >= 0:
            return found
    return end


def _leads_to_batch(data: memoryview | bytes, position: int, low: int, high: int) -> bool:
    """Whether a valid batch begins here, or behind corrupt ones with plausible headers."""
    for _ in range(_MOST_DAMAGED):
        if _begins_batch(data, position, low, high):
            return True
        if position + _HEADER > len(data):
            return False
        size = batch_fields.frame_size(data, position)
        first = batch_fields.base_offset(data, position)
        if size < _LEAST_SIZE or batch_fields.magic(data, position) > 2:
            return False
        if not low <= first <= high:
            return False
        position, low = position + size, first + 1
        if position == len(data):
            return True
    return False


def _begins_batch(data: memoryview | bytes, position: int, low: int, high: int) -> bool:
    if position + _HEADER > len(data):
        return False
    size = batch_fields.frame_size(data, position)
    if not _LEAST_SIZE <= size <= len(data) - position:
        return False
    run = scan_valid_batches(data[: position + size], position)
    return run.batch_count > 0 and low <= run.first_offset <= high


def known_boundaries(files: Files, path: Path, base_offset: int) -> list[int]:
    """Positions of batches in a segment, by its offset index and its header checksums.

    They count only if a valid batch is found there; a file that cannot be read is ignored. (A
    time index has offsets only.)
    """
    found: set[int] = set()
    index = path.parent / filenames.index_name(base_offset)
    with suppress(StorageError):
        if files.exists(index):
            entries, _ = read_entries(files, index, OFFSET_ENTRY_SIZE)
            found.update(positions(entries))
    with suppress(StorageError, NewerFormatError), OpenFile(files, path) as fd:
        found.update(header_checksums.boundaries(files, path.parent, base_offset, fd))
    return sorted(found)
