"""DescribeClientQuotas, API key 48. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class DescribeClientQuotasRequest:
    """DescribeClientQuotas request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 48
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class Components:
        entity_type: str = ""
        match_type: int = 0
        match: str | None = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.entity_type = reader.string(flexible)
            message.match_type = reader.int8()
            message.match = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.string(self.entity_type, flexible)
            writer.int8(self.match_type)
            writer.nullable_string(self.match, flexible)
            if flexible:
                writer.no_tags()

    components: list[Components] = field(default_factory=list)
    strict: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.components = reader.structs(cls.Components.decode, version, flexible)
        message.strict = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.structs(self.components, version, flexible)
        writer.boolean(self.strict)
        if flexible:
            writer.no_tags()


@message_class
class DescribeClientQuotasResponse:
    """DescribeClientQuotas response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 48
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class Entries:
        @message_class
        class Entity:
            entity_type: str = ""
            entity_name: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 1
                message = cls()
                message.entity_type = reader.string(flexible)
                message.entity_name = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 1
                writer.string(self.entity_type, flexible)
                writer.nullable_string(self.entity_name, flexible)
                if flexible:
                    writer.no_tags()

        @message_class
        class Values:
            key: str = ""
            value: float = 0.0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 1
                message = cls()
                message.key = reader.string(flexible)
                message.value = reader.float64()
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 1
                writer.string(self.key, flexible)
                writer.float64(self.value)
                if flexible:
                    writer.no_tags()

        entity: list[Entity] = field(default_factory=list)
        values: list[Values] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.entity = reader.structs(cls.Entity.decode, version, flexible)
            message.values = reader.structs(cls.Values.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.structs(self.entity, version, flexible)
            writer.structs(self.values, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[Entries] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(flexible)
        message.entries = reader.nullable_structs(cls.Entries.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, flexible)
        writer.nullable_structs(self.entries, version, flexible)
        if flexible:
            writer.no_tags()
