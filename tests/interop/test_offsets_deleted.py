"""Kafka's brokers read the tombstones by which a deletion takes committed offsets along."""

from pathlib import Path

import pytest

import kstore
from interop.kafka_jars import libs, run
from interop.node import Node, node
from interop.old_node import OldNode, old_node
from support.stores import QUIET

_MAIN = {
    "2": "kafka.admin.ConsumerGroupCommand",
    "3": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "4": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
T0, U0 = ("t", 0), ("u", 0)


def groups(broker: Node | OldNode, *arguments: str) -> list[list[str]]:
    """The words of each line that Kafka's kafka-consumer-groups prints for the group."""
    main = _MAIN[broker.version[0]]
    flags = ("--bootstrap-server", broker.address, "--group", "g", *arguments)
    said = run(broker.version, main, *flags).stdout.decode()
    return [line.split() for line in said.splitlines() if line.startswith("g ")]


def commit(broker: Node | OldNode, *topics: str) -> None:
    flags = [word for topic in topics for word in ("--topic", topic)]
    groups(broker, *flags, "--reset-offsets", "--to-earliest", "--execute")


def offsets(broker: Node | OldNode) -> dict[str, str]:
    """The committed offsets by topic, as the broker loaded them."""
    return {words[1]: words[3] for words in groups(broker, "--describe")}


def check(broker: Node | OldNode) -> None:
    for topic in ("t", "u"):
        broker.create_topic(topic)
    commit(broker, "t", "u")
    assert offsets(broker) == {"t": "0", "u": "0"}
    broker.stop()
    with kstore.open(broker.log_dir, config=QUIET) as store:
        with store.consumer(group="g", assignment=[T0, U0]) as consumer:
            assert (consumer.committed(T0), consumer.committed(U0)) == (0, 0)
            consumer.commit({T0: 0, U0: 0}, metadata="kstore's")
        store.delete_topic("t", foreign=True)  # which the broker knows, and makes again
    broker.start()
    assert offsets(broker) == {"u": "0"}
    commit(broker, "t")
    assert offsets(broker) == {"t": "0", "u": "0"}
    broker.stop()
    with (
        kstore.open(broker.log_dir, config=QUIET) as store,
        store.consumer(group="g", assignment=[T0, U0]) as consumer,
    ):
        assert (consumer.committed(T0), consumer.committed(U0)) == (0, 0)


def test_a_broker_knows_no_offsets_of_a_topic_that_kstore_deleted(
    kafka: str, tmp_path: Path
) -> None:
    with node(kafka, tmp_path) as broker:
        check(broker)


@pytest.mark.all_versions
def test_a_broker_2_8_knows_no_offsets_of_a_topic_that_kstore_deleted(tmp_path: Path) -> None:
    libs("2.8.2")
    with old_node("2.8.2", tmp_path) as broker:
        check(broker)
