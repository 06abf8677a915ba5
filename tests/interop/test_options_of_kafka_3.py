"""Options of Kafka 3 for older scripts and for Kafka's own tests, at both brokers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from interop.kafka_jars import java_command, libs
from interop.kstore_node import SOURCES, KstoreNode, either_node
from interop.node import Node, die_with_parent
from kstore.remote.store import RemoteStore
from kstore.remote.transactions import describe_transaction

VERSION = "3.9.2"
TOOLS = "org.apache.kafka.tools"
OURS = {
    "kafka.tools.ConsoleProducer": "console-producer",
    f"{TOOLS}.consumer.ConsoleConsumer": "console-consumer",
    f"{TOOLS}.ConsumerPerformance": "consumer-perf",
    f"{TOOLS}.GetOffsetShell": "get-offsets",
    f"{TOOLS}.ProducerPerformance": "producer-perf",
}
WHO = ("theirs", "ours")
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node | KstoreNode]:
    libs(VERSION)
    settings: dict[str, object] = {"group_initial_rebalance_delay_ms": 0}
    with either_node(request.param, tmp_path_factory.mktemp("served"), **settings) as broker:
        yield broker


def command(who: str, main: str, *words: object) -> list[str]:
    """The command line of Kafka's tool, or of ours."""
    if who == "theirs":
        return java_command(VERSION, main, *words)
    return [sys.executable, "-m", "kstore", OURS[main], *map(str, words)]


def started(who: str, main: str, *words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(who, main, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.fspath(SOURCES)},
        preexec_fn=die_with_parent,
    )  # fmt: skip


def printed(who: str, main: str, *words: object, text: bytes = b"") -> tuple[int, list[str]]:
    """The status of a tool, and the lines of its standard output."""
    with started(who, main, *words) as process:
        try:
            out, _ = process.communicate(text, timeout=150)
        finally:
            process.kill()
    return process.returncode, out.decode().splitlines()


def test_the_older_name_of_the_server(served: Node | KstoreNode) -> None:
    unused = "127.0.0.1:1"  # nothing listens there: the newer name takes precedence
    found = []
    for who in WHO:
        topic = f"{who}-named"
        served.create_topic(topic)
        older = ("--broker-list", served.address)
        sent = printed(who, "kafka.tools.ConsoleProducer", "--topic", topic, *older, text=b"a\nb\n")
        offsets = printed(who, f"{TOOLS}.GetOffsetShell", "--topic", topic, *older)
        both = ("--broker-list", unused, "--bootstrap-server", served.address)
        read = ("--topic", topic, "--messages", 2, "--hide-header")
        status, (line,) = printed(who, f"{TOOLS}.ConsumerPerformance", *read, *both)
        found.append((sent, offsets, status, line.split(", ")[4]))
    assert found[0] == ((0, []), (0, ["theirs-named:0:2"]), 0, "2")
    assert found[1] == ((0, []), (0, ["ours-named:0:2"]), 0, "2")


def test_the_last_line_for_system_tests(served: Node | KstoreNode) -> None:
    served.create_topic("events")
    served.produce("events", [(None, "v")])
    at = ("--bootstrap-server", served.address, "--topic", "events", "--enable-systest-events")
    for words in (
        ("--from-beginning", "--max-messages", 1),
        ("--partition", 0, "--offset", "latest", "--timeout-ms", 100),
        ("--partition", 0, "--offset", "nope"),
        ("--partition", 0, "--offset", "earliest", "--max-messages", 1,
         "--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer"),
    ):  # fmt: skip
        ours, theirs = (printed(who, CONSUMER, *at, *words) for who in WHO)
        assert ours == theirs, words
    for who in WHO:
        process = started(who, CONSUMER, *at, "--from-beginning")
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"v\n"
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=60)[0] == b"shutdown_complete\n"
        finally:
            process.kill()
        assert process.returncode == 128 + signal.SIGTERM


def test_the_formatter_that_logs(served: Node | KstoreNode) -> None:
    served.create_topic("logged")
    served.produce("logged", [("k", "v"), ("", "é")])
    formatter = f"{TOOLS}.consumer.LoggingMessageFormatter"
    read = ("--topic", "logged", "--partition", "0", "--offset", "earliest", "--max-messages", "2",
            "--formatter", formatter, "--bootstrap-server", served.address)  # fmt: skip
    theirs = subprocess.run(
        java_command(VERSION, CONSUMER, *read, level=f"off,{formatter}=info"),
        capture_output=True, timeout=90,
    )  # fmt: skip
    program = "import logging, sys; from kstore.cli import main; "
    program += "logging.basicConfig(level='INFO', format='[main] %(levelname)s CLASS - %(message)s'"
    program += "); main(sys.argv[1:])"
    ours = subprocess.run(
        [sys.executable, "-c", program, "console-consumer", *read], capture_output=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.fspath(SOURCES)},
    )  # fmt: skip
    assert ours.stdout == theirs.stdout == "v\né\n".encode()
    logged = [
        [line for line in text.decode().splitlines() if line.startswith("[main] INFO")]
        for text in (ours.stderr, theirs.stderr.replace(formatter.encode(), b"CLASS"))
    ]
    assert logged[0] == logged[1]
    assert len(logged[0]) == 2


def metrics(lines: list[str]) -> dict[str, str]:
    """The metrics that a tool printed, by name; their table follows an empty line."""
    table = lines[lines.index("") + 1 :]
    assert re.fullmatch("Metric Name +Value", table[0])
    width = table[0].index("Value")
    assert {line[width - 2 : width] for line in table[1:]} == {": "}
    names = [line[: width - 2].rstrip() for line in table[1:]]
    assert names == sorted(names)
    return {name: line[width:] for name, line in zip(names, table[1:], strict=True)}


def test_transactions_of_one_producer_after_the_other(served: Node | KstoreNode) -> None:
    """Both have the same transactional id: each fences the one before it."""
    served.create_topic("transactions", partitions=2)
    at = f"bootstrap.servers={served.address}"
    sent = ("--topic", "transactions", "--num-records", 300, "--record-size", 10,
            "--throughput", 1000, "--transaction-duration-ms", 50,
            "--producer-props", at)  # fmt: skip
    lines = []
    for who in ("theirs", "ours", "theirs", "ours"):
        status, shown = printed(who, f"{TOOLS}.ProducerPerformance", *sent)
        assert status == 0
        lines.append(re.sub(r"\d+", "0", shown[-1]))
    assert len(set(lines)) == 1
    read = ("--topic", "transactions", "--from-beginning", "--bootstrap-server", served.address,
            "--isolation-level", "read_committed", "--timeout-ms", 8000)  # fmt: skip
    for who in WHO:
        assert len(printed(who, CONSUMER, *read)[1]) == 4 * 300
    ends = printed("theirs", f"{TOOLS}.GetOffsetShell", "--topic", "transactions",
                   "--bootstrap-server", served.address)[1]  # fmt: skip
    # One marker in a partition for each transaction that has records there.
    assert sum(int(line.rpartition(":")[2]) for line in ends) - 4 * 300 >= 4 * 4
    with RemoteStore(served.address) as store:
        described = describe_transaction(
            store.cluster, "performance-producer-default-transactional-id"
        )
    assert (described.state, described.producer_epoch) == ("CompleteCommit", 3)


def test_metrics_have_kafkas_names_and_values(served: Node | KstoreNode) -> None:
    served.create_topic("measured")
    at = f"bootstrap.servers={served.address}"
    sent = ("--topic", "measured", "--num-records", 200, "--record-size", 10, "--throughput", -1,
            "--producer-props", at, "client.id=one", "--print-metrics",
            "--transaction-duration-ms", 60_000)  # fmt: skip
    read = ("--topic", "measured", "--messages", 400, "--bootstrap-server", served.address,
            "--timeout", 60_000, "--print-metrics")  # fmt: skip
    found: dict[str, dict[str, str]] = {who: {} for who in WHO}
    for tool, words in (("ProducerPerformance", sent), ("ConsumerPerformance", read)):
        for who in WHO:
            status, lines = printed(who, f"{TOOLS}.{tool}", *words)
            assert status == 0
            found[who] |= metrics(lines)
    ours, theirs = found["ours"], found["theirs"]
    assert ours.keys() <= theirs.keys()
    for name in (
        "producer-metrics:record-send-total:{client-id=one}",
        "producer-metrics:record-error-total:{client-id=one}",
        "producer-metrics:record-retry-total:{client-id=one}",
        "producer-topic-metrics:record-send-total:{client-id=one, topic=measured}",
        "consumer-fetch-manager-metrics:records-consumed-total:{client-id=perf-consumer-client}",
        "consumer-fetch-manager-metrics:bytes-consumed-total:{client-id=perf-consumer-client}",
        "consumer-fetch-manager-metrics:records-consumed-total:"
        "{client-id=perf-consumer-client, topic=measured}",
        "consumer-coordinator-metrics:join-total:{client-id=perf-consumer-client}",
        "consumer-coordinator-metrics:sync-total:{client-id=perf-consumer-client}",
        "consumer-coordinator-metrics:heartbeat-total:{client-id=perf-consumer-client}",
    ):
        assert ours[name] == theirs[name], name
    rate = "producer-metrics:record-send-rate:{client-id=one}"
    assert 200 / 60 < float(ours[rate]) <= 200 / 30
    assert 200 / 60 < float(theirs[rate]) <= 200 / 30
