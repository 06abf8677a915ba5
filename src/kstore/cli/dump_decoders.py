"""The decoder classes of ``kstore dump-log``, which are Kafka's, by their Java names."""

import struct
from collections.abc import Callable

from kstore.cli.common import WrongOptionsError

Decode = Callable[[bytes], str]
Render = Callable[[int, bytes | None, bytes | None], str]
PACKAGE, OLD_PACKAGE = "org.apache.kafka.tools.api", "kafka.serializer"
STRING = f"{PACKAGE}.StringDecoder"


class _TooShortError(ValueError):
    """Fewer bytes than a number has."""


def _number(layout: str) -> Decode:
    """Decodes the first bytes as a number, as Java's ByteBuffer does; more may follow."""
    number = struct.Struct(layout)

    def decode(data: bytes) -> str:
        if len(data) < number.size:
            raise _TooShortError(f"{len(data)} bytes are fewer than {number.size}.")
        return str(number.unpack_from(data)[0])

    return decode


_DECODERS: dict[str, Decode] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "IntegerDecoder": _number(">i"),
    "LongDecoder": _number(">q"),
    "DefaultDecoder": bytes.hex,  # Kafka prints the identity of a Java array
}


def chosen_decoder(name: str) -> tuple[Decode, str]:
    """The function of a class, and the line that Kafka prints for a deprecated one, or "".

    Raises WrongOptionsError for a class that kstore does not have.
    """
    package, _, simple = name.rpartition(".")
    if simple not in _DECODERS or package not in ("", PACKAGE, OLD_PACKAGE):
        known = ", ".join(_DECODERS)
        raise WrongOptionsError(
            f"{name[:80]}: kstore runs no Java classes; of {PACKAGE} it has its own {known}"
        )
    if package != OLD_PACKAGE:
        return _DECODERS[simple], ""
    return _DECODERS[simple], f"{name} is deprecated. Please use {PACKAGE}.{simple} instead"


def renderer(of_key: Decode, of_value: Decode) -> Render | None:
    """Formats a record with these decoders; None if both show text, as a dump does by itself."""
    text = _DECODERS["StringDecoder"]
    if of_key is text and of_value is text:
        return None

    def render(offset: int, key: bytes | None, value: bytes | None) -> str:
        shown = ""
        for title, data, decode in (("key", key, of_key), ("payload", value, of_value)):
            if data is None:
                continue
            try:
                shown += f" {title}: {decode(data)}"
            except _TooShortError as error:
                shown += f" {title}: Error at offset {offset}, skipping. {error}"
        return shown

    return render
