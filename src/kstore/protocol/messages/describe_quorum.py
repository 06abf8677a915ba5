"""DescribeQuorum, API key 55. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_I32_I16 = Struct(">ih")
_I32_I32_I64 = Struct(">iiq")
_I64_I64 = Struct(">qq")


@message_class
class DescribeQuorumRequest:
    """DescribeQuorum request, versions 0 to 2."""

    API_KEY: ClassVar[int] = 55
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index = reader.int32()
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.int32(self.partition_index)
                writer.no_tags()

        topic_name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_name = reader.string(True)
            message.partitions = reader.structs(cls.Partitions.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.topic_name, True)
            writer.structs(self.partitions, version, True)
            writer.no_tags()

    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.topics = reader.structs(cls.Topics.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.structs(self.topics, version, True)
        writer.no_tags()


@message_class
class DescribeQuorumResponse:
    """DescribeQuorum response, versions 0 to 2."""

    API_KEY: ClassVar[int] = 55
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class Partitions:
            @message_class
            class CurrentVoters:
                replica_id: int = 0
                replica_directory_id: bytes = ZERO_UUID
                log_end_offset: int = 0
                last_fetch_timestamp: int = -1
                last_caught_up_timestamp: int = -1

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.replica_id = reader.int32()
                    if version >= 2:
                        message.replica_directory_id = reader.uuid()
                    message.log_end_offset = reader.int64()
                    if version >= 1:
                        message.last_fetch_timestamp, message.last_caught_up_timestamp = (
                            reader.fixed(_I64_I64)
                        )
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.int32(self.replica_id)
                    if version >= 2:
                        writer.uuid(self.replica_directory_id)
                    writer.int64(self.log_end_offset)
                    if version >= 1:
                        writer.fixed(
                            _I64_I64, self.last_fetch_timestamp, self.last_caught_up_timestamp
                        )
                    writer.no_tags()

            @message_class
            class Observers:
                replica_id: int = 0
                replica_directory_id: bytes = ZERO_UUID
                log_end_offset: int = 0
                last_fetch_timestamp: int = -1
                last_caught_up_timestamp: int = -1

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.replica_id = reader.int32()
                    if version >= 2:
                        message.replica_directory_id = reader.uuid()
                    message.log_end_offset = reader.int64()
                    if version >= 1:
                        message.last_fetch_timestamp, message.last_caught_up_timestamp = (
                            reader.fixed(_I64_I64)
                        )
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.int32(self.replica_id)
                    if version >= 2:
                        writer.uuid(self.replica_directory_id)
                    writer.int64(self.log_end_offset)
                    if version >= 1:
                        writer.fixed(
                            _I64_I64, self.last_fetch_timestamp, self.last_caught_up_timestamp
                        )
                    writer.no_tags()

            partition_index: int = 0
            error_code: int = 0
            error_message: str | None = ""
            leader_id: int = 0
            leader_epoch: int = 0
            high_watermark: int = 0
            current_voters: list[CurrentVoters] = field(default_factory=list)
            observers: list[Observers] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                if version >= 2:
                    message.error_message = reader.nullable_string(True)
                message.leader_id, message.leader_epoch, message.high_watermark = reader.fixed(
                    _I32_I32_I64
                )
                message.current_voters = reader.structs(cls.CurrentVoters.decode, version, True)
                message.observers = reader.structs(cls.Observers.decode, version, True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                if version >= 2:
                    writer.nullable_string(self.error_message, True)
                writer.fixed(_I32_I32_I64, self.leader_id, self.leader_epoch, self.high_watermark)
                writer.structs(self.current_voters, version, True)
                writer.structs(self.observers, version, True)
                writer.no_tags()

        topic_name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_name = reader.string(True)
            message.partitions = reader.structs(cls.Partitions.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.topic_name, True)
            writer.structs(self.partitions, version, True)
            writer.no_tags()

    @message_class
    class Nodes:
        @message_class
        class Listeners:
            name: str = ""
            host: str = ""
            port: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.host = reader.string(True)
                message.port = reader.uint16()
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.string(self.host, True)
                writer.uint16(self.port)
                writer.no_tags()

        node_id: int = 0
        listeners: list[Listeners] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.node_id = reader.int32()
            message.listeners = reader.structs(cls.Listeners.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int32(self.node_id)
            writer.structs(self.listeners, version, True)
            writer.no_tags()

    error_code: int = 0
    error_message: str | None = ""
    topics: list[Topics] = field(default_factory=list)
    nodes: list[Nodes] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.error_code = reader.int16()
        if version >= 2:
            message.error_message = reader.nullable_string(True)
        message.topics = reader.structs(cls.Topics.decode, version, True)
        if version >= 2:
            message.nodes = reader.structs(cls.Nodes.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int16(self.error_code)
        if version >= 2:
            writer.nullable_string(self.error_message, True)
        writer.structs(self.topics, version, True)
        if version >= 2:
            writer.structs(self.nodes, version, True)
        writer.no_tags()
