"""Checks whether a segment's offset and time index can be trusted.

Kafka checks only the size of the offset index when it opens a log; wrong or repeated entries
stay, and a lost time index stays empty. kstore checks both ends of each file when it opens a log
for writing, and every entry after an unclean stop. A faulty index is rebuilt from
the log. Lookups do not depend on this: a read checks that the batch of an entry
begins at or below the offset, and otherwise walks from the segment's start.
"""

import os
from bisect import bisect_left
from collections.abc import Container
from os.path import join
from typing import NamedTuple

from kstore._native.format import batch_fields
from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore._native.read.segment_end import first_batch_timestamp
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.segment.index_entry import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE

_END_ENTRIES = 64  # at each end of an index, where not every entry is checked
_BLOCK = 24 << 15  # bytes read at a time; a multiple of both entries


class IndexFault(NamedTuple):
    """Why a segment's indexes have to be rebuilt."""

    name: str  # of the file
    sentence: str
    vital: bool  # Kafka recovers the segment, too: there is no usable offset index


def read_entries(files: Files, path: str | os.PathLike[str], entry_size: int) -> tuple[bytes, int]:
    """The bytes of an index file that may hold entries, and the file's size.

    Not the zeros behind them: an unclean stop leaves up to ``segment.index.bytes``, a hole any
    number.
    """
    with OpenFile(files, path) as fd:
        size = files.size(fd)
        return _used(files, fd, size, entry_size), size


def _used(files: Files, fd: int, size: int, entry_size: int) -> bytes:
    data = files.pread(fd, min(size, _BLOCK), 0)
    if size <= _BLOCK or data[-entry_size:] == bytes(entry_size):
        return data
    blocks = [data]
    for position in range(_BLOCK, size, _BLOCK):
        blocks.append(files.pread(fd, min(_BLOCK, size - position), position))
        if blocks[-1][-entry_size:] == bytes(entry_size):
            break
    return b"".join(blocks)


def used_size(files: Files, path: str | os.PathLike[str], entry_size: int) -> int:
    """Bytes of an index file up to its first entry of zeros, which is none in either index."""
    data, _ = read_entries(files, path, entry_size)
    entries = range(len(data) // entry_size)
    zeros = bytes(entry_size)
    count = bisect_left(
        entries, True, key=lambda n: data[n * entry_size : (n + 1) * entry_size] == zeros
    )
    return count * entry_size


def find_index_fault(
    files: Files,
    directory: str,
    base: int,
    log_size: int,
    names: Container[str],
    *,
    every_entry: bool,
) -> IndexFault | None:
    """A fault in the indexes of a segment that is not scanned otherwise; None if they are fine.

    Parameters
    ----------
    log_size
        Bytes of the segment's log file.
    names
        A listing of the directory.
    every_entry
        Check all entries; otherwise some at each end, which costs the same for any size. Then
        zeros at the end are a fault, too: a rolled segment's indexes have none, unless the power
        failed before they were synced.
    """
    name = filenames.index_name(base)
    path = join(directory, name)
    if name not in names:
        return IndexFault(name, "is missing", True)
    data = _read(files, path, OFFSET_ENTRY_SIZE, every_entry)
    if data is None:
        return IndexFault(name, "is not a multiple of 8 bytes", True)
    index = OffsetIndex(data, base)
    fault = index.find_fault(log_size)
    if fault is not None:
        return IndexFault(name, fault[0], False)
    if every_entry and index.count * OFFSET_ENTRY_SIZE < len(data):
        return IndexFault(name, "ends in entries of zeros", False)
    if index.count and not _leads_to_batch(files, directory, base, index[index.count - 1]):
        return IndexFault(name, "the last entry does not lead to its batch", False)
    return _time_fault(files, directory, base, log_size, names, every_entry)


def _time_fault(
    files: Files,
    directory: str,
    base: int,
    log_size: int,
    names: Container[str],
    every_entry: bool,
) -> IndexFault | None:
    name = filenames.time_index_name(base)
    path = join(directory, name)
    if name not in names:
        return IndexFault(name, "is missing", False)
    data = _read(files, path, TIME_ENTRY_SIZE, every_entry)
    if data is None:
        return IndexFault(name, "is not a multiple of 12 bytes", False)
    index = TimeIndex(data, base)
    fault = index.find_fault()
    if fault is not None:
        return IndexFault(name, fault[0], False)
    first = 0
    if index.count == 0 and log_size > 0:
        head = _pread(
            files, join(directory, filenames.log_name(base)), batch_fields.V2_HEADER_SIZE, 0
        )
        first = first_batch_timestamp(head)
        if first == 0 and data == bytes(TIME_ENTRY_SIZE):
            return None  # a real entry: timestamp 0, at the base offset
    if every_entry and index.count * TIME_ENTRY_SIZE < len(data):
        return IndexFault(name, "ends in entries of zeros", False)
    if index.count == 0 and log_size > 0 and first >= 0:
        # Kafka replaces a lost time index by an empty one.
        return IndexFault(name, "is empty, though the records have timestamps", False)
    return None


def _leads_to_batch(files: Files, directory: str, base: int, entry: tuple[int, int]) -> bool:
    """Whether a batch that may hold the entry's offset begins at its position.

    Brokers before 2.0 write the first offset of an append, later ones the last; some write the
    position of the append's first message with it. So this is all that can be required.
    """
    offset, position = entry
    path, wanted = join(directory, filenames.log_name(base)), batch_fields.HEADER_UP_TO_MAGIC
    header = _pread(files, path, wanted, position)
    if len(header) < wanted or (magic := batch_fields.magic(header)) > 2:
        return False
    first = batch_fields.base_offset(header)
    if batch_fields.frame_size(header) < batch_fields.LOG_OVERHEAD + batch_fields.V0_OVERHEAD:
        return False
    # A wrapper of v0 or v1 has its last offset, the entry may have its first.
    return first >= base and (magic < 2 or first <= offset)


def _read(files: Files, path: str, entry_size: int, every_entry: bool) -> bytes | None:
    """The entries, or some from both ends; None where the size is no multiple of an entry."""
    with OpenFile(files, path) as fd:
        size = files.size(fd)
        if size % entry_size:
            return None
        end = _END_ENTRIES * entry_size
        if every_entry or size <= 2 * end:
            return _used(files, fd, size, entry_size)
        last = files.pread(fd, end, size - end)
        if last[-entry_size:] == bytes(entry_size):  # preallocated: entries end before
            return _used(files, fd, size, entry_size)
        return files.pread(fd, end, 0) + last


def _pread(files: Files, path: str, size: int, position: int) -> bytes:
    with OpenFile(files, path) as fd:
        return files.pread(fd, size, position)
