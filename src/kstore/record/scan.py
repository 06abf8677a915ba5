"""From file bytes to records or columns, batch after batch, decompressing where needed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kstore._native.decode import Scanner
from kstore._native.record import Record
from kstore.record import codec

if TYPE_CHECKING:
    from kstore.record.columns import Columns


def scan_records(buffer: Any, *, row_target: int = 1024, **options: Any) -> Iterator[Record]:
    """Records of a buffer of whole batches; options are :class:`Scanner`'s.

    A cut batch at the end is left out. ``row_target`` says how many records are made at a time
    (whole batches).
    """
    scanner = Scanner(buffer, decompress=codec.decompress, row_target=row_target, **options)
    while (records := scanner.next_records()) is not None:
        yield from records


def scan_columns(
    buffer: Any, *, skipped: list[Any] | None = None, **options: Any
) -> Iterator["Columns"]:
    """Columns of a buffer of whole batches, some ten thousand rows at a time.

    ``skipped`` takes the damaged batches that ``on_damage="skip"`` left out.
    """
    from kstore.record.columns import Columns  # brings numpy

    scanner = Scanner(buffer, decompress=codec.decompress, **options)
    while (block := scanner.next_block()) is not None:
        yield Columns(block)
    if skipped is not None:
        skipped.extend(scanner.skipped)
