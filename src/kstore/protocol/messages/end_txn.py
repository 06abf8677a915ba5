"""EndTxn, API key 26. Generated from the table of messages."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")
_I64_I16 = Struct(">qh")
_I64_I16_BOOL = Struct(">qh?")


@message_class
class EndTxnRequest:
    """EndTxn request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        message.transactional_id = reader.string(flexible)
        message.producer_id, message.producer_epoch, message.committed = reader.fixed(_I64_I16_BOOL)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        writer.string(self.transactional_id, flexible)
        writer.fixed(_I64_I16_BOOL, self.producer_id, self.producer_epoch, self.committed)
        if flexible:
            writer.no_tags()


@message_class
class EndTxnResponse:
    """EndTxn response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        if version >= 5:
            message.producer_id, message.producer_epoch = reader.fixed(_I64_I16)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        if version >= 5:
            writer.fixed(_I64_I16, self.producer_id, self.producer_epoch)
        if flexible:
            writer.no_tags()
