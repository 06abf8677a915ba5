"""JoinGroup, API key 11. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I16_I32 = Struct(">hi")


@message_class
class JoinGroupRequest:
    """JoinGroup request, versions 0 to 9."""

    API_KEY: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6

    @message_class
    class Protocols:
        name: str = ""
        metadata: bytes = b""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 6
            message = cls()
            message.name = reader.string(flexible)
            message.metadata = reader.bytes_(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 6
            writer.string(self.name, flexible)
            writer.bytes_(self.metadata, flexible)
            if flexible:
                writer.no_tags()

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[Protocols] = field(default_factory=list)
    reason: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 6
        message = cls()
        message.group_id = reader.string(flexible)
        message.session_timeout_ms = reader.int32()
        if version >= 1:
            message.rebalance_timeout_ms = reader.int32()
        message.member_id = reader.string(flexible)
        if version >= 5:
            message.group_instance_id = reader.nullable_string(flexible)
        message.protocol_type = reader.string(flexible)
        message.protocols = reader.structs(cls.Protocols.decode, version, flexible)
        if version >= 8:
            message.reason = reader.nullable_string(flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 6
        writer.string(self.group_id, flexible)
        writer.int32(self.session_timeout_ms)
        if version >= 1:
            writer.int32(self.rebalance_timeout_ms)
        writer.string(self.member_id, flexible)
        if version >= 5:
            writer.nullable_string(self.group_instance_id, flexible)
        writer.string(self.protocol_type, flexible)
        writer.structs(self.protocols, version, flexible)
        if version >= 8:
            writer.nullable_string(self.reason, flexible)
        if flexible:
            writer.no_tags()


@message_class
class JoinGroupResponse:
    """JoinGroup response, versions 0 to 9."""

    API_KEY: ClassVar[int] = 11
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6

    @message_class
    class Members:
        member_id: str = ""
        group_instance_id: str | None = None
        metadata: bytes = b""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 6
            message = cls()
            message.member_id = reader.string(flexible)
            if version >= 5:
                message.group_instance_id = reader.nullable_string(flexible)
            message.metadata = reader.bytes_(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 6
            writer.string(self.member_id, flexible)
            if version >= 5:
                writer.nullable_string(self.group_instance_id, flexible)
            writer.bytes_(self.metadata, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[Members] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 6
        message = cls()
        if version >= 2:
            message.throttle_time_ms = reader.int32()
        message.error_code, message.generation_id = reader.fixed(_I16_I32)
        if version >= 7:
            message.protocol_type = reader.nullable_string(flexible)
        message.protocol_name = (
            reader.nullable_string(flexible) if version >= 7 else reader.string(flexible)
        )
        message.leader = reader.string(flexible)
        if version >= 9:
            message.skip_assignment = reader.boolean()
        message.member_id = reader.string(flexible)
        message.members = reader.structs(cls.Members.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 6
        if version >= 2:
            writer.int32(self.throttle_time_ms)
        writer.fixed(_I16_I32, self.error_code, self.generation_id)
        if version >= 7:
            writer.nullable_string(self.protocol_type, flexible)
        if version >= 7:
            writer.nullable_string(self.protocol_name, flexible)
        else:
            writer.string(self.protocol_name, flexible)
        writer.string(self.leader, flexible)
        if version >= 9:
            writer.boolean(self.skip_assignment)
        writer.string(self.member_id, flexible)
        writer.structs(self.members, version, flexible)
        if flexible:
            writer.no_tags()
