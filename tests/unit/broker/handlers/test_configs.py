"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs over the store's own metadata, and
ListConfigResources, from bytes; the answers are those of Kafka 3.9.2, of 4.3.0 for the last.

Where kstore differs:

- a resource twice in AlterConfigs answers 42 (3.9.2 never answers that request);
- an unknown operation answers 42, not -1: the fault is the request's;
- client metrics and groups have no settings, so that altering them answers 42;
- ``root`` is the logger ``kstore``;
- entries are sorted (Kafka's hash order has no meaning).
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker.handlers.configs import ConfigHandlers
from kstore.protocol.messages.alter_configs import AlterConfigsRequest
from kstore.protocol.messages.describe_configs import DescribeConfigsRequest
from kstore.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kstore.protocol.messages.list_config_resources import ListConfigResourcesRequest
from support.broker_requests import Client, local_metadata

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Setting = tuple[str, str | None]
Change = tuple[str, int, str | None]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with kstore.open(tmp_path, "a") as store:
        metadata = local_metadata(store)
        metadata.create_topic("a", partitions=1)
        yield Client(ConfigHandlers, metadata=metadata, store=store)
        metadata.close()


def describe(
    client: Client, version: int, *wanted: tuple[int, str, list[str] | None], **fields: Any
) -> list[Any]:
    resources = list(map(DescribeConfigsRequest.Resources, *zip(*wanted, strict=True)))
    found: list[Any] = client.ask(DescribeConfigsRequest(resources, **fields), version).results
    return found


def one(client: Client, kind: int, name: str, key: str, version: int = 4, **fields: Any) -> Any:
    (result,) = describe(client, version, (kind, name, [key]), **fields)
    assert result.error_code == 0
    (config,) = result.configs
    assert config.name == key
    return config


def described(client: Client, kind: int, name: str) -> list[Any]:
    """All settings of one resource."""
    (result,) = describe(client, 4, (kind, name, None))
    assert result.error_code == 0
    configs: list[Any] = result.configs
    return configs


def alter(client: Client, *wanted: tuple[int, str, Sequence[Setting]], **fields: Any) -> list[Any]:
    version = fields.pop("version", 2)
    resource = AlterConfigsRequest.Resources
    resources = [
        resource(kind, name, [resource.Configs(*each) for each in settings])
        for kind, name, settings in wanted
    ]
    return errors(client.ask(AlterConfigsRequest(resources, **fields), version).responses)


def change(client: Client, *wanted: tuple[int, str, Sequence[Change]], **fields: Any) -> list[Any]:
    version = fields.pop("version", 1)
    resource = IncrementalAlterConfigsRequest.Resources
    resources = [
        resource(kind, name, [resource.Configs(*each) for each in changes])
        for kind, name, changes in wanted
    ]
    asked = IncrementalAlterConfigsRequest(resources, **fields)
    return errors(client.ask(asked, version).responses)


def errors(responses: list[Any]) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in responses]


DONE = [(0, None)]


# --- describe -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_settings_of_a_topic_in_every_version(client: Client, version: int) -> None:
    assert alter(client, (TOPIC, "a", [("retention.ms", "100")])) == DONE
    (result,) = describe(client, version, (TOPIC, "a", None))
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "a")
    assert result.error_message == ""
    found = {config.name: config for config in result.configs}
    assert len(found) == len(result.configs) > 25
    assert found["retention.ms"].value == "100"
    assert found["cleanup.policy"].value == "delete"
    if version == 0:
        assert not found["retention.ms"].is_default
        assert found["cleanup.policy"].is_default
    else:
        assert found["retention.ms"].config_source == 1
        assert found["cleanup.policy"].config_source == 5
    assert not any(config.is_sensitive or config.read_only for config in result.configs)
    assert all(config.synonyms == [] for config in result.configs)
    assert all(not config.documentation for config in result.configs)
    if version >= 3:
        assert (found["retention.ms"].config_type, found["cleanup.policy"].config_type) == (5, 7)


def test_keys_synonyms_and_documentation(client: Client) -> None:
    (result,) = describe(client, 4, (TOPIC, "a", ["flush.ms", "nope"]))
    assert [config.name for config in result.configs] == ["flush.ms"]
    (result,) = describe(client, 4, (TOPIC, "a", []))
    assert len(result.configs) > 25
    change(client, (TOPIC, "a", [("cleanup.policy", APPEND, "compact")]))
    asked = {"include_synonyms": True, "include_documentation": True}
    config = one(client, TOPIC, "a", "cleanup.policy", **asked)
    assert config.value == "delete,compact"
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("cleanup.policy", "delete,compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]
    assert config.documentation
    assert one(client, TOPIC, "a", "cleanup.policy").documentation is None


def test_a_setting_of_the_broker_and_of_all_brokers(client: Client) -> None:
    key = "message.max.bytes"
    assert change(client, (BROKER, "1", [(key, SET, "2000000")])) == DONE
    assert change(client, (BROKER, "", [(key, SET, "3000000")])) == DONE
    config = one(client, BROKER, "1", key, include_synonyms=True)
    assert (config.value, config.config_source, config.config_type) == ("2000000", 2, 3)
    assert [(each.value, each.source) for each in config.synonyms] == [
        ("2000000", 2),
        ("3000000", 3),
        ("1048588", 5),
    ]
    assert one(client, TOPIC, "a", "max.message.bytes").value == "2000000"
    assert one(client, BROKER, "", key).value == "3000000"
    assert change(client, (BROKER, "1", [(key, DELETE, None)])) == DONE
    assert one(client, BROKER, "1", key).value == "3000000"
    assert alter(client, (BROKER, "", [])) == DONE
    assert one(client, BROKER, "1", key).config_source == 5
    (result,) = describe(client, 4, (BROKER, "", None))
    assert result.configs == []


def test_a_sensitive_setting_has_no_value(client: Client) -> None:
    (result,) = describe(client, 4, (BROKER, "1", None), include_synonyms=True)
    sensitive = [config for config in result.configs if config.is_sensitive]
    assert sensitive
    assert all(config.value is None for config in sensitive)
    assert all(each.value is None for config in sensitive for each in config.synonyms)


def test_resources_that_cannot_be_described(client: Client) -> None:
    wanted = [
        (TOPIC, "nope"), (TOPIC, "bad name"), (TOPIC, ""), (BROKER, "9"), (BROKER, "x"),
        (LOGGER, ""), (LOGGER, "9"), (99, "x"), (0, ""),
    ]  # fmt: skip
    found = describe(client, 4, *((kind, name, None) for kind, name in wanted))
    assert [each.error_code for each in found] == [3, 17, 17, 42, 42, 42, 42, 42, 42]
    assert [(each.resource_type, each.resource_name) for each in found] == wanted
    assert all(each.configs == [] for each in found)


# --- alter ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_alter_replaces_all_settings(client: Client, version: int) -> None:
    first = [("retention.ms", "100"), ("flush.ms", "7")]
    assert alter(client, (TOPIC, "a", first), version=version, validate_only=True) == DONE
    assert not client.metadata.image.topic("a").config
    assert alter(client, (TOPIC, "a", first), version=version) == DONE
    assert alter(client, (TOPIC, "a", [("flush.ms", "8")]), version=version) == DONE
    assert dict(client.metadata.image.topic("a").config) == {"flush.ms": "8"}


@pytest.mark.parametrize("version", range(2))
def test_incremental_alter_configs_changes_only_the_named_settings(
    client: Client, version: int
) -> None:
    alter(client, (TOPIC, "a", [("retention.ms", "100"), ("flush.ms", "7")]))
    changes: list[Change] = [("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")]
    assert change(client, (TOPIC, "a", changes), version=version) == DONE
    wanted = {"flush.ms": "7", "cleanup.policy": "delete,compact"}
    assert dict(client.metadata.image.topic("a").config) == wanted
    changes = [("cleanup.policy", SUBTRACT, "delete")]
    assert change(client, (TOPIC, "a", changes), version=version) == DONE
    assert one(client, TOPIC, "a", "cleanup.policy").value == "compact"
    assert change(client, (TOPIC, "a", [("nope", DELETE, None)])) == DONE


@pytest.mark.parametrize(
    ("kind", "name", "settings", "error", "message"),
    [
        (TOPIC, "a", [("retention.ms", None)], 42, "Null value not supported for : retention.ms"),
        (
            TOPIC, "a", [("flush.ms", "1"), ("flush.ms", "2")], 42,
            "Error due to duplicate config keys",
        ),
        (TOPIC, "a", [("x", "1")], 40, "Unknown topic config name: x"),
        (
            TOPIC, "a", [("retention.ms", "-7")], 40,
            "Invalid value -7 for configuration retention.ms: Value must be at least -1",
        ),
        (TOPIC, "nope", [("flush.ms", "1")], 3, "The topic 'nope' does not exist."),
        (TOPIC, "", [("flush.ms", "1")], 42, "Default topic resources are not allowed."),
        (BROKER, "9", [], 42, "Unexpected broker id, expected 1, but received 9"),
        (BROKER, "x", [], 42, "Node id must be an integer, but it is: x"),
        (
            BROKER, "1", [("message.max.bytes", "x")], 42,
            "Invalid value x for configuration message.max.bytes: Not a number of type INT",
        ),
        (99, "x", [], 42, "Unknown resource type 99"),
    ],
)  # fmt: skip
def test_what_kafka_says_to_both_ways(
    client: Client, kind: int, name: str, settings: list[Setting], error: int, message: str
) -> None:
    before = client.metadata.image
    assert alter(client, (kind, name, settings)) == [(error, message)]
    changes = [(key, SET, value) for key, value in settings]
    assert change(client, (kind, name, changes)) == [(error, message)]
    assert client.metadata.image.topics == before.topics


def test_what_kafka_says_to_single_changes(client: Client) -> None:
    assert change(client, (TOPIC, "a", [("retention.ms", APPEND, "1")])) == [
        (40, "Can't APPEND to key retention.ms because its type is not LIST.")
    ]
    assert change(client, (TOPIC, "a", [("retention.ms", 7, "1")])) == [
        (42, "Unknown operation type 7")
    ]
    assert alter(client, (LOGGER, "1", [])) == [(42, "Unknown resource type 8")]
    assert change(client) == alter(client) == []


def test_the_throttles_of_moves_are_described_where_they_are_set(client: Client) -> None:
    """kafka-reassign-partitions sets them, and removes all three after each move."""
    names = [f"{who}.replication.throttled.rate" for who in ("follower", "leader")]
    names.append("replica.alter.log.dirs.io.max.bytes.per.second")
    removed = [(name, DELETE, None) for name in names]
    assert change(client, (BROKER, "1", removed)) == DONE
    listed = {each.name for each in described(client, BROKER, "1")}
    assert listed.isdisjoint(names)
    assert change(client, (BROKER, "1", [(name, SET, "7") for name in names])) == DONE
    assert change(client, (BROKER, "", [(names[2], SET, "8")])) == DONE
    found = described(client, BROKER, "1")
    assert [each.name for each in found] == sorted(listed.union(names))
    for each in found:
        if each.name in names:
            assert (each.value, each.config_source, each.config_type) == ("7", 2, 5)
            assert not each.read_only
    assert [(each.name, each.value) for each in described(client, BROKER, "")] == [(names[2], "8")]
    assert change(client, (BROKER, "1", removed)) == DONE
    assert one(client, BROKER, "1", names[2]).value == "8"
    assert {each.name for each in described(client, BROKER, "1")} == listed | {names[2]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [("-1", "Value must be at least 0"), ("x", "Not a number of type LONG"),
     ("9223372036854775808", "Not a number of type LONG")],
)  # fmt: skip
def test_a_throttle_out_of_range(client: Client, value: str, reason: str) -> None:
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    text = f"Invalid value {value} for configuration {name}: {reason}"
    assert change(client, (BROKER, "1", [(name, SET, value)])) == [(42, text)]


def test_a_resource_that_appears_twice_is_refused(client: Client) -> None:
    wanted = [(42, "Each resource must appear at most once.")] * 2
    assert alter(client, *[(TOPIC, "a", [("flush.ms", "1")])] * 2) == wanted
    assert change(client, *[(TOPIC, "a", [("flush.ms", SET, "1")])] * 2) == wanted
    assert not client.metadata.image.topic("a").config


def test_one_resource_does_not_hold_up_another(client: Client) -> None:
    found = alter(client, (TOPIC, "nope", []), (TOPIC, "a", [("flush.ms", "1")]))
    assert [code for code, _ in found] == [3, 0]
    assert dict(client.metadata.image.topic("a").config) == {"flush.ms": "1"}


# --- loggers --------------------------------------------------------------------------------


@pytest.fixture
def levels() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("kstore", "kstore.broker")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("levels")
def test_the_level_of_a_logger_is_set_and_reset(client: Client) -> None:
    of_program = logging.getLogger().level
    changes: list[Change] = [("root", SET, "WARN"), ("kstore.broker", SET, "TRACE")]
    assert change(client, (LOGGER, "1", changes), validate_only=True) == DONE
    assert logging.getLogger("kstore.broker").level != 5
    assert change(client, (LOGGER, "1", changes)) == DONE
    assert logging.getLogger("kstore").level == logging.WARNING
    assert logging.getLogger().level == of_program
    config = one(client, LOGGER, "1", "kstore.broker")
    assert (config.value, config.config_source, config.read_only) == ("TRACE", 6, False)
    assert change(client, (LOGGER, "1", [("kstore.broker", DELETE, None)])) == DONE
    assert one(client, LOGGER, "1", "kstore.broker").value == "WARN"  # that of root


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (("nope.x", SET, "WARN"), 40, "Logger nope.x does not exist!"),
        (
            ("root", SET, "LOUD"), 40, "Cannot set the log level of root to LOUD as it is not a "
            "supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
        (
            ("root", APPEND, "WARN"), 42,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (("root", SET, None), 42, "Null value not supported for : root"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("levels")
def test_levels_that_are_refused(client: Client, wanted: Change, error: int, message: str) -> None:
    changes = [("kstore.broker", SET, "FATAL"), wanted]
    assert change(client, (LOGGER, "1", changes)) == [(error, message)]
    assert logging.getLogger("kstore.broker").level != logging.CRITICAL


# --- list -----------------------------------------------------------------------------------


def listed(client: Client, version: int, *kinds: int) -> tuple[int, list[tuple[int, str]]]:
    response = client.ask(ListConfigResourcesRequest(list(kinds)), version)
    return response.error_code, [
        (each.resource_type, each.resource_name) for each in response.config_resources
    ]


def test_resources_that_may_have_settings(client: Client) -> None:
    assert listed(client, 0) == (0, [])  # client metrics
    every = [(LOGGER, "1"), (BROKER, "1"), (TOPIC, "a")]
    assert listed(client, 1) == (0, every)
    assert listed(client, 1, TOPIC, BROKER, LOGGER) == (0, every)
    assert listed(client, 1, TOPIC) == (0, [(TOPIC, "a")])
    assert listed(client, 1, METRICS, GROUP) == (0, [])
    assert listed(client, 1, TOPIC, 99) == (35, [])
