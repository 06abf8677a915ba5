"""Records of Kafka's internal topics as trees of JSON values, by Kafka's own definitions.

``kafka_messages.json`` holds the definitions as Apache Kafka 4.3.0 ships them (comments left
out); the JSON is what Kafka's generated JsonConverter classes write: every field of the
version, but of the tagged ones only those that are not at their default.
"""

import json
import pkgutil
from base64 import b64encode, urlsafe_b64encode
from functools import cache
from struct import Struct
from typing import Any

from kstore.errors import CorruptRecordError

_FIXED = {
    "bool": Struct(">?"),
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
}
_UUID_SIZE = 16
_METADATA_FRAME = 1

Fields = list[dict[str, Any]]


@cache
def definitions() -> dict[str, Any]:
    text = pkgutil.get_data(__package__, "kafka_messages.json")
    found: dict[str, Any] = json.loads(text or b"{}")
    return found


@cache
def names_by_key(kind: str, prefix: str = "") -> dict[int, str]:
    """Message names of a kind by their key: ``metadata``, ``coordinator-key``..."""
    return {
        message["apiKey"]: name
        for name, message in definitions().items()
        if name != "about" and message["type"] == kind and name.startswith(prefix)
    }


def compact(value: Any) -> str:
    """JSON as Jackson writes it: no blanks, only quotes and control characters escaped."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode(name: str, version: int, data: bytes) -> dict[str, Any]:
    """The message as a tree of JSON values. Raises CorruptRecordError."""
    message = definitions()[name]
    if not _within(version, message["validVersions"]):
        raise CorruptRecordError(f"{name} has no version {version}")
    reader = _Reader(data, version, message)
    return reader.struct(message["fields"])


def decode_prefixed(name: str, data: bytes) -> tuple[int, dict[str, Any]]:
    """Version and tree of a message that its version precedes, in two bytes."""
    version = int.from_bytes(data[:2], "big", signed=True)
    return version, decode(name, version, data[2:])


def metadata_record(data: bytes) -> tuple[str, int, bytes]:
    """Name, version and message of a record's value in ``__cluster_metadata``.

    Raises CorruptRecordError for a frame or a kind of record that Kafka 4.3 does not have.
    """
    frame, rest = _varint(data)
    kind, rest = _varint(rest)
    version, rest = _varint(rest)
    name = names_by_key("metadata").get(kind)
    if frame != _METADATA_FRAME or name is None:
        raise CorruptRecordError(f"unknown metadata record {kind} in frame {frame}")
    return name, version, rest


def _varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for index, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, data[index + 1 :]
    raise CorruptRecordError("a variable-length number does not end")


def _within(version: int, span: str) -> bool:
    if span == "none":
        return False
    low, _, high = span.partition("-")
    if low.endswith("+"):
        return version >= int(low[:-1])
    return int(low) <= version <= int(high or low)


class _Reader:
    """One message's bytes, read from the front; every length is checked against what is left."""

    def __init__(self, data: bytes, version: int, message: dict[str, Any]) -> None:
        self.data = data
        self.at = 0
        self.version = version
        self.flexible = _within(version, message["flexibleVersions"])
        self.common: dict[str, Fields] = message.get("commonStructs", {})

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise CorruptRecordError("the message ends before its fields do")
        value = self.data[self.at : self.at + size]
        self.at += size
        return value

    def present(self) -> bool:
        """The byte before a struct that may be null: -1 (0 in a tagged field) says it is."""
        return self.take(1)[0] == 1

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise CorruptRecordError("a variable-length number is too long")

    def length(self, fixed: Struct, compact_form: bool) -> int:
        """A length or count; -1 is null."""
        if compact_form:
            return self.unsigned() - 1
        value: int = fixed.unpack(self.take(fixed.size))[0]
        return value

    def struct(self, fields: Fields) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in fields:
            tagged = _within(self.version, field.get("taggedVersions", "none"))
            if not tagged and _within(self.version, field["versions"]):
                values[field["name"]] = self.value(field, field["type"])
        if self.flexible:
            self.tagged_fields(fields, values)
        order = [field["name"] for field in fields if field["name"] in values]
        return {name[0].lower() + name[1:]: values[name] for name in order}

    def tagged_fields(self, fields: Fields, values: dict[str, Any]) -> None:
        known = {
            field["tag"]: field
            for field in fields
            if _within(self.version, field.get("taggedVersions", "none"))
        }
        for field in known.values():
            if "fields" in field and not field["type"].startswith("[]"):
                values[field["name"]] = None  # Kafka's converter shows these, null or not
        for _ in range(self.unsigned()):
            tag, size = self.unsigned(), self.unsigned()
            end = self.at + size
            if size > len(self.data) - self.at:
                raise CorruptRecordError("a tagged field is longer than the message")
            if tag in known:
                found = known[tag]
                value = self.value(found, found["type"])
                if value != _default(found) or "fields" in found:
                    values[found["name"]] = value
            self.at = end

    def value(self, field: dict[str, Any], kind: str) -> Any:
        compact_form = self.flexible and field.get("flexibleVersions") != "none"
        if kind in _FIXED:
            fixed = _FIXED[kind]
            return fixed.unpack(self.take(fixed.size))[0]
        if kind == "uuid":
            return urlsafe_b64encode(self.take(_UUID_SIZE)).decode().rstrip("=")
        if kind == "string":
            size = self.length(_FIXED["int16"], compact_form)
            return None if size < 0 else self.take(size).decode("utf-8", "replace")
        if kind in ("bytes", "records"):
            size = self.length(_FIXED["int32"], compact_form)
            return None if size < 0 else b64encode(self.take(size)).decode()
        if kind.startswith("[]"):
            count = self.length(_FIXED["int32"], compact_form)
            if count > len(self.data) - self.at:
                raise CorruptRecordError("an array has more items than there are bytes")
            item = {**field, "nullableVersions": "none"}  # that is said of the array alone
            return None if count < 0 else [self.value(item, kind[2:]) for _ in range(count)]
        if _within(self.version, field.get("nullableVersions", "none")) and not (self.present()):
            return None
        fields: Fields = field["fields"] if "fields" in field else self.common[kind]
        return self.struct(fields)


def _default(field: dict[str, Any]) -> Any:
    kind, given = field["type"], field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(given).lower() == "true"
    if kind in ("string", "bytes"):
        return given or ""
    if kind == "uuid":
        return "A" * 22
    if kind in _FIXED:
        return float(given or 0) if kind == "float64" else int(str(given or 0), 0)
    return None
