"""ConsumerGroupMetadata records. Generated from the table of records."""

from __future__ import annotations

from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class ConsumerGroupMetadataKey:
    """ConsumerGroupMetadataKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 3
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
class ConsumerGroupMetadataValue:
    """ConsumerGroupMetadataValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    epoch: int = 0
    metadata_hash: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.epoch = reader.int32()
        for tag in reader.tags():
            if tag == 0:
                message.metadata_hash = reader.int64()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.epoch)
        tags: list[tuple[int, Writer]] = []
        if self.metadata_hash:
            tag = Writer()
            tag.int64(self.metadata_hash)
            tags.append((0, tag))
        writer.tags(tags)
