"""AlterUserScramCredentials, API key 51. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I8_I32 = Struct(">bi")


@message_class
class AlterUserScramCredentialsRequest:
    """AlterUserScramCredentials request, version 0."""

    API_KEY: ClassVar[int] = 51
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Deletions:
        name: str = ""
        mechanism: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.mechanism = reader.int8()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.int8(self.mechanism)
            writer.no_tags()

    @message_class
    class Upsertions:
        name: str = ""
        mechanism: int = 0
        iterations: int = 0
        salt: bytes = b""
        salted_password: bytes = b""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.mechanism, message.iterations = reader.fixed(_I8_I32)
            message.salt = reader.bytes_(True)
            message.salted_password = reader.bytes_(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.fixed(_I8_I32, self.mechanism, self.iterations)
            writer.bytes_(self.salt, True)
            writer.bytes_(self.salted_password, True)
            writer.no_tags()

    deletions: list[Deletions] = field(default_factory=list)
    upsertions: list[Upsertions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.deletions = reader.structs(cls.Deletions.decode, version, True)
        message.upsertions = reader.structs(cls.Upsertions.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.structs(self.deletions, version, True)
        writer.structs(self.upsertions, version, True)
        writer.no_tags()


@message_class
class AlterUserScramCredentialsResponse:
    """AlterUserScramCredentials response, version 0."""

    API_KEY: ClassVar[int] = 51
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Results:
        user: str = ""
        error_code: int = 0
        error_message: str | None = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.user = reader.string(True)
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.user, True)
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    results: list[Results] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.results = reader.structs(cls.Results.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.structs(self.results, version, True)
        writer.no_tags()
