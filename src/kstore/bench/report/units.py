"""Figures as text: durations, rates, sizes, counts."""

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_COUNTS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_WORDS = ((1e9, " billion"), (1e6, " million"))


def duration(seconds: float) -> str:
    """``1.23 ms``."""
    for unit, name in _TIMES:
        if seconds >= unit:
            return f"{significant(seconds / unit)} {name}"
    return f"{seconds / 1e-9:.2g} ns"


def rate(per_second: float, unit: str) -> str:
    """``2.5 GB/s``, ``1.3 M records/s``."""
    for factor, name in _COUNTS:
        if per_second >= factor:
            text = significant(per_second / factor)
            return f"{text} {name}{unit}/s" if unit == "B" else f"{text} {name} {unit}/s"
    return f"{per_second:.2g} {unit}/s"


def count(number: float) -> str:
    """``1.3 million``, ``7,600``, ``42``: three digits of it, for a sentence."""
    for factor, name in _WORDS:
        if number >= factor:
            return f"{significant(number / factor)}{name}"
    if number >= 1000:
        digits = len(str(int(number))) - 2
        return f"{round(number, -digits):,.0f}"
    return significant(number)


def significant(number: float) -> str:
    """Three digits, and no exponent below a million: ``1.23``, ``12.3``, ``1230``."""
    return f"{number:.0f}" if 999.5 <= number < 1e6 else f"{number:.3g}"
