from collections.abc import Iterable, Mapping
from typing import Any, final

from _typeshed import ReadableBuffer

_Headers = (
    Mapping[str, ReadableBuffer | None]
    | Mapping[bytes, ReadableBuffer | None]
    | Iterable[tuple[str | bytes, ReadableBuffer | None]]
)

@final
class BatchBuffer:
    """Builds v2 record batches, one at a time, in memory that it reuses.

    If a record fails, the batch keeps the records before it. Not safe to share
    between threads. At most 2 GiB; ``MessageTooLargeError`` beyond.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int

    def __init__(self, capacity: int = 16384) -> None: ...
    def __len__(self) -> int:
        """Records in the batch."""
    @property
    def byte_size(self) -> int:
        """Size of the batch so far, including its header of 61 bytes."""
    @property
    def first_timestamp(self) -> int:
        """Timestamp of the first record in ms; -1 if none."""
    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp in ms; -1 if none."""
    def reset(self) -> None:
        """Drop the records and keep the memory."""
    def put(
        self,
        value: ReadableBuffer | None,
        key: ReadableBuffer | None,
        headers: _Headers | None,
        timestamp: int,
    ) -> int:
        """Append one record. ``timestamp`` is milliseconds, -1 for none.

        Raises ``TypeError`` for text (encode it first), ``InvalidTimestampError`` below -1,
        ``MessageTooLargeError`` beyond 2 GiB.
        """
    def put_within(
        self,
        value: ReadableBuffer | None,
        key: ReadableBuffer | None,
        headers: _Headers | None,
        timestamp: int,
        size_limit: int,
    ) -> bool:
        """As ``put``, but returns False without a change if a batch that has records would
        exceed ``size_limit`` bytes."""
    def put_values(self, values: list[Any], start: int, timestamp: int, size_limit: int) -> int:
        """Append ``values[start:]`` with null keys, up to ``size_limit`` bytes of batch.

        Returns the number of values appended: at least one if the batch was empty, else possibly
        none. After an error, the batch has the values before the invalid one.
        """
    def set_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Set the producer fields of the header, -1 each for none; ``reset`` keeps them."""
    def finish(
        self, base_offset: int = 0, leader_epoch: int = -1, attributes: int = 0
    ) -> memoryview:
        """Write header and CRC and return the complete batch without a copy.

        The next record or ``reset`` changes the bytes; the batch cannot grow while the view exists.
        """
    def to_bytes(self, base_offset: int = 0, leader_epoch: int = -1, attributes: int = 0) -> bytes:
        """Write header and CRC and return a copy of the complete batch."""
    @property
    def records(self) -> memoryview:
        """The records' bytes, without a copy; the batch cannot grow while this view exists."""
    def replace_records(self, records: ReadableBuffer) -> None:
        """Replace the records by other bytes (compressed); keeps count and timestamps."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
