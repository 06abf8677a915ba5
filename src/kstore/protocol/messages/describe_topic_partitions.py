"""DescribeTopicPartitions, API key 75. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_I16_I32_I32_I32 = Struct(">hiii")
_UUID_BOOL = Struct(">16s?")


@message_class
class DescribeTopicPartitionsRequest:
    """DescribeTopicPartitions request, version 0."""

    API_KEY: ClassVar[int] = 75
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        name: str = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.no_tags()

    @message_class
    class Cursor:
        topic_name: str = ""
        partition_index: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_name = reader.string(True)
            message.partition_index = reader.int32()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.topic_name, True)
            writer.int32(self.partition_index)
            writer.no_tags()

    topics: list[Topics] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: Cursor | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.topics = reader.structs(cls.Topics.decode, version, True)
        message.response_partition_limit = reader.int32()
        message.cursor = reader.nullable_struct(cls.Cursor.decode, version)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.structs(self.topics, version, True)
        writer.int32(self.response_partition_limit)
        writer.nullable_struct(self.cursor, version)
        writer.no_tags()


@message_class
class DescribeTopicPartitionsResponse:
    """DescribeTopicPartitions response, version 0."""

    API_KEY: ClassVar[int] = 75
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class Partitions:
            error_code: int = 0
            partition_index: int = 0
            leader_id: int = 0
            leader_epoch: int = -1
            replica_nodes: list[int] = field(default_factory=list)
            isr_nodes: list[int] = field(default_factory=list)
            eligible_leader_replicas: list[int] | None = None
            last_known_elr: list[int] | None = None
            offline_replicas: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                (
                    message.error_code,
                    message.partition_index,
                    message.leader_id,
                    message.leader_epoch,
                ) = reader.fixed(_I16_I32_I32_I32)
                message.replica_nodes = reader.integers("i", True)
                message.isr_nodes = reader.integers("i", True)
                message.eligible_leader_replicas = reader.nullable_integers("i", True)
                message.last_known_elr = reader.nullable_integers("i", True)
                message.offline_replicas = reader.integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.fixed(
                    _I16_I32_I32_I32,
                    self.error_code,
                    self.partition_index,
                    self.leader_id,
                    self.leader_epoch,
                )
                writer.integers("i", self.replica_nodes, True)
                writer.integers("i", self.isr_nodes, True)
                writer.nullable_integers("i", self.eligible_leader_replicas, True)
                writer.nullable_integers("i", self.last_known_elr, True)
                writer.integers("i", self.offline_replicas, True)
                writer.no_tags()

        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ZERO_UUID
        is_internal: bool = False
        partitions: list[Partitions] = field(default_factory=list)
        topic_authorized_operations: int = -2147483648

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.error_code = reader.int16()
            message.name = reader.nullable_string(True)
            message.topic_id, message.is_internal = reader.fixed(_UUID_BOOL)
            message.partitions = reader.structs(cls.Partitions.decode, version, True)
            message.topic_authorized_operations = reader.int32()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int16(self.error_code)
            writer.nullable_string(self.name, True)
            writer.fixed(_UUID_BOOL, self.topic_id, self.is_internal)
            writer.structs(self.partitions, version, True)
            writer.int32(self.topic_authorized_operations)
            writer.no_tags()

    @message_class
    class NextCursor:
        topic_name: str = ""
        partition_index: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_name = reader.string(True)
            message.partition_index = reader.int32()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.topic_name, True)
            writer.int32(self.partition_index)
            writer.no_tags()

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)
    next_cursor: NextCursor | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, True)
        message.next_cursor = reader.nullable_struct(cls.NextCursor.decode, version)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, True)
        writer.nullable_struct(self.next_cursor, version)
        writer.no_tags()
