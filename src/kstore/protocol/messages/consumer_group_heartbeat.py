"""ConsumerGroupHeartbeat, API key 68. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_I32_I16 = Struct(">ih")
_I32_I32 = Struct(">ii")


@message_class
class ConsumerGroupHeartbeatRequest:
    """ConsumerGroupHeartbeat request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 68
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class TopicPartitions:
        topic_id: bytes = ZERO_UUID
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_id = reader.uuid()
            message.partitions = reader.integers("i", True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.uuid(self.topic_id)
            writer.integers("i", self.partitions, True)
            writer.no_tags()

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_id = reader.string(True)
        message.member_id = reader.string(True)
        message.member_epoch = reader.int32()
        message.instance_id = reader.nullable_string(True)
        message.rack_id = reader.nullable_string(True)
        message.rebalance_timeout_ms = reader.int32()
        message.subscribed_topic_names = reader.nullable_strings(True)
        if version >= 1:
            message.subscribed_topic_regex = reader.nullable_string(True)
        message.server_assignor = reader.nullable_string(True)
        message.topic_partitions = reader.nullable_structs(
            cls.TopicPartitions.decode, version, True
        )
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, True)
        writer.string(self.member_id, True)
        writer.int32(self.member_epoch)
        writer.nullable_string(self.instance_id, True)
        writer.nullable_string(self.rack_id, True)
        writer.int32(self.rebalance_timeout_ms)
        writer.nullable_strings(self.subscribed_topic_names, True)
        if version >= 1:
            writer.nullable_string(self.subscribed_topic_regex, True)
        writer.nullable_string(self.server_assignor, True)
        writer.nullable_structs(self.topic_partitions, version, True)
        writer.no_tags()


@message_class
class ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 68
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Assignment:
        @message_class
        class TopicPartitions:
            topic_id: bytes = ZERO_UUID
            partitions: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.topic_id = reader.uuid()
                message.partitions = reader.integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.uuid(self.topic_id)
                writer.integers("i", self.partitions, True)
                writer.no_tags()

        topic_partitions: list[TopicPartitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_partitions = reader.structs(cls.TopicPartitions.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.structs(self.topic_partitions, version, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(True)
        message.member_id = reader.nullable_string(True)
        message.member_epoch, message.heartbeat_interval_ms = reader.fixed(_I32_I32)
        message.assignment = reader.nullable_struct(cls.Assignment.decode, version)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        writer.nullable_string(self.member_id, True)
        writer.fixed(_I32_I32, self.member_epoch, self.heartbeat_interval_ms)
        writer.nullable_struct(self.assignment, version)
        writer.no_tags()
