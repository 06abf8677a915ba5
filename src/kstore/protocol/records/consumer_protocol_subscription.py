"""ConsumerProtocolSubscription records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class ConsumerProtocolSubscription:
    """ConsumerProtocolSubscription, versions 0 to 3."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 32767

    @message_class
    class OwnedPartitions:
        topic: str = ""
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic = reader.string(False)
            message.partitions = reader.integers("i", False)
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.topic, False)
            writer.integers("i", self.partitions, False)

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[OwnedPartitions] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.topics = reader.strings(False)
        message.user_data = reader.nullable_bytes(False)
        if version >= 1:
            message.owned_partitions = reader.structs(cls.OwnedPartitions.decode, version, False)
        if version >= 2:
            message.generation_id = reader.int32()
        if version >= 3:
            message.rack_id = reader.nullable_string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.topics, False)
        writer.nullable_bytes(self.user_data, False)
        if version >= 1:
            writer.structs(self.owned_partitions, version, False)
        if version >= 2:
            writer.int32(self.generation_id)
        if version >= 3:
            writer.nullable_string(self.rack_id, False)
