"""The formatters of ``kstore console-consumer``, which are Kafka's."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from kstore.cli.common import WrongOptionsError, complain, flag, unescape
from kstore.cli.deserializers import (
    Deserializer,
    UnprintableRecordError,
    deserializer,
    simple_name,
)
from kstore.cli.dump_records import kind_of
from kstore.errors import CorruptRecordError

if TYPE_CHECKING:
    from kstore.record import Record

FORMATTER_PROPERTIES = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.epoch",
    "print.headers",
    "print.key",
    "print.value",
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
    "key.deserializer",
    "value.deserializer",
    "headers.deserializer",
)
_INTERNAL = {
    "OffsetsMessageFormatter": ("LegacyOffset", "Offset"),
    "GroupMetadataMessageFormatter": ("Group",),
    "TransactionLogMessageFormatter": ("TransactionLog",),
}
_LOGGER = logging.getLogger("kstore.LoggingMessageFormatter")
_DEPRECATED = (
    "kafka.tools.DefaultMessageFormatter",
    "kafka.tools.LoggingMessageFormatter",
    "kafka.tools.NoOpMessageFormatter",
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter",
)


class RecordFormatter(Protocol):
    """Turns a record into the bytes to print; raises UnprintableRecordError if it cannot."""

    def render(self, record: "Record", partition: int) -> bytes: ...


def make_formatter(name: str, values: Mapping[str, str]) -> RecordFormatter:
    """Kafka's formatter by name, with or without its package. Raises WrongOptionsError."""
    simple = simple_name(name)
    if name in _DEPRECATED:
        complain(
            f"WARNING: {name} is deprecated and will be removed in the next major release. Please "
            f"use org.apache.kafka.tools.consumer.{simple} instead"
        )
    if simple == "DefaultMessageFormatter":
        return Formatter(values)
    if simple == "LoggingMessageFormatter":
        return LoggingFormatter(values)
    if simple == "NoOpMessageFormatter":
        return NoOpFormatter()
    if simple in _INTERNAL:
        return InternalTopicFormatter(_INTERNAL[simple])
    plain = ("DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter")
    known = ", ".join((*plain, *_INTERNAL))
    raise WrongOptionsError(
        f"--formatter {name[:80]}: kstore runs no Java classes; it has its own {known}"
    )


class Formatter:
    """Kafka's DefaultMessageFormatter: the requested fields, in Kafka's order."""

    def __init__(self, values: Mapping[str, str]) -> None:
        def text(name: str, default: str) -> bytes:
            return unescape(values.get(name, default)).encode()

        self.separator = text("key.separator", "\t")
        self.end = text("line.separator", "\n")
        self.headers_separator = text("headers.separator", ",")
        self.null = text("null.literal", "null")
        key, value, self.header_value = (
            deserializer(values.get(f"{what}.deserializer")) for what in ("key", "value", "headers")
        )
        shown = {
            "print.timestamp": self.timestamp,
            "print.partition": lambda record, partition: b"Partition:%d" % partition,
            "print.offset": lambda record, partition: b"Offset:%d" % record.offset,
            "print.epoch": lambda record, partition: b"Epoch:%d" % record.leader_epoch,
            "print.headers": self.headers,
            "print.key": lambda record, partition: self.nullable(record.key, key),
            "print.value": lambda record, partition: self.nullable(record.value, value),
        }
        self.fields: list[Callable[[Record, int], bytes]] = [
            function for name, function in shown.items() if flag(values, name, name[6:] == "value")
        ]

    def render(self, record: "Record", partition: int) -> bytes:
        return self.separator.join(field(record, partition) for field in self.fields) + self.end

    def nullable(self, data: bytes | None, show: Deserializer | None = None) -> bytes:
        if data is None:
            return self.null
        return data if show is None else show(data).encode()

    def timestamp(self, record: "Record", partition: int) -> bytes:
        del partition
        if record.timestamp_type == "NoTimestampType":
            return b"NO_TIMESTAMP"
        return f"{record.timestamp_type}:{record.timestamp}".encode()

    def headers(self, record: "Record", partition: int) -> bytes:
        del partition
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self.nullable(value, self.header_value)
            for name, value in record.headers
        )


class LoggingFormatter(Formatter):
    """Kafka's LoggingMessageFormatter: formats like the default one, and logs each record.

    As Kafka's tools, kstore's show no messages of level INFO unless logging is configured.
    """

    def render(self, record: "Record", partition: int) -> bytes:
        line = super().render(record, partition)
        when = ""
        if record.timestamp_type != "NoTimestampType":
            when = f"{record.timestamp_type}:{record.timestamp}, "
        key = "null " if record.key is None else f"{_text(record.key)}, "
        value = "null" if record.value is None else _text(record.value)
        _LOGGER.info("%skey:%svalue:%s", when, key, value)
        return line


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class NoOpFormatter:
    """Kafka's NoOpMessageFormatter, which prints nothing, so that only the final count appears."""

    def render(self, record: "Record", partition: int) -> bytes:
        del record, partition
        return b""


class InternalTopicFormatter:
    """Formats records of an internal topic as JSON lines; omits records of other types."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        from kstore.partition_files import kafka_messages

        self._messages = kafka_messages
        self._names = {
            kind: name
            for prefix in prefixes
            for kind, name in kafka_messages.names_by_key("KEY", prefix).items()
        }

    def render(self, record: "Record", partition: int) -> bytes:
        del partition
        key = record.key or b""
        kind = kind_of(key)
        name = self._names.get(kind)
        if name is None:
            return b""
        messages = self._messages
        try:
            value: dict[str, object] | None = None
            if record.value is not None:
                version, data = messages.decode_prefixed(f"{name[:-3]}Value", record.value)
                value = {"version": version, "data": data}
            tree = {"key": {"type": kind, "data": messages.decode(name, 0, key[2:])}}
            line: str = messages.compact({**tree, "value": value})
            return line.encode() + b"\n"
        except CorruptRecordError as error:
            raise UnprintableRecordError(error.reason) from error
