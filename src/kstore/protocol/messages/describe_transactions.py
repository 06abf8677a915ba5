"""DescribeTransactions, API key 65. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I64_I64_I16 = Struct(">iqqh")


@message_class
class DescribeTransactionsRequest:
    """DescribeTransactions request, version 0."""

    API_KEY: ClassVar[int] = 65
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    transactional_ids: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.transactional_ids = reader.strings(True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.transactional_ids, True)
        writer.no_tags()


@message_class
class DescribeTransactionsResponse:
    """DescribeTransactions response, version 0."""

    API_KEY: ClassVar[int] = 65
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class TransactionStates:
        @message_class
        class Topics:
            topic: str = ""
            partitions: list[int] = field(default_factory=list)

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.topic = reader.string(True)
                message.partitions = reader.integers("i", True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.topic, True)
                writer.integers("i", self.partitions, True)
                writer.no_tags()

        error_code: int = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: int = 0
        transaction_start_time_ms: int = 0
        producer_id: int = 0
        producer_epoch: int = 0
        topics: list[Topics] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.error_code = reader.int16()
            message.transactional_id = reader.string(True)
            message.transaction_state = reader.string(True)
            (
                message.transaction_timeout_ms,
                message.transaction_start_time_ms,
                message.producer_id,
                message.producer_epoch,
            ) = reader.fixed(_I32_I64_I64_I16)
            message.topics = reader.structs(cls.Topics.decode, version, True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int16(self.error_code)
            writer.string(self.transactional_id, True)
            writer.string(self.transaction_state, True)
            writer.fixed(
                _I32_I64_I64_I16,
                self.transaction_timeout_ms,
                self.transaction_start_time_ms,
                self.producer_id,
                self.producer_epoch,
            )
            writer.structs(self.topics, version, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    transaction_states: list[TransactionStates] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms = reader.int32()
        message.transaction_states = reader.structs(cls.TransactionStates.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.structs(self.transaction_states, version, True)
        writer.no_tags()
