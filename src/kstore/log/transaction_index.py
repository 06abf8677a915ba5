"""Transaction indexes (``N.txnindex``): the aborted transactions of a segment.

Layout and rules: Kafka's TransactionIndex, AbortedTxn.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kstore.errors import CorruptFileError

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """Offsets are inclusive; ``last_offset`` is that of the abort marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse(data: bytes, *, path: str | None = None) -> list[AbortedTransaction]:
    """The entries, oldest abort first; a cut one at the end is left out.

    Raises CorruptFileError for a version it does not know.
    """
    whole = len(data) - len(data) % _ENTRY.size
    entries = [AbortedTransaction(*fields) for fields in _ENTRY.iter_unpack(data[:whole])]
    for number, entry in enumerate(entries):
        if entry.version != _VERSION:
            raise CorruptFileError(
                f"unknown transaction index version {entry.version}",
                path=path,
                position=number * _ENTRY.size,
            )
    return entries


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """The file of these entries."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)
