"""ConsumerGroupPartitionMetadata records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer


@message_class
class ConsumerGroupPartitionMetadataKey:
    """ConsumerGroupPartitionMetadataKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 4
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    group_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_id = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, False)


@message_class
class ConsumerGroupPartitionMetadataValue:
    """ConsumerGroupPartitionMetadataValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Topics:
        @message_class
        class PartitionMetadata:
            partition: int = 0
            racks: list[str] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.partition = reader.int32()
                message.racks = reader.strings(True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.int32(self.partition)
                writer.strings(self.racks, True)
                writer.no_tags()

        topic_id: bytes = ZERO_UUID
        topic_name: str = ""
        num_partitions: int = 0
        partition_metadata: list[PartitionMetadata] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_id = reader.uuid()
            message.topic_name = reader.string(True)
            message.num_partitions = reader.int32()
            message.partition_metadata = reader.structs(cls.PartitionMetadata.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.uuid(self.topic_id)
            writer.string(self.topic_name, True)
            writer.int32(self.num_partitions)
            writer.structs(self.partition_metadata, version, True)
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
