"""Tools that ask a server: log-dirs, transactions, cluster, features, elections, versions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import main
from kstore.cli.broker_api_versions import line_of
from kstore.cli.features import level_name
from kstore.cli.leader_election import partitions_of_json
from kstore.cli.server_options import pretty_table
from kstore.errors import KStoreError
from kstore.protocol.api_keys import ApiKey
from kstore.remote.admin import own_versions

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """orders has two partitions; partition 0 has one record."""
    settings = {"offsets.topic.num.partitions": "1"}
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=settings) as broker:
        broker.store.create_topic("orders", partitions=2)[0].append(b"v")
        broker.store.create_topic("logs")
        yield broker


@pytest.fixture
def tool(broker: Broker, capfd: Any) -> Tool:
    def run(*words: object) -> Outcome:
        capfd.readouterr()
        status = main([*map(str, words), "--bootstrap-server", broker.bootstrap_servers])
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def test_log_dirs_of_a_server_are_described_as_json(broker: Broker, tool: Tool) -> None:
    status, lines, errors = tool("log-dirs", "--describe", "--topic-list", "orders")
    assert (status, errors) == (0, [])
    assert lines[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 0",
    ]
    found = json.loads(lines[2])
    assert found["version"] == 1
    (directory,) = found["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert directory["logDir"] == str(broker.store.paths[0])
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sizes.keys() == {"orders-0", "orders-1"}
    assert sizes["orders-0"] > sizes["orders-1"] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--broker-list", "7"], "from --broker-list: 7. Current existent brokers: 0"),
        (["--broker-list", "x"], 'For input string: "x"'),
    ],
)
def test_log_dirs_of_other_brokers_are_an_error(tool: Tool, words: list[str], text: str) -> None:
    status, lines, errors = tool("log-dirs", "--describe", *words)
    assert (status, lines) == (1, [])
    assert text in errors[0]


def test_moves_are_made_by_another_tool(tool: Tool) -> None:
    status, _, errors = tool("log-dirs", "--move", "orders-0", "--to", "/tmp")
    assert status == 1
    assert errors[0] == 'Missing required argument "[describe]"'
    assert "reassign-partitions" in errors[1]


def test_moves_between_directories(broker: Broker, tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "moves.json"
    entry = {"topic": "orders", "partition": 0, "replicas": [0], "log_dirs": ["/nowhere"]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    asked = ("--reassignment-json-file", path)
    status, lines, errors = tool("reassign-partitions", "--execute", *asked)
    assert (status, lines[0]) == (1, "Current partition replica assignment")
    assert "Failed to start log directory moves: orders-0-0" in errors[0]
    status, lines, _ = tool("reassign-partitions", "--verify", *asked)
    where = broker.store.paths[0]
    assert (status, lines) == (0, [
        "Status of partition reassignment:",
        "Reassignment of partition orders-0 is completed.",
        f"Partition orders-0 on broker 0 is not being moved from log dir {where} to /nowhere.",
        "Clearing broker-level throttles on broker 0",
        "Clearing topic-level throttles on topic orders",
    ])  # fmt: skip
    status, lines, _ = tool("reassign-partitions", "--cancel", *asked, "--preserve-throttles")
    assert (status, lines) == (0, [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ])  # fmt: skip
    status, _, errors = tool("reassign-partitions", "--cancel")
    assert status == 1
    assert 'Missing required argument "[reassignment-json-file]"' in errors[0]


def test_cluster_prints_id_and_endpoints(broker: Broker, tool: Tool) -> None:
    status, lines, _ = tool("cluster", "cluster-id")
    assert status == 0
    assert lines[0].startswith("Cluster ID: ")
    assert len(lines[0]) == len("Cluster ID: ") + 22
    assert main(["cluster", "cluster-id", "-b", broker.bootstrap_servers, "-c", "/dev/null"]) == 0
    status, lines, _ = tool("cluster", "list-endpoints")
    assert lines[1].split() == ["0", "127.0.0.1", str(broker.port), "null"]
    unsupported = "The target cluster does not support the broker unregistration API."
    assert tool("cluster", "unregister", "--id", 0) == (0, [unsupported], [])
    assert tool("cluster", "unregister", "-i", 0) == (0, [unsupported], [])
    assert tool("cluster", "unregister")[0] == 1


def test_features_of_a_broker_without_any(tool: Tool) -> None:
    assert tool("features", "describe")[:2] == (0, [])


@pytest.mark.parametrize(
    "words",
    [
        ["upgrade", "--metadata", "3.9"],
        ["downgrade", "--feature", "metadata.version=20", "--unsafe"],
        ["disable", "--feature", "kraft.version", "--dry-run"],
    ],
)
def test_changes_of_features_are_refused(tool: Tool, words: list[str]) -> None:
    status, lines, errors = tool("features", *words)
    assert (status, lines) == (1, [])
    assert errors == [
        "kstore features: kstore describes features and changes none: to "
        f"{words[0]} those of a Kafka cluster, use Kafka's kafka-features.sh; `kstore serve` has "
        "none"
    ]


def test_levels_of_metadata_version_have_kafkas_names() -> None:
    names = {1: "3.0-IV1", 7: "3.3-IV3", 14: "3.6-IV2", 21: "3.9-IV0", 25: "4.0-IV3", 99: "99"}
    assert {level: level_name("metadata.version", level) for level in names} == names
    assert level_name("kraft.version", 1) == "1"


def test_leader_election_prints_kafkas_results(tool: Tool, tmp_path: Path) -> None:
    asked = ("leader-election", "--election-type", "preferred")
    assert tool(*asked, "--all-topic-partitions")[:2] == (0, [])
    elected = (0, ["Valid replica already elected for partitions orders-1"], [])
    assert tool(*asked, "--topic", "orders", "--partition", 1) == elected
    path = tmp_path / "partitions.json"
    path.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 1}]}))
    assert tool(*asked, "--path-to-json-file", path) == elected
    status, lines, errors = tool(*asked, "--topic", "nope", "--partition", 0)
    assert status == 1
    assert "(PREFERRED) for partition: nope-0: org.apache.kafka.common.errors.Unknown" in lines[0]
    assert "could not be elected" in errors[0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "One and only one of the following options is required: topic, all-topic-"),
        (["--topic", "orders"], "Missing required option(s): partition"),
        (["--all-topic-partitions", "--topic", "orders"], "One and only one"),
    ],
)
def test_wrong_options_of_leader_election_are_explained(
    tool: Tool, words: list[str], text: str
) -> None:
    status, _, errors = tool("leader-election", "--election-type", "unclean", *words)
    assert status == 1
    assert text in errors[0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"partitions": [{"topic": "t"}]}', '{"partitions": [{"topic": 1, "partition": 0}]}',
     '{"partitions": [{"topic": "t", "partition": true}]}',
     '{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 0}]}'],
)  # fmt: skip
def test_files_of_partitions_that_are_none(text: str) -> None:
    with pytest.raises(
        KStoreError,
        match=r"FILE is not as|is not a file as|duplicate (topic )?partitions: .?t-0",
    ):
        partitions_of_json(text, "FILE")


def test_api_versions_are_printed_as_kafkas_tool_does(broker: Broker, tool: Tool) -> None:
    status, lines, _ = tool("broker-api-versions")
    assert status == 0
    assert lines[0] == f"{broker.bootstrap_servers} (id: 0 rack: null) -> ("
    assert lines[-1] == ")"
    assert "\tMetadata(3): 0 to 13 [usable: 13]," in lines
    assert "\tOffsetDelete(47): 0 [usable: 0]," in lines
    assert "\tLeaderAndIsr(4): UNSUPPORTED," in lines
    assert not lines[-2].endswith(",")


def test_versions_that_do_not_meet_are_unusable() -> None:
    low, high = own_versions()[ApiKey.FETCH]
    assert line_of(ApiKey.FETCH, (high + 1, high + 2)).endswith("[unusable: node too new]")
    assert line_of(ApiKey.FETCH, (low, high + 2)).endswith(f"[usable: {high}]")
    assert line_of(4711, (0, 1)) == "UNKNOWN(4711): 0 to 1 [usable: UNKNOWN]"


def test_a_table_is_as_wide_as_its_cells(capsys: pytest.CaptureFixture[str]) -> None:
    pretty_table(("Id", "State"), [("billing", 1), ("a", "Ongoing")])
    assert capsys.readouterr().out == (
        "Id     \tState  \t\nbilling\t1      \t\na      \tOngoing\t\n"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["find-hanging"], "requires either --topic or --broker-id"),
        (["find-hanging", "--broker-id", "0", "--partition", "0"], "requires --topic"),
        (["abort", "--topic", "t", "--partition", "0"], "must be identified either with"),
        (
            ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"],
            "Missing required argument --producer-epoch",
        ),
    ],
)
def test_wrong_questions_about_transactions(tool: Tool, words: list[str], text: str) -> None:
    status, _, errors = tool("transactions", *words)
    assert status == 1
    assert text in errors[0]


def test_an_open_transaction(broker: Broker, tool: Tool) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="accounts", acks="all"
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("logs", b"v").get(30)
    _, lines, _ = tool("transactions", "list")
    assert [*lines[1].split()[:2], lines[1].split()[3]] == ["accounts", "0", "Ongoing"]
    _, lines, _ = tool("transactions", "describe", "--transactional-id", "accounts")
    row = lines[1].split()
    assert (row[0], row[4], row[8]) == ("0", "Ongoing", "logs-0")
    hanging = ("transactions", "find-hanging", "--topic", "logs", "--max-transaction-timeout", 0)
    assert len(tool(*hanging)[1]) == 1  # its coordinator will end it
    described = tool("transactions", "describe-producers", "--topic", "logs", "--partition", 0)
    assert described[1][1].split()[-1] == "0"
    producer.commit_transaction()
    producer.close()
    status, _, errors = tool("transactions", "describe", "--transactional-id", "nope")
    assert status == 1
    assert "Failed to describe transaction state of transactional-id `nope`" in errors[0]


def test_producers_of_a_partition_are_described(broker: Broker, tool: Tool) -> None:
    with broker.store.transactional_producer("billing") as producer:
        producer.begin_transaction()
        producer.send("orders", b"v", partition=1)
        producer.commit_transaction()
    status, lines, _ = tool(
        "transactions", "describe-producers", "--topic", "orders", "--partition", 1
    )
    assert status == 0
    assert lines[0].split() == [
        "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
        "CurrentTransactionStartOffset",
    ]  # fmt: skip
    assert lines[1].split()[-1] == "None"
    words = ("transactions", "find-hanging", "--topic", "orders")
    assert len(tool(*words)[1]) == 1  # the header
    status, _, errors = tool(
        "transactions", "abort", "--topic", "orders", "--partition", 1, "--start-offset", 5
    )
    assert status == 1
    assert (
        "Could not find any open transactions starting at offset 5 on partition orders-1"
        in (errors[0])
    )


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["transactions", "list"], 'Missing required argument "[bootstrap-server]"'),
        (
            ["features", "describe"],
            "one of the arguments --bootstrap-server --bootstrap-controller is required",
        ),
    ],
)
def test_the_server_stands_before_or_after_the_action(
    broker: Broker, words: list[str], missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    assert missing in capsys.readouterr().err
    server = ["--bootstrap-server", broker.bootstrap_servers]
    before = main([words[0], *server, words[1]]), capsys.readouterr().err
    assert before == (main([*words, *server]), capsys.readouterr().err)
    assert "Missing" not in before[1]


def test_a_server_is_named_where_a_directory_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "cluster-id", "--log-dir", "data"]) == 1
    assert "--bootstrap-server host:port" in capsys.readouterr().err
