from collections.abc import Callable
from typing import final

from _typeshed import ReadableBuffer

@final
class Converter:
    """Converts complete batches; create one for each conversion and call one method once.

    Parameters
    ----------
    batches
        Complete batches of any magic; the converter holds the buffer.
    magic
        Of the result: 0, 1 or 2.
    codec
        Of the result; -1: each batch keeps its own (``rebuild``: none).
    keep_lower
        Do not convert batches of a lower magic.
    keep_smaller
        Keep a batch unchanged if ``codec`` would make it larger; leave a batch that changes its
        magic, or is merged, uncompressed if that is smaller.
    first_offset
        Drop records below this offset from uncompressed batches that are converted.
    decompress, compress
        ``(codec, magic, data) -> bytes``.

    Verifies every checksum. Raises ``CorruptRecordError`` with the position of a corrupt batch, or
    of an incomplete one at the end. One thread at a time. Memory: the result, 52 bytes for each
    record of the largest batch, and its decompressed records.
    """

    kept_count: int  # batches kept unchanged because they would have grown
    merged_count: int  # batches merged into their predecessor
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
        """Convert each batch, with its offsets."""
    def merge(self, max_size: int, final: bool) -> tuple[bytes, int]:
        """Merge adjacent v2 batches into batches of up to ``max_size`` bytes before compression.

        Merges only batches without a gap between or within them, without producer id,
        transaction, control records or delete horizon, and with the same leader epoch and
        timestamp type (with LogAppendTime, the same timestamp). Keeps other batches unchanged,
        and with ``keep_smaller`` those that would grow. ``codec`` applies to merged batches and
        is required.

        Returns the batches, and the position where the next call's input must begin: the end
        with ``final``, else the start of the last group, which more batches may extend.
        """
    def rebuild(self, base_offset: int, leader_epoch: int, append_time: int | None) -> bytes:
        """Write all records as one batch, wrapper or run of messages, with consecutive offsets."""
