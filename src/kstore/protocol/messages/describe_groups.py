"""DescribeGroups, API key 15. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class DescribeGroupsRequest:
    """DescribeGroups request, versions 0 to 6."""

    API_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 5

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 5
        message = cls()
        message.groups = reader.strings(flexible)
        if version >= 3:
            message.include_authorized_operations = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 5
        writer.strings(self.groups, flexible)
        if version >= 3:
            writer.boolean(self.include_authorized_operations)
        if flexible:
            writer.no_tags()


@message_class
class DescribeGroupsResponse:
    """DescribeGroups response, versions 0 to 6."""

    API_KEY: ClassVar[int] = 15
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 5

    @message_class
    class Groups:
        @message_class
        class Members:
            member_id: str = ""
            group_instance_id: str | None = None
            client_id: str = ""
            client_host: str = ""
            member_metadata: bytes = b""
            member_assignment: bytes = b""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 5
                message = cls()
                message.member_id = reader.string(flexible)
                if version >= 4:
                    message.group_instance_id = reader.nullable_string(flexible)
                message.client_id = reader.string(flexible)
                message.client_host = reader.string(flexible)
                message.member_metadata = reader.bytes_(flexible)
                message.member_assignment = reader.bytes_(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 5
                writer.string(self.member_id, flexible)
                if version >= 4:
                    writer.nullable_string(self.group_instance_id, flexible)
                writer.string(self.client_id, flexible)
                writer.string(self.client_host, flexible)
                writer.bytes_(self.member_metadata, flexible)
                writer.bytes_(self.member_assignment, flexible)
                if flexible:
                    writer.no_tags()

        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list[Members] = field(default_factory=list)
        authorized_operations: int = -2147483648

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 5
            message = cls()
            message.error_code = reader.int16()
            if version >= 6:
                message.error_message = reader.nullable_string(flexible)
            message.group_id = reader.string(flexible)
            message.group_state = reader.string(flexible)
            message.protocol_type = reader.string(flexible)
            message.protocol_data = reader.string(flexible)
            message.members = reader.structs(cls.Members.decode, version, flexible)
            if version >= 3:
                message.authorized_operations = reader.int32()
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 5
            writer.int16(self.error_code)
            if version >= 6:
                writer.nullable_string(self.error_message, flexible)
            writer.string(self.group_id, flexible)
            writer.string(self.group_state, flexible)
            writer.string(self.protocol_type, flexible)
            writer.string(self.protocol_data, flexible)
            writer.structs(self.members, version, flexible)
            if version >= 3:
                writer.int32(self.authorized_operations)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    groups: list[Groups] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 5
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        message.groups = reader.structs(cls.Groups.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 5
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.groups, version, flexible)
        if flexible:
            writer.no_tags()
