"""Finds complete batches in corrupt bytes. Functions release the GIL; thread-safe."""

from _typeshed import ReadableBuffer

class ValidBatches:
    """A run of valid batches with increasing offsets, and why it ended.

    ``second_position`` is the position of the second batch, or ``end``; ``offset_before_last`` the
    last offset before the last batch. ``stop_status`` and ``stop_size`` (declared size, 0 if
    unreadable) describe the bytes at ``end``; ``is_in_order`` is False if a valid batch is at
    ``end`` whose offsets do not increase.
    """

    end: int
    batch_count: int
    first_offset: int
    last_offset: int
    second_position: int
    last_position: int
    offset_before_last: int
    stop_status: int
    stop_size: int
    is_in_order: bool

def scan_valid_batches(
    buffer: ReadableBuffer, start: int, stop_offset: int = 0x7FFFFFFFFFFFFFFF
) -> ValidBatches:
    """Find the run of valid batches with increasing offsets at ``start``.

    A batch whose last offset is ``stop_offset`` or above ends the run.
    """

def skip_to(buffer: ReadableBuffer, start: int, end: int, offset: int) -> int:
    """Position of the first batch with base offset ``offset`` or above in ``buffer[start:end]``,
    which contains valid batches only; ``end`` if none."""

def find_valid_batch(
    buffer: ReadableBuffer,
    start: int,
    low: int,
    high: int,
    next_position: int = -1,
    budget: int = 1 << 34,
) -> int:
    """Position of the first valid batch at or after ``start`` with a base offset of low to high;
    -1 if none.

    Ignores a batch in the payload of another: from a candidate, headers must continue to the end
    of the buffer or to a corrupt batch. With ``next_position``, the position of the next known
    batch, they must end exactly there. ``budget`` bounds the bytes to checksum, in case the
    buffer was crafted to look like headers everywhere.
    """

def find_end_by_checksum(buffer: ReadableBuffer, start: int, stop: int, low: int, high: int) -> int:
    """End of the batch at ``start`` according to its checksum, if its size field is corrupt.

    Returns the first position up to ``stop`` for which the checksum matches, among the end of the
    buffer and positions where a batch with a base offset of low to high may begin; -1 if none.
    """

def epoch_runs(buffer: ReadableBuffer, start: int, end: int) -> list[tuple[int, int, int]]:
    """(position, batches, leader epoch) of each run of v2 batches with one leader epoch in
    ``buffer[start:end]``, which contains valid batches only; v0 and v1 messages have no epoch."""
