"""Aware datetimes at the edge, milliseconds since 1970 (UTC) inside."""

from datetime import UTC, datetime, timedelta

from kstore.errors import InvalidTimestampError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
INT64_MAX = 2**63 - 1


def to_milliseconds(when: datetime | int) -> int:
    """Milliseconds of an aware datetime, rounded down; a number passes as it is.

    Raises ``InvalidTimestampError`` for a naive datetime and for anything before 1970: Kafka
    has no times below 0.
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidTimestampError(
                f"{when!r} has no time zone; for UTC write when.replace(tzinfo=datetime.UTC)"
            )
        milliseconds = (when - _EPOCH) // _MILLISECOND
    elif isinstance(when, int) and not isinstance(when, bool):
        milliseconds = when
    else:
        raise TypeError(f"a time is an aware datetime or milliseconds, not {type(when).__name__}")
    if not 0 <= milliseconds <= INT64_MAX:
        raise InvalidTimestampError(f"{when!r} is outside Kafka's times (1970 and later)")
    return milliseconds


def to_datetime(milliseconds: int) -> datetime | None:
    """The aware UTC datetime of a record's timestamp; None for -1 (a record without one).

    Raises ``InvalidTimestampError`` where Python's calendar ends before the timestamp.
    """
    if milliseconds < 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise InvalidTimestampError(f"{milliseconds} ms is beyond the year 9999") from None
