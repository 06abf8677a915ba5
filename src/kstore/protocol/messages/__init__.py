"""Kafka's requests and responses: one generated module for each API, loaded on first use.

A message is a dataclass with Kafka's field names in snake case. ``decode`` and ``encode`` support
all versions; ``decode`` leaves fields that a version lacks at their default, and ``encode`` omits
them. The type of a struct field is a nested class named after the field:
``ProduceRequest.TopicData``. A tagged struct is None if the message does not contain it.
``records`` are a view of the decoded bytes. ``python tests/tidy/protocol_messages.py`` generates
the modules from ``protocol/schema/messages.txt``.
"""

from functools import cache
from importlib import import_module
from typing import ClassVar, Protocol, Self

from kstore.protocol.api_keys import ApiKey
from kstore.protocol.wire import Reader, Writer


class Message(Protocol):
    """A request or a response of any API."""

    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int]

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        """Read a message. Raises InvalidMessageError."""
        ...

    def encode(self, writer: Writer, version: int) -> None:
        """Write the message. Raises InvalidMessageError for a value that its type cannot hold."""
        ...


@cache
def message_types(api_key: int) -> tuple[type[Message], type[Message]]:
    """The classes of an API's request and response. Raises KeyError for an unknown API."""
    try:
        name = ApiKey(api_key).name
        module = import_module(f"{__name__}.{name.lower()}")
    except (ValueError, ModuleNotFoundError):
        raise KeyError(api_key) from None
    camel = "".join(word.capitalize() for word in name.split("_"))
    return getattr(module, f"{camel}Request"), getattr(module, f"{camel}Response")
