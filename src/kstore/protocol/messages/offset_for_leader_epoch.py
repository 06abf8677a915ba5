"""OffsetForLeaderEpoch, API key 23. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I16_I32 = Struct(">hi")


@message_class
class OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch request, versions 0 to 4."""

    API_KEY: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition: int = 0
            current_leader_epoch: int = -1
            leader_epoch: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 4
                message = cls()
                message.partition = reader.int32()
                if version >= 2:
                    message.current_leader_epoch = reader.int32()
                message.leader_epoch = reader.int32()
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 4
                writer.int32(self.partition)
                if version >= 2:
                    writer.int32(self.current_leader_epoch)
                writer.int32(self.leader_epoch)
                if flexible:
                    writer.no_tags()

        topic: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.topic = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.string(self.topic, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    replica_id: int = -2
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 3:
            message.replica_id = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 3:
            writer.int32(self.replica_id)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class OffsetForLeaderEpochResponse:
    """OffsetForLeaderEpoch response, versions 0 to 4."""

    API_KEY: ClassVar[int] = 23
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Topics:
        @message_class
        class Partitions:
            error_code: int = 0
            partition: int = 0
            leader_epoch: int = -1
            end_offset: int = -1

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 4
                message = cls()
                message.error_code, message.partition = reader.fixed(_I16_I32)
                if version >= 1:
                    message.leader_epoch = reader.int32()
                message.end_offset = reader.int64()
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 4
                writer.fixed(_I16_I32, self.error_code, self.partition)
                if version >= 1:
                    writer.int32(self.leader_epoch)
                writer.int64(self.end_offset)
                if flexible:
                    writer.no_tags()

        topic: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.topic = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.string(self.topic, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 2:
            message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 2:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()
