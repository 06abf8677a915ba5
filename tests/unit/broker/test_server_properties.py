"""Kafka's server.properties: what is honoured, ignored and refused."""

import ast
import re
from pathlib import Path

import pytest

import kstore
from kstore.broker.broker import Broker
from kstore.broker.server_properties import (
    HONOURED,
    IGNORED,
    SECURITY,
    handling_of,
    read_server_properties,
)
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.cluster.store_settings import STORE_SETTINGS
from kstore.errors import InvalidConfigError


def test_a_file_of_kafka_gives_directories_id_and_settings() -> None:
    found = read_server_properties(
        {
            "process.roles": "broker,controller",
            "node.id": "3",
            "broker.id": "-1",
            "log.dirs": "/a, /b",
            "log.dir": "/c",
            "num.partitions": "6",
            "log.retention.hours": "24",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.quorum.voters": "3@localhost:9093",
            "offsets.topic.replication.factor": "3",
            "my.own": "x",
            "kstore.acks.durable": "true",
            "remote.log.storage.system.enable": "false",
        }
    )
    assert found.log_dirs == ("/a", "/b")
    assert found.node_id == 3
    assert dict(found.settings) == {
        "num.partitions": "6",
        "log.retention.hours": "24",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "kstore.acks.durable": "true",
    }
    assert found.ignored == (
        "controller.quorum.voters",
        "offsets.topic.replication.factor",
        "my.own",
        "remote.log.storage.system.enable",
    )


def test_a_file_without_settings_gives_no_directories_and_no_id() -> None:
    found = read_server_properties({"broker.id": "-1"})
    assert (found.log_dirs, found.node_id, dict(found.settings), found.ignored) == (
        (), None, {}, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (
            {"remote.log.storage.system.enable": "true"},
            "=true is not supported: consumers could not",
        ),
        ({"create.topic.policy.class.name": "a.B"}, "needs a Java class"),
        ({"process.roles": "controller"}, "configures a controller"),
        ({"node.id": "x"}, "node.id"),
    ],
)
def test_invalid_server_properties_are_errors_that_name_the_key(
    properties: dict[str, str], text: str
) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(text)):
        read_server_properties(properties)


def test_keys_of_security_go_to_the_broker_which_honours_or_refuses_them(tmp_path: Path) -> None:
    assert handling_of("ssl.keystore.location") == SECURITY
    properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "authorizer.class.name": "a.B"}
    found = read_server_properties(properties)
    assert dict(found.settings) == properties
    with (
        kstore.open(tmp_path / "data") as store,
        pytest.raises(InvalidConfigError, match=re.escape("authorizer.class.name")),
    ):
        Broker(store, settings=found.settings)


def test_a_file_switches_the_new_protocol_of_groups_off() -> None:
    """Not a setting of BrokerSettings: the handlers of groups read it."""
    name = "group.coordinator.rebalance.protocols"
    found = read_server_properties({name: "classic", "log.dirs": "/d"})
    assert (found.settings, found.ignored) == ({name: "classic"}, ())


def test_the_rack_and_the_settings_of_the_store_are_honoured() -> None:
    for name in ("broker.rack", *STORE_SETTINGS):
        found = read_server_properties({name: "1"})
        assert (found.settings, found.ignored) == ({name: "1"}, ()), name
        assert handling_of(name) == HONOURED


# Named in the code, and yet without effect.
NOT_READ = {
    "metadata.log.dir",  # kstore storage prints it, as Kafka's tool does
    "log.message.format.version",  # of LogConfig; a broker appends record batches only
    "request.timeout.ms",  # of clients, such as the mirror
}


def test_what_the_code_reads_is_not_ignored() -> None:
    """Every broker setting that the code names, besides the tables of all settings."""
    package = Path(kstore.__file__).parent
    named: dict[str, str] = {}
    for path in package.rglob("*.py"):
        if path.parent.name == "settings" or path.name == "server_properties.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named[node.value] = str(path.relative_to(package))
    read = {name: where for name, where in named.items() if name in BROKER_SETTINGS}
    assert len(read) > 80
    ignored = {name: where for name, where in read.items() if handling_of(name) == IGNORED}
    assert set(ignored) == NOT_READ, ignored
