"""Kafka's own AclCommand and ConfigCommand against a served directory."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from interop.kafka_jars import libs, run
from interop.kstore_node import KstoreNode
from interop.node import free_ports

PATIENCE = 30
ACLS = {"3.9.2": "kafka.admin.AclCommand", "4.3.0": "org.apache.kafka.tools.AclCommand"}


class SecureNode(KstoreNode):
    """A node whose tools use a listener for super users."""

    clients = ""  # the address with SCRAM

    def acls(self, *words: str) -> str:
        main = ACLS[self.version]
        done = run(self.version, main, "--bootstrap-server", self.address, *words)
        return done.stdout.decode()

    def configs(self, *words: str) -> str:
        main = "kafka.admin.ConfigCommand"
        done = run(self.version, main, "--bootstrap-server", self.address, *words)
        return done.stdout.decode()


@pytest.fixture(scope="module", params=["3.9.2", "4.3.0"])
def secure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureNode]:
    libs(request.param)
    node = SecureNode(tmp_path_factory.mktemp("secure"), request.param)
    [port] = free_ports(1)
    node.clients = f"127.0.0.1:{port}"
    node.settings = {
        "listeners": f"INTERNAL://{node.address},CLIENTS://{node.clients}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
        "group.initial.rebalance.delay.ms": 0,
    }
    with contextlib.ExitStack() as stack:
        stack.callback(node.kill)
        node.start()
        said = node.configs(
            "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=alice-secret]",
            "--entity-type", "users", "--entity-name", "alice",
        )  # fmt: skip
        assert "Completed updating config for user alice." in said
        for topic in ("orders", "audit"):
            node.create_topic(topic)
        yield node


def options(node: SecureNode) -> dict[str, Any]:
    return {
        "bootstrap_servers": node.clients,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }


def produce(node: SecureNode, topic: str) -> int:
    producer = KafkaProducer(
        **options(node), retries=0, max_block_ms=5000, allow_auto_create_topics=False
    )
    try:
        return int(producer.send(topic, b"paid").get(PATIENCE).offset)
    finally:
        producer.close(5)


def test_lists_decide_what_clients_may(secure: SecureNode) -> None:
    with pytest.raises((TopicAuthorizationFailedError, KafkaError)):
        produce(secure, "orders")
    said = secure.acls(
        "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders"
    )
    assert "Adding ACLs for resource" in said
    assert produce(secure, "orders") == 0
    with pytest.raises((TopicAuthorizationFailedError, KafkaError)):
        produce(secure, "audit")

    consumer = KafkaConsumer("orders", **options(secure), group_id="billing")
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.poll(timeout_ms=PATIENCE * 1000)
    consumer.close()
    secure.acls(
        "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "ord", "--group",
        "bill", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    consumer = KafkaConsumer(
        "orders", **options(secure), group_id="billing", auto_offset_reset="earliest"
    )
    found = consumer.poll(timeout_ms=PATIENCE * 1000)
    assert [each.value for each in found[TopicPartition("orders", 0)]] == [b"paid"]
    consumer.commit()
    assert consumer.topics() == {"orders"}

    # A binding that denies counts at once, also within the consumer's fetch session.
    secure.acls(
        "--add", "--deny-principal", "User:alice", "--operation", "Read", "--topic", "orders"
    )
    secure.produce("orders", [("k", "hidden")])
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.poll(timeout_ms=PATIENCE * 1000)
    consumer.close(autocommit=False)


def test_lists_are_shown_and_removed(secure: SecureNode) -> None:
    secure.acls(
        "--add", "--allow-principal", "User:bob", "--allow-host", "10.0.0.1", "--operation",
        "All", "--cluster",
    )  # fmt: skip
    said = secure.acls("--list", "--cluster")
    assert "resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL" in said
    assert "principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=ALLOW" in said
    secure.acls("--remove", "--cluster", "--force")
    assert "User:bob" not in secure.acls("--list", "--cluster")


def test_lists_survive_a_restart(secure: SecureNode) -> None:
    secure.acls("--add", "--allow-principal", "User:dora", "--operation", "Read", "--topic", "x")
    before = sorted(secure.acls("--list").split("\n"))
    secure.stop()
    secure.start()
    assert sorted(secure.acls("--list").split("\n")) == before
    assert "User:dora" in "".join(before)
