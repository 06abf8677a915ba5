"""ListPartitionReassignments, API key 46. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class ListPartitionReassignmentsRequest:
    """ListPartitionReassignments request, version 0."""

    API_KEY: ClassVar[int] = 46
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        name: str = ""
        partition_indexes: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.partition_indexes = reader.integers("i", True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.integers("i", self.partition_indexes, True)
            writer.no_tags()

    timeout_ms: int = 60000
    topics: list[Topics] | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.timeout_ms = reader.int32()
        message.topics = reader.nullable_structs(cls.Topics.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.timeout_ms)
        writer.nullable_structs(self.topics, version, True)
        writer.no_tags()


@message_class
class ListPartitionReassignmentsResponse:
    """ListPartitionReassignments response, version 0."""

    API_KEY: ClassVar[int] = 46
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            replicas: list[int] = field(default_factory=list)
            adding_replicas: list[int] = field(default_factory=list)
            removing_replicas: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index = reader.int32()
                message.replicas = reader.integers("i", True)
                message.adding_replicas = reader.integers("i", True)
                message.removing_replicas = reader.integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.int32(self.partition_index)
                writer.integers("i", self.replicas, True)
                writer.integers("i", self.adding_replicas, True)
                writer.integers("i", self.removing_replicas, True)
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
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(True)
        message.topics = reader.structs(cls.Topics.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.structs(self.topics, version, True)
        writer.no_tags()
