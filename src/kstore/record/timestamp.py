"""Aware datetimes at the edge, milliseconds since 1970 (UTC) inside."""

import operator
import warnings
from datetime import UTC, datetime, timedelta
from typing import NoReturn, SupportsIndex

from kstore.errors import InvalidTimestampError, TimestampUnitWarning

_SECONDS = range(10**9, 10**10)  # from 2001 to 2286; as milliseconds, days in 1970
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
INT64_MAX = 2**63 - 1
# The end of the year 9999, where calendars end (Python's, Java's DateTimeFormatter, SQL's). A
# number beyond it is a time in a finer unit: of any day since 1979, microseconds are. The
# append kernel has the same bound (kstore._native.append.record_appender).
LAST_RECORD_TIMESTAMP = 253_402_300_799_999


def to_milliseconds(when: datetime | SupportsIndex) -> int:
    """Milliseconds to look up: of an aware datetime, rounded down; a number passes as it is.

    Raises ``InvalidTimestampError`` for a naive datetime, for anything before 1970 (Kafka has no
    times below 0), and for what takes more than 63 bits.
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidTimestampError(
                f"{when!r} has no time zone: use datetime.now(UTC), or when.astimezone() for "
                "local time, or when.replace(tzinfo=UTC) for a time that is UTC already"
            )
        milliseconds = (when - _EPOCH) // _MILLISECOND
    elif isinstance(when, bool) or not hasattr(when, "__index__"):
        raise TypeError(
            f"a time is an aware datetime or milliseconds, not {type(when).__name__}"
            + (_NUMPY_ADVICE if type(when).__name__ == "datetime64" else "")
            + (_TEXT_ADVICE if isinstance(when, str) else "")
            + (_SECONDS_ADVICE if isinstance(when, float) else "")
            + (_AGO_ADVICE if isinstance(when, timedelta) else "")
            + (_DATE_ADVICE if type(when).__name__ == "date" else "")
        )
    else:
        milliseconds = operator.index(when)
    if milliseconds > INT64_MAX:
        raise InvalidTimestampError(_TOO_LARGE)
    if milliseconds < 0:
        shown = when if milliseconds > -INT64_MAX else "a time"
        raise InvalidTimestampError(f"{shown!r} is outside Kafka's times (1970 and later)")
    return milliseconds


# Without the number: Python does not print one of more than 4,300 digits.
_TOO_LARGE = "a time is milliseconds since 1970, less than 2^63 of them (Kafka's int64)"
_TEXT_ADVICE = ": datetime.fromisoformat(text)"
_SECONDS_ADVICE = ": int(time.time() * 1000), datetime.fromtimestamp(seconds, UTC)"
_AGO_ADVICE = ": datetime.now(UTC) - timedelta(hours=1)"
_DATE_ADVICE = ": datetime(2024, 1, 31, tzinfo=UTC)"
_NUMPY_ADVICE = "; of one in UTC: int(when.astype('datetime64[ms]').astype('int64'))"


def to_lookup_time(when: datetime | SupportsIndex) -> int:
    """As :func:`to_milliseconds`; warns (TimestampUnitWarning) of a number that means seconds.

    The warning has the same text for every such number, so that Python shows it once a line.
    """
    milliseconds = to_milliseconds(when)
    if milliseconds in _SECONDS and not isinstance(when, datetime):
        _warn(
            "a time of ten digits looks like seconds, and is taken for milliseconds, a day in "
            "1970: pass an aware datetime, or multiply by 1000"
        )
    return milliseconds


def to_record_timestamp(when: datetime | SupportsIndex) -> int:
    """Milliseconds that a new record may have; as :func:`to_milliseconds`, with an upper bound.

    Raises ``InvalidTimestampError`` beyond the year 9999 too: nanoseconds or microseconds taken
    for milliseconds give such times, and retention would keep their segment forever.
    """
    milliseconds = to_milliseconds(when)
    if milliseconds > LAST_RECORD_TIMESTAMP:
        refuse_record_timestamp(milliseconds)
    return milliseconds


def refuse_record_timestamp(milliseconds: int) -> NoReturn:
    """Raise the ``InvalidTimestampError`` for a number that no new record may have."""
    if milliseconds > INT64_MAX:
        raise InvalidTimestampError(_TOO_LARGE)
    if milliseconds < 0:
        shown = f": {milliseconds} ms" if milliseconds > -INT64_MAX else ""
        raise InvalidTimestampError(f"a record's timestamp cannot lie before 1970{shown}")
    raise InvalidTimestampError(
        f"a record's timestamp is milliseconds since 1970 and at most {LAST_RECORD_TIMESTAMP} "
        f"(the year 9999), not {milliseconds}{unit_advice(milliseconds)}"
    )


def unit_advice(milliseconds: int) -> str:
    """What a number beyond the year 9999 looks like; empty if no unit gives a date either."""
    for unit, divisor in (("microseconds", 1000), ("nanoseconds", 1_000_000)):
        if milliseconds // divisor <= LAST_RECORD_TIMESTAMP:
            date = (_EPOCH + timedelta(milliseconds=milliseconds // divisor)).date()
            return f"; these look like {unit} ({date}): divide by {divisor:,}"
    return ""


def show_time(milliseconds: int) -> str:
    """A time up to the year 9999 as people read it, in UTC."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="seconds")


def warn_nothing_that_late(milliseconds: int) -> None:
    """Warn where a lookup found no record because its time is in another unit."""
    if milliseconds > LAST_RECORD_TIMESTAMP:
        _warn(f"no record is as late as {milliseconds} ms{unit_advice(milliseconds)}")


def _warn(sentence: str) -> None:
    from kstore.caller import level_of_caller  # loaded to warn only

    warnings.warn(sentence, TimestampUnitWarning, stacklevel=level_of_caller())
