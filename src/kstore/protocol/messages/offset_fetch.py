"""OffsetFetch, API key 9. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I64 = Struct(">iq")
_I32_I64_I32 = Struct(">iqi")


@message_class
class OffsetFetchRequest:
    """OffsetFetch request, versions 0 to 9."""

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6

    @message_class
    class Topics:
        name: str = ""
        partition_indexes: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 6
            message = cls()
            message.name = reader.string(flexible)
            message.partition_indexes = reader.integers("i", flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 6
            writer.string(self.name, flexible)
            writer.integers("i", self.partition_indexes, flexible)
            if flexible:
                writer.no_tags()

    @message_class
    class Groups:
        @message_class
        class Topics:
            name: str = ""
            partition_indexes: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.partition_indexes = reader.integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.integers("i", self.partition_indexes, True)
                writer.no_tags()

        group_id: str = ""
        member_id: str | None = None
        member_epoch: int = -1
        topics: list[Topics] | None = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.group_id = reader.string(True)
            if version >= 9:
                message.member_id = reader.nullable_string(True)
                message.member_epoch = reader.int32()
            message.topics = reader.nullable_structs(cls.Topics.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.group_id, True)
            if version >= 9:
                writer.nullable_string(self.member_id, True)
                writer.int32(self.member_epoch)
            writer.nullable_structs(self.topics, version, True)
            writer.no_tags()

    group_id: str = ""
    topics: list[Topics] | None = field(default_factory=list)
    groups: list[Groups] = field(default_factory=list)
    require_stable: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 6
        message = cls()
        if version <= 7:
            message.group_id = reader.string(flexible)
            message.topics = (
                reader.nullable_structs(cls.Topics.decode, version, flexible)
                if version >= 2
                else reader.structs(cls.Topics.decode, version, flexible)
            )
        if version >= 8:
            message.groups = reader.structs(cls.Groups.decode, version, flexible)
        if version >= 7:
            message.require_stable = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 6
        if version <= 7:
            writer.string(self.group_id, flexible)
            if version >= 2:
                writer.nullable_structs(self.topics, version, flexible)
            else:
                writer.structs(self.topics, version, flexible)
        if version >= 8:
            writer.structs(self.groups, version, flexible)
        if version >= 7:
            writer.boolean(self.require_stable)
        if flexible:
            writer.no_tags()


@message_class
class OffsetFetchResponse:
    """OffsetFetch response, versions 0 to 9."""

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition_index: int = 0
            committed_offset: int = 0
            committed_leader_epoch: int = -1
            metadata: str | None = ""
            error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 6
                message = cls()
                message.partition_index, message.committed_offset = reader.fixed(_I32_I64)
                if version >= 5:
                    message.committed_leader_epoch = reader.int32()
                message.metadata = reader.nullable_string(flexible)
                message.error_code = reader.int16()
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 6
                writer.fixed(_I32_I64, self.partition_index, self.committed_offset)
                if version >= 5:
                    writer.int32(self.committed_leader_epoch)
                writer.nullable_string(self.metadata, flexible)
                writer.int16(self.error_code)
                if flexible:
                    writer.no_tags()

        name: str = ""
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 6
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 6
            writer.string(self.name, flexible)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    @message_class
    class Groups:
        @message_class
        class Topics:
            @message_class
            class Partitions:
                partition_index: int = 0
                committed_offset: int = 0
                committed_leader_epoch: int = -1
                metadata: str | None = ""
                error_code: int = 0

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    (
                        message.partition_index,
                        message.committed_offset,
                        message.committed_leader_epoch,
                    ) = reader.fixed(_I32_I64_I32)
                    message.metadata = reader.nullable_string(True)
                    message.error_code = reader.int16()
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.fixed(
                        _I32_I64_I32,
                        self.partition_index,
                        self.committed_offset,
                        self.committed_leader_epoch,
                    )
                    writer.nullable_string(self.metadata, True)
                    writer.int16(self.error_code)
                    writer.no_tags()

            name: str = ""
            partitions: list[Partitions] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.partitions = reader.structs(cls.Partitions.decode, version, True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.structs(self.partitions, version, True)
                writer.no_tags()

        group_id: str = ""
        topics: list[Topics] = field(default_factory=list)
        error_code: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.group_id = reader.string(True)
            message.topics = reader.structs(cls.Topics.decode, version, True)
            message.error_code = reader.int16()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.group_id, True)
            writer.structs(self.topics, version, True)
            writer.int16(self.error_code)
            writer.no_tags()

    throttle_time_ms: int = 0
    topics: list[Topics] = field(default_factory=list)
    error_code: int = 0
    groups: list[Groups] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 6
        message = cls()
        if version >= 3:
            message.throttle_time_ms = reader.int32()
        if version <= 7:
            message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if 2 <= version <= 7:
            message.error_code = reader.int16()
        if version >= 8:
            message.groups = reader.structs(cls.Groups.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 6
        if version >= 3:
            writer.int32(self.throttle_time_ms)
        if version <= 7:
            writer.structs(self.topics, version, flexible)
        if 2 <= version <= 7:
            writer.int16(self.error_code)
        if version >= 8:
            writer.structs(self.groups, version, flexible)
        if flexible:
            writer.no_tags()
