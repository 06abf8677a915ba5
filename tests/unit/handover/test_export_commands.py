"""What a broker does not read becomes commands, which kstore's own tools, with Kafka's options,
understand; retention that would delete is warned of."""

import json
import shlex
import time
from argparse import Namespace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

import kstore
from kstore.cli import acls, configs, main
from kstore.cli.common import ToolParser
from kstore.cli.entity_options import DEFAULTS, entities_of
from kstore.cluster.client_quotas import entity_of
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp
from kstore.handover import HandoverReport, plan_handover
from kstore.handover.export_commands import export_commands
from kstore.security.acl import Acl, AclOperation, PatternType, Permission, ResourceType
from kstore.security.acl_store import AclStore
from kstore.security.authorizer import Authorizer
from kstore.security.credentials import Credentials
from kstore.security.scram import ScramCredential
from kstore.store.cluster_metadata import ClusterMetadata
from support.stores import MARKER

META = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAABQQ\n"
NOW = time.time_ns() // 1_000_000


def exported(
    store: kstore.Store,
    *topics: str,
    known: ClusterMetadata | None = None,
    node_id: int | None = None,
) -> HandoverReport:
    report = HandoverReport()
    export_commands(store, topics, known, report, node_id=node_id)
    return report


def options(tool: object, command: str, name: str) -> dict[str, object]:
    """The options of a command, as the tool of that name reads them."""
    first, *words = shlex.split(command)
    assert first == name
    parser = ToolParser(prog=name)
    tool.describe(parser)
    return vars(parser.parse_args(words))


def test_settings_of_topics_and_what_kafka_would_delete(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        old = store.create_topic("old", config={"cleanup.policy": "compact,delete"})[0]
        old.append(b"x" * 100, key=b"k", timestamp=NOW - 8 * 86_400_000)
        old.roll()
        old.append(b"new", key=b"k")
        store.create_topic("new", config={"retention.ms": 3_600_000})[0].append(b"x")
        report = exported(store, "old", "new", "old")
        first, second = report.commands
        found = options(configs, first, "kafka-configs")
        assert (found["entity_type"], found["entity_name"]) == ("topics", "old")
        assert "cleanup.policy=[compact,delete]" in first
        assert "retention.ms=-1" in first
        assert "retention.ms=3600000" in second
        [warning] = report.findings
        assert (warning.level, warning.where) == ("warning", "old")
        assert f"would delete {old.segments.views[0].size} bytes" in warning.sentence
        known = ClusterMetadata("m", settings={"old": {"retention.ms": "-1"}})
        report = exported(store, "old", known=known)
        assert report.findings == []
        assert "retention.ms" not in report.commands[0]


def test_a_partition_without_a_file_yet_loses_nothing_to_retention(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("empty")
    with kstore.open(tmp_path, "r") as store:
        assert exported(store, "empty").findings == []


def test_a_topic_with_kafkas_settings_needs_no_command(tmp_path: Path) -> None:
    with kstore.serve(tmp_path, port=0) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        admin.create_topics([NewTopic("orders", 1, 1)])
        admin.close()
    with kstore.open(tmp_path, "r") as store:  # the broker's defaults, retention too, are Kafka's
        assert exported(store, "orders").commands == []


def test_every_acl_becomes_a_command(tmp_path: Path) -> None:
    given = [
        Acl(
            ResourceType.TOPIC, "or ders", PatternType.PREFIXED, "User:CN=a b", "*",
            AclOperation.ALTER_CONFIGS, Permission.DENY,
        ),
        Acl(
            ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:*", "10.0.0.1",
            AclOperation.IDEMPOTENT_WRITE, Permission.ALLOW,
        ),
    ]  # fmt: skip
    with kstore.open(tmp_path) as store:
        AclStore(store._manager._dirs, Authorizer((), allows_everyone=False)).create(given)
        topic, cluster = exported(store).commands
    found = options(acls, topic, "kafka-acls")
    assert found["topic"] == ["or ders"]
    assert found["deny_principal"] == ["User:CN=a b"]
    assert found["operation"] == ["AlterConfigs"]
    assert found["resource_pattern_type"] == PatternType.PREFIXED
    found = options(acls, cluster, "kafka-acls")
    assert found["cluster"]
    assert found["allow_host"] == ["10.0.0.1"]
    assert found["operation"] == ["IdempotentWrite"]


def test_users_without_what_proves_their_password(tmp_path: Path) -> None:
    credential = ScramCredential(b"s" * 16, b"stored" * 5, b"server" * 5, 8192)
    with kstore.open(tmp_path) as store:
        Credentials(store._manager._dirs).alter([("al ice", "SCRAM-SHA-256", credential)])
        [command] = exported(store).commands
    found = options(configs, command, "kafka-configs")
    assert found["entity_name"] == "al ice"
    assert "SCRAM-SHA-256=[iterations=8192,password=NEW_PASSWORD]" in command
    assert "c3RvcmVk" not in command


def test_quotas_and_settings_of_groups(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        for entity, values in (
            ({"user": "al ice", "client-id": None}, {"producer_byte_rate": 2.0**40}),
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
        ):
            metadata.alter_client_quotas([(entity_of(entity.items()), values)])
        session = (AlterOp.SET, "consumer.session.timeout.ms", "50000")
        metadata.alter_group_config("bil ling", [session])
        metadata.close()
        user, address, group = sorted(exported(store).commands, key=_entity_type)
    found = options(configs, user, "kafka-configs")
    assert entities_of(Namespace(**found)) == [("users", "al ice"), ("clients", DEFAULTS)]
    assert float(user.partition("producer_byte_rate=")[2]) == 2**40
    found = options(configs, address, "kafka-configs")
    assert entities_of(Namespace(**found)) == [("ips", "10.0.0.1")]
    assert address.endswith("--add-config connection_creation_rate=5.0")
    assert group.endswith(
        "--entity-type groups --entity-name 'bil ling' --add-config "
        "consumer.session.timeout.ms=50000"
    )


def test_settings_of_the_broker_that_were_changed_while_it_ran(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.alter_broker_config(
            [
                (AlterOp.SET, "log.cleanup.policy", "compact,delete"),
                (AlterOp.SET, "log.retention.ms", "3600000"),
            ],
            for_all=True,
        )
        metadata.alter_broker_config([(AlterOp.SET, "max.connections", "500")])
        metadata.close()
        every, one = exported(store, node_id=3).commands
        found = options(configs, every, "kafka-configs")
        read = Namespace(**found)
        assert entities_of(read) == []
        assert (read.entity_type, read.entity_name) == ("brokers", DEFAULTS)
        assert configs.parse_pairs(str(found["add_config"])) == {
            "log.cleanup.policy": "compact,delete", "log.retention.ms": "3600000",
        }  # fmt: skip
        assert one.endswith(
            "--entity-type brokers --entity-name 3 --add-config max.connections=500"
        )
        [_, unnamed] = exported(store).commands
        assert "--entity-name NODE_ID --add-config max" in unnamed
        there = {"": {"log.retention.ms": "3600000"}, "3": {"max.connections": "500"}}
        known = ClusterMetadata("m", broker_settings=there)
        [left] = exported(store, known=known, node_id=3).commands
        assert left.endswith("--entity-default --add-config 'log.cleanup.policy=[compact,delete]'")


def _entity_type(command: str) -> int:
    kind = command.partition("--entity-type ")[2].partition(" ")[0]
    return ("users", "ips", "groups").index(kind)


def test_a_damaged_file_is_a_warning(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        (tmp_path / "kstore.acls").write_text("{")
        [warning] = exported(store).findings
    assert warning.where == "ACLs"
    assert warning.level == "warning"


def test_the_report_of_a_handover_has_the_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, there = tmp_path / "own", tmp_path / "broker"
    with kstore.open(own) as store:
        store.create_topic("t")[0].append(b"x")
    there.mkdir()
    (there / "meta.properties").write_text(META)
    (there / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    command = "--alter --entity-type topics --entity-name t --add-config retention.ms=-1"
    assert any(command in each for each in plan_handover(own, there).commands)
    words = ["handover", "--log-dir", str(own), "--to", str(there)]
    main(words)
    assert (
        f"command: kafka-configs --bootstrap-server HOST:PORT {command}" in capsys.readouterr().out
    )
    main([*words, "--json"])
    assert command in json.loads(capsys.readouterr().out)["commands"][0]
