"""The result of a lookup by time."""

from typing import TYPE_CHECKING, NamedTuple

from kstore._native.format.record import Record

if TYPE_CHECKING:
    from datetime import datetime as _datetime


class OffsetAndTimestamp(NamedTuple):
    """A record's offset, timestamp in ms, and the leader epoch of its batch (-1: none)."""

    offset: int
    timestamp: int
    leader_epoch: int

    @property
    def datetime(self) -> "_datetime | None":
        """The timestamp as an aware UTC datetime, as that of a record; None if none.

        Raises InvalidTimestampError for a time beyond the year 9999.
        """
        return Record(timestamp=self.timestamp).datetime
