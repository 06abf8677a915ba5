"""SaslAuthenticate, API key 36. Generated from the table of messages."""

from __future__ import annotations

from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class SaslAuthenticateRequest:
    """SaslAuthenticate request, versions 0 to 2."""

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    auth_bytes: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.auth_bytes = reader.bytes_(flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.bytes_(self.auth_bytes, flexible)
        if flexible:
            writer.no_tags()


@message_class
class SaslAuthenticateResponse:
    """SaslAuthenticate response, versions 0 to 2."""

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.error_code = reader.int16()
        message.error_message = reader.nullable_string(flexible)
        message.auth_bytes = reader.bytes_(flexible)
        if version >= 1:
            message.session_lifetime_ms = reader.int64()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int16(self.error_code)
        writer.nullable_string(self.error_message, flexible)
        writer.bytes_(self.auth_bytes, flexible)
        if version >= 1:
            writer.int64(self.session_lifetime_ms)
        if flexible:
            writer.no_tags()
