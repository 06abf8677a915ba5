"""From file bytes to records, batch after batch, decompressing where needed."""

from collections.abc import Iterator
from typing import Any

from kstore._native.format.record import Record
from kstore._native.read.decode import Scanner
from kstore.record import codec


def scan_records(
    buffer: Any, *, skipped: list[Any] | None = None, **options: Any
) -> Iterator[Record]:
    """Records of a buffer of batches; options are :class:`Scanner`'s.

    A cut batch at the end is ignored. Each batch is checked when its first record is requested.
    ``skipped`` collects the batches that ``on_damage="skip"`` skipped.
    """
    scanner = Scanner(buffer, decompress=codec.decompress, **options)
    yield from scanner.records()
    if skipped is not None:
        skipped.extend(scanner.skipped)
