"""CreateAcls, API key 30. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I8_I8 = Struct(">bb")


@message_class
class CreateAclsRequest:
    """CreateAcls request, versions 0 to 3."""

    API_KEY: ClassVar[int] = 30
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Creations:
        resource_type: int = 0
        resource_name: str = ""
        resource_pattern_type: int = 3
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.resource_type = reader.int8()
            message.resource_name = reader.string(flexible)
            if version >= 1:
                message.resource_pattern_type = reader.int8()
            message.principal = reader.string(flexible)
            message.host = reader.string(flexible)
            message.operation, message.permission_type = reader.fixed(_I8_I8)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.int8(self.resource_type)
            writer.string(self.resource_name, flexible)
            if version >= 1:
                writer.int8(self.resource_pattern_type)
            writer.string(self.principal, flexible)
            writer.string(self.host, flexible)
            writer.fixed(_I8_I8, self.operation, self.permission_type)
            if flexible:
                writer.no_tags()

    creations: list[Creations] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.creations = reader.structs(cls.Creations.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.structs(self.creations, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class CreateAclsResponse:
    """CreateAcls response, versions 0 to 3."""

    API_KEY: ClassVar[int] = 30
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Results:
        error_code: int = 0
        error_message: str | None = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    results: list[Results] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.results = reader.structs(cls.Results.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.structs(self.results, version, flexible)
        if flexible:
            writer.no_tags()
