"""The result of an append of complete batches."""

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """What an append of complete batches did. Offsets are inclusive; -1: none. Immutable."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    size: int

    @property
    def sync_offset(self) -> int:
        """All of it is on disk when the log's recovery point reaches this offset."""
        return self.last_offset + 1
