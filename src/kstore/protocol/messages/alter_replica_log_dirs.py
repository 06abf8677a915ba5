"""AlterReplicaLogDirs, API key 34. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class AlterReplicaLogDirsRequest:
    """AlterReplicaLogDirs request, versions 0 to 2."""

    API_KEY: ClassVar[int] = 34
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Dirs:
        @message_class
        class Topics:
            name: str = ""
            partitions: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.name = reader.string(flexible)
                message.partitions = reader.integers("i", flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.string(self.name, flexible)
                writer.integers("i", self.partitions, flexible)
                if flexible:
                    writer.no_tags()

        path: str = ""
        topics: list[Topics] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.path = reader.string(flexible)
            message.topics = reader.structs(cls.Topics.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.path, flexible)
            writer.structs(self.topics, version, flexible)
            if flexible:
                writer.no_tags()

    dirs: list[Dirs] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.dirs = reader.structs(cls.Dirs.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.structs(self.dirs, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class AlterReplicaLogDirsResponse:
    """AlterReplicaLogDirs response, versions 0 to 2."""

    API_KEY: ClassVar[int] = 34
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class Results:
        @message_class
        class Partitions:
            partition_index: int = 0
            error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.partition_index, message.error_code = reader.fixed(_I32_I16)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.fixed(_I32_I16, self.partition_index, self.error_code)
                if flexible:
                    writer.no_tags()

        topic_name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.topic_name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.topic_name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    results: list[Results] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.results = reader.structs(cls.Results.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int32(self.throttle_time_ms)
        writer.structs(self.results, version, flexible)
        if flexible:
            writer.no_tags()
