"""From file bytes to records, batch after batch, decompressing where needed."""

from collections.abc import Iterator
from typing import Any

from kstore._native.decode import Scanner
from kstore._native.record import Record
from kstore.record import codec


def scan_records(
    buffer: Any, *, skipped: list[Any] | None = None, **options: Any
) -> Iterator[Record]:
    """Records of a buffer of whole batches; options are :class:`Scanner`'s.

    A cut batch at the end is left out. Each batch is checked when its first record is asked for.
    ``skipped`` takes the batches that ``on_damage="skip"`` left out.
    """
    scanner = Scanner(buffer, decompress=codec.decompress, **options)
    yield from scanner.records()
    if skipped is not None:
        skipped.extend(scanner.skipped)
