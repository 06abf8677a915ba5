"""Checks numbers that a caller passes in: offsets, timestamps, sizes, counts, epochs, seconds.

Kafka stores each in a field of fixed width. A number that does not fit is the caller's mistake
and is refused here, before it reaches a struct or a kernel.
"""

import operator
import re
from datetime import timedelta
from math import inf, nan
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex, cast

from kstore.errors import InvalidConfigError

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_PRINTABLE_BITS = 128
_LONGEST_WAIT = 1e9  # seconds
_INTEGER = re.compile(r"[+-]?[0-9]+")

if TYPE_CHECKING:
    from collections.abc import Iterable

    Seconds = float | timedelta | None


def check_integer(name: str, value: object, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
    """The ``int`` of an argument that is a whole number from low to high, NumPy's included.

    Raises TypeError for bools, floats and whatever else has no ``__index__``, and
    InvalidConfigError, a ValueError, for a number out of bounds; both name the argument.
    """
    if type(value) is int:  # isinstance with a protocol costs some hundred times as much
        number = value
    elif isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    else:
        number = operator.index(cast(SupportsIndex, value))
    if not low <= number <= high:
        raise InvalidConfigError(
            f"{name} must be a whole number from {low} to {high}, not {show_value(number)}"
        )
    return number


def check_integer_setting(name: str, value: object, low: int, high: int = INT64_MAX) -> int:
    """As :func:`check_integer`, for a setting: InvalidConfigError also where it is no integer.

    A ``timedelta`` is a whole number for a setting in milliseconds.
    """
    is_time = name.endswith(".ms")
    try:
        return check_integer(name, as_milliseconds(value) if is_time else value, low, high)
    except TypeError:
        of_time = ", in milliseconds," if is_time else ""
        raise InvalidConfigError(
            f"{name} must be a whole number{of_time} from {low} to {high}, not {show_value(value)}"
        ) from None


def parse_integer(text: str) -> int:
    """The whole number of a text: ASCII digits with an optional sign; spaces around it are dropped.

    Raises ValueError, also for what ``int`` takes: ``1_000``, which Kafka refuses, and the digits
    of other scripts, which Java takes, but no setting of a broker here.
    """
    text = text.strip()
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"not a whole number: {text[:40]!r}")
    return int(text)


def parse_float(text: str) -> float:
    """The number of a text, as ``float``; ValueError for underscores and for digits that are not
    ASCII."""
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: {text[:40]!r}")
    return float(text)


def as_milliseconds(value: object) -> object:
    """The milliseconds of a ``timedelta``, rounded down; another value as it is."""
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else value


def show_value(value: object) -> str:
    """A caller's value for a message: Python prints no int of more than 4,300 digits."""
    if isinstance(value, int) and value.bit_length() > _PRINTABLE_BITS:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def count_of(number: int, noun: str, ending: str = "s", *, form: str = "") -> str:
    """A number and its noun, in the singular for 1; ``form`` is a format, such as ``","``."""
    return f"{number:{form}} {noun}{ending if number != 1 else ''}"


def list_numbers(numbers: "Iterable[int]") -> str:
    """Ascending numbers for a message, three or more adjacent ones as a range: ``0 to 3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def check_seconds(name: str, value: "Seconds") -> float | None:
    """A time to wait in seconds, of a number or a ``timedelta``; None, without limit, stays None.

    At most thirty years, also for infinity: no clock overflows. Raises TypeError for other types,
    bools included, and InvalidConfigError, a ValueError, for NaN and less than 0 seconds.
    """
    if value is None:
        return None
    number = value if type(value) is float else _number_of_seconds(name, value)
    if not number >= 0:  # NaN too
        raise InvalidConfigError(
            f"{name} is in seconds, at least 0, or None: not {show_value(value)}"
        )
    return number if number < _LONGEST_WAIT else _LONGEST_WAIT


def check_milliseconds(name: str, value: "float | timedelta") -> float:
    """The seconds of a setting in milliseconds, fractions of one too; at most thirty years.

    Raises InvalidConfigError for what is no number and no ``timedelta``, for NaN and less than 0.
    """
    try:
        number = _number_of_seconds(name, value)
    except TypeError:
        number = nan
    seconds = number if isinstance(value, timedelta) else number / 1000
    if not seconds >= 0:  # NaN too
        raise InvalidConfigError(
            f"{name} is in milliseconds, at least 0, or a timedelta: not {show_value(value)}"
        )
    return min(seconds, _LONGEST_WAIT)


def _number_of_seconds(name: str, value: object) -> float:
    seconds: object = value.total_seconds() if hasattr(value, "total_seconds") else value
    if isinstance(seconds, bool) or not hasattr(type(seconds), "__float__"):
        raise TypeError(f"{name} is in seconds, a timedelta, or None: not {value!r}")
    try:
        return float(cast(SupportsFloat, seconds))
    except OverflowError:  # of an int
        return inf if cast(int, seconds) > 0 else -inf
