"""CreateTopics, API key 19. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_BOOL_I8_BOOL = Struct(">?b?")
_I32_I16 = Struct(">ih")


@message_class
class CreateTopicsRequest:
    """CreateTopics request, versions 0 to 7."""

    API_KEY: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5

    @message_class
    class Topics:
        @message_class
        class Assignments:
            partition_index: int = 0
            broker_ids: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 5
                message = cls()
                message.partition_index = reader.int32()
                message.broker_ids = reader.integers("i", flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 5
                writer.int32(self.partition_index)
                writer.integers("i", self.broker_ids, flexible)
                if flexible:
                    writer.no_tags()

        @message_class
        class Configs:
            name: str = ""
            value: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 5
                message = cls()
                message.name = reader.string(flexible)
                message.value = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 5
                writer.string(self.name, flexible)
                writer.nullable_string(self.value, flexible)
                if flexible:
                    writer.no_tags()

        name: str = ""
        num_partitions: int = 0
        replication_factor: int = 0
        assignments: list[Assignments] = field(default_factory=list)
        configs: list[Configs] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 5
            message = cls()
            message.name = reader.string(flexible)
            message.num_partitions, message.replication_factor = reader.fixed(_I32_I16)
            message.assignments = reader.structs(cls.Assignments.decode, version, flexible)
            message.configs = reader.structs(cls.Configs.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 5
            writer.string(self.name, flexible)
            writer.fixed(_I32_I16, self.num_partitions, self.replication_factor)
            writer.structs(self.assignments, version, flexible)
            writer.structs(self.configs, version, flexible)
            if flexible:
                writer.no_tags()

    topics: list[Topics] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 5
        message = cls()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        message.timeout_ms = reader.int32()
        if version >= 1:
            message.validate_only = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 5
        writer.structs(self.topics, version, flexible)
        writer.int32(self.timeout_ms)
        if version >= 1:
            writer.boolean(self.validate_only)
        if flexible:
            writer.no_tags()


@message_class
class CreateTopicsResponse:
    """CreateTopics response, versions 0 to 7."""

    API_KEY: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5

    @message_class
    class Topics:
        @message_class
        class Configs:
            name: str = ""
            value: str | None = ""
            read_only: bool = False
            config_source: int = -1
            is_sensitive: bool = False

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.value = reader.nullable_string(True)
                message.read_only, message.config_source, message.is_sensitive = reader.fixed(
                    _BOOL_I8_BOOL
                )
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.nullable_string(self.value, True)
                writer.fixed(_BOOL_I8_BOOL, self.read_only, self.config_source, self.is_sensitive)
                writer.no_tags()

        name: str = ""
        topic_id: bytes = ZERO_UUID
        error_code: int = 0
        error_message: str | None = ""
        topic_config_error_code: int = 0
        num_partitions: int = -1
        replication_factor: int = -1
        configs: list[Configs] | None = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 5
            message = cls()
            message.name = reader.string(flexible)
            if version >= 7:
                message.topic_id = reader.uuid()
            message.error_code = reader.int16()
            if version >= 1:
                message.error_message = reader.nullable_string(flexible)
            if version >= 5:
                message.num_partitions, message.replication_factor = reader.fixed(_I32_I16)
                message.configs = reader.nullable_structs(cls.Configs.decode, version, flexible)
            if flexible:
                for tag in reader.tags():
                    if tag == 0:
                        message.topic_config_error_code = reader.int16()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 5
            writer.string(self.name, flexible)
            if version >= 7:
                writer.uuid(self.topic_id)
            writer.int16(self.error_code)
            if version >= 1:
                writer.nullable_string(self.error_message, flexible)
            if version >= 5:
                writer.fixed(_I32_I16, self.num_partitions, self.replication_factor)
                writer.nullable_structs(self.configs, version, flexible)
            if flexible:
                tags: list[tuple[int, Writer]] = []
                if self.topic_config_error_code:
                    tag = Writer()
                    tag.int16(self.topic_config_error_code)
                    tags.append((0, tag))
                writer.tags(tags)

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 5
        message = cls()
        if version >= 2:
            message.throttle_time_ms = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 5
        if version >= 2:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.topics, version, flexible)
        if flexible:
            writer.no_tags()
