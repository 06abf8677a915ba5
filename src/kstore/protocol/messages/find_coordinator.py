"""FindCoordinator, API key 10. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class FindCoordinatorRequest:
    """FindCoordinator request, versions 0 to 6."""

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 3

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        if version <= 3:
            message.key = reader.string(flexible)
        if version >= 1:
            message.key_type = reader.int8()
        if version >= 4:
            message.coordinator_keys = reader.strings(flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        if version <= 3:
            writer.string(self.key, flexible)
        if version >= 1:
            writer.int8(self.key_type)
        if version >= 4:
            writer.strings(self.coordinator_keys, flexible)
        if flexible:
            writer.no_tags()


@message_class
class FindCoordinatorResponse:
    """FindCoordinator response, versions 0 to 6."""

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class Coordinators:
        key: str = ""
        node_id: int = 0
        host: str = ""
        port: int = 0
        error_code: int = 0
        error_message: str | None = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.key = reader.string(True)
            message.node_id = reader.int32()
            message.host = reader.string(True)
            message.port, message.error_code = reader.fixed(_I32_I16)
            message.error_message = reader.nullable_string(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.key, True)
            writer.int32(self.node_id)
            writer.string(self.host, True)
            writer.fixed(_I32_I16, self.port, self.error_code)
            writer.nullable_string(self.error_message, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinators] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        if version <= 3:
            message.error_code = reader.int16()
        if 1 <= version <= 3:
            message.error_message = reader.nullable_string(flexible)
        if version <= 3:
            message.node_id = reader.int32()
            message.host = reader.string(flexible)
            message.port = reader.int32()
        if version >= 4:
            message.coordinators = reader.structs(cls.Coordinators.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        if version <= 3:
            writer.int16(self.error_code)
        if 1 <= version <= 3:
            writer.nullable_string(self.error_message, flexible)
        if version <= 3:
            writer.int32(self.node_id)
            writer.string(self.host, flexible)
            writer.int32(self.port)
        if version >= 4:
            writer.structs(self.coordinators, version, flexible)
        if flexible:
            writer.no_tags()
