"""Formats times by patterns of Java's SimpleDateFormat: ``--date-format`` of Kafka's tools."""

import re
from collections.abc import Callable
from datetime import datetime

from kstore.cli.common import WrongOptionsError

_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_Shown = Callable[[datetime, int], str]


def _number(of: Callable[[datetime], int]) -> _Shown:
    return lambda moment, width: f"{of(moment):0{width}d}"


def _year(moment: datetime, width: int) -> str:
    return f"{moment.year % 100:02d}" if width == 2 else f"{moment.year:0{width}d}"


def _month(moment: datetime, width: int) -> str:
    if width > 2:
        return moment.strftime("%B" if width > 3 else "%b")
    return f"{moment.month:0{width}d}"


def _offset(moment: datetime) -> str:
    return moment.astimezone().strftime("%z")


_FIELDS: dict[str, _Shown] = {
    "y": _year,
    "M": _month,
    "d": _number(lambda moment: moment.day),
    "D": _number(lambda moment: moment.timetuple().tm_yday),
    "u": _number(lambda moment: moment.isoweekday()),
    "H": _number(lambda moment: moment.hour),
    "k": _number(lambda moment: moment.hour or 24),
    "K": _number(lambda moment: moment.hour % 12),
    "h": _number(lambda moment: moment.hour % 12 or 12),
    "m": _number(lambda moment: moment.minute),
    "s": _number(lambda moment: moment.second),
    "S": _number(lambda moment: moment.microsecond // 1000),
    "a": lambda moment, width: "AM" if moment.hour < 12 else "PM",
    "E": lambda moment, width: moment.strftime("%A" if width > 3 else "%a"),
    "Z": lambda moment, width: _offset(moment),
    "X": lambda moment, width: _iso_offset(_offset(moment), width),
    "z": lambda moment, width: moment.astimezone().strftime("%Z"),
}
_OTHER = "GYLwWF"  # of Java, and not here: eras, weeks


def _iso_offset(text: str, width: int) -> str:
    if int(text) == 0:
        return "Z"
    return (text[:3], text, f"{text[:3]}:{text[3:]}")[min(width, 3) - 1]


class JavaDateFormat:
    """A pattern, parsed; raises WrongOptionsError for one that Java or kstore does not take."""

    def __init__(self, pattern: str) -> None:
        self._parts: list[tuple[_Shown | None, str]] = []
        position = 0
        while position < len(pattern):
            found = _PART.match(pattern, position)
            if found is None:
                raise WrongOptionsError("Unterminated quote")
            position = found.end()
            letter = found[2]
            if letter is None:
                text = found[0] if found[1] is None else found[1].replace("''", "'") or "'"
                self._parts.append((None, text))
            elif letter in _FIELDS:
                self._parts.append((_FIELDS[letter], found[0]))
            elif letter in _OTHER:
                raise WrongOptionsError(f"kstore's times have no {letter!r}: leave it out")
            else:
                raise WrongOptionsError(f"Illegal pattern character '{letter}'")

    def shown(self, when: float) -> str:
        """A time in seconds since 1970, in the local time zone."""
        moment = datetime.fromtimestamp(when)
        return "".join(
            text if field is None else field(moment, len(text)) for field, text in self._parts
        )
