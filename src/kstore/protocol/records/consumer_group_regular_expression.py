"""ConsumerGroupRegularExpression records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I64_I64 = Struct(">qq")


@message_class
class ConsumerGroupRegularExpressionKey:
    """ConsumerGroupRegularExpressionKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 16
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    group_id: str = ""
    regular_expression: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_id = reader.string(False)
        message.regular_expression = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, False)
        writer.string(self.regular_expression, False)


@message_class
class ConsumerGroupRegularExpressionValue:
    """ConsumerGroupRegularExpressionValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.topics = reader.strings(True)
        message.version, message.timestamp = reader.fixed(_I64_I64)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.strings(self.topics, True)
        writer.fixed(_I64_I64, self.version, self.timestamp)
        writer.no_tags()
