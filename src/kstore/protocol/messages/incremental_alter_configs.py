"""IncrementalAlterConfigs, API key 44. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 44
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class Resources:
        @message_class
        class Configs:
            name: str = ""
            config_operation: int = 0
            value: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 1
                message = cls()
                message.name = reader.string(flexible)
                message.config_operation = reader.int8()
                message.value = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 1
                writer.string(self.name, flexible)
                writer.int8(self.config_operation)
                writer.nullable_string(self.value, flexible)
                if flexible:
                    writer.no_tags()

        resource_type: int = 0
        resource_name: str = ""
        configs: list[Configs] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.resource_type = reader.int8()
            message.resource_name = reader.string(flexible)
            message.configs = reader.structs(cls.Configs.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.int8(self.resource_type)
            writer.string(self.resource_name, flexible)
            writer.structs(self.configs, version, flexible)
            if flexible:
                writer.no_tags()

    resources: list[Resources] = field(default_factory=list)
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.resources = reader.structs(cls.Resources.decode, version, flexible)
        message.validate_only = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.structs(self.resources, version, flexible)
        writer.boolean(self.validate_only)
        if flexible:
            writer.no_tags()


@message_class
class IncrementalAlterConfigsResponse:
    """IncrementalAlterConfigs response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 44
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class Responses:
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(flexible)
            message.resource_type = reader.int8()
            message.resource_name = reader.string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, flexible)
            writer.int8(self.resource_type)
            writer.string(self.resource_name, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    responses: list[Responses] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.responses = reader.structs(cls.Responses.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.int32(self.throttle_time_ms)
        writer.structs(self.responses, version, flexible)
        if flexible:
            writer.no_tags()
