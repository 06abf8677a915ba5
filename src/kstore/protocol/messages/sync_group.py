"""SyncGroup, API key 14. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class SyncGroupRequest:
    """SyncGroup request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Assignments:
        member_id: str = ""
        assignment: bytes = b""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.member_id = reader.string(flexible)
            message.assignment = reader.bytes_(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.string(self.member_id, flexible)
            writer.bytes_(self.assignment, flexible)
            if flexible:
                writer.no_tags()

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[Assignments] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.group_id = reader.string(flexible)
        message.generation_id = reader.int32()
        message.member_id = reader.string(flexible)
        if version >= 3:
            message.group_instance_id = reader.nullable_string(flexible)
        if version >= 5:
            message.protocol_type = reader.nullable_string(flexible)
            message.protocol_name = reader.nullable_string(flexible)
        message.assignments = reader.structs(cls.Assignments.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        writer.string(self.group_id, flexible)
        writer.int32(self.generation_id)
        writer.string(self.member_id, flexible)
        if version >= 3:
            writer.nullable_string(self.group_instance_id, flexible)
        if version >= 5:
            writer.nullable_string(self.protocol_type, flexible)
            writer.nullable_string(self.protocol_name, flexible)
        writer.structs(self.assignments, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class SyncGroupResponse:
    """SyncGroup response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 14
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        message.error_code = reader.int16()
        if version >= 5:
            message.protocol_type = reader.nullable_string(flexible)
            message.protocol_name = reader.nullable_string(flexible)
        message.assignment = reader.bytes_(flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        if version >= 5:
            writer.nullable_string(self.protocol_type, flexible)
            writer.nullable_string(self.protocol_name, flexible)
        writer.bytes_(self.assignment, flexible)
        if flexible:
            writer.no_tags()
