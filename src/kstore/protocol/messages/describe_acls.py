"""DescribeAcls, API key 29. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I8_I8 = Struct(">bb")


@message_class
class DescribeAclsRequest:
    """DescribeAcls request, versions 0 to 3."""

    API_KEY: ClassVar[int] = 29
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.resource_type_filter = reader.int8()
        message.resource_name_filter = reader.nullable_string(flexible)
        if version >= 1:
            message.pattern_type_filter = reader.int8()
        message.principal_filter = reader.nullable_string(flexible)
        message.host_filter = reader.nullable_string(flexible)
        message.operation, message.permission_type = reader.fixed(_I8_I8)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int8(self.resource_type_filter)
        writer.nullable_string(self.resource_name_filter, flexible)
        if version >= 1:
            writer.int8(self.pattern_type_filter)
        writer.nullable_string(self.principal_filter, flexible)
        writer.nullable_string(self.host_filter, flexible)
        writer.fixed(_I8_I8, self.operation, self.permission_type)
        if flexible:
            writer.no_tags()


@message_class
class DescribeAclsResponse:
    """DescribeAcls response, versions 0 to 3."""

    API_KEY: ClassVar[int] = 29
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Resources:
        @message_class
        class Acls:
            principal: str = ""
            host: str = ""
            operation: int = 0
            permission_type: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.principal = reader.string(flexible)
                message.host = reader.string(flexible)
                message.operation, message.permission_type = reader.fixed(_I8_I8)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.string(self.principal, flexible)
                writer.string(self.host, flexible)
                writer.fixed(_I8_I8, self.operation, self.permission_type)
                if flexible:
                    writer.no_tags()

        resource_type: int = 0
        resource_name: str = ""
        pattern_type: int = 3
        acls: list[Acls] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.resource_type = reader.int8()
            message.resource_name = reader.string(flexible)
            if version >= 1:
                message.pattern_type = reader.int8()
            message.acls = reader.structs(cls.Acls.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.int8(self.resource_type)
            writer.string(self.resource_name, flexible)
            if version >= 1:
                writer.int8(self.pattern_type)
            writer.structs(self.acls, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[Resources] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(flexible)
        message.resources = reader.structs(cls.Resources.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, flexible)
        writer.structs(self.resources, version, flexible)
        if flexible:
            writer.no_tags()
