"""What kstore consumer-groups and Kafka's tool print when a server stops answering.

Kafka's tool ends with 0 in each of these cases, kstore's with 1.
"""

import re
from collections.abc import Iterator

import pytest

from interop.kafka_jars import libs
from interop.kafka_tools_process import KafkaToolsProcess, kafka_tools
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node
from kstore import cli
from kstore.protocol.api_keys import ApiKey
from kstore.remote.groups import commit_offsets
from kstore.remote.store import RemoteStore
from kstore.topic_partition import TopicPartition
from support.falling_silent import falling_silent

VERSION = "3.9.2"
MAIN = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TRACE = re.compile(r"\tat |\t\.\.\. |Caused by: ")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KstoreNode | Node]:
    """A group has committed an offset of orders."""
    libs(VERSION)
    with either_node("kstore", tmp_path_factory.mktemp("served")) as broker:
        broker.create_topic("orders")
        with RemoteStore(broker.address) as store:
            commit_offsets(store.cluster, "billing", {TopicPartition("orders", 0): 0})
        yield broker


@pytest.fixture(scope="module")
def java() -> Iterator[KafkaToolsProcess]:
    libs(VERSION)
    with kafka_tools(VERSION) as running:
        yield running


def words_of_output(text: str) -> list[str]:
    """Without traces, times and line ends: Kafka's tool forgets those of a table."""
    lines = [line for line in text.splitlines() if not _TRACE.match(line)]
    return re.sub(r"\d{13}", "NOW", " ".join(lines)).split()


@pytest.mark.parametrize(
    ("words", "api"),
    [
        ("--list", ApiKey.METADATA),
        ("--list", ApiKey.LIST_GROUPS),
        ("--list --state", ApiKey.LIST_GROUPS),
        ("--describe --all-groups", ApiKey.LIST_GROUPS),
        ("--describe --group billing", ApiKey.METADATA),
        ("--describe --group billing", ApiKey.FIND_COORDINATOR),
        ("--describe --group billing", ApiKey.CONSUMER_GROUP_DESCRIBE),
        ("--describe --group billing", ApiKey.DESCRIBE_GROUPS),
        ("--describe --group billing", ApiKey.OFFSET_FETCH),
        ("--describe --group billing", ApiKey.LIST_OFFSETS),
        ("--delete --group billing", ApiKey.DELETE_GROUPS),
        ("--delete-offsets --group billing --topic orders:0", ApiKey.OFFSET_DELETE),
        ("--reset-offsets --group billing --topic orders --to-latest --execute", ApiKey.METADATA),
        (
            "--reset-offsets --group billing --topic orders:0 --to-offset 0 --execute",
            ApiKey.OFFSET_COMMIT,
        ),
    ],
)
def test_consumer_groups_say_what_was_not_answered(
    words: str,
    api: ApiKey,
    served: KstoreNode | Node,
    java: KafkaToolsProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with falling_silent(served.address, api) as server:
        asked = [*words.split(), "--bootstrap-server", server, "--timeout", "1000"]
        theirs = java.run(MAIN, *asked)
        capsys.readouterr()
        status = cli.main(["consumer-groups", *asked])
    ours = capsys.readouterr().out
    assert (theirs.status, status) == (0, 1)
    assert words_of_output(ours) == words_of_output(theirs.out)
