"""TransactionLog records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I64_I16_I32_I8 = Struct(">qhib")
_I64_I64 = Struct(">qq")


@message_class
class TransactionLogKey:
    """TransactionLogKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    transactional_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.transactional_id = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.transactional_id, False)


@message_class
class TransactionLogValue:
    """TransactionLogValue, versions 0 to 1."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1

    @message_class
    class TransactionPartitions:
        topic: str = ""
        partition_ids: list[int] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 1
            message = cls()
            message.topic = reader.string(flexible)
            message.partition_ids = reader.integers("i", flexible)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 1
            writer.string(self.topic, flexible)
            writer.integers("i", self.partition_ids, flexible)
            if flexible:
                writer.no_tags()

    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[TransactionPartitions] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 1
        message = cls()
        (
            message.producer_id,
            message.producer_epoch,
            message.transaction_timeout_ms,
            message.transaction_status,
        ) = reader.fixed(_I64_I16_I32_I8)
        message.transaction_partitions = reader.nullable_structs(
            cls.TransactionPartitions.decode, version, flexible
        )
        message.transaction_last_update_timestamp_ms, message.transaction_start_timestamp_ms = (
            reader.fixed(_I64_I64)
        )
        if flexible:
            for tag in reader.tags():
                if tag == 0:
                    message.previous_producer_id = reader.int64()
                elif tag == 1:
                    message.next_producer_id = reader.int64()
                elif tag == 2:
                    message.client_transaction_version = reader.int16()
                elif tag == 3:
                    message.next_producer_epoch = reader.int16()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 1
        writer.fixed(
            _I64_I16_I32_I8,
            self.producer_id,
            self.producer_epoch,
            self.transaction_timeout_ms,
            self.transaction_status,
        )
        writer.nullable_structs(self.transaction_partitions, version, flexible)
        writer.fixed(
            _I64_I64, self.transaction_last_update_timestamp_ms, self.transaction_start_timestamp_ms
        )
        if flexible:
            tags: list[tuple[int, Writer]] = []
            if self.previous_producer_id != -1:
                tag = Writer()
                tag.int64(self.previous_producer_id)
                tags.append((0, tag))
            if self.next_producer_id != -1:
                tag = Writer()
                tag.int64(self.next_producer_id)
                tags.append((1, tag))
            if self.client_transaction_version:
                tag = Writer()
                tag.int16(self.client_transaction_version)
                tags.append((2, tag))
            if self.next_producer_epoch != -1:
                tag = Writer()
                tag.int16(self.next_producer_epoch)
                tags.append((3, tag))
            writer.tags(tags)
