"""Kafka's Uuid as text: 22 characters of URL-safe base64, for topics, clusters and directories."""

import base64
import binascii
import os
from collections.abc import Callable

UUID_TEXT_LENGTH = 22
_RESERVED_UUIDS = 100  # 0: zero and "migrating", 1: "unassigned", 2: "lost"; the rest kept free


def uuid_to_text(value: bytes) -> str:
    """16 bytes as Kafka writes them: URL-safe base64 without padding, 22 characters."""
    if len(value) != 16:
        raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
    return base64.urlsafe_b64encode(value).decode("ascii")[:UUID_TEXT_LENGTH]


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of a UUID in Kafka's spelling; raises ValueError for any other text."""
    if len(text) == UUID_TEXT_LENGTH and text.isascii():
        try:
            value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        except binascii.Error:
            value = b""
        if len(value) == 16 and uuid_to_text(value) == text:
            return value
    raise ValueError(f"not a UUID in 22 characters of URL-safe base64: {text[:40]!r}")


def random_uuid(random: Callable[[int], bytes] = os.urandom) -> str:
    """A new UUID in text form; never a reserved one, never one that starts with ``-``."""
    while True:
        text = uuid_to_text(_random_bytes(random))
        if not text.startswith("-"):
            return text


def random_hex(random: Callable[[int], bytes] = os.urandom) -> str:
    """A new UUID as 32 hexadecimal digits, as Kafka has it in names of directories."""
    return _random_bytes(random).hex()


def _random_bytes(random: Callable[[int], bytes]) -> bytes:
    """A UUID of version 4, variant 2, as Java's UUID.randomUUID."""
    value = bytearray(random(16))
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    return bytes(value)


def is_reserved_uuid(text: str) -> bool:
    """Whether Kafka reserves this id (as it does the all-zero id)."""
    return int.from_bytes(uuid_from_text(text), "big") < _RESERVED_UUIDS
