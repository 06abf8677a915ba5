"""InitProducerId, API key 22. Generated from the table of messages."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16_I64_I16 = Struct(">ihqh")
_I64_I16 = Struct(">qh")


@message_class
class InitProducerIdRequest:
    """InitProducerId request, versions 0 to 5."""

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        message.transactional_id = reader.nullable_string(flexible)
        message.transaction_timeout_ms = reader.int32()
        if version >= 3:
            message.producer_id, message.producer_epoch = reader.fixed(_I64_I16)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.nullable_string(self.transactional_id, flexible)
        writer.int32(self.transaction_timeout_ms)
        if version >= 3:
            writer.fixed(_I64_I16, self.producer_id, self.producer_epoch)
        if flexible:
            writer.no_tags()


@message_class
class InitProducerIdResponse:
    """InitProducerId response, versions 0 to 5."""

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 2
        message = cls()
        (
            message.throttle_time_ms,
            message.error_code,
            message.producer_id,
            message.producer_epoch,
        ) = reader.fixed(_I32_I16_I64_I16)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 2
        writer.fixed(
            _I32_I16_I64_I16,
            self.throttle_time_ms,
            self.error_code,
            self.producer_id,
            self.producer_epoch,
        )
        if flexible:
            writer.no_tags()
