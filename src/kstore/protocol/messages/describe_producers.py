"""DescribeProducers, API key 61. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I64_I32_I32_I64_I32_I64 = Struct(">qiiqiq")


@message_class
class DescribeProducersRequest:
    """DescribeProducers request, version 0."""

    API_KEY: ClassVar[int] = 61
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
class DescribeProducersResponse:
    """DescribeProducers response, version 0."""

    API_KEY: ClassVar[int] = 61
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class Partitions:
            @message_class
            class ActiveProducers:
                producer_id: int = 0
                producer_epoch: int = 0
                last_sequence: int = -1
                last_timestamp: int = -1
                coordinator_epoch: int = 0
                current_txn_start_offset: int = -1

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    (
                        message.producer_id,
                        message.producer_epoch,
                        message.last_sequence,
                        message.last_timestamp,
                        message.coordinator_epoch,
                        message.current_txn_start_offset,
                    ) = reader.fixed(_I64_I32_I32_I64_I32_I64)
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.fixed(
                        _I64_I32_I32_I64_I32_I64,
                        self.producer_id,
                        self.producer_epoch,
                        self.last_sequence,
                        self.last_timestamp,
                        self.coordinator_epoch,
                        self.current_txn_start_offset,
                    )
                    writer.no_tags()

            partition_index: int = 0
            error_code: int = 0
            error_message: str | None = None
            active_producers: list[ActiveProducers] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                message.error_message = reader.nullable_string(True)
                message.active_producers = reader.structs(cls.ActiveProducers.decode, version, True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                writer.nullable_string(self.error_message, True)
                writer.structs(self.active_producers, version, True)
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
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, True)
        writer.no_tags()
