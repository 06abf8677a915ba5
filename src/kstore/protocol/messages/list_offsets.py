"""ListOffsets, API key 2. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I64_I64 = Struct(">qq")


@message_class
class ListOffsetsRequest:
    """ListOffsets request, versions 0 to 10."""

    API_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 6

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            current_leader_epoch: int = -1
            timestamp: int = 0
            max_num_offsets: int = 1

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 6
                message = cls()
                message.partition_index = reader.int32()
                if version >= 4:
                    message.current_leader_epoch = reader.int32()
                message.timestamp = reader.int64()
                if version == 0:
                    message.max_num_offsets = reader.int32()
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 6
                writer.int32(self.partition_index)
                if version >= 4:
                    writer.int32(self.current_leader_epoch)
                writer.int64(self.timestamp)
                if version == 0:
                    writer.int32(self.max_num_offsets)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 6
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 6
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[Topics] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 6
        message = cls()
        message.replica_id = reader.int32()
        if version >= 2:
            message.isolation_level = reader.int8()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if version >= 10:
            message.timeout_ms = reader.int32()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 6
        writer.int32(self.replica_id)
        if version >= 2:
            writer.int8(self.isolation_level)
        writer.structs(self.topics, version, flexible)
        if version >= 10:
            writer.int32(self.timeout_ms)
        if flexible:
            writer.no_tags()


@message_class
class ListOffsetsResponse:
    """ListOffsets response, versions 0 to 10."""

    API_KEY: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 6

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            error_code: int = 0
            old_style_offsets: list[int] = field(default_factory=list)
            timestamp: int = -1
            offset: int = -1
            leader_epoch: int = -1

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 6
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                if version == 0:
                    message.old_style_offsets = reader.integers("q", flexible)
                if version >= 1:
                    message.timestamp, message.offset = reader.fixed(_I64_I64)
                if version >= 4:
                    message.leader_epoch = reader.int32()
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 6
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                if version == 0:
                    writer.integers("q", self.old_style_offsets, flexible)
                if version >= 1:
                    writer.fixed(_I64_I64, self.timestamp, self.offset)
                if version >= 4:
                    writer.int32(self.leader_epoch)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 6
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 6
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 6
        message = cls()
        if version >= 2:
            message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 6
        if version >= 2:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()
