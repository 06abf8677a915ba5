"""How much memory a record counts for that is not written yet, as Kafka's ``buffer.memory``."""

from collections.abc import Iterable

RECORD_OVERHEAD = 64  # bytes that a record may take beyond its key, value and headers
_HEADER_OVERHEAD = 10


def headers_size(pairs: Iterable[tuple[str | bytes, bytes | None]]) -> int:
    """The bytes of (name, value) pairs, at most: the lengths before each are counted too.

    0 for what are none: the encoder raises an error that explains headers.
    """
    try:
        return sum(
            len(name) + (0 if value is None else len(value)) + _HEADER_OVERHEAD
            for name, value in pairs
        )
    except (TypeError, ValueError):
        return 0
