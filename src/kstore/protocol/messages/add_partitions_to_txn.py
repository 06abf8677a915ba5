"""AddPartitionsToTxn, API key 24. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I64_I16 = Struct(">qh")
_I64_I16_BOOL = Struct(">qh?")


@message_class
class AddPartitionsToTxnRequest:
    """AddPartitionsToTxn request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class Transactions:
        @message_class
        class Topics:
            name: str = ""
            partitions: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.partitions = reader.integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.integers("i", self.partitions, True)
                writer.no_tags()

        transactional_id: str = ""
        producer_id: int = 0
        producer_epoch: int = 0
        verify_only: bool = False
        topics: list[Topics] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.transactional_id = reader.string(True)
            message.producer_id, message.producer_epoch, message.verify_only = reader.fixed(
                _I64_I16_BOOL
            )
            message.topics = reader.structs(cls.Topics.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.transactional_id, True)
            writer.fixed(_I64_I16_BOOL, self.producer_id, self.producer_epoch, self.verify_only)
            writer.structs(self.topics, version, True)
            writer.no_tags()

    @message_class
    class V3AndBelowTopics:
        name: str = ""
        partitions: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 3
            message = cls()
            message.name = reader.string(flexible)
            message.partitions = reader.integers("i", flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 3
            writer.string(self.name, flexible)
            writer.integers("i", self.partitions, flexible)
            if flexible:
                writer.no_tags()

    transactions: list[Transactions] = field(default_factory=list)
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[V3AndBelowTopics] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        if version >= 4:
            message.transactions = reader.structs(cls.Transactions.decode, version, flexible)
        if version <= 3:
            message.v3_and_below_transactional_id = reader.string(flexible)
            message.v3_and_below_producer_id, message.v3_and_below_producer_epoch = reader.fixed(
                _I64_I16
            )
            message.v3_and_below_topics = reader.structs(
                cls.V3AndBelowTopics.decode, version, flexible
            )
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        if version >= 4:
            writer.structs(self.transactions, version, flexible)
        if version <= 3:
            writer.string(self.v3_and_below_transactional_id, flexible)
            writer.fixed(_I64_I16, self.v3_and_below_producer_id, self.v3_and_below_producer_epoch)
            writer.structs(self.v3_and_below_topics, version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class AddPartitionsToTxnResponse:
    """AddPartitionsToTxn response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class ResultsByTransaction:
        @message_class
        class TopicResults:
            @message_class
            class ResultsByPartition:
                partition_index: int = 0
                partition_error_code: int = 0

                @classmethod
                def decode(cls, reader: Reader, version: int) -> Self:
                    message = cls()
                    message.partition_index, message.partition_error_code = reader.fixed(_I32_I16)
                    reader.skip_tags()
                    return message

                def encode(self, writer: Writer, version: int) -> None:
                    writer.fixed(_I32_I16, self.partition_index, self.partition_error_code)
                    writer.no_tags()

            name: str = ""
            results_by_partition: list[ResultsByPartition] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.results_by_partition = reader.structs(
                    cls.ResultsByPartition.decode, version, True
                )
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.structs(self.results_by_partition, version, True)
                writer.no_tags()

        transactional_id: str = ""
        topic_results: list[TopicResults] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.transactional_id = reader.string(True)
            message.topic_results = reader.structs(cls.TopicResults.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.transactional_id, True)
            writer.structs(self.topic_results, version, True)
            writer.no_tags()

    @message_class
    class ResultsByTopicV3AndBelow:
        @message_class
        class ResultsByPartition:
            partition_index: int = 0
            partition_error_code: int = 0

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                flexible = version >= 3
                message = cls()
                message.partition_index, message.partition_error_code = reader.fixed(_I32_I16)
                if flexible:
                    reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                flexible = version >= 3
                writer.fixed(_I32_I16, self.partition_index, self.partition_error_code)
                if flexible:
                    writer.no_tags()

        name: str = ""
        results_by_partition: list[ResultsByPartition] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 3
            message = cls()
            message.name = reader.string(flexible)
            message.results_by_partition = reader.structs(
                cls.ResultsByPartition.decode, version, flexible
            )
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 3
            writer.string(self.name, flexible)
            writer.structs(self.results_by_partition, version, flexible)
            if flexible:
                writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[ResultsByTransaction] = field(default_factory=list)
    results_by_topic_v3_and_below: list[ResultsByTopicV3AndBelow] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        message.throttle_time_ms = reader.int32()
        if version >= 4:
            message.error_code = reader.int16()
            message.results_by_transaction = reader.structs(
                cls.ResultsByTransaction.decode, version, flexible
            )
        if version <= 3:
            message.results_by_topic_v3_and_below = reader.structs(
                cls.ResultsByTopicV3AndBelow.decode, version, flexible
            )
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        writer.int32(self.throttle_time_ms)
        if version >= 4:
            writer.int16(self.error_code)
            writer.structs(self.results_by_transaction, version, flexible)
        if version <= 3:
            writer.structs(self.results_by_topic_v3_and_below, version, flexible)
        if flexible:
            writer.no_tags()
