"""Decodes records of Kafka's internal topics to trees of JSON values.

The JSON is that of Kafka's generated JsonConverter classes: all fields of the version, except
tagged fields with their default value.
"""

import json
from base64 import b64encode, urlsafe_b64encode
from functools import cache
from typing import Any

from kstore.errors import CorruptRecordError, InvalidMessageError
from kstore.protocol.schema import table
from kstore.protocol.wire import Reader

_METADATA_FRAME = 1
_NUMBERS = {
    "bool": Reader.boolean,
    "i8": Reader.int8,
    "i16": Reader.int16,
    "u16": Reader.uint16,
    "i32": Reader.int32,
    "i64": Reader.int64,
    "f64": Reader.float64,
}
_PRESENT = 1  # the byte before a nullable struct; -1 (in a tagged field 0) means null


@cache
def definitions() -> dict[str, table.Message]:
    return {message.name: message for message in table.load("records.txt")}


@cache
def names_by_key(kind: str, prefix: str = "") -> dict[int, str]:
    """Message names of a kind by their key: ``METADATA``, ``REMOTE`` or ``KEY``."""
    return {
        message.api_key: name
        for name, message in definitions().items()
        if message.kind == kind and name.startswith(prefix)
    }


def compact(value: Any) -> str:
    """Format JSON as Jackson does: no spaces; escape only quotes and control characters."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode(name: str, version: int, data: bytes) -> dict[str, Any]:
    """Decode a message to a tree of JSON values. Raises CorruptRecordError."""
    message = definitions()[name]
    if version not in message.versions:
        raise CorruptRecordError(f"{name} has no version {version}")
    try:
        return _Tree(data, version, version >= message.flexible_from).struct(message.fields)
    except InvalidMessageError as error:
        raise CorruptRecordError(error.reason, position=error.position) from None


def decode_prefixed(name: str, data: bytes) -> tuple[int, dict[str, Any]]:
    """Decode a message with a two-byte version prefix to its version and tree."""
    version = int.from_bytes(data[:2], "big", signed=True)
    return version, decode(name, version, data[2:])


def metadata_record(data: bytes, kind: str = "METADATA") -> tuple[str, int, bytes]:
    """The message name, version and bytes of a record value in ``__cluster_metadata``, or, with
    the kind ``REMOTE``, in ``__remote_log_metadata``.

    Raises CorruptRecordError for a frame version or record type that is unknown to Kafka 4.3.
    """
    reader = Reader(data)
    try:
        frame, key, version = (reader.unsigned_varint() for _ in range(3))
    except InvalidMessageError as error:
        raise CorruptRecordError(error.reason) from None
    name = names_by_key(kind).get(key)
    if frame != _METADATA_FRAME or name is None:
        raise CorruptRecordError(f"unknown metadata record {key} in frame {frame}")
    return name, version, data[reader.position :]


def json_name(field: table.Field) -> str:
    """Kafka's JSON name of a field: ``topicId`` for ``topic_id``, ``kRaftVersion``."""
    words = ["KRaft" if word == "kraft" else word.capitalize() for word in field.name.split("_")]
    name = "".join(words)
    return name[0].lower() + name[1:]


class _Text(Reader):
    """Reads invalid UTF-8 as U+FFFD, as Java does."""

    __slots__ = ()

    def _text(self, size: int) -> str:
        return self._take(size).tobytes().decode("utf-8", "replace")


class _Tree:
    """Reads one message's bytes sequentially. Raises InvalidMessageError."""

    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.reader = _Text(data)
        self.version = version
        self.flexible = flexible

    def struct(self, fields: tuple[table.Field, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        present = [each for each in fields if self.version in each.versions]
        for field in present:
            if field.tag is None:
                values[field.name] = self.value(field)
        if self.flexible:
            self.tagged_fields([each for each in present if each.tag is not None], values)
        return {json_name(each): values[each.name] for each in fields if each.name in values}

    def tagged_fields(self, fields: list[table.Field], values: dict[str, Any]) -> None:
        known = {field.tag: field for field in fields}
        for field in fields:
            if field.kind == "struct" and not field.is_array:
                values[field.name] = None  # Kafka's converter writes these even if null
        for tag in self.reader.tags():
            if tag in known:
                found = known[tag]
                value = self.value(found)
                if value != _default(found) or (found.kind == "struct" and not found.is_array):
                    values[found.name] = value

    def value(self, field: table.Field) -> Any:
        if not field.is_array:
            return self.single(field, field.nullable is not None and self.version in field.nullable)
        count = self.reader.nullable_count(self.flexible)
        return None if count < 0 else [self.single(field, False) for _ in range(count)]

    def single(self, field: table.Field, may_be_null: bool) -> Any:
        reader, kind = self.reader, field.kind
        if kind == "struct":
            if may_be_null and reader.int8() != _PRESENT:
                return None
            return self.struct(field.fields)
        if kind == "uuid":
            return urlsafe_b64encode(reader.uuid()).decode().rstrip("=")
        if kind == "str":
            return reader.nullable_string(self.flexible)
        if kind in ("bytes", "records"):
            data = reader.nullable_bytes(self.flexible)
            return None if data is None else b64encode(data).decode()
        return _NUMBERS[kind](reader)


def _default(field: table.Field) -> Any:
    kind, given = field.kind, field.default
    if given == "null" or (kind == "struct" and not field.is_array):
        return None
    if field.is_array:
        return []
    if kind == "bool":
        return given == "true"
    if kind in ("str", "bytes", "records"):
        return given or ""
    if kind == "uuid":
        return "A" * 22
    return float(given or 0) if kind == "f64" else int(given or "0", 0)
