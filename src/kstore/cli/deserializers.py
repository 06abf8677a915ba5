"""Kafka's deserializers by their Java names: convert bytes to the text that Java prints."""

import struct
from collections.abc import Callable

from kstore.cli.common import WrongOptionsError
from kstore.config import setting_text
from kstore.errors import KStoreError

Deserializer = Callable[[bytes], str]


class UnprintableRecordError(KStoreError, ValueError):
    """The formatter or a deserializer cannot process a record."""


def deserializer(name: str | None) -> Deserializer | None:
    """The function for a deserializer's name, with or without its package; None: raw bytes.

    Raises WrongOptionsError for a class that kstore does not have.
    """
    simple = simple_name(name or "")
    if simple in ("", "StringDeserializer", "ByteArrayDeserializer"):
        return None
    if simple not in _DESERIALIZERS:
        known = ", ".join(("StringDeserializer", "ByteArrayDeserializer", *_DESERIALIZERS))
        raise WrongOptionsError(
            f"{(name or '')[:80]}: kstore runs no Java classes; it has its own {known}"
        )
    layout, show = _DESERIALIZERS[simple]
    size = struct.calcsize(layout)

    def deserialize(data: bytes) -> str:
        if len(data) != size:
            raise UnprintableRecordError(f"Size of data received by {simple} is not {size}")
        return show(struct.unpack(layout, data)[0])

    return deserialize


def java_double(value: float, digits: int = 17) -> str:
    """A number as Java's Double.toString (with 9 digits, Float.toString) writes it."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = next(
        text
        for count in range(1, digits + 1)
        if _rounded(float(text := f"{value:.{count - 1}e}"), digits) == value or count == digits
    )
    mantissa, _, exponent = shortest.partition("e")
    power = int(exponent)
    if value == 0 or -3 <= power < 7:
        text = f"{value:.{max(1, len(mantissa.lstrip('-').replace('.', '')) - 1 - power)}f}"
        return text
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{power}"


def _rounded(value: float, digits: int) -> float:
    """The number itself, or the nearest 32-bit float."""
    if digits > 9:
        return value
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return value


_DESERIALIZERS: dict[str, tuple[str, Callable[..., str]]] = {
    "ShortDeserializer": (">h", str),
    "IntegerDeserializer": (">i", str),
    "LongDeserializer": (">q", str),
    "FloatDeserializer": (">f", lambda value: java_double(value, 9)),
    "DoubleDeserializer": (">d", java_double),
    "BooleanDeserializer": (">?", setting_text),
    "UUIDDeserializer": (">36s", lambda text: text.decode("utf-8", "replace")),
}


def simple_name(name: str) -> str:
    """A Java class's name without its package, and without the class around it."""
    return name.strip().replace("$", ".").rpartition(".")[2]
