"""Heartbeat, API key 12. Generated from the table of messages."""

from __future__ import annotations

from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class HeartbeatRequest:
    """Heartbeat request, versions 0 to 4."""

    API_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        message.group_id = reader.string(flexible)
        message.generation_id = reader.int32()
        message.member_id = reader.string(flexible)
        if version >= 3:
            message.group_instance_id = reader.nullable_string(flexible)
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
        if flexible:
            writer.no_tags()


@message_class
class HeartbeatResponse:
    """Heartbeat response, versions 0 to 4."""

    API_KEY: ClassVar[int] = 12
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        message.error_code = reader.int16()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.int16(self.error_code)
        if flexible:
            writer.no_tags()
