"""DescribeLogDirs, API key 35. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I64_I64_BOOL = Struct(">iqq?")
_I64_I64 = Struct(">qq")


@message_class
class DescribeLogDirsRequest:
    """DescribeLogDirs request, versions 0 to 4."""

    API_KEY: ClassVar[int] = 35
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Topics:
        topic: str = ""
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.topic = reader.string(flexible)
            message.partitions = reader.integers("i", flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.topic, flexible)
            writer.integers("i", self.partitions, flexible)
            if flexible:
                writer.no_tags()

    topics: list[Topics] | None = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.topics = reader.nullable_structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.nullable_structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class DescribeLogDirsResponse:
    """DescribeLogDirs response, versions 0 to 4."""

    API_KEY: ClassVar[int] = 35
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Results:
        @message_class
        class Topics:
            @message_class
            class Partitions:
                partition_index: int = 0
                partition_size: int = 0
                offset_lag: int = 0
                is_future_key: bool = False

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    flexible = version >= 2
                    message = cls()
                    (
                        message.partition_index,
                        message.partition_size,
                        message.offset_lag,
                        message.is_future_key,
                    ) = reader.fixed(_I32_I64_I64_BOOL)
                    if flexible:
                        reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    flexible = version >= 2
                    writer.fixed(
                        _I32_I64_I64_BOOL,
                        self.partition_index,
                        self.partition_size,
                        self.offset_lag,
                        self.is_future_key,
                    )
                    if flexible:
                        writer.no_tags()

            name: str = ""
            partitions: list[Partitions] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.name = reader.string(flexible)
                message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.string(self.name, flexible)
                writer.structs(self.partitions, version, flexible)
                if flexible:
                    writer.no_tags()

        error_code: int = 0
        log_dir: str = ""
        topics: list[Topics] = field(default_factory=list)
        total_bytes: int = -1
        usable_bytes: int = -1

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.error_code = reader.int16()
            message.log_dir = reader.string(flexible)
            message.topics = reader.structs(cls.Topics.decode, version, flexible)
            if version >= 4:
                message.total_bytes, message.usable_bytes = reader.fixed(_I64_I64)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.int16(self.error_code)
            writer.string(self.log_dir, flexible)
            writer.structs(self.topics, version, flexible)
            if version >= 4:
                writer.fixed(_I64_I64, self.total_bytes, self.usable_bytes)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[Results] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.throttle_time_ms = reader.int32()
        if version >= 3:
            message.error_code = reader.int16()
        message.results = reader.structs(cls.Results.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int32(self.throttle_time_ms)
        if version >= 3:
            writer.int16(self.error_code)
        writer.structs(self.results, version, flexible)
        if flexible:
            writer.no_tags()
