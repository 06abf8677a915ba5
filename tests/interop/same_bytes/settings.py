"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from typing import Any

from interop.same_bytes.asker import Asker
from interop.same_bytes.topics_used import create, specification, versions
from kstore.protocol.api_keys import ApiKey

DESCRIBE, ALTER = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS
INCREMENTAL = ApiKey.INCREMENTAL_ALTER_CONFIGS
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
CHANGES = (
    ("retention.ms", "1000"),
    ("retention.ms", "x"),
    ("retention.ms", "-2"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "other"),
    ("no.such.setting", "1"),
    ("compression.type", "gzip"),
    ("min.insync.replicas", "2"),
    ("segment.bytes", "100"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.format.version", "2.0"),
    ("follower.replication.throttled.replicas", "0:1,1:1"),
)


def ask(asker: Asker) -> None:
    create(asker, specification("described", cleanup_policy="compact", segment_bytes="1048576"))
    create(asker, *(specification(f"altered-{n}") for n in range(6)))
    for version in versions(DESCRIBE):
        _describe(asker, version)
    for version in versions(ALTER):
        _alter(asker, version)
    for version in versions(INCREMENTAL):
        _incremental(asker, version)
    for version in versions(ApiKey.LIST_CONFIG_RESOURCES):
        asker.ask("all", ApiKey.LIST_CONFIG_RESOURCES, version)


def _resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def _describe(asker: Asker, version: int) -> None:
    for title, resource in (
        ("a topic", _resource(TOPIC, "described")),
        ("two keys", _resource(TOPIC, "described", ["cleanup.policy", "retention.bytes"])),
        ("an unknown key", _resource(TOPIC, "described", ["no.such.setting"])),
        ("no keys", _resource(TOPIC, "described", [])),
        ("an unknown topic", _resource(TOPIC, "none")),
        ("a bad topic name", _resource(TOPIC, "a b")),
        ("keys of a broker", _resource(BROKER, "1", ["log.retention.ms", "num.partitions"])),
        ("an unknown broker", _resource(BROKER, "9")),
        ("a broker that is no number", _resource(BROKER, "x")),
        ("all brokers", _resource(BROKER, "")),
        ("an unknown type", _resource(99, "x")),
    ):
        asker.ask(title, DESCRIBE, version, resources=[resource])
    fields = {"include_synonyms": True, "include_documentation": True}
    described = _resource(TOPIC, "described")
    asker.ask("with synonyms", DESCRIBE, version, resources=[described], **fields)
    asker.ask("one twice", DESCRIBE, version, resources=[_resource(TOPIC, "described", [])] * 2)
    asker.ask("nothing", DESCRIBE, version)


def _described(asker: Asker, title: str, topic: str) -> None:
    """What was set on a topic."""
    asker.barrier()
    found = asker.look(DESCRIBE, 4, resources=[_resource(TOPIC, topic)])
    lines = [
        f"{each.name}={each.value} from {each.config_source}"
        for each in sorted(found.results[0].configs, key=lambda each: each.name)
        if each.config_source == 1
    ]
    asker.note(title, lines)


def _alter(asker: Asker, version: int) -> None:
    topic = f"altered-{version}"

    def one(title: str, kind: int, name: str, *configs: tuple[str, str | None]) -> None:
        entries = [{"name": key, "value": value} for key, value in configs]
        resource = {"resource_type": kind, "resource_name": name, "configs": entries}
        for only in (True, False):
            fields = {"resources": [resource], "validate_only": only}
            asker.ask(f"{title}, validate only {only}", ALTER, version, **fields)

    for change in CHANGES:
        one(f"{change[0]} {change[1]}", TOPIC, topic, change)
        _described(asker, f"after ALTER_CONFIGS {version} {change}", topic)
    one("a null value", TOPIC, topic, ("retention.ms", None))
    one("a key twice", TOPIC, topic, ("retention.ms", "1"), ("retention.ms", "2"))
    one("no keys", TOPIC, topic)
    one("an unknown topic", TOPIC, "none", ("retention.ms", "1"))
    one("an unknown broker", BROKER, "9", ("log.cleaner.threads", "1"))
    one("an unknown type", 99, "x", ("a", "b"))
    asker.ask("nothing", ALTER, version)


def _incremental(asker: Asker, version: int) -> None:
    topic = f"altered-{3 + version}"

    def one(title: str, name: str, *configs: tuple[str, int, str | None]) -> None:
        entries = [{"name": k, "config_operation": o, "value": v} for k, o, v in configs]
        resource = {"resource_type": TOPIC, "resource_name": name, "configs": entries}
        for only in (True, False):
            fields = {"resources": [resource], "validate_only": only}
            asker.ask(f"{title}, validate only {only}", INCREMENTAL, version, **fields)
        if name == topic:
            _described(asker, f"after INCREMENTAL_ALTER_CONFIGS {version} {title}", topic)

    for key, value in CHANGES:
        one(f"set {key} {value}", topic, (key, SET, value))
    for key in ("retention.ms", "no.such.setting", "flush.ms"):
        one(f"delete {key}", topic, (key, DELETE, None))
    one("append delete", topic, ("cleanup.policy", APPEND, "delete"))
    one("append delete again", topic, ("cleanup.policy", APPEND, "delete"))
    one("subtract compact", topic, ("cleanup.policy", SUBTRACT, "compact"))
    one("subtract what it has not", topic, ("cleanup.policy", SUBTRACT, "compact"))
    one("append to no list", topic, ("retention.ms", APPEND, "1"))
    one("operation 4", topic, ("retention.ms", 4, "1"))
    one("set null", topic, ("retention.ms", SET, None))
    one("a key twice", topic, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
    one("good and bad", topic, ("retention.ms", SET, "77"), ("flush.ms", SET, "x"))
    one("an unknown topic", "none", ("retention.ms", SET, "1"))
    asker.ask("nothing", INCREMENTAL, version)
