"""ConsumerGroupCurrentMemberAssignment records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_I32_I32_I8 = Struct(">iib")


@message_class
class ConsumerGroupCurrentMemberAssignmentKey:
    """ConsumerGroupCurrentMemberAssignmentKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 8
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
class ConsumerGroupCurrentMemberAssignmentValue:
    """ConsumerGroupCurrentMemberAssignmentValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class AssignedPartitions:
        topic_id: bytes = ZERO_UUID
        partitions: list[int] = field(default_factory=list)
        assignment_epochs: list[int] | None = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_id = reader.uuid()
            message.partitions = reader.integers("i", True)
            for tag in reader.tags():
                if tag == 0:
                    message.assignment_epochs = reader.nullable_integers("i", True)
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.uuid(self.topic_id)
            writer.integers("i", self.partitions, True)
            tags: list[tuple[int, Writer]] = []
            if self.assignment_epochs != []:
                tag = Writer()
                tag.nullable_integers("i", self.assignment_epochs, True)
                tags.append((0, tag))
            writer.tags(tags)

    @message_class
    class PartitionsPendingRevocation:
        topic_id: bytes = ZERO_UUID
        partitions: list[int] = field(default_factory=list)
        assignment_epochs: list[int] | None = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.topic_id = reader.uuid()
            message.partitions = reader.integers("i", True)
            for tag in reader.tags():
                if tag == 0:
                    message.assignment_epochs = reader.nullable_integers("i", True)
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.uuid(self.topic_id)
            writer.integers("i", self.partitions, True)
            tags: list[tuple[int, Writer]] = []
            if self.assignment_epochs != []:
                tag = Writer()
                tag.nullable_integers("i", self.assignment_epochs, True)
                tags.append((0, tag))
            writer.tags(tags)

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[AssignedPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[PartitionsPendingRevocation] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.member_epoch, message.previous_member_epoch, message.state = reader.fixed(
            _I32_I32_I8
        )
        message.assigned_partitions = reader.structs(cls.AssignedPartitions.decode, version, True)
        message.partitions_pending_revocation = reader.structs(
            cls.PartitionsPendingRevocation.decode, version, True
        )
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I32_I8, self.member_epoch, self.previous_member_epoch, self.state)
        writer.structs(self.assigned_partitions, version, True)
        writer.structs(self.partitions_pending_revocation, version, True)
        writer.no_tags()
