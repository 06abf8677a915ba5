"""DescribeUserScramCredentials, API key 50. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I8_I32 = Struct(">bi")


@message_class
class DescribeUserScramCredentialsRequest:
    """DescribeUserScramCredentials request, version 0."""

    API_KEY: ClassVar[int] = 50
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Users:
        name: str = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.no_tags()

    users: list[Users] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.users = reader.nullable_structs(cls.Users.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_structs(self.users, version, True)
        writer.no_tags()


@message_class
class DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials response, version 0."""

    API_KEY: ClassVar[int] = 50
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Results:
        @message_class
        class CredentialInfos:
            mechanism: int = 0
            iterations: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.mechanism, message.iterations = reader.fixed(_I8_I32)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.fixed(_I8_I32, self.mechanism, self.iterations)
                writer.no_tags()

        user: str = ""
        error_code: int = 0
        error_message: str | None = ""
        credential_infos: list[CredentialInfos] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.user = reader.string(True)
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(True)
            message.credential_infos = reader.structs(cls.CredentialInfos.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.user, True)
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, True)
            writer.structs(self.credential_infos, version, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[Results] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(True)
        message.results = reader.structs(cls.Results.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.structs(self.results, version, True)
        writer.no_tags()
