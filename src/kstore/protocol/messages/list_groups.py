"""ListGroups, API key 16. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class ListGroupsRequest:
    """ListGroups request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        if version >= 4:
            message.states_filter = reader.strings(flexible)
        if version >= 5:
            message.types_filter = reader.strings(flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        if version >= 4:
            writer.strings(self.states_filter, flexible)
        if version >= 5:
            writer.strings(self.types_filter, flexible)
        if flexible:
            writer.no_tags()


@message_class
class ListGroupsResponse:
    """ListGroups response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class Groups:
        group_id: str = ""
        protocol_type: str = ""
        group_state: str = ""
        group_type: str = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 3
            message = cls()
            message.group_id = reader.string(flexible)
            message.protocol_type = reader.string(flexible)
            if version >= 4:
                message.group_state = reader.string(flexible)
            if version >= 5:
                message.group_type = reader.string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 3
            writer.string(self.group_id, flexible)
            writer.string(self.protocol_type, flexible)
            if version >= 4:
                writer.string(self.group_state, flexible)
            if version >= 5:
                writer.string(self.group_type, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[Groups] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        message.error_code = reader.int16()
        message.groups = reader.structs(cls.Groups.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        writer.structs(self.groups, version, flexible)
        if flexible:
            writer.no_tags()
