"""OffsetCommit records. Generated from the table of records."""

from __future__ import annotations

from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer


@message_class
class OffsetCommitKey:
    """OffsetCommitKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    group: str = ""
    topic: str = ""
    partition: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group = reader.string(False)
        message.topic = reader.string(False)
        message.partition = reader.int32()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group, False)
        writer.string(self.topic, False)
        writer.int32(self.partition)


@message_class
class OffsetCommitValue:
    """OffsetCommitValue, versions 0 to 4."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.offset = reader.int64()
        if version >= 3:
            message.leader_epoch = reader.int32()
        message.metadata = reader.string(flexible)
        message.commit_timestamp = reader.int64()
        if version == 1:
            message.expire_timestamp = reader.int64()
        if flexible:
            for tag in reader.tags():
                if tag == 0:
                    message.topic_id = reader.uuid()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        writer.int64(self.offset)
        if version >= 3:
            writer.int32(self.leader_epoch)
        writer.string(self.metadata, flexible)
        writer.int64(self.commit_timestamp)
        if version == 1:
            writer.int64(self.expire_timestamp)
        if flexible:
            tags: list[tuple[int, Writer]] = []
            if self.topic_id != ZERO_UUID:
                tag = Writer()
                tag.uuid(self.topic_id)
                tags.append((0, tag))
            writer.tags(tags)
