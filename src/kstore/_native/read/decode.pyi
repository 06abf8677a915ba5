from collections.abc import Callable, Iterator
from typing import final

from _typeshed import ReadableBuffer

from kstore._native.format.record import Record
from kstore._native.read.aborted_transactions import AbortedRanges

@final
class Block:
    """Rows of one run of records; every position is in ``data``.

    Exports its memory, read-only; ``layout`` maps each column's name to its dtype and the
    byte where it starts. All columns hold ``len(block)`` rows.
    """

    data: ReadableBuffer

    def __init__(self, *, values_only: bool = False) -> None: ...
    def __len__(self) -> int: ...
    @property
    def values_only(self) -> bool:
        """Whether only ``value_positions`` and ``value_lengths`` are filled."""
    @property
    def timestamp_type(self) -> int:
        """Of all rows: -1 none (message v0), 0 CreateTime, 1 LogAppendTime."""
    @property
    def layout(self) -> dict[str, tuple[str, int]]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Scanner:
    """Walks the batches in ``buffer[start:end]`` (any magic) and hands out their records.

    Parameters
    ----------
    start_offset, stop_offset
        Records outside ``start_offset <= offset < stop_offset`` are dropped; batches entirely
        below are not even checked.
    check_crc
        Check every batch that is handed out, and inner messages of v0 and v1 wrappers.
    control
        Hand out the records of control batches (transaction markers) as well.
    values_only
        Blocks hold only where the values are (an offset window brings all columns back).
    next_offset
        The batches are a log's and end below it: one that does not, whose offsets do not continue
        from the batch before, or reach into the next, is damage. Without it offsets are free.
    decompress
        ``(codec, magic, data) -> bytes``; needed as soon as a compressed batch is met.
    on_damage
        ``"raise"`` a ``CorruptRecordError``, or ``"skip"`` the batch and note it in
        ``skipped`` as (position, size, offset, reason); one bad batch costs one batch.
    on_tail
        An incomplete batch at the end: ``"stop"`` before it, or treat it as ``"damage"``.
    path, position_base
        For errors: the file, and where in it the buffer starts.
    row_target
        A block ends with the batch that reaches this many rows; a list of objects with the
        one that reaches 512, or fewer.
    find_aborted
        Leave out batches of aborted transactions: called once, when the first transactional
        batch is met, to determine which those are. Without it all batches are handed out.

    seen_offset
        Last offset of the batch in front of ``start``, where it is known: what does not rise
        above it is damage (with ``next_offset``).

    Not safe to share between threads. The buffer is held open until ``close``; blocks keep
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
        """Where the next batch starts, in the buffer."""
    @property
    def seen_offset(self) -> int:
        """Last offset of the batch in front of ``position``; the smallest int64 before any."""
    @property
    def at_end(self) -> bool:
        """Whether every byte of the range was walked."""
    def close(self) -> None:
        """Release the buffer; what was handed out stays valid."""
    def next_block(self) -> Block | None:
        """The next rows as columns, None at the end."""
    def next_values(self) -> list[bytes | None] | None:
        """The values of the next batches, None at the end."""
    def records(self) -> RecordScan:
        """The records from here on as objects, one at a time."""
    def next_records(self) -> list[Record] | None:
        """The records of the next batches as objects, None at the end."""
    def __iter__(self) -> Iterator[Block]: ...
    def __next__(self) -> Block: ...

@final
class RecordScan:
    """Iterates over the records of a scanner; each is made when it is asked for.

    A batch is checked, decoded and copied when its first record is asked for: what happens to
    the buffer (or to the scanner's ``close``) later does not touch its other records. Memory:
    that copy and 52 bytes a record of the batch. One thread at a time; a second one gets a
    ``ValueError`` where the two would meet.
    """

    def __init__(self, scanner: Scanner) -> None: ...
    def __iter__(self) -> Iterator[Record]: ...
    def __next__(self) -> Record: ...
