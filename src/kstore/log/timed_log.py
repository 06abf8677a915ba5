"""Lookups by time of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from kstore.integers import check_integer
from kstore.log import time_lookup
from kstore.log.read_committed import Isolation, end_at, isolation_of
from kstore.record import timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from kstore.log.log import Log
    from kstore.log.offset_and_timestamp import OffsetAndTimestamp
    from kstore.log.view import LogView


class _TimedLog:
    """The methods of :class:`kstore.Log` that find records by their timestamps. Thread safe."""

    __slots__ = ()

    def since(
        self: Any,  # a Log
        when: datetime | int,
        until: datetime | int | None = None,
        **isolation: Unpack[Isolation],
    ) -> LogView:
        """A view from the first record at or after a time on (empty where none is).

        It ends before the first one at or after ``until``; at the log end of now where none is.
        """
        start = self.offset_at(when)
        stop = None if until is None else self.offset_at(until)
        view: LogView = self.view(start, stop, **isolation)
        return view

    def offset_at(self: Any, when: datetime | int, **isolation: Unpack[Isolation]) -> int:
        """Offset of the first record whose timestamp is at or after when; the end if none is.

        Equals a scan of the entire log: transaction markers and records of aborted
        transactions count, as for Kafka's offsetsForTimes, and records without a timestamp never
        match. With ``isolation="read_committed"`` the end is the last stable offset. Raises
        CorruptRecordError where corrupt or lost records may be the answer.
        """
        end = end_at(self, isolation_of(**isolation))
        ms = timestamp.to_milliseconds(when)
        found = time_lookup.offset_for_time(self, ms)
        if found is None:
            timestamp.warn_nothing_that_late(ms)
        return end if found is None else min(found, end)

    def find_time(
        self: Any, when: datetime | int, *, up_to: int | None = None, **isolation: Unpack[Isolation]
    ) -> OffsetAndTimestamp | None:
        """The first record whose timestamp is at or after when; None where none is readable.

        As ListOffsets of a broker: that record, if its offset lies below what the caller may read,
        and no later one instead. The limit is the log end, with
        ``isolation="read_committed"`` the last stable offset, and ``up_to`` (a high watermark)
        where it is lower. Control records count. Raises CorruptRecordError where corrupt or lost
        records may be the answer.
        """
        limit = _limit(self, up_to, isolation_of(**isolation))
        found = time_lookup.find_record_at_time(self, timestamp.to_milliseconds(when))
        return found if found is not None and found.offset < limit else None

    def max_timestamp(
        self: Any, *, up_to: int | None = None, **isolation: Unpack[Isolation]
    ) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp; None where no record has a timestamp.

        As ListOffsets with timestamp -3 in Kafka 3.9 (UnifiedLog.fetchOffsetByTimestamp): the
        first batch with the largest timestamp of the log, and in it the first record that has it.
        None also where that record is not below the limit, which is that of :meth:`find_time`.
        Raises CorruptRecordError where lost records may be the answer.
        """
        limit = _limit(self, up_to, isolation_of(**isolation))
        found = time_lookup.find_newest(self)
        return found if found is not None and found.offset < limit else None


def _limit(log: Log, up_to: int | None, isolation: str) -> int:
    end = end_at(log, isolation)
    return end if up_to is None else min(end, check_integer("up_to", up_to))
