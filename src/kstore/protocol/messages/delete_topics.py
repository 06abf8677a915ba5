"""DeleteTopics, API key 20. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer


@message_class
class DeleteTopicsRequest:
    """DeleteTopics request, versions 0 to 6."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Topics:
        name: str | None = None
        topic_id: bytes = ZERO_UUID

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.nullable_string(True)
            message.topic_id = reader.uuid()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.nullable_string(self.name, True)
            writer.uuid(self.topic_id)
            writer.no_tags()

    topics: list[Topics] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 6:
            message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if version <= 5:
            message.topic_names = reader.strings(flexible)
        message.timeout_ms = reader.int32()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 6:
            writer.structs(self.topics, version, flexible)
        if version <= 5:
            writer.strings(self.topic_names, flexible)
        writer.int32(self.timeout_ms)
        if flexible:
            writer.no_tags()


@message_class
class DeleteTopicsResponse:
    """DeleteTopics response, versions 0 to 6."""

    API_KEY: ClassVar[int] = 20
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 4

    @message_class
    class Responses:
        name: str | None = ""
        topic_id: bytes = ZERO_UUID
        error_code: int = 0
        error_message: str | None = None

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 4
            message = cls()
            message.name = (
                reader.nullable_string(flexible) if version >= 6 else reader.string(flexible)
            )
            if version >= 6:
                message.topic_id = reader.uuid()
            message.error_code = reader.int16()
            if version >= 5:
                message.error_message = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 4
            if version >= 6:
                writer.nullable_string(self.name, flexible)
            else:
                writer.string(self.name, flexible)
            if version >= 6:
                writer.uuid(self.topic_id)
            writer.int16(self.error_code)
            if version >= 5:
                writer.nullable_string(self.error_message, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    responses: list[Responses] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 4
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        message.responses = reader.structs(cls.Responses.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 4
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.responses, version, flexible)
        if flexible:
            writer.no_tags()
