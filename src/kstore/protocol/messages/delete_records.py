"""DeleteRecords, API key 21. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I64 = Struct(">iq")
_I32_I64_I16 = Struct(">iqh")


@message_class
class DeleteRecordsRequest:
    """DeleteRecords request, versions 0 to 2."""

    API_KEY: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            offset: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.partition_index, message.offset = reader.fixed(_I32_I64)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.fixed(_I32_I64, self.partition_index, self.offset)
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

    topics: list[Topics] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        message.timeout_ms = reader.int32()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.structs(self.topics, version, flexible)
        writer.int32(self.timeout_ms)
        if flexible:
            writer.no_tags()


@message_class
class DeleteRecordsResponse:
    """DeleteRecords response, versions 0 to 2."""

    API_KEY: ClassVar[int] = 21
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            low_watermark: int = 0
            error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.partition_index, message.low_watermark, message.error_code = reader.fixed(
                    _I32_I64_I16
                )
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.fixed(
                    _I32_I64_I16, self.partition_index, self.low_watermark, self.error_code
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

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()
