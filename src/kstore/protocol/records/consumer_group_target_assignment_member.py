"""ConsumerGroupTargetAssignmentMember records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer


@message_class
class ConsumerGroupTargetAssignmentMemberKey:
    """ConsumerGroupTargetAssignmentMemberKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 7
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    group_id: str = ""
    member_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_id = reader.string(False)
        message.member_id = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, False)
        writer.string(self.member_id, False)


@message_class
class ConsumerGroupTargetAssignmentMemberValue:
    """ConsumerGroupTargetAssignmentMemberValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class TopicPartitions:
        topic_id: bytes = ZERO_UUID
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_id = reader.uuid()
            message.partitions = reader.integers("i", True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.uuid(self.topic_id)
            writer.integers("i", self.partitions, True)
            writer.no_tags()

    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.topic_partitions = reader.structs(cls.TopicPartitions.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.structs(self.topic_partitions, version, True)
        writer.no_tags()
