"""Finding complete batches in bytes that are damaged. Functions release the GIL; thread-safe."""

from _typeshed import ReadableBuffer

class ValidBatches:
    """A run of sound batches with rising offsets, and why it ended.

    ``second_position`` is the position of the second batch, or ``end``; ``offset_before_last`` the
    last offset before the last batch. ``stop_status`` and ``stop_size`` (the declared size, 0:
    unreadable) describe what lies at ``end``; ``is_in_order`` is False if that is a sound batch
    whose offsets do not rise.
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
    """Walk sound batches with rising offsets from ``start``, as far as they go.

    A batch whose last offset reaches ``stop_offset`` ends the run.
    """

def skip_to(buffer: ReadableBuffer, start: int, end: int, offset: int) -> int:
    """Where in the sound batches of ``buffer[start:end]`` the first with that base offset or a
    higher one begins; ``end`` if there is none."""

def find_valid_batch(
    buffer: ReadableBuffer,
    start: int,
    low: int,
    high: int,
    lands_at: int = -1,
    budget: int = 1 << 34,
) -> int:
    """The first byte from ``start`` on where a sound batch with a base offset of low to high
    begins; -1 if there is none.

    A batch in the payload of another does not count: headers have to lead on from it, to the end
    of the buffer or to where a damaged batch stands. With ``lands_at`` only batches in front of
    it count, and only where a chain of headers leads from there exactly to it. ``budget`` bounds
    the bytes that are checksummed on the way, for bytes made to look like headers everywhere.
    """

def find_extent(buffer: ReadableBuffer, start: int, stop: int, low: int, high: int) -> int:
    """Where the batch at ``start`` ends by its own checksum, whatever its size field says.

    That is the first position up to ``stop`` with which the checksum fits; where the buffer ends
    or a batch with a base offset of low to high may begin; -1 if there is none.
    """

def epoch_runs(buffer: ReadableBuffer, start: int, end: int) -> list[tuple[int, int, int]]:
    """(position, batches, leader epoch) of each run of batches v2 with one leader epoch in the
    sound batches ``buffer[start:end]``; messages v0 and v1 have none."""
