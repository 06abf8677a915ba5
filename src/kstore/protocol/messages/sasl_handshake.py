"""SaslHandshake, API key 17. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class SaslHandshakeRequest:
    """SaslHandshake request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 32767

    mechanism: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.mechanism = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.mechanism, False)


@message_class
class SaslHandshakeResponse:
    """SaslHandshake response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 32767

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.error_code = reader.int16()
        message.mechanisms = reader.strings(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        writer.strings(self.mechanisms, False)
