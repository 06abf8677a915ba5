"""ConsumerGroupTargetAssignmentMetadata records. Generated from the table of records."""

from __future__ import annotations

from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class ConsumerGroupTargetAssignmentMetadataKey:
    """ConsumerGroupTargetAssignmentMetadataKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 6
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
class ConsumerGroupTargetAssignmentMetadataValue:
    """ConsumerGroupTargetAssignmentMetadataValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.assignment_epoch = reader.int32()
        for tag in reader.tags():
            if tag == 0:
                message.assignment_timestamp = reader.int64()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.assignment_epoch)
        tags: list[tuple[int, Writer]] = []
        if self.assignment_timestamp:
            tag = Writer()
            tag.int64(self.assignment_timestamp)
            tags.append((0, tag))
        writer.tags(tags)
