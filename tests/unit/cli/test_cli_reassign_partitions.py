"""``kstore reassign-partitions`` with throttles, beside reassignments, and with wrong options.

``tests/interop`` compares what it prints and sets with Kafka's tool.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstore import serve
from kstore.broker.broker import Broker
from kstore.cli import main, reassign_throttles
from kstore.cluster.image import ClusterImage
from kstore.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from kstore.remote import admin, topic
from kstore.remote.store import RemoteStore
from kstore.topic_partition import TopicPartition

Reassignment = ListPartitionReassignmentsResponse.Topics.Partitions
Tool = Callable[..., tuple[int, list[str], list[str]]]
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
RATES = ("follower.replication.throttled.rate", "leader.replication.throttled.rate", RATE)
WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
CLEARED = ["Clearing broker-level throttles on broker 0", "Clearing topic-level throttles on topic"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """orders has two partitions; partition 0 has some kilobytes."""
    with serve([tmp_path / "one", tmp_path / "two"], port=0) as broker:
        created = broker.store.create_topic("orders", partitions=2)
        created[0].append(b"v" * 4000)
        yield broker


@pytest.fixture
def tool(broker: Broker, capfd: pytest.CaptureFixture[str]) -> Tool:
    def run(*words: object) -> tuple[int, list[str], list[str]]:
        capfd.readouterr()
        words = ("reassign-partitions", "--bootstrap-server", broker.bootstrap_servers, *words)
        status = main(list(map(str, words)))
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def other_dir(broker: Broker) -> str:
    (other,) = {*broker.store.paths} - {os.path.dirname(broker.store["orders"][0].path)}
    return other


@pytest.fixture
def moves(broker: Broker, tmp_path: Path) -> tuple[str, str]:
    """The option for a file that moves orders-0."""
    entry = {"topic": "orders", "partition": 0, "replicas": [0], "log_dirs": [other_dir(broker)]}
    path = tmp_path / "moves.json"
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return "--reassignment-json-file", str(path)


def image(broker: Broker) -> ClusterImage:
    assert broker._metadata is not None
    return broker._metadata.image


def config_of_topic(broker: Broker) -> dict[str, str]:
    found = image(broker).topic("orders")
    assert found is not None
    return dict(found.config)


def rates(broker: Broker) -> dict[str, str]:
    config = image(broker).broker_config
    return {name: config[name] for name in RATES if name in config}


def test_throttles_are_set_changed_and_removed(
    broker: Broker, tool: Tool, moves: tuple[str, str]
) -> None:
    target = other_dir(broker)
    started = f"Successfully started moving log directory to {target}"
    begun = [
        "Successfully started partition reassignment for orders-0",
        f"{started} for replica orders-0 with broker 0 ",
    ]
    limits = ("--throttle", 7, "--replica-alter-log-dirs-throttle", 1)
    status, lines, errors = tool("--execute", *moves, *limits)
    assert (status, errors) == (0, [])
    assert lines[5:] == [
        WARNING,
        "The inter-broker throttle limit was set to 7 B/s",
        "The replica-alter-dir throttle limit was set to 1 B/s",
        *begun,
    ]
    assert rates(broker) == dict(zip(RATES, "771", strict=True))
    assert config_of_topic(broker) == {
        "leader.replication.throttled.replicas": "0:0",
        "follower.replication.throttled.replicas": "",
    }
    assert tool("--verify", *moves)[1][2:] == [
        "Reassignment of replica orders-0-0 is still in progress."
    ]
    assert rates(broker)[RATE] == "1"
    again = ("--throttle", -1, "--replica-alter-log-dirs-throttle", 0, "--additional")
    status, lines, _ = tool("--execute", *moves, *again)
    assert lines[5:] == [WARNING, "The replica-alter-dir throttle limit was set to 0 B/s", *begun]
    assert rates(broker) == dict(zip(RATES, "770", strict=True))
    assert tool("--execute", *moves, "--throttle=-5")[1][5:] == begun
    status, lines, _ = tool("--cancel", *moves)
    assert (status, lines[-2:]) == (0, [CLEARED[0], f"{CLEARED[1]} orders"])
    assert rates(broker) == {}
    assert not config_of_topic(broker)


def test_without_a_log_dir_only_the_replication_is_throttled(
    broker: Broker, tool: Tool, tmp_path: Path
) -> None:
    path = tmp_path / "any.json"
    entries = [{"topic": "orders", "partition": number, "replicas": [0]} for number in (0, 1)]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    limits = ("--throttle", 7, "--replica-alter-log-dirs-throttle", 9)
    status, lines, _ = tool("--execute", "--reassignment-json-file", path, *limits)
    assert (status, lines[6:]) == (0, [
        "The inter-broker throttle limit was set to 7 B/s",
        "The replica-alter-dir throttle limit was set to 9 B/s",
        "Successfully started partition reassignments for orders-0,orders-1",
    ])  # fmt: skip
    assert rates(broker) == dict.fromkeys(RATES[:2], "7")
    config = config_of_topic(broker)
    assert config["leader.replication.throttled.replicas"] == "0:0,1:0"


def test_beside_reassignments_of_brokers(
    broker: Broker, tool: Tool, moves: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a Kafka cluster: kstore's broker has none, whatever moves between directories."""
    running = {TopicPartition("orders", 1): Reassignment(1, [0, 5], [5], [])}
    monkeypatch.setattr(admin, "list_reassignments", lambda _cluster: running)
    status, lines, errors = tool("--execute", *moves)
    assert (status, lines) == (1, [])
    assert errors[0].startswith(
        "kstore reassign-partitions: Cannot execute because there is an existing partition "
        "assignment.  Use --additional to override this"
    )
    status, lines, _ = tool("--execute", "--additional", *moves)
    assert status == 0
    assert "Successfully started partition reassignment for orders-0" in lines
    status, lines, _ = tool("--verify", *moves)
    assert status == 0
    assert CLEARED[0] not in lines


def test_running_reassignments_are_throttled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's calculateProposedMoveMap: a partition that moves already keeps its sources."""
    altered: list[tuple[int, str, dict[str, str]]] = []

    def alter(_store: Any, kind: int, name: str, changes: dict[str, str], _unset: Any) -> None:
        altered.append((kind, name, changes))

    monkeypatch.setattr(topic, "alter_settings", alter)
    replicas = {0: [1, 2], 10: [1, 2, 3]}
    entries = {number: SimpleNamespace(replica_nodes=each) for number, each in replicas.items()}
    store: Any = {"t": SimpleNamespace(entries=entries)}
    running = {
        TopicPartition("t", 10): Reassignment(10, [1, 2, 3], [3], [2]),
        TopicPartition("u", 0): Reassignment(0, [6, 7], [7], [6]),
    }
    arguments: Any = SimpleNamespace(throttle=0, replica_alter_log_dirs_throttle=None)
    wanted = {TopicPartition("t", 0): (2, 4), TopicPartition("t", 10): (1, 5)}
    reassign_throttles.set_throttles(store, arguments, wanted, [1], running)
    leaders, followers = (f"{who}.replication.throttled.replicas" for who in ("leader", "follower"))
    assert altered == [
        (topic.TOPIC, "t", {leaders: "0:1,0:2,10:1,10:2", followers: "0:4,10:5"}),
        (topic.TOPIC, "u", {leaders: "0:6", followers: "0:7"}),
        *((topic.BROKER, str(each), dict.fromkeys(sorted(RATES[:2], reverse=True), "0"))
          for each in (1, 2, 4, 5, 6, 7)),
    ]  # fmt: skip


@pytest.fixture
def elsewhere(tmp_path: Path) -> tuple[str, str]:
    """The option for a file with partitions on other brokers than those that they have."""
    path = tmp_path / "elsewhere.json"
    entries = [
        {"topic": "orders", "partition": 0, "replicas": [0, 9]},
        {"topic": "orders", "partition": 1, "replicas": [7]},
        {"topic": "nope", "partition": 3, "replicas": [0]},
    ]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return "--reassignment-json-file", str(path)


def test_another_broker(broker: Broker, tool: Tool, elsewhere: tuple[str, str]) -> None:
    assert tool("--execute", *elsewhere) == (1, ["Error: Unknown broker id 7"], [])
    no_move = "There is no active reassignment of partition"
    status, lines, _ = tool("--verify", *elsewhere, "--preserve-throttles")
    assert (status, lines) == (0, [
        "Status of partition reassignment:",
        f"{no_move} nope-3, but replica set is  rather than 0.",
        f"{no_move} orders-0, but replica set is 0 rather than 0,9.",
        f"{no_move} orders-1, but replica set is 0 rather than 7.",
        "",
    ])  # fmt: skip
    status, lines, _ = tool("--cancel", *elsewhere, "--preserve-throttles")
    assert (status, lines) == (0, [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ])  # fmt: skip


@pytest.mark.parametrize("action", ["--verify", "--cancel"])
def test_the_throttles_of_another_broker(
    broker: Broker, tool: Tool, elsewhere: tuple[str, str], action: str
) -> None:
    """As in Kafka, those of brokers are removed, those of topics are not."""
    replicas = {"leader.replication.throttled.replicas": "0:0"}
    with RemoteStore(broker.bootstrap_servers) as store:
        topic.alter_settings(store, topic.BROKER, "0", {RATES[0]: "5"}, ())
        topic.alter_settings(store, topic.TOPIC, "orders", replicas, ())
    status, lines, errors = tool(action, *elsewhere)
    assert status == 1
    assert lines[-1].endswith("Clearing broker-level throttles on brokers 0,7,9")
    assert errors == [
        "kstore reassign-partitions: the cluster has no broker 7: the throttles of topics remain"
    ]
    assert rates(broker) == {}
    assert config_of_topic(broker) == replicas


def test_a_move_between_brokers_is_not_cancelled(
    broker: Broker, tool: Tool, moves: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = {TopicPartition("orders", 0): Reassignment(0, [0, 5], [5], [])}
    monkeypatch.setattr(admin, "list_reassignments", lambda _cluster: running)
    status, lines, errors = tool("--cancel", *moves)
    assert (status, lines) == (1, [])
    assert "does not cancel moves between brokers, as of orders-0" in errors[0]


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("verify", ("--throttle", "5")),
        ("cancel", ("--replica-alter-log-dirs-throttle", "0")),
        ("verify", ("--additional",)),
        ("verify", ("--timeout", "0")),
        ("execute", ("--preserve-throttles",)),
    ],
)
def test_an_option_of_another_action(
    tool: Tool, moves: tuple[str, str], action: str, words: tuple[str, ...]
) -> None:
    status, _, errors = tool(f"--{action}", *moves, *words)
    assert status == 1
    name = words[0].removeprefix("--")
    assert errors[0] == f'Option "[{name}]" can\'t be used with action "[{action}]"'
