"""CreateTopics, DeleteTopics, CreatePartitions, log dirs, elections, reassignments."""

from typing import Any

from interop.same_bytes.asker import Asker
from interop.same_bytes.topics_used import (
    create,
    specification,
    versions,
    wait_until_known,
    wait_until_unknown,
)
from kstore.protocol.api_keys import ApiKey

CREATE, DELETE, PARTITIONS = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS
TIME = {"timeout_ms": 10_000}


def ask(asker: Asker) -> None:
    create(asker, specification("kept", 2), specification("with.point"))
    for version in versions(CREATE):
        _create(asker, version)
    for version in versions(PARTITIONS):
        _partitions(asker, version)
    for version in versions(DELETE):
        _delete(asker, version)
    for version in versions(ApiKey.DESCRIBE_LOG_DIRS):
        _log_dirs(asker, version)
    for version in versions(ApiKey.ALTER_REPLICA_LOG_DIRS):
        for path in ("relative", "/nowhere/at/all", ""):
            dirs = [{"path": path, "topics": [{"name": "kept", "partitions": [0, 9]}]}]
            asker.ask(f"to {path!r}", ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
        asker.ask("nothing", ApiKey.ALTER_REPLICA_LOG_DIRS, version)
    for version in versions(ApiKey.ELECT_LEADERS):
        _elect(asker, version)
    _reassign(asker)


def _plain(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}


def _config(key: str, value: str | None) -> dict[str, Any]:
    return {"configs": [{"name": key, "value": value}]}


def _create(asker: Asker, version: int) -> None:
    def one(title: str, **fields: Any) -> None:
        topic = _plain(f"new-{version}-{title.replace(' ', '-')}", **fields)
        asker.ask(title, CREATE, version, topics=[topic], **TIME, validate_only=version >= 1)

    def named(name: str) -> None:
        fields: dict[str, Any] = {"topics": [_plain(name)], **TIME, "validate_only": version >= 1}
        asker.ask(f"the name {name[:20]!r} of {len(name)}", CREATE, version, **fields)

    for name in ("kept", "with_point", "a b", "", ".", "..", "a" * 249, "a" * 250, "ü", "a/b"):
        if version >= 1 or name in ("kept", "a b", ""):
            named(name)
    for count in (0, -1, -2, 2):
        one(f"{count} partitions", num_partitions=count)
    for factor in (0, -1, -2, 2, 3):
        one(f"replication factor {factor}", replication_factor=factor)
    for title, ids in (("this node", [1]), ("another node", [9]), ("two nodes", [1, 9])):
        assignments = [{"partition_index": 0, "broker_ids": ids}]
        absent = {"num_partitions": -1, "replication_factor": -1}
        one(f"assigned to {title}", **absent, assignments=assignments)
        one(f"assigned to {title} beside a count", assignments=assignments)
    absent = {"num_partitions": -1, "replication_factor": -1}
    for title, numbers in (("a gap", [0, 2]), ("one twice", [0, 0]), ("from 1", [1])):
        assignments = [{"partition_index": each, "broker_ids": [1]} for each in numbers]
        one(f"assigned with {title}", **absent, assignments=assignments)
    one("assigned to none", **absent, assignments=[{"partition_index": 0, "broker_ids": []}])
    one(
        "assigned twice to one",
        **absent,
        assignments=[{"partition_index": 0, "broker_ids": [1, 1]}],
    )
    for key, value in (
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "none"),
        ("cleanup.policy", "compact,delete"),
        ("no.such.setting", "1"),
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("retention.ms", "5"),
        ("segment.bytes", "1"),
        ("min.insync.replicas", "0"),
        ("compression.type", "lz5"),
        ("compression.gzip.level", "10"),
        ("max.message.bytes", "-1"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "maybe"),
        ("message.timestamp.type", "Other"),
        ("message.format.version", "0.10.0"),
        ("remote.storage.enable", "true"),
        ("retention.ms", None),
    ):
        one(f"{key} {value}", **_config(key, value))
    _really_create(asker, version)


def _really_create(asker: Asker, version: int) -> None:
    name = f"created-{version}"
    topics = [_plain(name, **_config("retention.ms", "-1")), _plain("kept"), _plain("a b")]
    asker.ask("one of three is good", CREATE, version, topics=topics, **TIME)
    wait_until_known(asker, [name])
    asker.ask("the same topic again", CREATE, version, topics=[_plain(name)], **TIME)
    twice = [_plain(f"twice-{version}"), _plain(f"twice-{version}")]
    asker.ask("a topic twice", CREATE, version, topics=twice, **TIME)
    asker.ask("no topics", CREATE, version, **TIME)


def _partitions(asker: Asker, version: int) -> None:
    def one(title: str, name: str, count: int, **fields: Any) -> None:
        topic = {"name": name, "count": count, "assignments": None, **fields}
        asker.ask(title, PARTITIONS, version, topics=[topic], **TIME, validate_only=True)

    for count in (3, 2, 1, 0, -1):
        one(f"{count} of 2", "kept", count)
    one("an unknown topic", "none", 3)
    one("a bad name", "a b", 3)
    for title, ids in (("this node", [1]), ("another", [9]), ("two", [1, 9]), ("none", [])):
        one(f"on {title}", "kept", 3, assignments=[{"broker_ids": ids}])
    one("one assignment of two", "kept", 4, assignments=[{"broker_ids": [1]}])
    one("no assignment", "kept", 3, assignments=[])
    twice = [{"name": "kept", "count": 3, "assignments": None}] * 2
    asker.ask("a topic twice", PARTITIONS, version, topics=twice, **TIME, validate_only=True)
    name = f"grown-{version}"
    create(asker, specification(name))
    topic = {"name": name, "count": 3, "assignments": None}
    asker.ask("from 1 to 3", PARTITIONS, version, topics=[topic], **TIME)
    asker.ask("no topics", PARTITIONS, version, **TIME)


def _delete(asker: Asker, version: int) -> None:
    name = f"removed-{version}"
    create(asker, specification(name))
    gone = asker.topic_ids[name]

    def request(*topics: tuple[str | None, bytes]) -> dict[str, Any]:
        if version >= 6:
            return {"topics": [{"name": each, "topic_id": key} for each, key in topics], **TIME}
        return {"topic_names": [each or "" for each, _ in topics], **TIME}

    zero, unknown = bytes(16), bytes(range(16))
    asker.ask("unknown", DELETE, version, **request(("none", zero)))
    asker.ask("a bad name", DELETE, version, **request(("a b", zero)))
    asker.ask("one twice", DELETE, version, **request(("none", zero), ("none", zero)))
    if version >= 6:
        asker.ask("an unknown id", DELETE, version, **request((None, unknown)))
        asker.ask("name and id", DELETE, version, **request((name, gone)))
        asker.ask("neither", DELETE, version, **request((None, zero)))
    asker.ask("a topic", DELETE, version, **request((name if version < 6 else None, gone)))
    wait_until_unknown(asker, [name])
    asker.ask("the same again", DELETE, version, **request((name, zero)))
    asker.ask("no topics", DELETE, version, **request())


def _log_dirs(asker: Asker, version: int) -> None:
    api = ApiKey.DESCRIBE_LOG_DIRS
    for title, topics in (
        ("one", [{"topic": "kept", "partitions": [0, 1]}]),
        ("unknown", [{"topic": "none", "partitions": [0]}]),
        ("an unknown partition", [{"topic": "kept", "partitions": [9]}]),
        ("no topics", []),
    ):
        asker.ask(title, api, version, topics=topics)


def _elect(asker: Asker, version: int) -> None:
    api = ApiKey.ELECT_LEADERS
    for kind in (0, 1, 2):
        if kind and not version:
            continue
        for name, number in (("kept", 0), ("kept", 9), ("none", 0)):
            partitions = [{"topic": name, "partitions": [number]}]
            fields = {"election_type": kind, "topic_partitions": partitions, **TIME}
            asker.ask(f"{name}-{number}, type {kind}", api, version, **fields)
    asker.ask("nothing", api, version, topic_partitions=[], **TIME)


def _reassign(asker: Asker) -> None:
    api = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    for name, number, replicas in (
        ("kept", 0, [1]),
        ("kept", 0, None),
        ("kept", 0, [9]),
        ("kept", 0, []),
        ("kept", 0, [1, 1]),
        ("kept", 9, [1]),
        ("none", 0, [1]),
    ):
        partitions = [{"partition_index": number, "replicas": replicas}]
        topics = [{"name": name, "partitions": partitions}]
        asker.ask(f"{name}-{number} to {replicas}", api, 0, topics=topics, **TIME)
    api = ApiKey.LIST_PARTITION_REASSIGNMENTS
    asker.ask("all", api, 0, topics=None, **TIME)
    for name, numbers in (("kept", [0, 9]), ("none", [0])):
        asker.ask(name, api, 0, topics=[{"name": name, "partition_indexes": numbers}], **TIME)
