"""AlterPartitionReassignments, API key 45. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class AlterPartitionReassignmentsRequest:
    """AlterPartitionReassignments request, version 0."""

    API_KEY: ClassVar[int] = 45
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            replicas: list[int] | None = None

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index = reader.int32()
                message.replicas = reader.nullable_integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.int32(self.partition_index)
                writer.nullable_integers("i", self.replicas, True)
                writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.partitions = reader.structs(cls.Partitions.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.structs(self.partitions, version, True)
            writer.no_tags()

    timeout_ms: int = 60000
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.timeout_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.timeout_ms)
        writer.structs(self.topics, version, True)
        writer.no_tags()


@message_class
class AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments response, version 0."""

    API_KEY: ClassVar[int] = 45
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Responses:
        @message_class
        class Partitions:
            partition_index: int = 0
            error_code: int = 0
            error_message: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                message.error_message = reader.nullable_string(True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                writer.nullable_string(self.error_message, True)
                writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.partitions = reader.structs(cls.Partitions.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.structs(self.partitions, version, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    responses: list[Responses] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(True)
        message.responses = reader.structs(cls.Responses.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.structs(self.responses, version, True)
        writer.no_tags()
