"""Many batches at once: the table of a buffer's batches, and where its frames start.

Functions release the GIL while they walk and are safe to call from several threads. Results are
read-only, own their memory and may be shared between threads. A status is a number whose name
``kstore._native.format.status.name`` gives.
"""

from collections.abc import Sequence

from _typeshed import ReadableBuffer

class FramePositions:
    """Positions of frames' first bytes in the walked buffer, ascending, through the buffer
    protocol: int32 where every position fits, else int64."""

    status: int
    """Why the walk ended: OK at the end of the range, else TRUNCATED, BAD_SIZE or BAD_MAGIC."""
    stop: int
    """Byte where it ended: the first one that is not part of a whole frame."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class BatchTable:
    """One row for every batch; each attribute is a column, a ``memoryview`` that shares the
    table's memory (``numpy.asarray(table.base_offset)`` copies nothing). A v0 or v1 entry is a
    batch here, too."""

    status: int
    """Why the scan ended: OK at the end of the range, else TRUNCATED, BAD_SIZE or BAD_MAGIC."""
    start: int
    stop: int
    """Byte where it ended: the first one that is not part of a complete batch."""
    bad_crc_count: int
    def __len__(self) -> int: ...
    @property
    def base_offset(self) -> memoryview[int]:
        """v2: base offset; v0 and v1: the offset field (a wrapper's is its last inner offset)."""

    @property
    def last_offset(self) -> memoryview[int]:
        """v2: base offset + lastOffsetDelta; v0 and v1: the offset field."""

    @property
    def position(self) -> memoryview[int]:
        """Byte of the batch's start in the scanned buffer."""

    @property
    def base_timestamp(self) -> memoryview[int]:
        """ms; v0: -1; v2: may be a delete horizon (attributes bit 6)."""

    @property
    def max_timestamp(self) -> memoryview[int]:
        """ms; v0: -1."""

    @property
    def producer_id(self) -> memoryview[int]:
        """-1 where there is none."""

    @property
    def size(self) -> memoryview[int]:
        """Bytes of the complete batch, its 12 leading ones included."""

    @property
    def count(self) -> memoryview[int]:
        """Records; of a compressed v0 or v1 wrapper -1 (unknown)."""

    @property
    def leader_epoch(self) -> memoryview[int]:
        """v0 and v1: -1."""

    @property
    def base_sequence(self) -> memoryview[int]:
        """-1 where there is none."""

    @property
    def crc(self) -> memoryview[int]:
        """The checksum as stored."""

    @property
    def producer_epoch(self) -> memoryview[int]:
        """-1 where there is none."""

    @property
    def attributes(self) -> memoryview[int]:
        """Bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon."""

    @property
    def magic(self) -> memoryview[int]:
        """0, 1 or 2."""

    @property
    def crc_state(self) -> memoryview[int]:
        """1 right, -1 wrong, 0 not checked."""

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

    A wrong checksum is noted in ``crc_state`` and does not stop the scan; what cannot be a batch
    does: a size below the smallest, an unknown magic, or (TRUNCATED) more bytes than present,
    which for a log that is still written is its tail.

    Parameters
    ----------
    threads
        1 to 64. More than one shares out the range at ``seeds``: ascending positions where
        batches start, from the offset index, say. They are hints: a wrong one costs time and
        never changes the result. Without seeds the headers are walked first.

    Raises ``ValueError`` for a range outside the buffer. Memory: 80 bytes a batch, and up to
    twice that while it works.
    """

def walk_frames(
    buffer: ReadableBuffer,
    seeds: Sequence[int] | None = None,
    *,
    start: int = 0,
    end: int = -1,
) -> FramePositions:
    """Where every batch or message in ``buffer[start:end]`` starts; ends as ``scan`` does.

    With ``seeds`` (as in ``scan``) sixteen walks run side by side, four times as fast on small
    messages. No checksum is read. Memory: 4 bytes a frame and, with seeds, up to 16 bytes
    for every 100 bytes between seventeen of them. Up to 64 MiB of a result that was released stay
    at hand for the next large one; the system may take them back when memory is short.
    """
