"""Scans the batches of a buffer: their headers as a table, or only their positions.

Functions release the GIL while they walk and are safe to call from several threads. Results are
read-only, own their memory and may be shared between threads.
``kstore._native.format.status.name`` has the name of a status.
"""

from collections.abc import Sequence

from _typeshed import ReadableBuffer

class FramePositions:
    """Positions of frames (batches or messages) in the buffer, ascending, through the buffer
    protocol: int32 if every position fits, else int64."""

    status: int
    """Why the walk ended: OK at the end of the range, else TRUNCATED, BAD_SIZE or BAD_MAGIC."""
    stop: int
    """Position after the last complete frame."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class BatchTable:
    """One row for every batch; each attribute is a column, a ``memoryview`` that shares the
    table's memory (``numpy.asarray(table.base_offset)`` does not copy). A v0 or v1 entry is a
    batch here, too."""

    status: int
    """Why the scan ended: OK at the end of the range, else TRUNCATED, BAD_SIZE or BAD_MAGIC."""
    start: int
    stop: int
    """Position after the last complete batch."""
    bad_crc_count: int
    def __len__(self) -> int: ...
    @property
    def base_offset(self) -> memoryview[int]:
        """v2: base offset; v0 and v1: the offset field (in a wrapper, its last inner offset)."""

    @property
    def last_offset(self) -> memoryview[int]:
        """v2: base offset + lastOffsetDelta; v0 and v1: the offset field."""

    @property
    def position(self) -> memoryview[int]:
        """Position of the batch in the scanned buffer."""

    @property
    def base_timestamp(self) -> memoryview[int]:
        """ms; v0: -1; v2: may be a delete horizon (attributes bit 6)."""

    @property
    def max_timestamp(self) -> memoryview[int]:
        """ms; v0: -1."""

    @property
    def producer_id(self) -> memoryview[int]:
        """-1 if none."""

    @property
    def size(self) -> memoryview[int]:
        """Size of the batch, including offset and size fields."""

    @property
    def count(self) -> memoryview[int]:
        """Number of records; -1 (unknown) for a compressed v0 or v1 wrapper."""

    @property
    def leader_epoch(self) -> memoryview[int]:
        """v0 and v1: -1."""

    @property
    def base_sequence(self) -> memoryview[int]:
        """-1 if none."""

    @property
    def crc(self) -> memoryview[int]:
        """The checksum field."""

    @property
    def producer_epoch(self) -> memoryview[int]:
        """-1 if none."""

    @property
    def attributes(self) -> memoryview[int]:
        """Bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon."""

    @property
    def magic(self) -> memoryview[int]:
        """0, 1 or 2."""

    @property
    def crc_state(self) -> memoryview[int]:
        """1 valid, -1 invalid, 0 not verified."""

def scan(
    buffer: ReadableBuffer,
    start: int = 0,
    end: int = -1,
    *,
    check_crc: bool = True,
    threads: int = 1,
    seeds: Sequence[int] | None = None,
) -> BatchTable:
    """Read the header of every batch of any magic in ``buffer[start:end]`` (-1: its end).

    A wrong checksum sets ``crc_state`` and does not stop the scan. Bytes that cannot be a batch
    stop it: a size below the minimum, an unknown magic, or (TRUNCATED) an incomplete batch, which
    is normal at the end of an active log.

    Parameters
    ----------
    threads
        1 to 64. Several threads split the range at ``seeds``: ascending positions of batches, for
        example from the offset index. Seeds are hints: a wrong one costs time and never changes
        the result. Without seeds, the scan first walks the headers to find positions.

    Raises ``ValueError`` for a range outside the buffer. Memory: 80 bytes for each batch, and
    temporarily up to twice that.
    """

def walk_frames(
    buffer: ReadableBuffer,
    seeds: Sequence[int] | None = None,
    *,
    start: int = 0,
    end: int = -1,
) -> FramePositions:
    """Positions of all batches or messages in ``buffer[start:end]``; stops as ``scan`` does.

    With ``seeds`` (as in ``scan``), sixteen interleaved walks are four times as fast for small
    messages. Verifies no checksum. Memory: 4 bytes for each frame and, with seeds, up to 16 bytes
    for every 100 bytes between seventeen of them. Keeps up to 64 MiB of a released result for the
    next large one; the kernel may reclaim them if memory is short.
    """
