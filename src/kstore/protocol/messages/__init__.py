"""Kafka's requests and responses: one generated module for each API, loaded on first use.

A message is a dataclass with Kafka's field names in snake case. ``decode`` reads any version,
``encode`` writes any version; fields that a version does not have keep their default, or are
not written. A field of a struct type is a nested class named after the field:
``ProduceRequest.TopicData``. A tagged struct is None where the message does not carry it.
``records`` are a view of the bytes that were read. The modules come from
``protocol/schema/messages.txt`` by ``python tests/tidy/protocol_messages.py``.
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
        """Read a message from its front. Raises InvalidMessageError."""
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
