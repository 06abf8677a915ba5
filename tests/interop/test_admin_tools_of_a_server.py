"""kstore's tools about brokers and Kafka's own say the same, on Kafka and on kstore."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import ToolError, libs, run
from interop.kstore_node import KstoreNode, either_node
from interop.node import Node
from kstore import cli
from kstore.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kstore.protocol.messages.produce import ProduceRequest, ProduceResponse
from kstore.record.builder import BatchBuilder
from kstore.remote.groups import commit_offsets
from kstore.remote.store import RemoteStore
from kstore.topic_partition import TopicPartition

VERSION = "3.9.2"
GROUPS_VERSION = "4.3.0"  # Kafka 3.9 has no such tool
TOOLS = "org.apache.kafka.tools"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
_TRANSACTIONAL = 0x10  # the bit of a batch's attributes
Served = Node | KstoreNode


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """orders has three partitions."""
    libs(VERSION)
    with either_node(request.param, tmp_path_factory.mktemp("served")) as broker:
        broker.create_topic("orders", partitions=3)
        yield broker


class Both:
    """Runs a tool of kstore and its counterpart of Kafka."""

    def __init__(self, served: Served, capfd: pytest.CaptureFixture[str]) -> None:
        self._served = ("--bootstrap-server", served.address)
        self._capfd = capfd

    def ours(self, tool: str, *words: object) -> tuple[int, str]:
        self._capfd.readouterr()
        status = cli.main([tool, *map(str, words), *self._served])
        return status, self._capfd.readouterr().out

    def theirs(self, name: str, *words: object, first: bool = False) -> str:
        """What Kafka's tool prints; its server comes first where it has actions."""
        ordered = (*self._served, *words) if first else (*words, *self._served)
        return run(VERSION, name, *ordered).stdout.decode()


@pytest.fixture
def both(served: Served, capfd: pytest.CaptureFixture[str]) -> Both:
    return Both(served, capfd)


def test_log_dirs(both: Both) -> None:
    words = ("--describe", "--topic-list", "orders")
    # Kafka's first: a broker of Kafka creates partitions after it has answered.
    theirs = both.theirs(f"{TOOLS}.LogDirsCommand", *words).splitlines()
    status, printed = both.ours("log-dirs", *words)
    assert status == 0
    ours = printed.splitlines()
    assert ours[:2] == theirs[:2]
    found = [json.loads(lines[2]) for lines in (ours, theirs)]
    for each in found:
        each["brokers"][0]["logDirs"][0]["partitions"].sort(key=lambda entry: entry["partition"])
    assert found[0] == found[1]
    assert len(found[0]["brokers"][0]["logDirs"][0]["partitions"]) == 3
    assert both.ours("log-dirs", "--describe", "--broker-list", "9")[0] == 1
    with pytest.raises(ToolError, match="do not exist from --broker-list: 9"):
        both.theirs(f"{TOOLS}.LogDirsCommand", "--describe", "--broker-list", "9")


def test_cluster_prints_what_kafkas_tool_prints(both: Both) -> None:
    asked = ("cluster-id",)
    assert both.ours("cluster", *asked) == (0, both.theirs(f"{TOOLS}.ClusterTool", *asked))


def test_a_broker_of_kstore_is_not_unregistered(both: Both, served: Served) -> None:
    asked = ("unregister", "--id", 9)
    if isinstance(served, KstoreNode):
        assert both.ours("cluster", *asked) == (0, both.theirs(f"{TOOLS}.ClusterTool", *asked))
    else:
        assert both.ours("cluster", *asked) == (1, "")


def test_features(both: Both) -> None:
    status, ours = both.ours("features", "describe")
    theirs = both.theirs(f"{TOOLS}.FeatureCommand", "describe", first=True)

    def lines(text: str) -> list[str]:
        return [re.sub(r"Epoch: -?\d+", "", line) for line in text.splitlines()]

    assert (status, lines(ours)) == (0, lines(theirs))


def test_metadata_quorum(both: Both) -> None:
    asked = ("describe", "--status")
    status, ours = both.ours("metadata-quorum", *asked)
    theirs = both.theirs(f"{TOOLS}.MetadataQuorumCommand", *asked, first=True)

    def lines(text: str) -> list[str]:
        return re.sub(r"(HighWatermark: +)\d+", r"\1N", text).splitlines()

    assert (status, lines(ours)) == (0, lines(theirs))
    assert len(lines(ours)) == 8
    asked = ("describe", "--replication")
    status, ours = both.ours("metadata-quorum", *asked)
    theirs = both.theirs(f"{TOOLS}.MetadataQuorumCommand", *asked, first=True)

    def cells(text: str) -> list[list[str]]:
        """Without the offset and the times, which grow meanwhile."""
        rows = [re.split(r" *\t", line) for line in text.splitlines()]
        return [rows[0], *([*row[:2], row[3], row[6]] for row in rows[1:])]

    assert (status, cells(ours)) == (0, cells(theirs))
    asked = ("describe", "--replication", "--human-readable")
    for printed in (
        both.ours("metadata-quorum", *asked)[1],
        both.theirs(f"{TOOLS}.MetadataQuorumCommand", *asked, first=True),
    ):
        assert re.search(r"\d+ ms ago *\t\d+ ms ago *\tLeader", printed), printed


def test_groups_as_kafka_4_prints_them(served: Served, both: Both) -> None:
    libs(GROUPS_VERSION)
    with RemoteStore(served.address) as store:
        commit_offsets(store.cluster, "billing", {TopicPartition("orders", 0): 0})
    server = ("--bootstrap-server", served.address)
    for words in (
        ("--list",),
        ("--list", "--group-type", "classic"),
        ("--list", "--consumer"),
        ("--list", "--protocol", "nope"),
    ):
        theirs = run(GROUPS_VERSION, f"{TOOLS}.GroupsCommand", *words, *server).stdout.decode()
        status, ours = both.ours("groups", *words)
        assert (status, sorted(ours.splitlines())) == (0, sorted(theirs.splitlines()))
        assert ("billing" in ours) == ("nope" not in words)


def test_api_versions(both: Both) -> None:
    status, ours = both.ours("broker-api-versions")
    theirs = both.theirs("kafka.admin.BrokerApiVersionsCommand")
    assert status == 0
    assert ours.splitlines()[0] == theirs.splitlines()[0]

    def supported(text: str) -> dict[str, str]:
        """The range of each request by its number: later releases gave one another name."""
        return dict(re.findall(r"\((\d+)\): (\d+(?: to \d+)?) \[", text))

    assert supported(ours) == supported(theirs)
    assert len(supported(ours)) > 30


def test_elections(both: Both, tmp_path: Path) -> None:
    name, asked = f"{TOOLS}.LeaderElectionCommand", ("--election-type", "preferred")
    path = tmp_path / "partitions.json"
    path.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 2}]}))
    for words in (
        ("--topic", "orders", "--partition", 1),
        ("--path-to-json-file", path),
        ("--all-topic-partitions",),
    ):
        assert both.ours("leader-election", *asked, *words) == (
            0,
            both.theirs(name, *asked, *words),
        )


def test_reassign_partitions_prints_what_kafkas_tool_prints(
    both: Both, served: Served, tmp_path: Path
) -> None:
    name = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    status, printed = both.ours("reassign-partitions", "--list")
    assert (status, printed.split()) == (0, both.theirs(name, "--list").split())
    path = tmp_path / "moves.json"
    entry = {"topic": "orders", "partition": 1, "replicas": [1], "log_dirs": [str(served.log_dir)]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    asked = ("--verify", "--reassignment-json-file", path, "--preserve-throttles")
    assert both.ours("reassign-partitions", *asked) == (0, both.theirs(name, *asked))


def test_producers(both: Both) -> None:
    words = ("describe-producers", "--topic", "orders", "--partition", 0)
    status, printed = both.ours("transactions", *words)
    assert (status, printed.split()) == (0, both.theirs(TRANSACTIONS, *words, first=True).split())


def rows(text: str) -> list[list[str]]:
    """The cells of a table; durations grow from one tool to the other."""
    lines = [line.split() for line in text.splitlines()]
    skipped = [n for n, name in enumerate(lines[0]) if "Duration" in name]
    return [[cell for n, cell in enumerate(line) if n not in skipped] for line in lines]


def without_numbers(text: str) -> list[str]:
    return [re.sub(r"\d+", "0", line) for line in text.splitlines()]


def test_lines_of_performance(both: Both, served: Served) -> None:
    sent = ("--topic", "orders", "--num-records", 200, "--record-size", 10, "--throughput", -1)
    properties = ("--producer-props", f"bootstrap.servers={served.address}", "acks=all")
    theirs = run(VERSION, f"{TOOLS}.ProducerPerformance", *sent, *properties).stdout.decode()
    status, ours = both.ours("producer-perf", *sent, *properties)
    # The last line: others come every five seconds.
    assert (status, without_numbers(ours)[-1]) == (0, without_numbers(theirs)[-1])
    read = ("--topic", "orders", "--messages", 400)
    theirs = both.theirs(f"{TOOLS}.ConsumerPerformance", *read, "--timeout", 60_000)
    status, ours = both.ours("consumer-perf", *read)
    assert (status, without_numbers(ours)) == (0, without_numbers(theirs))
    assert [text.splitlines()[1].split(", ")[4] for text in (ours, theirs)] == ["400", "400"]


@pytest.mark.parametrize("which", ["kstore", VERSION])
def test_open_and_hanging_transactions(
    which: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One transaction that its coordinator knows, and two hanging ones: each tool aborts one."""
    import kafka

    libs(VERSION)
    settings = {"transaction_partition_verification_enable": "false"}
    with either_node(which, tmp_path, **settings) as broker:
        broker.create_topic("orders", partitions=3)
        both = Both(broker, capfd)

        def same(*words: object) -> list[list[str]]:
            status, printed = both.ours("transactions", *words)
            assert status == 0
            theirs = rows(both.theirs(TRANSACTIONS, *words, first=True))
            assert sorted(rows(printed)) == sorted(theirs)  # Kafka's is a hash table's order
            return rows(printed)[1:]

        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.address,
            transactional_id="billing",
            transaction_timeout_ms=600_000,  # the tools below take seconds each
            acks="all",
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v", partition=0).get(30)
        assert [row[0] for row in same("list")] == ["billing"]
        ((_, _, _, _, state, *_, partitions),) = same("describe", "--transactional-id", "billing")
        assert (state, partitions) == ("Ongoing", "orders-0")
        hanging = ("find-hanging", "--topic", "orders", "--max-transaction-timeout", 0)
        assert same(*hanging) == []
        for partition in (1, 2):
            send_without_coordinator(broker.address, partition)
        found = {int(partition): start for _, partition, *_, start, _ in same(*hanging)}
        assert found == {1: "0", 2: "0"}
        same("describe-producers", "--topic", "orders", "--partition", 1)
        end = ("abort", "--topic", "orders", "--start-offset", 0, "--partition")
        # Both abort one without any output, and refuse to abort it twice.
        assert both.ours("transactions", *end, 1) == (0, "")
        assert both.theirs(TRANSACTIONS, *end, 2, first=True) == ""
        assert same(*hanging) == []
        for partition in (1, 2):
            at = ("--topic", "orders", "--partition", partition)
            assert same("describe-producers", *at)[0][-1] == "None"
            assert both.ours("transactions", *end, partition)[0] == 1
            with pytest.raises(ToolError, match=r"ended with 1: .*any open transactions starting"):
                both.theirs(TRANSACTIONS, *end, partition, first=True)
        producer.commit_transaction()
        producer.close()


def send_without_coordinator(address: str, partition: int) -> None:
    """Send a transactional batch to a partition of orders for a producer that has no transaction
    at its coordinator."""
    with RemoteStore(address) as store:
        cluster = store.cluster
        answer = cluster.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            InitProducerIdResponse,
        )
        builder = BatchBuilder()
        builder.append(b"v", timestamp=1_700_000_000_000)
        builder.set_producer(answer.producer_id, answer.producer_epoch, 0)
        data = ProduceRequest.TopicData.PartitionData(
            partition, builder.build(attributes=_TRANSACTIONAL)
        )
        request = ProduceRequest(
            transactional_id="another",
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.TopicData("orders", partition_data=[data])],
        )
        leader = cluster.leader("orders", partition)
        response = cluster.ask(request, ProduceResponse, node=leader, highest=11)
        assert response.responses[0].partition_responses[0].error_code == 0
