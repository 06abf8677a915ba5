"""DescribeConfigs, API key 32. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class DescribeConfigsRequest:
    """DescribeConfigs request, versions 0 to 4."""

    API_KEY: ClassVar[int] = 32
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Resources:
        resource_type: int = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.resource_type = reader.int8()
            message.resource_name = reader.string(flexible)
            message.configuration_keys = reader.nullable_strings(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.int8(self.resource_type)
            writer.string(self.resource_name, flexible)
            writer.nullable_strings(self.configuration_keys, flexible)
            if flexible:
                writer.no_tags()

    resources: list[Resources] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.resources = reader.structs(cls.Resources.decode, version, flexible)
        if version >= 1:
            message.include_synonyms = reader.boolean()
        if version >= 3:
            message.include_documentation = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        writer.structs(self.resources, version, flexible)
        if version >= 1:
            writer.boolean(self.include_synonyms)
        if version >= 3:
            writer.boolean(self.include_documentation)
        if flexible:
            writer.no_tags()


@message_class
class DescribeConfigsResponse:
    """DescribeConfigs response, versions 0 to 4."""

    API_KEY: ClassVar[int] = 32
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Results:
        @message_class
        class Configs:
            @message_class
            class Synonyms:
                name: str = ""
                value: str | None = ""
                source: int = 0

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    flexible = version >= 4
                    message = cls()
                    message.name = reader.string(flexible)
                    message.value = reader.nullable_string(flexible)
                    message.source = reader.int8()
                    if flexible:
                        reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    flexible = version >= 4
                    writer.string(self.name, flexible)
                    writer.nullable_string(self.value, flexible)
                    writer.int8(self.source)
                    if flexible:
                        writer.no_tags()

            name: str = ""
            value: str | None = ""
            read_only: bool = False
            is_default: bool = False
            config_source: int = -1
            is_sensitive: bool = False
            synonyms: list[Synonyms] = field(default_factory=list)
            config_type: int = 0
            documentation: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 4
                message = cls()
                message.name = reader.string(flexible)
                message.value = reader.nullable_string(flexible)
                message.read_only = reader.boolean()
                if version == 0:
                    message.is_default = reader.boolean()
                if version >= 1:
                    message.config_source = reader.int8()
                message.is_sensitive = reader.boolean()
                if version >= 1:
                    message.synonyms = reader.structs(cls.Synonyms.decode, version, flexible)
                if version >= 3:
                    message.config_type = reader.int8()
                    message.documentation = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 4
                writer.string(self.name, flexible)
                writer.nullable_string(self.value, flexible)
                writer.boolean(self.read_only)
                if version == 0:
                    writer.boolean(self.is_default)
                if version >= 1:
                    writer.int8(self.config_source)
                writer.boolean(self.is_sensitive)
                if version >= 1:
                    writer.structs(self.synonyms, version, flexible)
                if version >= 3:
                    writer.int8(self.config_type)
                    writer.nullable_string(self.documentation, flexible)
                if flexible:
                    writer.no_tags()

        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""
        configs: list[Configs] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(flexible)
            message.resource_type = reader.int8()
            message.resource_name = reader.string(flexible)
            message.configs = reader.structs(cls.Configs.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, flexible)
            writer.int8(self.resource_type)
            writer.string(self.resource_name, flexible)
            writer.structs(self.configs, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    results: list[Results] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.results = reader.structs(cls.Results.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        writer.int32(self.throttle_time_ms)
        writer.structs(self.results, version, flexible)
        if flexible:
            writer.no_tags()
