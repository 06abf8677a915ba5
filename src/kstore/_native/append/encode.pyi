from collections.abc import Iterable
from typing import Any, final

from _typeshed import ReadableBuffer

_Headers = Iterable[tuple[str | bytes, ReadableBuffer | None]]

@final
class BatchBuffer:
    """One record batch v2 under construction, in memory that is used again and again.

    Every method leaves the batch as it was before the record that failed. Not safe to share
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
        """Size of the complete batch so far, its header of 61 bytes included."""
    @property
    def first_timestamp(self) -> int:
        """Milliseconds of the first record, -1 where there is none."""
    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp in milliseconds, -1 where there is none."""
    def reset(self) -> None:
        """Forget the records and keep the memory."""
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
        """As ``put``; but False, and nothing changed, where a batch with records in it would
        pass ``size_limit`` bytes."""
    def put_values(self, values: list[Any], start: int, timestamp: int, size_limit: int) -> int:
        """Append ``values[start:]`` with null keys until the batch would pass ``size_limit`` bytes.

        Returns how many were taken: at least one where the batch was empty, possibly none
        where it was not. After an error the records before the bad value are in the batch.
        """
    def set_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Producer fields of the header, -1 each for none; ``reset`` keeps them."""
    def sealed(
        self, base_offset: int = 0, leader_epoch: int = -1, attributes: int = 0
    ) -> memoryview:
        """Write header and CRC and return the complete batch without a copy.

        The bytes change with the next record or ``reset``; the batch cannot grow meanwhile.
        """
    def to_bytes(self, base_offset: int = 0, leader_epoch: int = -1, attributes: int = 0) -> bytes:
        """Write header and CRC and return a copy of the complete batch."""
    @property
    def records(self) -> memoryview:
        """The records' bytes, not copied; the batch cannot grow while this view is open."""
    def replace_records(self, records: ReadableBuffer) -> None:
        """Put other bytes (compressed records) instead of the records; count and times stay."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
