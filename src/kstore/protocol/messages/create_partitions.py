"""CreatePartitions, API key 37. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_BOOL = Struct(">i?")


@message_class
class CreatePartitionsRequest:
    """CreatePartitions request, versions 0 to 3."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Topics:
        @message_class
        class Assignments:
            broker_ids: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.broker_ids = reader.integers("i", flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.integers("i", self.broker_ids, flexible)
                if flexible:
                    writer.no_tags()

        name: str = ""
        count: int = 0
        assignments: list[Assignments] | None = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.name = reader.string(flexible)
            message.count = reader.int32()
            message.assignments = reader.nullable_structs(cls.Assignments.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.name, flexible)
            writer.int32(self.count)
            writer.nullable_structs(self.assignments, version, flexible)
            if flexible:
                writer.no_tags()

    topics: list[Topics] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        message.timeout_ms, message.validate_only = reader.fixed(_I32_BOOL)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.structs(self.topics, version, flexible)
        writer.fixed(_I32_BOOL, self.timeout_ms, self.validate_only)
        if flexible:
            writer.no_tags()


@message_class
class CreatePartitionsResponse:
    """CreatePartitions response, versions 0 to 3."""

    API_KEY: ClassVar[int] = 37
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Results:
        name: str = ""
        error_code: int = 0
        error_message: str | None = None

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.name = reader.string(flexible)
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.name, flexible)
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
