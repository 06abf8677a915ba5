"""Texts as Kafka stores them: the partition of a group or transactional id, a text's size."""

from functools import lru_cache

_HASHES = 10_000  # names of groups and transactional ids, which a broker hashes in each request


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units, as a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(_HASHES)
def partition_for_name(name: str, partition_count: int) -> int:
    """The partition of an internal topic that stores a group or a transactional id.

    It uses ``Utils.abs`` of Java's hash, which maps the smallest integer to 0.
    """
    value = java_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def utf8_size(text: str) -> int:
    """The bytes of a text in UTF-8; -1 for one that has none, because of a lone surrogate."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1
