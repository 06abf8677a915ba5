"""The commands of a handover's report, run by Kafka's own tools at the broker that took over."""

import re
import shlex
from pathlib import Path

import kstore
from interop.kafka_jars import libs
from interop.kafka_tools_process import KafkaToolsProcess, kafka_tools
from interop.node import node
from kstore import cli
from kstore.handover import hand_over, plan_handover

VERSION = "3.9.2"
MAIN = {"kafka-configs": "kafka.admin.ConfigCommand", "kafka-acls": "kafka.admin.AclCommand"}
SECURE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
CHANGES = (
    "configs --alter --topic orders --add-config cleanup.policy=[compact,delete],retention.ms=5000",
    "configs --alter --entity-type brokers --entity-default "
    "--add-config log.cleanup.policy=[compact,delete],log.retention.ms=7200000",
    "configs --alter --broker 1 --add-config max.connections=500,log.cleaner.threads=2",
    "configs --alter --user 'al ice' --add-config producer_byte_rate=1048576",
    "configs --alter --user-defaults --client-defaults --add-config request_percentage=50",
    "configs --alter --ip 10.0.0.1 --add-config connection_creation_rate=5",
    "configs --alter --user bob --add-config SCRAM-SHA-256=[iterations=8192,password=secret]",
    "acls --add --allow-principal 'User:CN=a b' --operation Read --topic or "
    "--resource-pattern-type prefixed",
    "acls --add --deny-principal User:eve --deny-host 10.0.0.2 --operation AlterConfigs --cluster",
)
DESCRIBED = (
    "kafka-configs --describe --topic orders",
    "kafka-configs --describe --broker-defaults",
    "kafka-configs --describe --broker 1",
    "kafka-configs --describe --entity-type users",
    "kafka-configs --describe --user-defaults --client-defaults",
    "kafka-configs --describe --entity-type ips",
    "kafka-acls --list",
)


def described(java: KafkaToolsProcess, address: str) -> list[list[str]]:
    """What Kafka's tools say of each, without what is configured in the file of either server."""
    found = []
    for line in DESCRIBED:
        name, *words = shlex.split(line)
        printed = java.run(MAIN[name], *words, "--bootstrap-server", address)
        assert printed.status == 0, printed
        text = re.sub(r" synonyms=\{.*?\}", "", printed.out)
        found.append(sorted(each.rstrip() for each in text.splitlines() if each.strip()))
    return found


def test_what_the_commands_set_is_what_kstore_had(tmp_path: Path) -> None:
    libs(VERSION)
    own, root = tmp_path / "own", tmp_path / "kafka"
    root.mkdir()
    with kafka_tools(VERSION) as java, node(VERSION, root, **SECURE) as broker:
        broker.create_topic("orders")
        broker.stop()
        with kstore.serve(own, port=0, node_id=1, settings=SECURE) as served:
            served.store.create_topic("orders").append(b"v", key=b"k")
            for line in CHANGES:
                words = shlex.split(line)
                assert cli.main([*words, "--bootstrap-server", served.bootstrap_servers]) == 0
            before = described(java, served.bootstrap_servers)
        commands = plan_handover(own, broker.log_dir).commands
        assert hand_over(own, broker.log_dir).executed

        broker.start()
        assert described(java, broker.address) != before
        for command in commands:
            name, *words = shlex.split(command.replace("HOST:PORT", broker.address))
            printed = java.run(MAIN[name], *words)
            assert printed.status == 0, (command, printed)
        assert described(java, broker.address) == before
        assert all("=" in "".join(lines) for lines in before)
