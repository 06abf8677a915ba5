"""ElectLeaders, API key 43. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class ElectLeadersRequest:
    """ElectLeaders request, versions 0 to 2."""

    API_KEY: ClassVar[int] = 43
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class TopicPartitions:
        topic: str = ""
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.topic = reader.string(flexible)
            message.partitions = reader.integers("i", flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.topic, flexible)
            writer.integers("i", self.partitions, flexible)
            if flexible:
                writer.no_tags()

    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        if version >= 1:
            message.election_type = reader.int8()
        message.topic_partitions = reader.nullable_structs(
            cls.TopicPartitions.decode, version, flexible
        )
        message.timeout_ms = reader.int32()
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        if version >= 1:
            writer.int8(self.election_type)
        writer.nullable_structs(self.topic_partitions, version, flexible)
        writer.int32(self.timeout_ms)
        if flexible:
            writer.no_tags()


@message_class
class ElectLeadersResponse:
    """ElectLeaders response, versions 0 to 2."""

    API_KEY: ClassVar[int] = 43
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2

    @message_class
    class ReplicaElectionResults:
        @message_class
        class PartitionResult:
            partition_id: int = 0
            error_code: int = 0
            error_message: str | None = ""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 2
                message = cls()
                message.partition_id, message.error_code = reader.fixed(_I32_I16)
                message.error_message = reader.nullable_string(flexible)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 2
                writer.fixed(_I32_I16, self.partition_id, self.error_code)
                writer.nullable_string(self.error_message, flexible)
                if flexible:
                    writer.no_tags()

        topic: str = ""
        partition_result: list[PartitionResult] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 2
            message = cls()
            message.topic = reader.string(flexible)
            message.partition_result = reader.structs(cls.PartitionResult.decode, version, flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 2
            writer.string(self.topic, flexible)
            writer.structs(self.partition_result, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResults] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.throttle_time_ms = reader.int32()
        if version >= 1:
            message.error_code = reader.int16()
        message.replica_election_results = reader.structs(
            cls.ReplicaElectionResults.decode, version, flexible
        )
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.int32(self.throttle_time_ms)
        if version >= 1:
            writer.int16(self.error_code)
        writer.structs(self.replica_election_results, version, flexible)
        if flexible:
            writer.no_tags()
