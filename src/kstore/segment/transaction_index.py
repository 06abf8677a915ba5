"""Transaction indexes (``N.txnindex``): the aborted transactions of a segment.

Layout and rules: Kafka's TransactionIndex, AbortedTxn. An entry counts only behind valid ones:
reading stops at the first invalid one.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kstore.errors import CorruptFileError
from kstore.files.files import Files

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0
_BLOCK = 1024 * ENTRY_SIZE  # bytes read at a time


class AbortedTransaction(NamedTuple):
    """Offsets are inclusive; ``last_offset`` is that of the abort marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse(data: bytes, *, path: str | None = None) -> list[AbortedTransaction]:
    """The entries, oldest abort first; an incomplete one at the end is skipped.

    Raises CorruptFileError at the first invalid one: of an unknown version, or with offsets out
    of order, as in a hole.
    """
    entries: list[AbortedTransaction] = []
    _collect(entries, data, path, 0)
    return entries


def entries_ending_at(data: bytes, offset: int) -> Iterator[AbortedTransaction]:
    """The entries of a valid index whose markers lie at or beyond an offset, found by bisection."""
    count = len(data) // ENTRY_SIZE
    first = bisect_left(range(count), offset, key=lambda n: _entry_at(data, n).last_offset)
    return (_entry_at(data, n) for n in range(first, count))


def _entry_at(data: bytes, number: int) -> AbortedTransaction:
    return AbortedTransaction(*_ENTRY.unpack_from(data, number * ENTRY_SIZE))


def load(
    files: Files, path: str | os.PathLike[str]
) -> tuple[list[AbortedTransaction], CorruptFileError | None]:
    """The entries of a file before the first invalid one, and the fault of that one.

    Reads block by block, and nothing behind that entry.
    """
    entries: list[AbortedTransaction] = []
    fd = files.open(path)
    try:
        size = files.size(fd)
        for position in range(0, size, _BLOCK):
            block = files.pread(fd, min(_BLOCK, size - position), position)
            _collect(entries, block, os.fspath(path), position)
    except CorruptFileError as fault:
        return entries, fault
    finally:
        files.close(fd)
    return entries, None


def _collect(
    entries: list[AbortedTransaction], data: bytes, path: str | None, position: int
) -> None:
    """Append the entries in data, which begins at a position. Markers are in order, each behind
    the records that it ends."""
    last = entries[-1].last_offset if entries else -1
    complete = len(data) - len(data) % ENTRY_SIZE
    for fields in _ENTRY.iter_unpack(memoryview(data)[:complete]):
        entry = AbortedTransaction(*fields)
        sentence = None
        if entry.version != _VERSION:
            sentence = f"unknown transaction index version {entry.version}"
        elif not (0 <= entry.first_offset < entry.last_offset and last < entry.last_offset):
            sentence = (
                f"the offsets of entry {len(entries)} are out of order: a transaction from "
                f"{entry.first_offset} to {entry.last_offset}, behind one that ends at {last}"
            )
        if sentence is not None:
            raise CorruptFileError(sentence, path=path, position=position)
        entries.append(entry)
        last = entry.last_offset
        position += ENTRY_SIZE


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a file with these entries."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)
