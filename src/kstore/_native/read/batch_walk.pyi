from typing_extensions import Buffer

class BatchWalk:
    """Complete batches of any magic in a buffer: what the cleaner's two passes have in common.

    ``begin`` names a segment, ``attach`` gives a chunk of it that starts with a batch. One
    thread at a time. Memory: 52 bytes for each record of the largest batch. Raises
    ``CorruptRecordError`` with path, position and offset for damage: every checksum is checked.
    """

    records: int
    invalid: int
    def begin(self, path: str, base_offset: int) -> None:
        """The next bytes are of another segment."""
    def attach(self, buffer: Buffer, start: int) -> None:
        """Walk these bytes next; start is where they stand in the file."""
    def detach(self) -> None:
        """Release the buffer."""
    @property
    def consumed(self) -> int:
        """Bytes of the buffer that were walked."""
    @property
    def wanted(self) -> int:
        """Size of the batch that the buffer ends in, 0 if unknown."""
    @property
    def is_control(self) -> bool: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def batch_last_offset(self) -> int: ...
    @property
    def delete_horizon(self) -> int:
        """Of the batch that is asked about, ms; -1 where it has none."""
    @property
    def control_type(self) -> int | None:
        """Of a control batch: 0 abort, 1 commit; -1 unknown; None where it has no record."""
