"""Produce in every version: good batches, each fault, acks, idempotence, settings of the topic."""

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from interop.same_bytes import bodies
from interop.same_bytes.asker import Asker
from interop.same_bytes.topics_used import create, new_producer_id, specification, versions
from kstore.integers import INT64_MAX
from kstore.protocol.api_keys import ApiKey
from support.wire_client import encode

PRODUCE = ApiKey.PRODUCE
_TOPIC_ID_SINCE = 13  # version
ALONE = 2  # a partition for what one broker may append and another may refuse
KINDS = {
    "compact": {"cleanup_policy": "compact"},
    "small": {"max_message_bytes": "1000"},
    "append": {"message_timestamp_type": "LogAppendTime"},
    "before": {"message_timestamp_before_max_ms": "1000"},
    "gzip": {"compression_type": "gzip"},
    "plain": {"compression_type": "uncompressed"},
    "zstd": {"compression_type": "zstd"},
    "tiny": {"segment_bytes": "14", "max_message_bytes": "1000"},
}


def data(topic: str, *batches: bytes | None, first: int = 0) -> list[dict[str, Any]]:
    """One topic, a batch for each partition."""
    partitions = [{"index": first + n, "records": each} for n, each in enumerate(batches)]
    return [{"name": topic, "partition_data": partitions}]


def by_id(asker: Asker, topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same topics with their ids, of which an unknown topic has any, and with no names."""
    return [
        {
            "topic_id": asker.topic_ids.get(each["name"], _any_id(each["name"])),
            "partition_data": each["partition_data"],
        }
        for each in topics
    ]


def _data(
    asker: Asker, version: int, topic: str, *batches: bytes | None, first: int = 0
) -> list[dict[str, Any]]:
    """`data`, as the version names topics."""
    topics = data(topic, *batches, first=first)
    return by_id(asker, topics) if version >= _TOPIC_ID_SINCE else topics


def _any_id(topic: str) -> bytes:
    return hashlib.md5(topic.encode()).digest()


def ask_kafka_4(asker: Asker) -> None:
    """The versions that Kafka 3.9 has not: 12, and 13, which names topics by their ids."""
    every = (12, 13)
    later = {"message_timestamp_after_max_ms": str(INT64_MAX)}  # as in Kafka 3.9
    create(asker, *(specification(f"produce-{version}", 3, **later) for version in every))
    kinds = {kind: config for kind, config in KINDS.items() if "segment_bytes" not in config}
    create(asker, *(specification(f"produce-{k}", 1, **c, **later) for k, c in kinds.items()))
    for version in every:
        _versions(asker, version)
    _kinds(asker, 13, kinds)
    good, usual = bodies.good(), {"acks": 1, "timeout_ms": 5000}
    for title, topics in (
        ("the zero id", [{"topic_id": bytes(16), "partition_data": [{"index": 0}]}]),
        ("known and unknown", by_id(asker, data("produce-13", good) + data("none", good, b"x"))),
        ("an unknown id, no partition", by_id(asker, data("none"))),
        ("the same unknown partition twice", by_id(asker, data("none", good) * 2)),
    ):
        asker.ask(title, PRODUCE, 13, **usual, topic_data=topics)


def ask(asker: Asker) -> None:
    every = versions(PRODUCE)
    create(asker, *(specification(f"produce-{version}", 3) for version in every))
    create(asker, *(specification(f"produce-{k}", 1, **config) for k, config in KINDS.items()))
    for version in every:
        _versions(asker, version)
    for version in (3, 7, 8, 11):
        _kinds(asker, version)
    for version in (0, 1, 2):
        _old_kinds(asker, version)
    _idempotent(asker)


def _versions(asker: Asker, version: int) -> None:
    topic, usual = f"produce-{version}", {"acks": 1, "timeout_ms": 5000}
    data = partial(_data, asker, version)
    sets = bodies.MESSAGE_SETS if version < 3 else bodies.FAULTY
    good = bodies.message_set(1) if version < 3 else bodies.good()
    for title, records in sets:
        first = ALONE if title == "offsets with a gap" else 0
        sent = data(topic, records, first=first)
        asker.ask(title, PRODUCE, version, **usual, topic_data=sent)
    body = encode(PRODUCE, version, {**usual, "topic_data": data(topic, None)})
    asker.ask_body("null records", PRODUCE, version, body, is_silent=True)
    asker.close()
    asker.ask("two partitions", PRODUCE, version, **usual, topic_data=data(topic, good, good))
    asker.ask("one of two is bad", PRODUCE, version, **usual, topic_data=data(topic, good, b"x"))
    asker.ask("an unknown topic", PRODUCE, version, **usual, topic_data=data("none", good))
    asker.ask("a bad topic name", PRODUCE, version, **usual, topic_data=data("a b", good))
    asker.ask(
        "an unknown partition", PRODUCE, version, **usual, topic_data=data(topic, good, first=9)
    )
    asker.ask("partition -1", PRODUCE, version, **usual, topic_data=data(topic, good, first=-1))
    asker.ask(
        "the same partition twice",
        PRODUCE,
        version,
        **usual,
        topic_data=data(topic, good, first=ALONE) + data(topic, good, first=ALONE),
    )
    asker.ask(
        "an internal topic", PRODUCE, version, **usual, topic_data=data("__consumer_offsets", good)
    )
    asker.ask("nothing", PRODUCE, version, **usual)
    asker.ask("a topic without partitions", PRODUCE, version, **usual, topic_data=data(topic))
    for acks in (-1, 2, -2):
        fields = {"acks": acks, "timeout_ms": 5000, "topic_data": data(topic, good)}
        asker.ask(f"acks {acks}", PRODUCE, version, **fields)
    asker.ask(
        "a negative timeout", PRODUCE, version, acks=-1, timeout_ms=-1, topic_data=data(topic, good)
    )
    asker.ask(
        "a transactional id",
        PRODUCE,
        version,
        **usual,
        transactional_id="t",
        topic_data=data(topic, good),
    )
    _without_answer(asker, version, topic, good)


def _without_answer(asker: Asker, version: int, topic: str, good: bytes) -> None:
    data = partial(_data, asker, version)
    for title, records in (("good", data(topic, good)), ("bad", data("none", good)), ("empty", [])):
        body = encode(PRODUCE, version, {"acks": 0, "timeout_ms": 5000, "topic_data": records})
        asker.ask_body(f"acks 0, {title}", PRODUCE, version, body, is_silent=True)


def _kinds(asker: Asker, version: int, kinds: Iterable[str] = KINDS) -> None:
    data = partial(_data, asker, version)
    usual = {"acks": 1, "timeout_ms": 5000}
    chosen = ("null keys", "a null and a good key", "1001 bytes of value", "gzip", "zstd")
    chosen += ("a timestamp in the year 3000", "a wrong largest timestamp", "no timestamp")
    sets = [each for each in bodies.FAULTY if each[0] in chosen] + [("good", bodies.good())]
    for kind in kinds:
        for title, records in sets:
            fields = {**usual, "topic_data": data(f"produce-{kind}", records)}
            asker.ask(f"{title} to {kind}", PRODUCE, version, **fields)


def _old_kinds(asker: Asker, version: int) -> None:
    for kind in KINDS:
        for title, records in bodies.MESSAGE_SETS[:6]:
            fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data(f"produce-{kind}", records)}
            asker.ask(f"{title} to {kind}", PRODUCE, version, **fields)


def _idempotent(asker: Asker) -> None:
    create(asker, specification("idempotent"))
    producer = new_producer_id(asker)

    def send(title: str, *sequences: int, epoch: int = 0, count: int = 3) -> None:
        for sequence in sequences:
            records = bodies.sequenced(producer, epoch, sequence, count)
            fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data("idempotent", records)}
            asker.ask(f"{title}, sequence {sequence}", PRODUCE, 8, **fields)

    send("first", 0)
    send("duplicate", 0)
    send("in order", 3, 6, 9, 12, 15)
    send("again", 15, 12, 3)
    send("older than the last five", 0)
    send("a gap", 30)
    send("an overlap", 16)
    send("another count", 15, count=2)
    send("a new epoch", 5, epoch=1)
    send("a new epoch from 0", 0, epoch=1)
    send("the old epoch", 18)
    send("in order again", 3, epoch=1)
    send("the largest epoch", 0, epoch=32767)
    last = (1 << 31) - 1
    create(asker, specification("wrapping"))
    for title, sequence, count in (("near the end", last - 2, 3), ("from 0", 0, 2), ("2", 2, 2)):
        records = bodies.sequenced(producer, 0, sequence, count)
        fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data("wrapping", records)}
        asker.ask(f"wrapping: {title}", PRODUCE, 8, **fields)
