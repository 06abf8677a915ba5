"""From file bytes to records, batch after batch, decompressing where needed."""

from collections.abc import Iterator
from typing import Any

from kstore._native.decode import Scanner
from kstore._native.record import Record
from kstore.record import codec


def scan_records(buffer: Any, *, row_target: int = 1024, **options: Any) -> Iterator[Record]:
    """Records of a buffer of whole batches; options are :class:`Scanner`'s.

    A cut batch at the end is left out. ``row_target`` says how many records are made at a time
    (whole batches).
    """
    scanner = Scanner(buffer, decompress=codec.decompress, row_target=row_target, **options)
    while (records := scanner.next_records()) is not None:
        yield from records
