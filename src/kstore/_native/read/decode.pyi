from collections.abc import Callable, Iterator
from typing import final

from _typeshed import ReadableBuffer

from kstore._native.format.record import Record
from kstore._native.read.aborted_transactions import AbortedRanges

@final
class Block:
    """Rows of consecutive records; every position is an index into ``data``.

    Exports its memory as one read-only buffer; ``layout`` maps each column's name to its dtype
    and first byte. All columns have ``len(block)`` rows.
    """

    data: ReadableBuffer

    def __init__(self, *, values_only: bool = False) -> None: ...
    def __len__(self) -> int: ...
    @property
    def values_only(self) -> bool:
        """Whether only ``value_positions`` and ``value_lengths`` are filled."""
    @property
    def timestamp_type(self) -> int:
        """Timestamp type of all rows: -1 none (message v0), 0 CreateTime, 1 LogAppendTime."""
    @property
    def layout(self) -> dict[str, tuple[str, int]]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Scanner:
    """Walks the batches in ``buffer[start:end]`` (any magic) and returns their records.

    Parameters
    ----------
    start_offset, stop_offset
        The scanner drops records outside ``start_offset <= offset < stop_offset``; it does not
        verify batches entirely below.
    check_crc
        Verify every returned batch, and inner messages of v0 and v1 wrappers.
    control
        Return the records of control batches (transaction markers) as well.
    values_only
        Blocks have only the positions and lengths of values. Ignored with an offset window.
    next_offset
        The log's next offset. A batch that ends at or above it, starts at or below the last
        offset of the previous batch, or overlaps the next, is corrupt. Without it, the scanner
        does not check offsets.
    decompress
        ``(codec, magic, data) -> bytes``; required if a batch is compressed.
    on_damage
        ``"raise"`` a ``CorruptRecordError``, or ``"skip"`` that one batch and append
        (position, size, offset, reason) to ``skipped``.
    on_tail
        An incomplete batch at the end: ``"stop"`` before it, or treat it as ``"damage"``.
    path, position_base
        For errors: the file, and the buffer's position in it.
    row_target
        A block ends with the batch that reaches this many rows; a list of objects with the
        one that reaches 512, or fewer.
    find_aborted
        Returns the aborted transactions, whose batches the scanner then skips; called once, at the
        first transactional batch. Without it, the scanner returns all batches.
    seen_offset
        Last offset of the batch before ``start``, if known: with ``next_offset``, a first batch
        that starts at or below it is corrupt.

    Not safe to share between threads. The scanner holds the buffer until ``close``; blocks keep
    the data they point into. Memory: 52 bytes a row (12 with ``values_only``) for at least
    16,384 rows or the largest batch, and the decompressed bytes of about 8 MiB or one batch.
    """

    skipped: list[tuple[int, int, int, str]]
    position_base: int

    def __init__(
        self,
        buffer: ReadableBuffer,
        start: int = 0,
        end: int = -1,
        *,
        start_offset: int = -0x8000000000000000,
        stop_offset: int = 0x7FFFFFFFFFFFFFFF,
        check_crc: bool = True,
        control: bool = False,
        values_only: bool = False,
        decompress: Callable[[int, int, memoryview], bytes] | None = None,
        next_offset: int = ...,
        on_damage: str = "raise",
        on_tail: str = "stop",
        path: object = None,
        position_base: int = 0,
        row_target: int = 16384,
        find_aborted: Callable[[], AbortedRanges] | None = None,
        seen_offset: int = ...,
    ) -> None: ...
    @property
    def position(self) -> int:
        """Position of the next batch in the buffer."""
    @property
    def seen_offset(self) -> int:
        """Last offset of the batch before ``position``; the smallest int64 before the first."""
    @property
    def at_end(self) -> bool:
        """Whether the scan has reached the end of the range."""
    def close(self) -> None:
        """Release the buffer; blocks and records already returned stay valid."""
    def next_block(self) -> Block | None:
        """The next rows as columns; None at the end."""
    def next_values(self) -> list[bytes | None] | None:
        """The values of the next batches; None at the end."""
    def records(self) -> RecordScan:
        """The records from here on as objects, one at a time."""
    def next_records(self) -> list[Record] | None:
        """The records of the next batches as objects; None at the end."""
    def __iter__(self) -> Iterator[Block]: ...
    def __next__(self) -> Block: ...

@final
class RecordScan:
    """Iterates over the records of a scanner; creates each when the caller requests it.

    Verifies, decodes and copies a batch at its first record: later changes to the buffer, or
    ``close`` of the scanner, do not affect its other records. Memory: that copy, and 52 bytes for
    each record of the batch. One thread at a time; a concurrent call raises ``ValueError``.
    """

    def __init__(self, scanner: Scanner) -> None: ...
    def __iter__(self) -> Iterator[Record]: ...
    def __next__(self) -> Record: ...
