"""TxnOffsetCommit, API key 28. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I32_I64 = Struct(">iq")
_I64_I16 = Struct(">qh")


@message_class
class TxnOffsetCommitRequest:
    """TxnOffsetCommit request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            committed_offset: int = 0
            committed_leader_epoch: int = -1
            committed_metadata: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 3
                message = cls()
                message.partition_index, message.committed_offset = reader.fixed(_I32_I64)
                if version >= 2:
                    message.committed_leader_epoch = reader.int32()
                message.committed_metadata = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 3
                writer.fixed(_I32_I64, self.partition_index, self.committed_offset)
                if version >= 2:
                    writer.int32(self.committed_leader_epoch)
                writer.nullable_string(self.committed_metadata, flexible)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 3
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 3
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        message.transactional_id = reader.string(flexible)
        message.group_id = reader.string(flexible)
        message.producer_id, message.producer_epoch = reader.fixed(_I64_I16)
        if version >= 3:
            message.generation_id = reader.int32()
            message.member_id = reader.string(flexible)
            message.group_instance_id = reader.nullable_string(flexible)
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        writer.string(self.transactional_id, flexible)
        writer.string(self.group_id, flexible)
        writer.fixed(_I64_I16, self.producer_id, self.producer_epoch)
        if version >= 3:
            writer.int32(self.generation_id)
            writer.string(self.member_id, flexible)
            writer.nullable_string(self.group_instance_id, flexible)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class TxnOffsetCommitResponse:
    """TxnOffsetCommit response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 3
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 3
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 3
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 3
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()
