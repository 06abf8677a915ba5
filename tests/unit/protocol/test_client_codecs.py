"""kafka-python's codec and kio's read what kstore writes, see the same fields, and write the same.

Neither has every message and version: of those that they lack, Kafka's own classes are the
oracle (``tests/interop/test_messages.py``).
"""

import importlib
import io
from typing import Any, cast

import pytest
from kafka.protocol.api_message import ApiMessage
from kio import index
from kio.serial import entity_reader, entity_writer

from kstore.protocol.schema import table
from support.random_messages import TABLE, encoded, random_message

CONTENTS = 5
BIT_FIELDS = "authorized_operations"  # kafka-python shows these as sets of numbers
KAFKA_PYTHON = [
    "admin.acl",
    "admin.client_quotas",
    "admin.cluster",
    "admin.configs",
    "admin.groups",
    "admin.topics",
    "admin.transactions",
    "admin.users",
    "consumer.fetch",
    "consumer.group",
    "consumer.metadata",
    "consumer.offsets",
    "metadata.api_versions",
    "metadata.find_coordinator",
    "metadata.metadata",
    "producer.produce",
    "producer.transaction",
    "sasl",
]


def kafka_python_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in KAFKA_PYTHON:
        module = importlib.import_module(f"kafka.protocol.{name}")
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, ApiMessage) and each is not ApiMessage:
                found[each.__name__] = each
    return found


CLASSES = kafka_python_classes()


def problems_of_kafka_python(message: table.Message, version: int, seed: int) -> str | None:
    theirs = CLASSES[message.name]
    content = random_message(message, version, seed)
    if message.name == "ApiVersionsResponse":
        content.error_code = 0  # after an error, kafka-python expects version 0
    data = encoded(content, version)
    seen = theirs.decode(data, version=version)
    seen._header = None  # its encoder asks for it
    difference = different(message.fields, content, seen, version)
    return difference or (None if seen.encode(version=version) == data else "other bytes")


def different(fields: tuple[table.Field, ...], ours: Any, theirs: Any, version: int) -> str | None:
    """The first field with another value, among those that kafka-python names as kstore does."""
    for each in fields:
        if not each.versions.low <= version <= each.versions.high:
            continue
        if each.name.endswith(BIT_FIELDS):
            continue
        mine, other = getattr(ours, each.name), getattr(theirs, each.name)
        if each.tag is not None and mine == getattr(type(ours)(), each.name):
            continue
        if each.kind != "struct" or mine is None:
            if plain(mine) != plain(other):
                return f"{each.name}: {other!r} for {mine!r}"
            continue
        pairs = zip(mine, other, strict=True) if each.is_array else [(mine, other)]
        for one, two in pairs:
            inner = different(each.fields, one, two, version)
            if inner:
                return f"{each.name}.{inner}"
    return None


def plain(value: Any) -> Any:
    if hasattr(value, "bytes") and not isinstance(value, bytes):
        return value.bytes  # a UUID
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize(
    "message", [each for each in TABLE.values() if each.name in CLASSES], ids=lambda each: each.name
)
def test_kafka_python_reads_and_writes_the_same(message: table.Message) -> None:
    highest = min(message.versions.high, CLASSES[message.name].max_version)
    assert [
        f"{version}: {problem}"
        for version in range(highest + 1)
        for seed in range(CONTENTS)
        if (problem := problems_of_kafka_python(message, version, seed))
    ] == []


def test_kafka_python_has_most_messages() -> None:
    assert len([each for each in TABLE.values() if each.name in CLASSES]) > 80


def kio_class(message: table.Message, version: int) -> type[Any] | None:
    """None where kio lacks the message or the version."""
    load = index.load_request_schema if message.is_request else index.load_response_schema
    try:
        return cast(type[Any], load(message.api_key, version))
    except index.KioIndexError:
        return None


@pytest.mark.parametrize("message", TABLE.values(), ids=lambda each: each.name)
def test_kio_reads_and_writes_the_same(message: table.Message) -> None:
    judged = 0
    for version in range(message.versions.high + 1):
        theirs = kio_class(message, version)
        for seed in range(CONTENTS if theirs else 0):
            data = encoded(random_message(message, version, seed, modest=True), version)
            seen, size = entity_reader(theirs)(data, 0)
            buffer = io.BytesIO()
            entity_writer(theirs)(buffer, seen)
            assert (size, buffer.getvalue()) == (len(data), data), version
            judged += 1
    assert judged
