"""Settings and topic rules, compared with the answers of a Kafka 3.9.2 broker.

``tests/data/settings-3.9.2.json`` has code and message by case; this module has the requests.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp, ConfigChange, ConfigEntry
from kstore.cluster.settings.broker_settings import KSTORE_DEFAULTS
from kstore.cluster.settings.dynamic_settings import NOT_SUPPORTED, READ_AT_START
from kstore.cluster.settings.layers import BrokerConfig, describe_topic
from kstore.errors import KStoreError

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "settings-3.9.2.json").read_text(encoding="utf-8")
)
STATIC_BROKER = 4

CREATIONS: dict[str, dict[str, Any]] = {
    "exists": {"name": "a.b"},
    "collision": {"name": "a_b"},
    "empty": {"name": ""},
    "dot": {"name": "."},
    "long": {"name": "x" * 250},
    "chars": {"name": "a b"},
    "zero partitions": {"partitions": 0},
    "negative": {"partitions": -2},
    "rf 0": {"replication_factor": 0},
    "rf 3": {"replication_factor": 3},
    "rf -2": {"replication_factor": -2},
    "defaults": {"partitions": -1, "replication_factor": -1},
    "both": {"partitions": 2, "replication_factor": 1, "assignments": {0: [1]}},
    "assign parts": {"partitions": 2, "assignments": {0: [1]}},
    "assign rf": {"replication_factor": 1, "assignments": {0: [1]}},
    "assign ok": {"assignments": {0: [1], 1: [1]}},
    "assign gap": {"assignments": {0: [1], 2: [1]}},
    "assign from one": {"assignments": {1: [1]}},
    "assign unknown": {"assignments": {0: [7]}},
    "assign dup": {"assignments": {0: [1, 1]}},
    "assign empty": {"assignments": {0: []}},
    "assign uneven": {"assignments": {0: [1], 1: []}},
    "unknown config": {"config": {"foo": "1"}},
    "null config": {"config": {"retention.ms": None}},
    "bad int": {"config": {"segment.bytes": "x"}},
    "low int": {"config": {"segment.bytes": "1"}},
    "bad long": {"config": {"retention.ms": "-2"}},
    "bad bool": {"config": {"preallocate": "maybe"}},
    "bad double": {"config": {"min.cleanable.dirty.ratio": "2"}},
    "bad double text": {"config": {"min.cleanable.dirty.ratio": "x"}},
    "bad list": {"config": {"cleanup.policy": "foo"}},
    "empty list": {"config": {"cleanup.policy": ""}},
    "spaced list": {"config": {"cleanup.policy": " compact , delete "}},
    "dup list": {"config": {"cleanup.policy": "compact,compact"}},
    "bad string": {"config": {"compression.type": "foo"}},
    "bad gzip": {"config": {"compression.gzip.level": "12"}},
    "bad zstd": {"config": {"compression.zstd.level": "99"}},
    "bad timestamp type": {"config": {"message.timestamp.type": "foo"}},
    "bad format": {"config": {"message.format.version": "foo"}},
    "ok format": {"config": {"message.format.version": "0.10.2"}},
    "throttled": {"config": {"leader.replication.throttled.replicas": "x"}},
    "throttled ok": {"config": {"leader.replication.throttled.replicas": "0:1,1:1"}},
    "throttled star": {"config": {"leader.replication.throttled.replicas": "*"}},
    "minisr 2": {"config": {"min.insync.replicas": "2"}},
    "minisr 0": {"config": {"min.insync.replicas": "0"}},
    "lag": {"config": {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}},
    "remote": {"config": {"remote.storage.enable": "true"}},
    "local over": {"config": {"retention.ms": "10", "local.retention.ms": "50"}},
    "two bad": {"config": {"segment.bytes": "1", "retention.ms": "-5"}},
    "spaces": {"config": {"segment.bytes": " 1000 "}},
    "bool case": {"config": {"preallocate": "TRUE"}},
    "segment small": {"config": {"segment.bytes": "14"}},
    "reserved __cluster_metadata": {"name": "__cluster_metadata"},
    "internal": {"name": "__consumer_offsets"},
    "many": {"partitions": 100_000},
    "too many": {"partitions": 2**31 - 1},
    "validate": {"partitions": 3, "config": {"retention.ms": "5"}},
}
MORE_PARTITIONS: dict[str, tuple[Any, ...]] = {
    "fewer": ("t4", 1),
    "equal": ("t4", 2),
    "zero": ("t4", 0),
    "neg": ("t4", -1),
    "assign count": ("t4", 4, [[1]]),
    "assign unknown": ("t4", 3, [[9]]),
    "assign dup": ("t4", 3, [[1, 1]]),
    "assign empty": ("t4", 3, [[]]),
    "ok vo": ("t4", 5),
    "ok": ("t4", 3, [[1]]),
}
SET, DELETE, APPEND, SUBTRACT = AlterOp
ALTERATIONS: dict[str, tuple[str, list[ConfigChange]]] = {
    "unknown topic": ("zz", [(SET, "retention.ms", "5")]),
    "unknown key": ("t2", [(SET, "foo", "5")]),
    "bad": ("t2", [(SET, "retention.ms", "x")]),
    "null": ("t2", [(SET, "retention.ms", None)]),
    "append non list": ("t2", [(APPEND, "retention.ms", "5")]),
    "append": ("t2", [(APPEND, "cleanup.policy", "compact")]),
    "subtract": ("t2", [(SUBTRACT, "cleanup.policy", "delete")]),
    "dup": ("t2", [(SET, "retention.ms", "5"), (SET, "retention.ms", "6")]),
    "delete unset": ("t2", [(DELETE, "segment.bytes", None)]),
    "delete unknown": ("t2", [(DELETE, "foo", None)]),
    "empty name": ("", [(SET, "retention.ms", "5")]),
    "empty key": ("t2", [(SET, "", "5")]),
    "none": ("t2", []),
    "append null": ("t2", [(APPEND, "cleanup.policy", None)]),
    "badname": ("a b", [(SET, "retention.ms", "5")]),
}
BROKER_ALTERATIONS: dict[str, list[ConfigChange]] = {
    "broker": [(SET, "log.retention.ms", "100000000")],
    "broker read only": [(SET, "num.partitions", "3")],
    "broker read only two": [(SET, "num.partitions", "3"), (SET, "broker.rack", "3")],
    "broker bad": [(SET, "log.retention.ms", "x")],
    "broker message": [(SET, "message.max.bytes", "-1")],
    "broker retention 0": [(SET, "log.retention.ms", "0")],
    "broker hours": [(SET, "log.retention.hours", "0")],
}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetadata]:
    with kstore.open(tmp_path_factory.mktemp("settings")) as store:
        local = LocalMetadata(store, node_id=1)
        local.create_topic("a.b")
        local.create_topic("t2")
        local.create_topic("t4", partitions=2)
        yield local
        local.close()


def answer(call: Callable[[], object]) -> list[object]:
    """The code and message that a broker would answer with."""
    try:
        call()
    except KStoreError as error:
        return [error.code, error.reason]
    return [0, None]


@pytest.mark.parametrize("case", CREATIONS)
def test_creations_are_answered_as_a_recorded_broker_did(
    metadata: LocalMetadata, case: str
) -> None:
    arguments = {"name": "free", **CREATIONS[case]}
    found = answer(lambda: metadata.create_topic(**arguments, validate_only=True))
    assert found == RECORDED["create"][case]


@pytest.mark.parametrize("case", MORE_PARTITIONS)
def test_more_partitions_are_answered_as_a_recorded_broker_did(
    metadata: LocalMetadata, case: str
) -> None:
    name, count, *rest = MORE_PARTITIONS[case]
    assignments = rest[0] if rest else None

    def call() -> None:
        metadata.create_partitions(name, count, assignments=assignments, validate_only=True)

    assert answer(call) == RECORDED["create_partitions"][case]


@pytest.mark.parametrize("case", ALTERATIONS)
def test_alterations_of_a_topic_are_answered_as_a_recorded_broker_did(
    metadata: LocalMetadata, case: str
) -> None:
    name, changes = ALTERATIONS[case]
    found = answer(lambda: metadata.alter_topic_config(name, changes, validate_only=True))
    assert found == RECORDED["incremental_alter"][case]


@pytest.mark.parametrize("case", BROKER_ALTERATIONS)
def test_alterations_of_a_broker_are_answered_as_a_recorded_broker_did(
    metadata: LocalMetadata, case: str
) -> None:
    changes = BROKER_ALTERATIONS[case]
    found = answer(lambda: metadata.alter_broker_config(changes, validate_only=True))
    assert found == RECORDED["incremental_alter"][case]


def shown(entries: list[ConfigEntry]) -> dict[str, list[object]]:
    return {
        entry.name: [
            entry.value,
            int(entry.source),
            entry.is_read_only,
            entry.is_sensitive,
            int(entry.type),
            [[each.name, each.value, int(each.source)] for each in entry.synonyms],
        ]
        for entry in entries
    }


def kafkas(entries: list[ConfigEntry]) -> dict[str, list[object]]:
    """What is shown of all settings but our own."""
    own = [entry.name for entry in entries if entry.name.startswith("kstore.")]
    assert own == ["kstore.acks.durable"]
    return shown([entry for entry in entries if entry.name not in own])


@pytest.fixture(scope="module")
def broker_config() -> BrokerConfig:
    """The settings that the recorded broker was started with, and the one set for all brokers."""
    static = {
        synonym[0]: synonym[1]
        for _, _, _, _, _, synonyms in RECORDED["describe"]["broker"].values()
        for synonym in synonyms
        if synonym[2] == STATIC_BROKER
    }
    return BrokerConfig(static, {"log.retention.bytes": "77777"})


def test_settings_of_a_broker_are_those_of_a_recorded_one(broker_config: BrokerConfig) -> None:
    found, recorded = kafkas(broker_config.describe()), RECORDED["describe"]["broker"]
    assert found.keys() == recorded.keys()
    for name, entry in found.items():
        if name in READ_AT_START | NOT_SUPPORTED:  # Kafka changes it while it runs
            assert entry[2] is True
            entry[2] = False
        if name in KSTORE_DEFAULTS:
            assert entry[0] == entry[5][0][1] == KSTORE_DEFAULTS[name] != recorded[name][0]
            entry[0] = entry[5][0][1] = recorded[name][0]
            entry[5] = recorded[name][5]  # -1 is no default where Kafka has none
        assert entry == recorded[name], name


def test_settings_of_a_topic_are_those_of_a_recorded_broker(broker_config: BrokerConfig) -> None:
    found = kafkas(describe_topic({"retention.bytes": "123456789"}, broker_config))
    assert found == RECORDED["describe"]["topic"]


def test_every_setting_is_documented(broker_config: BrokerConfig) -> None:
    entries = [*broker_config.describe(), *describe_topic({}, broker_config)]
    assert [entry.name for entry in entries if not entry.documentation] == []
