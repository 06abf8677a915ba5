"""ConsumerGroupDescribe, API key 69. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_I32_I32 = Struct(">ii")


@message_class
class ConsumerGroupDescribeRequest:
    """ConsumerGroupDescribe request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 69
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_ids = reader.strings(True)
        message.include_authorized_operations = reader.boolean()
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.group_ids, True)
        writer.boolean(self.include_authorized_operations)
        writer.no_tags()


@message_class
class ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 69
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Groups:
        @message_class
        class Members:
            @message_class
            class Assignment:
                @message_class
                class TopicPartitions:
                    topic_id: bytes = ZERO_UUID
                    topic_name: str = ""
                    partitions: list[int] = field(default_factory=list)

                    @classmethod
                    def decode(cls, reader: Reader, version: int) -> Self:
                        message = cls()
                        message.topic_id = reader.uuid()
                        message.topic_name = reader.string(True)
                        message.partitions = reader.integers("i", True)
                        reader.skip_tags()
                        return message

                    def encode(self, writer: Writer, version: int) -> None:
                        writer.uuid(self.topic_id)
                        writer.string(self.topic_name, True)
                        writer.integers("i", self.partitions, True)
                        writer.no_tags()

                topic_partitions: list[TopicPartitions] = field(default_factory=list)

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.topic_partitions = reader.structs(
                        cls.TopicPartitions.decode, version, True
                    )
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.structs(self.topic_partitions, version, True)
                    writer.no_tags()

            @message_class
            class TargetAssignment:
                @message_class
                class TopicPartitions:
                    topic_id: bytes = ZERO_UUID
                    topic_name: str = ""
                    partitions: list[int] = field(default_factory=list)

                    @classmethod
                    def decode(cls, reader: Reader, version: int) -> Self:
                        message = cls()
                        message.topic_id = reader.uuid()
                        message.topic_name = reader.string(True)
                        message.partitions = reader.integers("i", True)
                        reader.skip_tags()
                        return message

                    def encode(self, writer: Writer, version: int) -> None:
                        writer.uuid(self.topic_id)
                        writer.string(self.topic_name, True)
                        writer.integers("i", self.partitions, True)
                        writer.no_tags()

                topic_partitions: list[TopicPartitions] = field(default_factory=list)

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.topic_partitions = reader.structs(
                        cls.TopicPartitions.decode, version, True
                    )
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.structs(self.topic_partitions, version, True)
                    writer.no_tags()

            member_id: str = ""
            instance_id: str | None = None
            rack_id: str | None = None
            member_epoch: int = 0
            client_id: str = ""
            client_host: str = ""
            subscribed_topic_names: list[str] = field(default_factory=list)
            subscribed_topic_regex: str | None = None
            assignment: Assignment = field(
                default_factory=lambda: ConsumerGroupDescribeResponse.Groups.Members.Assignment()
            )
            target_assignment: TargetAssignment = field(
                default_factory=lambda: (
                    ConsumerGroupDescribeResponse.Groups.Members.TargetAssignment()
                )
            )
            member_type: int = -1

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.member_id = reader.string(True)
                message.instance_id = reader.nullable_string(True)
                message.rack_id = reader.nullable_string(True)
                message.member_epoch = reader.int32()
                message.client_id = reader.string(True)
                message.client_host = reader.string(True)
                message.subscribed_topic_names = reader.strings(True)
                message.subscribed_topic_regex = reader.nullable_string(True)
                message.assignment = cls.Assignment.decode(reader, version)
                message.target_assignment = cls.TargetAssignment.decode(reader, version)
                if version >= 1:
                    message.member_type = reader.int8()
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.member_id, True)
                writer.nullable_string(self.instance_id, True)
                writer.nullable_string(self.rack_id, True)
                writer.int32(self.member_epoch)
                writer.string(self.client_id, True)
                writer.string(self.client_host, True)
                writer.strings(self.subscribed_topic_names, True)
                writer.nullable_string(self.subscribed_topic_regex, True)
                self.assignment.encode(writer, version)
                self.target_assignment.encode(writer, version)
                if version >= 1:
                    writer.int8(self.member_type)
                writer.no_tags()

        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[Members] = field(default_factory=list)
        authorized_operations: int = -2147483648

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.error_code = reader.int16()
            message.error_message = reader.nullable_string(True)
            message.group_id = reader.string(True)
            message.group_state = reader.string(True)
            message.group_epoch, message.assignment_epoch = reader.fixed(_I32_I32)
            message.assignor_name = reader.string(True)
            message.members = reader.structs(cls.Members.decode, version, True)
            message.authorized_operations = reader.int32()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int16(self.error_code)
            writer.nullable_string(self.error_message, True)
            writer.string(self.group_id, True)
            writer.string(self.group_state, True)
            writer.fixed(_I32_I32, self.group_epoch, self.assignment_epoch)
            writer.string(self.assignor_name, True)
            writer.structs(self.members, version, True)
            writer.int32(self.authorized_operations)
            writer.no_tags()

    throttle_time_ms: int = 0
    groups: list[Groups] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.groups = reader.structs(cls.Groups.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.structs(self.groups, version, True)
        writer.no_tags()
