from collections.abc import Callable
from typing import final

from _typeshed import ReadableBuffer

@final
class Converter:
    """One conversion of complete batches: created, called once, discarded.

    Parameters
    ----------
    batches
        Complete batches of any magic; held open as long as the converter lives.
    magic
        Of what comes out: 0, 1 or 2.
    codec
        Of what comes out; -1: each batch keeps its own (``rebuild``: none).
    keep_lower
        Batches of a lower magic stay as they are.
    keep_smaller
        A batch that ``codec`` would make larger stays as it is; one that changes its magic, or is
        merged, stays uncompressed where that is smaller.
    first_offset
        Records below are dropped from uncompressed batches that are converted.
    decompress, compress
        ``(codec, magic, data) -> bytes``.

    Every checksum is checked. Raises ``CorruptRecordError`` for damage and for a cut batch at
    the end, with its position. One thread at a time. Memory: the result, 52 bytes a record of
    the largest batch, and its records once more where they are compressed.
    """

    kept_count: int  # batches that stayed as they were since they would have grown
    merged_count: int  # batches that became part of the one before them
    def __init__(
        self,
        batches: ReadableBuffer,
        magic: int,
        *,
        codec: int = -1,
        keep_lower: bool = False,
        keep_smaller: bool = False,
        first_offset: int = -0x8000000000000000,
        decompress: Callable[[int, int, memoryview], bytes] | None = None,
        compress: Callable[[int, int, memoryview], bytes] | None = None,
    ) -> None: ...
    def convert(self) -> bytes:
        """Batch after batch, offsets kept."""
    def merge(self, most: int, final: bool) -> tuple[bytes, int]:
        """Neighbours of magic 2 as one batch of at most ``most`` bytes before compression.

        Only such as follow each other without a gap and have none within, without producer id,
        transaction, control records or time of deletion, of one leader epoch and timestamp type
        (with LogAppendTime of one time). The others, and those that would grow with
        ``keep_smaller``, stay as they are; ``codec`` is for merged ones only, and has to be given.

        Returns the batches, and where the next call's input begins: with ``final`` its end,
        else that and more is to be given again, with what follows.
        """
    def rebuild(self, base_offset: int, leader_epoch: int, append_time: int | None) -> bytes:
        """All records as one batch, wrapper or run of messages, with offsets in a row."""
