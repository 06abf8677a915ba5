"""Requests and responses of kstore, read and written again by Kafka's own classes.

Random content in every version: Kafka reads all bytes, sees the fields that kstore wrote, and
writes the same bytes. Kafka 3.9.2 knows the versions from 0 on, Kafka 4.3.0 the latest.
"""

import json
import subprocess
from base64 import b64decode, b64encode, urlsafe_b64encode
from functools import cache
from typing import Any

import pytest

from interop.kafka_jars import VERSIONS, compiled, java_command
from kstore.protocol.messages import message_types
from kstore.protocol.schema import table
from support.random_messages import RECORDS, TABLE, encoded, message_class, random_message

pytestmark = pytest.mark.interop

CONTENTS = 6
# Versions that Kafka 3.9.2 does not have. Those that Kafka 4.3.0 dropped are old ones.
NEW_IN_4 = {
    ("Produce", 12),
    ("Produce", 13),
    ("ListOffsets", 10),
    ("Metadata", 13),
    ("DescribeGroups", 6),
    ("EndTxn", 5),
    ("TxnOffsetCommit", 5),
    ("DescribeCluster", 2),
    ("ConsumerGroupHeartbeat", 1),
    ("ConsumerGroupDescribe", 1),
    ("ListConfigResources", 1),
}
# Kafka 3.9 calls it ListClientMetricsResources, and its fields otherwise.
RENAMED = {("3.9.2", "ListConfigResourcesResponse")}


@cache
def sent() -> dict[tuple[str, int, int], tuple[table.Message, Any]]:
    """Messages by name, version and number."""
    return {
        (message.name, version, number): (message, random_message(message, version, number))
        for message in TABLE.values()
        for version in range(message.versions.low, message.versions.high + 1)
        for number in range(CONTENTS)
    }


def ask(kafka: str, requests: list[str]) -> list[list[str]]:
    """The words of Kafka's answers, a list for each line."""
    done = subprocess.run(
        java_command(kafka, "Messages", classes=compiled(kafka, "Messages")),
        input="\n".join(requests) + "\n",
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [line.split("\t", 2) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests)
    return answers


def request_line(message: table.Message, version: int, data: bytes) -> str:
    kind = "REQ" if message.is_request else "RES"
    return f"{message.api_key} {kind} {version} {b64encode(data).decode()}".rstrip()


@pytest.mark.parametrize("kafka", VERSIONS)
def test_kafka_reads_and_writes_the_same(kafka: str) -> None:
    lines = [
        request_line(message, version, encoded(content, version))
        for (_, version, _), (message, content) in sent().items()
    ]
    problems, judged = [], set()
    for (name, version, number), answer in zip(sent(), ask(kafka, lines), strict=True):
        message, content = sent()[name, version, number]
        if answer == ["unknown"]:
            continue
        judged.add((message.api, version))
        problem = compare(message, version, content, answer, (kafka, name) not in RENAMED)
        if problem:
            problems.append(f"{name} {version} {number}: {problem}")
    assert problems == []
    if kafka == "3.9.2":
        every = {(message.api, version) for (_, version, _), (message, _) in sent().items()}
        assert every - judged == NEW_IN_4
    else:
        assert judged >= NEW_IN_4


def compare(
    message: table.Message, version: int, content: Any, answer: list[str], same_names: bool
) -> str | None:
    """What Kafka has otherwise, or None."""
    if answer[0] != "0":
        return " ".join(answer)
    data = b"" if answer[1] == "-" else b64decode(answer[1])
    if data != encoded(content, version):
        return f"Kafka writes {data.hex()}, kstore {encoded(content, version).hex()}"
    if not same_names:
        return None
    seen = without_records(json.loads(answer[2]))
    expected = as_json(message.fields, content, version)
    return None if seen == expected else f"Kafka reads {seen}, kstore wrote {expected}"


def without_records(value: Any) -> Any:
    """A tree without records, of which Kafka's converters show the size or nothing."""
    if isinstance(value, list):
        return [without_records(each) for each in value]
    if not isinstance(value, dict):
        return value
    hidden = ("records", "recordsSizeInBytes")
    return {name: without_records(each) for name, each in value.items() if name not in hidden}


def as_json(fields: tuple[table.Field, ...], content: Any, version: int) -> dict[str, Any]:
    """A message as Kafka's converters show it: tagged fields only where they are set."""
    found = {}
    for each in fields:
        if not each.versions.low <= version <= each.versions.high or each.kind == "records":
            continue
        value = getattr(content, each.name)
        if each.tag is not None and value == getattr(type(content)(), each.name):
            continue
        first, *words = each.name.split("_")
        name = first + "".join(word.capitalize() for word in words)
        if isinstance(value, list):
            found[name] = [single(each, item, version) for item in value]
        else:
            found[name] = single(each, value, version)
    return found


def single(field: table.Field, value: Any, version: int) -> Any:
    if field.kind == "struct" and value is not None:
        return as_json(field.fields, value, version)
    if field.kind == "uuid":
        return urlsafe_b64encode(value).decode().rstrip("=")
    return b64encode(value).decode() if isinstance(value, bytes) else value


PACKAGES = {
    "Transaction": "coordinator.transaction.generated",
    "ConsumerProtocol": "common.message",
}


def test_kafka_reads_and_writes_the_same_records() -> None:
    asked = [
        (message, version, random_message(message, version, number))
        for message in RECORDS
        for version in range(message.versions.low, message.versions.high + 1)
        for number in range(CONTENTS)
    ]
    lines = []
    for message, version, content in asked:
        packages = [PACKAGES[each] for each in PACKAGES if message.name.startswith(each)]
        package = packages[0] if packages else "coordinator.group.generated"
        data = b64encode(encoded(content, version)).decode()
        lines.append(f"{package}.{message.name} RECORD {version} {data}".rstrip())
    assert [
        f"{message.name} {version}: {problem}"
        for (message, version, content), answer in zip(asked, ask("4.3.0", lines), strict=True)
        if (problem := compare(message, version, content, answer, True))
    ] == []


def test_kafka_leaves_bytes_behind_a_request_unread() -> None:
    request = message_types(12)[0]()
    data = encoded(request, 4) + b"trailing"
    heartbeat = TABLE[12, True]
    answer = ask("3.9.2", [request_line(heartbeat, 4, data)])[0]
    assert answer[0] == str(len(b"trailing"))
    assert message_class(heartbeat) is type(request)
