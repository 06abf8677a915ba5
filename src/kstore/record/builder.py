"""Records in, one complete batch of bytes out."""

from kstore._native.append.encode import BatchBuffer
from kstore.record import Headers, codec

DEFAULT_SIZE = 131_072

Data = bytes | bytearray | memoryview


class BatchBuilder:
    """Collects records up to a size and builds one record batch v2 of them.

    ``size_limit`` is Kafka's ``batch.size``: bytes of the batch before compression. A
    single record may be larger: a batch always takes its first one. Not safe to share between
    threads. Memory: the largest batch so far, and its compressed bytes while it is built.
    """

    def __init__(
        self,
        *,
        size_limit: int = DEFAULT_SIZE,
        compression: str = "none",
        level: int | None = None,
    ) -> None:
        self._buffer = BatchBuffer()
        self._codec = codec.codec_id(compression)
        self._level = level
        self.size_limit = size_limit

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        return self._buffer.byte_size

    @property
    def is_full(self) -> bool:
        """Whether the size is reached, so that no further record fits."""
        return len(self._buffer) > 0 and self._buffer.byte_size >= self.size_limit

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp so far in milliseconds, -1 for none."""
        return self._buffer.largest_timestamp

    def append(
        self,
        value: Data | None,
        *,
        key: Data | None = None,
        headers: Headers | None = None,
        timestamp: int,
    ) -> bool:
        """Add one record; False, and nothing changed, where it does not fit any more.

        ``timestamp`` is milliseconds, -1 for none. Raises ``TypeError`` for text and
        ``InvalidTimestampError`` below -1; the batch is then as it was.
        """
        return self._buffer.put_within(value, key, headers, timestamp, self.size_limit)

    def extend(self, values: list[Data | None], start: int = 0, *, timestamp: int) -> int:
        """Add ``values[start:]`` as far as they fit, with null keys; returns how many were."""
        return self._buffer.put_values(values, start, timestamp, self.size_limit)

    def set_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Producer fields of the next batches (-1 each: none)."""
        self._buffer.set_producer(producer_id, producer_epoch, base_sequence)

    def build(self, base_offset: int = 0, leader_epoch: int = -1, attributes: int = 0) -> bytes:
        """Build the batch, compress it, return its bytes, and start the next one.

        ``attributes`` are those beside the codec (transactional, control, timestamp type).
        """
        if self._codec and len(self._buffer):
            with self._buffer.records as records:
                packed = codec.compress(self._codec, 2, records, level=self._level)
            self._buffer.replace_records(packed)
            attributes |= self._codec
        try:
            return self._buffer.to_bytes(base_offset, leader_epoch, attributes)
        finally:
            self._buffer.reset()

    def clear(self) -> None:
        """Forget the records."""
        self._buffer.reset()
