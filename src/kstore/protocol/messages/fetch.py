"""Fetch, API key 1. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import ZERO_UUID, Reader, Records, Writer

_I16_I32 = Struct(">hi")
_I32_I16_I64 = Struct(">ihq")
_I32_I32 = Struct(">ii")
_I32_I64 = Struct(">iq")
_I64_I32 = Struct(">qi")
_I64_I64 = Struct(">qq")


@message_class
class FetchRequest:
    """Fetch request, versions 0 to 17."""

    API_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 17
    FLEXIBLE_FROM: ClassVar[int] = 12

    @message_class
    class ReplicaState:
        replica_id: int = -1
        replica_epoch: int = -1

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.replica_id, message.replica_epoch = reader.fixed(_I32_I64)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.fixed(_I32_I64, self.replica_id, self.replica_epoch)
            writer.no_tags()

    @message_class
    class Topics:
        @message_class
        class Partitions:
            partition: int = 0
            current_leader_epoch: int = -1
            fetch_offset: int = 0
            last_fetched_epoch: int = -1
            log_start_offset: int = -1
            partition_max_bytes: int = 0
            replica_directory_id: bytes = ZERO_UUID

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 12
                message = cls()
                message.partition = reader.int32()
                if version >= 9:
                    message.current_leader_epoch = reader.int32()
                message.fetch_offset = reader.int64()
                if version >= 12:
                    message.last_fetched_epoch = reader.int32()
                if version >= 5:
                    message.log_start_offset = reader.int64()
                message.partition_max_bytes = reader.int32()
                if flexible:
                    for tag in reader.tags():
                        if tag == 0 and version >= 17:
                            message.replica_directory_id = reader.uuid()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 12
                writer.int32(self.partition)
                if version >= 9:
                    writer.int32(self.current_leader_epoch)
                writer.int64(self.fetch_offset)
                if version >= 12:
                    writer.int32(self.last_fetched_epoch)
                if version >= 5:
                    writer.int64(self.log_start_offset)
                writer.int32(self.partition_max_bytes)
                if flexible:
                    tags: list[tuple[int, Writer]] = []
                    if version >= 17 and self.replica_directory_id != ZERO_UUID:
                        tag = Writer()
                        tag.uuid(self.replica_directory_id)
                        tags.append((0, tag))
                    writer.tags(tags)

        topic: str = ""
        topic_id: bytes = ZERO_UUID
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 12
            message = cls()
            if version <= 12:
                message.topic = reader.string(flexible)
            if version >= 13:
                message.topic_id = reader.uuid()
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 12
            if version <= 12:
                writer.string(self.topic, flexible)
            if version >= 13:
                writer.uuid(self.topic_id)
            writer.structs(self.partitions, version, flexible)
            if flexible:
                writer.no_tags()

    @message_class
    class ForgottenTopicsData:
        topic: str = ""
        topic_id: bytes = ZERO_UUID
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 12
            message = cls()
            if version <= 12:
                message.topic = reader.string(flexible)
            if version >= 13:
                message.topic_id = reader.uuid()
            message.partitions = reader.integers("i", flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 12
            if version <= 12:
                writer.string(self.topic, flexible)
            if version >= 13:
                writer.uuid(self.topic_id)
            writer.integers("i", self.partitions, flexible)
            if flexible:
                writer.no_tags()

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[Topics] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopicsData] = field(default_factory=list)
    rack_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 12
        message = cls()
        if version <= 14:
            message.replica_id = reader.int32()
        message.max_wait_ms, message.min_bytes = reader.fixed(_I32_I32)
        if version >= 3:
            message.max_bytes = reader.int32()
        if version >= 4:
            message.isolation_level = reader.int8()
        if version >= 7:
            message.session_id, message.session_epoch = reader.fixed(_I32_I32)
        message.topics = reader.structs(cls.Topics.decode, version, flexible)
        if version >= 7:
            message.forgotten_topics_data = reader.structs(
                cls.ForgottenTopicsData.decode, version, flexible
            )
        if version >= 11:
            message.rack_id = reader.string(flexible)
        if flexible:
            for tag in reader.tags():
                if tag == 0:
                    message.cluster_id = reader.nullable_string(flexible)
                elif tag == 1 and version >= 15:
                    message.replica_state = cls.ReplicaState.decode(reader, version)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 12
        if version <= 14:
            writer.int32(self.replica_id)
        writer.fixed(_I32_I32, self.max_wait_ms, self.min_bytes)
        if version >= 3:
            writer.int32(self.max_bytes)
        if version >= 4:
            writer.int8(self.isolation_level)
        if version >= 7:
            writer.fixed(_I32_I32, self.session_id, self.session_epoch)
        writer.structs(self.topics, version, flexible)
        if version >= 7:
            writer.structs(self.forgotten_topics_data, version, flexible)
        if version >= 11:
            writer.string(self.rack_id, flexible)
        if flexible:
            tags: list[tuple[int, Writer]] = []
            if self.cluster_id is not None:
                tag = Writer()
                tag.nullable_string(self.cluster_id, flexible)
                tags.append((0, tag))
            if (
                version >= 15
                and self.replica_state is not None
                and self.replica_state != self.ReplicaState()
            ):
                tag = Writer()
                self.replica_state.encode(tag, version)
                tags.append((1, tag))
            writer.tags(tags)


@message_class
class FetchResponse:
    """Fetch response, versions 0 to 17."""

    API_KEY: ClassVar[int] = 1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 17
    FLEXIBLE_FROM: ClassVar[int] = 12

    @message_class
    class Responses:
        @message_class
        class Partitions:
            @message_class
            class DivergingEpoch:
                epoch: int = -1
                end_offset: int = -1

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.epoch, message.end_offset = reader.fixed(_I32_I64)
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.fixed(_I32_I64, self.epoch, self.end_offset)
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

            @message_class
            class SnapshotId:
                end_offset: int = -1
                epoch: int = -1

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.end_offset, message.epoch = reader.fixed(_I64_I32)
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.fixed(_I64_I32, self.end_offset, self.epoch)
                    writer.no_tags()

            @message_class
            class AbortedTransactions:
                producer_id: int = 0
                first_offset: int = 0

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    flexible = version >= 12
                    message = cls()
                    message.producer_id, message.first_offset = reader.fixed(_I64_I64)
                    if flexible:
                        reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    flexible = version >= 12
                    writer.fixed(_I64_I64, self.producer_id, self.first_offset)
                    if flexible:
                        writer.no_tags()

            partition_index: int = 0
            error_code: int = 0
            high_watermark: int = 0
            last_stable_offset: int = -1
            log_start_offset: int = -1
            diverging_epoch: DivergingEpoch | None = None
            current_leader: CurrentLeader | None = None
            snapshot_id: SnapshotId | None = None
            aborted_transactions: list[AbortedTransactions] | None = field(default_factory=list)
            preferred_read_replica: int = -1
            records: Records | None = None

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 12
                message = cls()
                message.partition_index, message.error_code, message.high_watermark = reader.fixed(
                    _I32_I16_I64
                )
                if version >= 4:
                    message.last_stable_offset = reader.int64()
                if version >= 5:
                    message.log_start_offset = reader.int64()
                if version >= 4:
                    message.aborted_transactions = reader.nullable_structs(
                        cls.AbortedTransactions.decode, version, flexible
                    )
                if version >= 11:
                    message.preferred_read_replica = reader.int32()
                message.records = reader.records(flexible)
                if flexible:
                    for tag in reader.tags():
                        if tag == 0:
                            message.diverging_epoch = cls.DivergingEpoch.decode(reader, version)
                        elif tag == 1:
                            message.current_leader = cls.CurrentLeader.decode(reader, version)
                        elif tag == 2:
                            message.snapshot_id = cls.SnapshotId.decode(reader, version)
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 12
                writer.fixed(
                    _I32_I16_I64, self.partition_index, self.error_code, self.high_watermark
                )
                if version >= 4:
                    writer.int64(self.last_stable_offset)
                if version >= 5:
                    writer.int64(self.log_start_offset)
                if version >= 4:
                    writer.nullable_structs(self.aborted_transactions, version, flexible)
                if version >= 11:
                    writer.int32(self.preferred_read_replica)
                writer.records(self.records, flexible)
                if flexible:
                    tags: list[tuple[int, Writer]] = []
                    if (
                        self.diverging_epoch is not None
                        and self.diverging_epoch != self.DivergingEpoch()
                    ):
                        tag = Writer()
                        self.diverging_epoch.encode(tag, version)
                        tags.append((0, tag))
                    if (
                        self.current_leader is not None
                        and self.current_leader != self.CurrentLeader()
                    ):
                        tag = Writer()
                        self.current_leader.encode(tag, version)
                        tags.append((1, tag))
                    if self.snapshot_id is not None and self.snapshot_id != self.SnapshotId():
                        tag = Writer()
                        self.snapshot_id.encode(tag, version)
                        tags.append((2, tag))
                    writer.tags(tags)

        topic: str = ""
        topic_id: bytes = ZERO_UUID
        partitions: list[Partitions] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 12
            message = cls()
            if version <= 12:
                message.topic = reader.string(flexible)
            if version >= 13:
                message.topic_id = reader.uuid()
            message.partitions = reader.structs(cls.Partitions.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 12
            if version <= 12:
                writer.string(self.topic, flexible)
            if version >= 13:
                writer.uuid(self.topic_id)
            writer.structs(self.partitions, version, flexible)
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

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[Responses] = field(default_factory=list)
    node_endpoints: list[NodeEndpoints] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 12
        message = cls()
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        if version >= 7:
            message.error_code, message.session_id = reader.fixed(_I16_I32)
        message.responses = reader.structs(cls.Responses.decode, version, flexible)
        if flexible:
            for tag in reader.tags():
                if tag == 0 and version >= 16:
                    message.node_endpoints = reader.structs(
                        cls.NodeEndpoints.decode, version, flexible
                    )
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 12
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        if version >= 7:
            writer.fixed(_I16_I32, self.error_code, self.session_id)
        writer.structs(self.responses, version, flexible)
        if flexible:
            tags: list[tuple[int, Writer]] = []
            if version >= 16 and self.node_endpoints:
                tag = Writer()
                tag.structs(self.node_endpoints, version, flexible)
                tags.append((0, tag))
            writer.tags(tags)
