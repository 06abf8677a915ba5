"""Which offset a time leads to: a scan of every record, as slow and as plain as can be."""

from collections.abc import Iterable

from oracle.plain import PlainRecord


def find_offset(records: Iterable[PlainRecord], when: int, start: int, end: int) -> int:
    """The first offset in [start, end) whose record is not older than when (from 0 on), else end.

    Control records count. A record without a timestamp (-1) or from before 1970 is older.
    """
    found = (r.offset for r in records if start <= r.offset < end and r.timestamp >= max(when, 0))
    return min(found, default=end)


def find_newest(records: Iterable[PlainRecord], start: int, end: int) -> int | None:
    """The first offset in [start, end) with the largest timestamp; None where none has one."""
    times = [(-r.timestamp, r.offset) for r in records if start <= r.offset < end]
    return min((each[1] for each in sorted(times)[:1] if each[0] <= 0), default=None)
