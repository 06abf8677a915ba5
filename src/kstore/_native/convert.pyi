from collections.abc import Callable
from typing import final

from _typeshed import ReadableBuffer

@final
class Converter:
    """One conversion of whole batches: made, asked once, thrown away.

    Parameters
    ----------
    batches
        Whole batches of any magic; held open as long as the converter lives.
    magic
        Of what comes out: 0, 1 or 2.
    codec
        Of what comes out; -1: each batch keeps its own (``rebuild``: none).
    keep_lower
        Batches of a lower magic stay as they are.
    first_offset
        Records below are left out of uncompressed batches that are converted.
    decompress, compress
        ``(codec, magic, data) -> bytes``.

    Every checksum is checked. Raises ``CorruptRecordError`` for damage and for a cut batch at
    the end, with its position. One thread at a time. Memory: the result, 52 bytes a record of
    the largest batch, and its records once more where they are compressed.
    """

    def __init__(
        self,
        batches: ReadableBuffer,
        magic: int,
        *,
        codec: int = -1,
        keep_lower: bool = False,
        first_offset: int = -0x8000000000000000,
        decompress: Callable[[int, int, memoryview], bytes] | None = None,
        compress: Callable[[int, int, memoryview], bytes] | None = None,
    ) -> None: ...
    def convert(self) -> bytes:
        """Batch after batch, offsets kept."""
    def rebuild(self, base_offset: int, leader_epoch: int, append_time: int | None) -> bytes:
        """All records as one batch, wrapper or run of messages, with offsets in a row."""
