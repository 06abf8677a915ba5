"""The leader epochs of committed offsets, which Kafka 4's ConsumerGroupCommand shows by --verbose.

Kafka 3.9's accepts the option and shows none.
"""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from interop.kafka_jars import VERSIONS, run
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module", params=["kstore", *VERSIONS])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KstoreNode | Node]:
    """The group "read" has committed with a leader epoch, as consumers do, and the group "set"
    without one, as tools do."""
    with either_node(request.param, tmp_path_factory.mktemp("served")) as broker:
        ours(broker, "topics", "--create", "--topic", "orders")
        ours(broker, "console-producer", "--topic", "orders", text="one\ntwo\nthree\n")
        consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id="read")
        try:
            tp = TopicPartition("orders", 0)
            consumer.assign([tp])
            consumer.commit({tp: OffsetAndMetadata(2, "", 0)})
        finally:
            consumer.close()
        to = ("--reset-offsets", "--topic", "orders", "--to-offset", 1, "--execute")
        ours(broker, "consumer-groups", "--group", "set", *to)
        yield broker


def ours(served: KstoreNode | Node, tool: str, *words: object, text: str = "") -> str:
    command = [sys.executable, "-m", "kstore", tool, *map(str, words)]
    done = subprocess.run(
        [*command, "--bootstrap-server", served.address],
        input=text.encode(),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(("group", "epoch", "offset"), [("read", "0", "2"), ("set", "-", "1")])
def test_verbose_tables_are_those_of_each_version_of_kafkas_tool(
    served: KstoreNode | Node, group: str, epoch: str, offset: str
) -> None:
    asked = ("--describe", "--group", group)
    theirs = [
        run(version, COMMAND, *asked, "--verbose", "--bootstrap-server", served.address)
        for version in VERSIONS
    ]
    without, with_epochs = (done.stdout.decode().split() for done in theirs)
    assert ours(served, "consumer-groups", *asked).split() == without
    assert ours(served, "consumer-groups", *asked, "--verbose").split() == with_epochs
    rows = [group, "orders", "0", epoch, offset, "3"]
    assert with_epochs[with_epochs.index("CLIENT-ID") + 1 :][:6] == rows
