from typing_extensions import Buffer

class BatchWalk:
    """Walks complete batches of any magic in a buffer; base of both passes of the cleaner.

    ``begin`` starts a segment, ``attach`` passes a chunk of it that starts at a batch. Verifies
    every checksum; raises ``CorruptRecordError`` with path, position and offset. One thread at a
    time. Memory: 52 bytes for each record of the largest batch.
    """

    records: int
    invalid: int
    def begin(self, path: str, base_offset: int) -> None:
        """Start another segment."""
    def attach(self, buffer: Buffer, start: int) -> None:
        """Walk this chunk next; ``start`` is its position in the file."""
    def detach(self) -> None:
        """Release the buffer."""
    @property
    def consumed(self) -> int:
        """Bytes of the buffer walked so far."""
    @property
    def wanted(self) -> int:
        """Declared size of the incomplete batch at the buffer's end; 0 if none or unknown."""
    @property
    def is_control(self) -> bool: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def batch_last_offset(self) -> int: ...
    @property
    def delete_horizon(self) -> int:
        """Delete horizon of the current batch in ms; -1 if none."""
    @property
    def control_type(self) -> int | None:
        """Of the current control batch: 0 abort, 1 commit, -1 unknown, None without a record."""
