"""Metadata, API key 3. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Writer

_I16_I32_I32 = Struct(">hii")


@message_class
class MetadataRequest:
    """Metadata request, versions 0 to 13."""

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9

    @message_class
    class Topics:
        topic_id: bytes = ZERO_UUID
        name: str | None = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 9
            message = cls()
            if version >= 10:
                message.topic_id = reader.uuid()
            message.name = (
                reader.nullable_string(flexible) if version >= 10 else reader.string(flexible)
            )
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 9
            if version >= 10:
                writer.uuid(self.topic_id)
            if version >= 10:
                writer.nullable_string(self.name, flexible)
            else:
                writer.string(self.name, flexible)
            if flexible:
                writer.no_tags()

    topics: list[Topics] | None = field(default_factory=list)
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 9
        message = cls()
        message.topics = (
            reader.nullable_structs(cls.Topics.decode, version, flexible)
            if version >= 1
            else reader.structs(cls.Topics.decode, version, flexible)
        )
        if version >= 4:
            message.allow_auto_topic_creation = reader.boolean()
        if 8 <= version <= 10:
            message.include_cluster_authorized_operations = reader.boolean()
        if version >= 8:
            message.include_topic_authorized_operations = reader.boolean()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 9
        if version >= 1:
            writer.nullable_structs(self.topics, version, flexible)
        else:
            writer.structs(self.topics, version, flexible)
        if version >= 4:
            writer.boolean(self.allow_auto_topic_creation)
        if 8 <= version <= 10:
            writer.boolean(self.include_cluster_authorized_operations)
        if version >= 8:
            writer.boolean(self.include_topic_authorized_operations)
        if flexible:
            writer.no_tags()


@message_class
class MetadataResponse:
    """Metadata response, versions 0 to 13."""

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9

    @message_class
    class Brokers:
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 9
            message = cls()
            message.node_id = reader.int32()
            message.host = reader.string(flexible)
            message.port = reader.int32()
            if version >= 1:
                message.rack = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 9
            writer.int32(self.node_id)
            writer.string(self.host, flexible)
            writer.int32(self.port)
            if version >= 1:
                writer.nullable_string(self.rack, flexible)
            if flexible:
                writer.no_tags()

    @message_class
    class Topics:
        @message_class
        class Partitions:
            error_code: int = 0
            partition_index: int = 0
            leader_id: int = 0
            leader_epoch: int = -1
            replica_nodes: list[int] = field(default_factory=list)
            isr_nodes: list[int] = field(default_factory=list)
            offline_replicas: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 9
                message = cls()
                message.error_code, message.partition_index, message.leader_id = reader.fixed(
                    _I16_I32_I32
                )
                if version >= 7:
                    message.leader_epoch = reader.int32()
                message.replica_nodes = reader.integers("i", flexible)
                message.isr_nodes = reader.integers("i", flexible)
                if version >= 5:
                    message.offline_replicas = reader.integers("i", flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 9
                writer.fixed(_I16_I32_I32, self.error_code, self.partition_index, self.leader_id)
                if version >= 7:
                    writer.int32(self.leader_epoch)
                writer.integers("i", self.replica_nodes, flexible)
                writer.integers("i", self.isr_nodes, flexible)
                if version >= 5:
                    writer.integers("i", self.offline_replicas, flexible)
                if flexible:
                    writer.no_tags()

        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ZERO_UUID
        is_internal: bool = False
        partitions: list[Partitions] = field(default_factory=list)
        topic_authorized_operations: int = -2147483648

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 9
            message = cls()
            message.error_code = reader.int16()
            message.name = (
                reader.nullable_string(flexible) if version >= 12 else reader.string(flexible)
            )
            if version >= 10:
                message.topic_id = reader.uuid()
            if version >= 1:
                message.is_internal = reader.boolean()
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if version >= 8:
                message.topic_authorized_operations = reader.int32()
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 9
            writer.int16(self.error_code)
            if version >= 12:
                writer.nullable_string(self.name, flexible)
            else:
                writer.string(self.name, flexible)
            if version >= 10:
                writer.uuid(self.topic_id)
            if version >= 1:
                writer.boolean(self.is_internal)
            writer.structs(self.partitions, version, flexible)
            if version >= 8:
                writer.int32(self.topic_authorized_operations)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    brokers: list[Brokers] = field(default_factory=list)
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[Topics] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 9
        message = cls()
        if version >= 3:
            message.throttle_time_ms = reader.int32()
        message.brokers = reader.structs(cls.Brokers.decode, version, flexible)
        if version >= 2:
            message.cluster_id = reader.nullable_string(flexible)
        if version >= 1:
            message.controller_id = reader.int32()
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if 8 <= version <= 10:
            message.cluster_authorized_operations = reader.int32()
        if version >= 13:
            message.error_code = reader.int16()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 9
        if version >= 3:
            writer.int32(self.throttle_time_ms)
        writer.structs(self.brokers, version, flexible)
        if version >= 2:
            writer.nullable_string(self.cluster_id, flexible)
        if version >= 1:
            writer.int32(self.controller_id)
        writer.structs(self.topics, version, flexible)
        if 8 <= version <= 10:
            writer.int32(self.cluster_authorized_operations)
        if version >= 13:
            writer.int16(self.error_code)
        if flexible:
            writer.no_tags()
