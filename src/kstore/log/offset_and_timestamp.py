"""The result of a lookup by time."""

from typing import NamedTuple


class OffsetAndTimestamp(NamedTuple):
    """A record's offset, timestamp in ms, and the leader epoch of its batch (-1: none)."""

    offset: int
    timestamp: int
    leader_epoch: int
