"""GroupMetadata records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class GroupMetadataKey:
    """GroupMetadataKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 2
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    group: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group, False)


@message_class
class GroupMetadataValue:
    """GroupMetadataValue, versions 0 to 4."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Members:
        member_id: str = ""
        group_instance_id: str | None = None
        client_id: str = ""
        client_host: str = ""
        rebalance_timeout: int = -1
        session_timeout: int = 0
        subscription: bytes = b""
        assignment: bytes = b""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.member_id = reader.string(flexible)
            if version >= 3:
                message.group_instance_id = reader.nullable_string(flexible)
            message.client_id = reader.string(flexible)
            message.client_host = reader.string(flexible)
            if version >= 1:
                message.rebalance_timeout = reader.int32()
            message.session_timeout = reader.int32()
            message.subscription = reader.bytes_(flexible)
            message.assignment = reader.bytes_(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            writer.string(self.member_id, flexible)
            if version >= 3:
                writer.nullable_string(self.group_instance_id, flexible)
            writer.string(self.client_id, flexible)
            writer.string(self.client_host, flexible)
            if version >= 1:
                writer.int32(self.rebalance_timeout)
            writer.int32(self.session_timeout)
            writer.bytes_(self.subscription, flexible)
            writer.bytes_(self.assignment, flexible)
            if flexible:
                writer.no_tags()

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[Members] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.protocol_type = reader.string(flexible)
        message.generation = reader.int32()
        message.protocol = reader.nullable_string(flexible)
        message.leader = reader.nullable_string(flexible)
        if version >= 2:
            message.current_state_timestamp = reader.int64()
        message.members = reader.structs(cls.Members.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        writer.string(self.protocol_type, flexible)
        writer.int32(self.generation)
        writer.nullable_string(self.protocol, flexible)
        writer.nullable_string(self.leader, flexible)
        if version >= 2:
            writer.int64(self.current_state_timestamp)
        writer.structs(self.members, version, flexible)
        if flexible:
            writer.no_tags()
