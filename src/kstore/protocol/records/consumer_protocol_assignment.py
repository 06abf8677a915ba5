"""ConsumerProtocolAssignment records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class ConsumerProtocolAssignment:
    """ConsumerProtocolAssignment, versions 0 to 3."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 32767

    @message_class
    class AssignedPartitions:
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

    assigned_partitions: list[AssignedPartitions] = field(default_factory=list)
    user_data: bytes | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.assigned_partitions = reader.structs(cls.AssignedPartitions.decode, version, False)
        message.user_data = reader.nullable_bytes(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.structs(self.assigned_partitions, version, False)
        writer.nullable_bytes(self.user_data, False)
