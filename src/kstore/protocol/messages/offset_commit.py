"""OffsetCommit, API key 8. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I32_I64 = Struct(">iq")


@message_class
class OffsetCommitRequest:
    """OffsetCommit request, versions 0 to 9."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 8

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            committed_offset: int = 0
            committed_leader_epoch: int = -1
            commit_timestamp: int = -1
            committed_metadata: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 8
                message = cls()
                message.partition_index, message.committed_offset = reader.fixed(_I32_I64)
                if version >= 6:
                    message.committed_leader_epoch = reader.int32()
                if version == 1:
                    message.commit_timestamp = reader.int64()
                message.committed_metadata = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 8
                writer.fixed(_I32_I64, self.partition_index, self.committed_offset)
                if version >= 6:
                    writer.int32(self.committed_leader_epoch)
                if version == 1:
                    writer.int64(self.commit_timestamp)
                writer.nullable_string(self.committed_metadata, flexible)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 8
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 8
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 8
        message = cls()
        message.group_id = reader.string(flexible)
        if version >= 1:
            message.generation_id_or_member_epoch = reader.int32()
            message.member_id = reader.string(flexible)
        if version >= 7:
            message.group_instance_id = reader.nullable_string(flexible)
        if 2 <= version <= 4:
            message.retention_time_ms = reader.int64()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 8
        writer.string(self.group_id, flexible)
        if version >= 1:
            writer.int32(self.generation_id_or_member_epoch)
            writer.string(self.member_id, flexible)
        if version >= 7:
            writer.nullable_string(self.group_instance_id, flexible)
        if 2 <= version <= 4:
            writer.int64(self.retention_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class OffsetCommitResponse:
    """OffsetCommit response, versions 0 to 9."""

    API_KEY: ClassVar[int] = 8
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 8

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 8
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 8
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 8
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 8
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 8
        message = cls()
        if version >= 3:
            message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 8
        if version >= 3:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()
