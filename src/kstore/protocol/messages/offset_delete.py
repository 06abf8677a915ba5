"""OffsetDelete, API key 47. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I16_I32 = Struct(">hi")
_I32_I16 = Struct(">ih")


@message_class
class OffsetDeleteRequest:
    """OffsetDelete request, version 0."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index = reader.int32()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.int32(self.partition_index)

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(False)
            message.partitions = reader.structs(cls.Partitions.decode, version, False)
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, False)
            writer.structs(self.partitions, version, False)

    group_id: str = ""
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_id = reader.string(False)
        message.topics = reader.structs(cls.Topics.decode, version, False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, False)
        writer.structs(self.topics, version, False)


@message_class
class OffsetDeleteResponse:
    """OffsetDelete response, version 0."""

    API_KEY: ClassVar[int] = 47
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.fixed(_I32_I16, self.partition_index, self.error_code)

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(False)
            message.partitions = reader.structs(cls.Partitions.decode, version, False)
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, False)
            writer.structs(self.partitions, version, False)

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.error_code, message.throttle_time_ms = reader.fixed(_I16_I32)
        message.topics = reader.structs(cls.Topics.decode, version, False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I16_I32, self.error_code, self.throttle_time_ms)
        writer.structs(self.topics, version, False)
