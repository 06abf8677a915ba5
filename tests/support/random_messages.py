"""Generates messages of Kafka's protocol with random content, from the table of messages."""

from importlib import import_module
from random import Random
from typing import Any

from kstore.protocol.messages import Message, message_types
from kstore.protocol.schema import generate, table
from kstore.protocol.wire import Reader, Writer

RANGES = {
    "i8": (-(1 << 7), (1 << 7) - 1),
    "i16": (-(1 << 15), (1 << 15) - 1),
    "u16": (0, (1 << 16) - 1),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "i64": (-(1 << 63), (1 << 63) - 1),
}
LETTERS = "abcxyz-._0189 äß€𝄞\u0000"
# Smaller ranges for codecs that convert to types with a smaller range than the field's.
MODEST = {"i8": (0, 8), "i16": (0, 100), "u16": (0, 100), "i32": (0, 1 << 20), "i64": (0, 1 << 40)}

TABLE = {(each.api_key, each.is_request): each for each in table.load()}
RECORDS = [
    each
    for each in table.load("records.txt")
    if each.kind != "METADATA" and each.name.startswith(generate.RECORDS)
]


def message_class(message: table.Message) -> Any:
    if message.kind not in ("REQ", "RES"):
        name = generate.snake_case(generate.record_name(message))
        return getattr(import_module(f"kstore.protocol.records.{name}"), message.name)
    return message_types(message.api_key)[0 if message.is_request else 1]


def random_message(message: table.Message, version: int, seed: int, *, modest: bool = False) -> Any:
    """A message with random values in the fields of this version, and defaults in the others."""
    randomness = Random(f"{message.name} {version} {seed}")
    return _Content(version, randomness, MODEST if modest else RANGES).struct(
        message_class(message), message.fields
    )


def encoded(message: Message, version: int) -> bytes:
    writer = Writer()
    message.encode(writer, version)
    data = writer.to_bytes()
    assert len(data) == writer.size
    return data


def decoded(kind: type[Message], data: bytes, version: int) -> Any:
    """Decode a message; assert that it uses all bytes."""
    reader = Reader(data)
    message = kind.decode(reader, version)
    assert reader.remaining == 0
    return message


class _Content:
    def __init__(self, version: int, random: Random, ranges: dict[str, tuple[int, int]]) -> None:
        self.version = version
        self.random = random
        self.ranges = ranges

    def has(self, versions: table.Versions | None) -> bool:
        return versions is not None and versions.low <= self.version <= versions.high

    def struct(self, kind: type[Any], fields: tuple[table.Field, ...]) -> Any:
        found = kind()
        for each in fields:
            # sometimes keep a tagged field's default, so that it is not written
            if self.has(each.versions) and (each.tag is None or self.random.random() < 0.7):
                setattr(found, each.name, self.value(kind, each))
        return found

    def value(self, kind: type[Any], field: table.Field) -> Any:
        if self.has(field.nullable) and self.random.random() < 0.2:
            return None
        if not field.is_array:
            return self.single(kind, field)
        return [self.single(kind, field) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]

    def single(self, kind: type[Any], field: table.Field) -> Any:
        random = self.random
        match field.kind:
            case "struct":
                return self.struct(getattr(kind, generate.class_name(field)), field.fields)
            case "bool":
                return random.random() < 0.5
            case "f64":
                return random.uniform(-1e9, 1e9)
            case "uuid":
                return random.randbytes(16)
            case "str":
                length = random.choice((0, 1, 5, 20, 200))
                return "".join(random.choice(LETTERS) for _ in range(length))
            case "bytes" | "records":
                return random.randbytes(random.choice((0, 1, 7, 130, 3000)))
        low, high = self.ranges[field.kind]
        return random.choice((low, high, 0, random.randint(low, high)))
