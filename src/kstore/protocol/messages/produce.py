"""Produce, API key 0. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Records, Writer

_I16_I32 = Struct(">hi")
_I32_I16_I64 = Struct(">ihq")
_I32_I32 = Struct(">ii")


@message_class
class ProduceRequest:
    """Produce request, versions 0 to 13."""

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9

    @message_class
    class TopicData:
        @message_class
        class PartitionData:
            index: int = 0
            records: Records | None = None

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 9
                message = cls()
                message.index = reader.int32()
                message.records = reader.records(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 9
                writer.int32(self.index)
                writer.records(self.records, flexible)
                if flexible:
                    writer.no_tags()

        name: str = ""
        topic_id: bytes = ZERO_UUID
        partition_data: list[PartitionData] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 9
            message = cls()
            if version <= 12:
                message.name = reader.string(flexible)
            if version >= 13:
                message.topic_id = reader.uuid()
            message.partition_data = reader.structs(cls.PartitionData.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 9
            if version <= 12:
                writer.string(self.name, flexible)
            if version >= 13:
                writer.uuid(self.topic_id)
            writer.structs(self.partition_data, version, flexible)
            if flexible:
                writer.no_tags()

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicData] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 9
        message = cls()
        if version >= 3:
            message.transactional_id = reader.nullable_string(flexible)
        message.acks, message.timeout_ms = reader.fixed(_I16_I32)
        message.topic_data = reader.structs(cls.TopicData.decode, version, flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 9
        if version >= 3:
            writer.nullable_string(self.transactional_id, flexible)
        writer.fixed(_I16_I32, self.acks, self.timeout_ms)
        writer.structs(self.topic_data, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class ProduceResponse:
    """Produce response, versions 0 to 13."""

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9

    @message_class
    class Responses:
        @message_class
        class PartitionResponses:
            @message_class
            class RecordErrors:
                batch_index: int = 0
                batch_index_error_message: str | None = None

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    flexible = version >= 9
                    message = cls()
                    message.batch_index = reader.int32()
                    message.batch_index_error_message = reader.nullable_string(flexible)
                    if flexible:
                        reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    flexible = version >= 9
                    writer.int32(self.batch_index)
                    writer.nullable_string(self.batch_index_error_message, flexible)
                    if flexible:
                        writer.no_tags()

            @message_class
            class CurrentLeader:
                leader_id: int = -1
                leader_epoch: int = -1

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.leader_id, message.leader_epoch = reader.fixed(_I32_I32)
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.fixed(_I32_I32, self.leader_id, self.leader_epoch)
                    writer.no_tags()

            index: int = 0
            error_code: int = 0
            base_offset: int = 0
            log_append_time_ms: int = -1
            log_start_offset: int = -1
            record_errors: list[RecordErrors] = field(default_factory=list)
            error_message: str | None = None
            current_leader: CurrentLeader | None = None

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 9
                message = cls()
                message.index, message.error_code, message.base_offset = reader.fixed(_I32_I16_I64)
                if version >= 2:
                    message.log_append_time_ms = reader.int64()
                if version >= 5:
                    message.log_start_offset = reader.int64()
                if version >= 8:
                    message.record_errors = reader.structs(
                        cls.RecordErrors.decode, version, flexible
                    )
                    message.error_message = reader.nullable_string(flexible)
                if flexible:
                    for tag in reader.tags():
                        if tag == 0 and version >= 10:
                            message.current_leader = cls.CurrentLeader.decode(reader, version)
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 9
                writer.fixed(_I32_I16_I64, self.index, self.error_code, self.base_offset)
                if version >= 2:
                    writer.int64(self.log_append_time_ms)
                if version >= 5:
                    writer.int64(self.log_start_offset)
                if version >= 8:
                    writer.structs(self.record_errors, version, flexible)
                    writer.nullable_string(self.error_message, flexible)
                if flexible:
                    tags: list[tuple[int, Writer]] = []
                    if (
                        version >= 10
                        and self.current_leader is not None
                        and self.current_leader != self.CurrentLeader()
                    ):
                        tag = Writer()
                        self.current_leader.encode(tag, version)
                        tags.append((0, tag))
                    writer.tags(tags)

        name: str = ""
        topic_id: bytes = ZERO_UUID
        partition_responses: list[PartitionResponses] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 9
            message = cls()
            if version <= 12:
                message.name = reader.string(flexible)
            if version >= 13:
                message.topic_id = reader.uuid()
            message.partition_responses = reader.structs(
                cls.PartitionResponses.decode, version, flexible
            )
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 9
            if version <= 12:
                writer.string(self.name, flexible)
            if version >= 13:
                writer.uuid(self.topic_id)
            writer.structs(self.partition_responses, version, flexible)
            if flexible:
                writer.no_tags()

    @message_class
    class NodeEndpoints:
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.node_id = reader.int32()
            message.host = reader.string(True)
            message.port = reader.int32()
            message.rack = reader.nullable_string(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int32(self.node_id)
            writer.string(self.host, True)
            writer.int32(self.port)
            writer.nullable_string(self.rack, True)
            writer.no_tags()

    responses: list[Responses] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoints] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 9
        message = cls()
        message.responses = reader.structs(cls.Responses.decode, version, flexible)
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        if flexible:
            for tag in reader.tags():
                if tag == 0 and version >= 10:
                    message.node_endpoints = reader.structs(
                        cls.NodeEndpoints.decode, version, flexible
                    )
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 9
        writer.structs(self.responses, version, flexible)
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        if flexible:
            tags: list[tuple[int, Writer]] = []
            if version >= 10 and self.node_endpoints:
                tag = Writer()
                tag.structs(self.node_endpoints, version, flexible)
                tags.append((0, tag))
            writer.tags(tags)
