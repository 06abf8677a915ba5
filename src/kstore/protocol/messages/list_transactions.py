"""ListTransactions, API key 66. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class ListTransactionsRequest:
    """ListTransactions request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 66
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.state_filters = reader.strings(True)
        message.producer_id_filters = reader.integers("q", True)
        if version >= 1:
            message.duration_filter = reader.int64()
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.state_filters, True)
        writer.integers("q", self.producer_id_filters, True)
        if version >= 1:
            writer.int64(self.duration_filter)
        writer.no_tags()


@message_class
class ListTransactionsResponse:
    """ListTransactions response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 66
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class TransactionStates:
        transactional_id: str = ""
        producer_id: int = 0
        transaction_state: str = ""

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.transactional_id = reader.string(True)
            message.producer_id = reader.int64()
            message.transaction_state = reader.string(True)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.transactional_id, True)
            writer.int64(self.producer_id)
            writer.string(self.transaction_state, True)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionStates] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.unknown_state_filters = reader.strings(True)
        message.transaction_states = reader.structs(cls.TransactionStates.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.strings(self.unknown_state_filters, True)
        writer.structs(self.transaction_states, version, True)
        writer.no_tags()
