"""AlterClientQuotas, API key 49. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_F64_BOOL = Struct(">d?")


@message_class
class AlterClientQuotasRequest:
    """AlterClientQuotas request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 49
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
        class Ops:
            key: str = ""
            value: float = 0.0
            remove: bool = False

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 1
                message = cls()
                message.key = reader.string(flexible)
                message.value, message.remove = reader.fixed(_F64_BOOL)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 1
                writer.string(self.key, flexible)
                writer.fixed(_F64_BOOL, self.value, self.remove)
                if flexible:
                    writer.no_tags()

        entity: list[Entity] = field(default_factory=list)
        ops: list[Ops] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.entity = reader.structs(cls.Entity.decode, version, flexible)
            message.ops = reader.structs(cls.Ops.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.structs(self.entity, version, flexible)
            writer.structs(self.ops, version, flexible)
            if flexible:
                writer.no_tags()

    entries: list[Entries] = field(default_factory=list)
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.entries = reader.structs(cls.Entries.decode, version, flexible)
        message.validate_only = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.structs(self.entries, version, flexible)
        writer.boolean(self.validate_only)
        if flexible:
            writer.no_tags()


@message_class
class AlterClientQuotasResponse:
    """AlterClientQuotas response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 49
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

        error_code: int = 0
        error_message: str | None = ""
        entity: list[Entity] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(flexible)
            message.entity = reader.structs(cls.Entity.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, flexible)
            writer.structs(self.entity, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    entries: list[Entries] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.entries = reader.structs(cls.Entries.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.int32(self.throttle_time_ms)
        writer.structs(self.entries, version, flexible)
        if flexible:
            writer.no_tags()
