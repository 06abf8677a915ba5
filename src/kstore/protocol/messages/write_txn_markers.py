"""WriteTxnMarkers, API key 27. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I64_I16_BOOL = Struct(">qh?")


@message_class
class WriteTxnMarkersRequest:
    """WriteTxnMarkers request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class Markers:
        @message_class
        class Topics:
            name: str = ""
            partition_indexes: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 1
                message = cls()
                message.name = reader.string(flexible)
                message.partition_indexes = reader.integers("i", flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 1
                writer.string(self.name, flexible)
                writer.integers("i", self.partition_indexes, flexible)
                if flexible:
                    writer.no_tags()

        producer_id: int = 0
        producer_epoch: int = 0
        transaction_result: bool = False
        topics: list[Topics] = field(default_factory=list)
        coordinator_epoch: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.producer_id, message.producer_epoch, message.transaction_result = reader.fixed(
                _I64_I16_BOOL
            )
            message.topics = reader.structs(cls.Topics.decode, version, flexible)
            message.coordinator_epoch = reader.int32()
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.fixed(
                _I64_I16_BOOL, self.producer_id, self.producer_epoch, self.transaction_result
            )
            writer.structs(self.topics, version, flexible)
            writer.int32(self.coordinator_epoch)
            if flexible:
                writer.no_tags()

    markers: list[Markers] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.markers = reader.structs(cls.Markers.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.structs(self.markers, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class WriteTxnMarkersResponse:
    """WriteTxnMarkers response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class Markers:
        @message_class
        class Topics:
            @message_class
            class Partitions:
                partition_index: int = 0
                error_code: int = 0

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    flexible = version >= 1
                    message = cls()
                    message.partition_index, message.error_code = reader.fixed(_I32_I16)
                    if flexible:
                        reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    flexible = version >= 1
                    writer.fixed(_I32_I16, self.partition_index, self.error_code)
                    if flexible:
                        writer.no_tags()

            name: str = ""
            partitions: list[Partitions] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 1
                message = cls()
                message.name = reader.string(flexible)
                message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 1
                writer.string(self.name, flexible)
                writer.structs(self.partitions, version, flexible)
                if flexible:
                    writer.no_tags()

        producer_id: int = 0
        topics: list[Topics] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.producer_id = reader.int64()
            message.topics = reader.structs(cls.Topics.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.int64(self.producer_id)
            writer.structs(self.topics, version, flexible)
            if flexible:
                writer.no_tags()

    markers: list[Markers] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        message.markers = reader.structs(cls.Markers.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.structs(self.markers, version, flexible)
        if flexible:
            writer.no_tags()
