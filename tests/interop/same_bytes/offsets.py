"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId, DescribeProducers."""

from typing import Any

from interop.same_bytes import bodies
from interop.same_bytes.asker import Asker
from interop.same_bytes.produce import data
from interop.same_bytes.topics_used import create, new_producer_id, specification, versions
from kstore.protocol.api_keys import ApiKey

LIST_OFFSETS, EPOCHS = ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH
DELETE, INIT, PRODUCERS = ApiKey.DELETE_RECORDS, ApiKey.INIT_PRODUCER_ID, ApiKey.DESCRIBE_PRODUCERS


def ask(asker: Asker) -> None:
    create(asker, specification("timed", 2), specification("bare"), specification("segments"))
    create(asker, specification("compacted", cleanup_policy="compact"))
    for _ in range(5):
        fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data("timed", bodies.good())}
        asker.look(ApiKey.PRODUCE, 8, **fields)
    for version in versions(LIST_OFFSETS):
        _list_offsets(asker, version)
    for version in versions(EPOCHS):
        _epochs(asker, version)
    for version in versions(DELETE):
        _delete(asker, version)
    new_producer_id(asker)
    for version in versions(INIT):
        _init(asker, version)
    _producers(asker)


def _topics(name: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, **fields}]}]


def _list_offsets(asker: Asker, version: int) -> None:
    times = (-1, -2, -3, -4, -5, -6, -100, 0, bodies.T0, bodies.T0 + 1, bodies.T0 + 2)
    for time in (*times, bodies.T0 + 3, 1 << 50):
        for topic in ("timed", "bare"):
            topics = _topics(topic, timestamp=time)
            asker.ask(
                f"time {time} of {topic}", LIST_OFFSETS, version, replica_id=-1, topics=topics
            )
    for level in (0, 1, 2):
        fields = {
            "replica_id": -1,
            "isolation_level": level,
            "topics": _topics("timed", timestamp=-1),
        }
        asker.ask(f"isolation level {level}", LIST_OFFSETS, version, **fields)
    for replica in (-2, 0, 1, 7):
        fields = {"replica_id": replica, "topics": _topics("timed", timestamp=-1)}
        asker.ask(f"replica {replica}", LIST_OFFSETS, version, **fields)
    for epoch in (-1, 0, 1, -2):
        topics = _topics("timed", timestamp=-1, current_leader_epoch=epoch)
        asker.ask(f"leader epoch {epoch}", LIST_OFFSETS, version, replica_id=-1, topics=topics)
    unknown = _topics("none", timestamp=-1)
    asker.ask("an unknown topic", LIST_OFFSETS, version, replica_id=-1, topics=unknown)
    bad = _topics("timed", partition_index=9, timestamp=-1)
    asker.ask("an unknown partition", LIST_OFFSETS, version, replica_id=-1, topics=bad)
    twice = _topics("timed", timestamp=-1)
    twice[0]["partitions"] *= 2
    asker.ask("a partition twice", LIST_OFFSETS, version, replica_id=-1, topics=twice)
    asker.ask("no topics", LIST_OFFSETS, version, replica_id=-1)
    if version == 0:
        for count in (0, 1, 2, 100, -1):
            for time in (-1, -2, bodies.T0):
                topics = _topics("timed", timestamp=time, max_num_offsets=count)
                title = f"time {time}, at most {count}"
                asker.ask(title, LIST_OFFSETS, version, replica_id=-1, topics=topics)


def _epochs(asker: Asker, version: int) -> None:
    for epoch in (-1, 0, 1, 5):
        for current in (-1, 0, 1):
            partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            topics = [{"topic": "timed", "partitions": [partition]}]
            title = f"epoch {epoch}, current epoch {current}"
            asker.ask(title, EPOCHS, version, replica_id=-1, topics=topics)
    for topic, number in (("bare", 0), ("none", 0), ("timed", 9)):
        topics = [{"topic": topic, "partitions": [{"partition": number, "leader_epoch": 0}]}]
        asker.ask(f"{topic}-{number}", EPOCHS, version, replica_id=-1, topics=topics)
    asker.ask("no topics", EPOCHS, version, replica_id=-1)


def _delete(asker: Asker, version: int) -> None:
    topic = f"shortened-{version}"
    create(asker, specification(topic))
    fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data(topic, bodies.good(10))}
    asker.look(ApiKey.PRODUCE, 8, **fields)
    for offset in (0, 4, 3, 4, 11, -2, -1, 10):
        number = sum(f"offset {offset}" in title for title in asker.answers if topic in title)
        title = f"offset {offset} of {topic}" + f", again {number}" * bool(number)
        asker.ask(title, DELETE, version, topics=_topics(topic, offset=offset), timeout_ms=5000)
    for name, number in (("none", 0), (topic, 9), ("compacted", 0), ("__consumer_offsets", 0)):
        topics = _topics(name, partition_index=number, offset=0)
        asker.ask(f"of {name}-{number}", DELETE, version, topics=topics, timeout_ms=5000)
    asker.ask("no topics", DELETE, version, timeout_ms=5000)


def _init(asker: Asker, version: int) -> None:
    none: dict[str, Any] = {"transactional_id": None}
    asker.ask("no transactional id", INIT, version, **none, transaction_timeout_ms=1000)
    asker.ask("a timeout of 0", INIT, version, **none, transaction_timeout_ms=0)
    asker.ask(
        "an empty transactional id", INIT, version, transactional_id="", transaction_timeout_ms=1
    )
    fields = {"producer_id": 5, "producer_epoch": 3, "transaction_timeout_ms": 1000}
    asker.ask("an old producer id", INIT, version, **none, **fields)
    fields = {"producer_id": 5, "producer_epoch": -1, "transaction_timeout_ms": 1000}
    asker.ask("a producer id without an epoch", INIT, version, **none, **fields)


def _producers(asker: Asker) -> None:
    create(asker, specification("produced"))
    producer_id = new_producer_id(asker)
    for sequence in (0, 3):
        records = bodies.sequenced(producer_id, 0, sequence)
        fields = {"acks": 1, "timeout_ms": 5000, "topic_data": data("produced", records)}
        asker.look(ApiKey.PRODUCE, 8, **fields)
    for topic, number in (("produced", 0), ("bare", 0), ("none", 0), ("produced", 9)):
        topics = [{"name": topic, "partition_indexes": [number]}]
        asker.ask(f"{topic}-{number}", PRODUCERS, 0, topics=topics)
    asker.ask("no topics", PRODUCERS, 0)
