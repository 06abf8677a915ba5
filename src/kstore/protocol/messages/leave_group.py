"""LeaveGroup, API key 13. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class LeaveGroupRequest:
    """LeaveGroup request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Members:
        member_id: str = ""
        group_instance_id: str | None = None
        reason: str | None = None

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.member_id = reader.string(flexible)
            message.group_instance_id = reader.nullable_string(flexible)
            if version >= 5:
                message.reason = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.string(self.member_id, flexible)
            writer.nullable_string(self.group_instance_id, flexible)
            if version >= 5:
                writer.nullable_string(self.reason, flexible)
            if flexible:
                writer.no_tags()

    group_id: str = ""
    member_id: str = ""
    members: list[Members] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.group_id = reader.string(flexible)
        if version <= 2:
            message.member_id = reader.string(flexible)
        if version >= 3:
            message.members = reader.structs(cls.Members.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        writer.string(self.group_id, flexible)
        if version <= 2:
            writer.string(self.member_id, flexible)
        if version >= 3:
            writer.structs(self.members, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class LeaveGroupResponse:
    """LeaveGroup response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 13
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Members:
        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.member_id = reader.string(flexible)
            message.group_instance_id = reader.nullable_string(flexible)
            message.error_code = reader.int16()
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.string(self.member_id, flexible)
            writer.nullable_string(self.group_instance_id, flexible)
            writer.int16(self.error_code)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[Members] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        message.error_code = reader.int16()
        if version >= 3:
            message.members = reader.structs(cls.Members.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        if version >= 3:
            writer.structs(self.members, version, flexible)
        if flexible:
            writer.no_tags()
