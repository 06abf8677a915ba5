"""verifiable-producer, verifiable-consumer and end-to-end-latency: events, refusals, endings."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import main, verifiable_consumer
from kstore.remote import groups
from kstore.remote.store import RemoteStore
from kstore.topic_partition import TopicPartition

Tool = Callable[..., tuple[int, list[dict[str, Any]], str]]
WAIT = 60
SETTINGS = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def tool(broker: Broker, capfd: Any) -> Tool:
    def run(name: str, *words: object) -> tuple[int, list[dict[str, Any]], str]:
        capfd.readouterr()
        server = ("--bootstrap-server", broker.bootstrap_servers)
        status = main([name, *map(str, words), *server])
        output, errors = capfd.readouterr()
        return status, [json.loads(line) for line in output.splitlines()], errors

    return run


def test_a_topic_is_created_on_demand(tool: Tool, broker: Broker) -> None:
    status, events, _ = tool("verifiable-producer", "--topic", "new", "--max-messages", 2)
    assert status == 0
    assert [each["name"] for each in events] == [
        "startup_complete", *["producer_send_success"] * 2, "shutdown_complete", "tool_data",
    ]  # fmt: skip
    assert [record.value for record in broker.store["new"][0]] == [b"0", b"1"]


def test_a_record_that_fails_is_an_event(tool: Tool, broker: Broker) -> None:
    broker.store.create_topic("small", config={"max.message.bytes": 60})
    words = ("--topic", "small", "--max-messages", 2, "--value-prefix", 12)
    status, events, _ = tool("verifiable-producer", *words)
    failed = [each for each in events if each["name"] == "producer_send_error"]
    assert status == 0
    assert [each["value"] for each in failed] == ["12.0", "12.1"]
    name = "class org.apache.kafka.common.errors.RecordTooLargeException"
    assert {each["exception"] for each in failed} == {name}
    assert (events[-1]["sent"], events[-1]["acked"]) == (2, 0)


def test_what_is_read_is_committed(tool: Tool, broker: Broker) -> None:
    broker.store.create_topic("read")
    for number in range(700):
        broker.store["read"][0].append(b"%d" % number)
    words = ("--topic", "read", "--group-id", "readers", "--max-messages", 600)
    status, events, _ = tool("verifiable-consumer", *words)
    assert status == 0
    consumed = [each for each in events if each["name"] == "records_consumed"]
    # As Kafka's consumer returns them: the last event counts what was polled, and what counts.
    assert [each["count"] for each in consumed] == [500, 200]
    assert [each["partitions"][0]["count"] for each in consumed] == [500, 100]
    committed = [each["offsets"][0]["offset"] for each in events if "offsets" in each]
    assert committed == [500, 600]
    with RemoteStore(broker.bootstrap_servers) as store:
        found = groups.committed_offsets(store.cluster, "readers")
    assert found[TopicPartition("read", 0)].offset == 600
    # A group without a commit, and no policy: an error, no silence.
    words = ("--topic", "read", "--group-id", "new", "--reset-policy", "none")
    status, events, errors = tool("verifiable-consumer", *words)
    assert status == 1
    assert "no committed offset of read-0" in errors
    assert events[-1]["name"] == "shutdown_complete"


def test_a_rebalance_is_an_event(broker: Broker) -> None:
    broker.store.create_topic("shared", partitions=2)
    words = ["--topic", "shared", "--group-id", "both"]
    with started(broker, "verifiable-consumer", *words) as first:
        read_until(first, "partitions_assigned")
        with started(broker, "verifiable-consumer", *words) as second:
            assert len(read_until(second, "partitions_assigned")["partitions"]) == 1
            assert len(read_until(first, "partitions_revoked")["partitions"]) == 2
            assert len(read_until(first, "partitions_assigned")["partitions"]) == 1
            second.send_signal(signal.SIGTERM)
            assert second.wait(WAIT) == 143, second.stderr and second.stderr.read()
        assert len(read_until(first, "partitions_assigned")["partitions"]) == 2
        first.send_signal(signal.SIGINT)
        assert first.wait(WAIT) == 130
    with RemoteStore(broker.bootstrap_servers) as store:
        assert not groups.describe_group(store.cluster, "both").members


def started(broker: Broker, name: str, *words: str) -> "subprocess.Popen[bytes]":
    server = ("--bootstrap-server", broker.bootstrap_servers)
    return subprocess.Popen(
        [sys.executable, "-m", "kstore", name, *server, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_until(process: "subprocess.Popen[bytes]", name: str) -> dict[str, Any]:
    """The next event of this name."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["name"] == name:
            return event
    raise AssertionError(f"no {name}: {process.stderr and process.stderr.read()!r}")


@pytest.mark.parametrize("name", ["verifiable-producer", "verifiable-consumer"])
def test_a_closed_pipe_ends_it_quietly(broker: Broker, name: str) -> None:
    words = ["--topic", f"piped-{name}", *(["--group-id", "g"] if "consumer" in name else [])]
    with started(broker, name, *words) as process:
        read_until(process, "startup_complete")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(WAIT) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "assignor"),
    [
        (["--group-protocol", "CONSUMER"], "uniform"),
        (["--group-protocol", "consumer", "--group-remote-assignor", "range"], "range"),
        (["--group-remote-assignor", "range", "--assignment-strategy",
          "org.apache.kafka.clients.consumer.RoundRobinAssignor"], "roundrobin"),
        (["--assignment-strategy", "StickyAssignor,cooperative-sticky"], "sticky"),
    ],
)  # fmt: skip
def test_protocols_and_assignors(
    tool: Tool, broker: Broker, words: list[str], assignor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"of-{'-'.join(words)}".replace(".", "")
    topic = f"topic-{len(broker.store)}"
    broker.store.create_topic(topic, partitions=2)[1].append(b"v")
    described = []
    original = verifiable_consumer.consume

    def consume(*arguments: Any) -> None:
        original(*arguments)
        with RemoteStore(broker.bootstrap_servers) as store:
            described.append(groups.describe_group(store.cluster, name).assignor)

    monkeypatch.setattr(verifiable_consumer, "consume", consume)
    at = ("--topic", topic, "--group-id", name, "--max-messages", 1)
    status, events, _ = tool("verifiable-consumer", *at, *words)
    assert status == 0
    assert [each["name"] for each in events] == [
        "startup_complete", "partitions_assigned", "records_consumed", "offsets_committed",
        "partitions_revoked", "shutdown_complete",
    ]  # fmt: skip
    assert len(events[1]["partitions"]) == len(events[4]["partitions"]) == 2
    assert described == [assignor]


@pytest.mark.parametrize(
    ("name", "words", "text"),
    [
        ("verifiable-producer", ["--topic", "t", "--acks", "2"], "invalid choice: '2'"),
        ("verifiable-consumer", ["--topic", "t", "--group-id", "g", "--group-protocol", "x"],
            "invalid choice: 'x'"),
        ("verifiable-consumer", ["--topic", "t", "--group-id", "g", "--assignment-strategy",
            "com.example.RangeAssignor"], "own RangeAssignor, RoundRobinAssignor, StickyAssignor,"),
        ("end-to-end-latency", ["--topic", "t"], "[num-records]"),
    ],
)  # fmt: skip
def test_wrong_options_of_verifiable_tools_are_explained(
    tool: Tool, name: str, words: list[str], text: str
) -> None:
    status, events, errors = tool(name, *words)
    assert (status, events) == (1, [])
    assert text in errors


NAMED = ["--bootstrap-server", "localhost:1", "--topic", "t", "--num-records", "1",
         "--record-size", "5"]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["localhost:1", "t", "1", "all"], "USAGE"),
        (["localhost:1", "t", "1", "0", "5"], "Please use 1 or all"),
        (["localhost:1", "t", "x", "1", "5"], 'For input string: "x"'),
        (["localhost:1", "t", "1", "1", "x"], 'For input string: "x"'),
        (["localhost:1", "t", "0", "1", "5"], "--num-records must be a positive integer."),
        ([*NAMED, "--producer-acks", "0"], "Invalid value for --producer-acks. Latency testing "
         "requires synchronous acknowledgement. Please use '1' or 'all'."),
        ([*NAMED, "--producer-acks", "1", "--record-header-size=-2"], "Value for "
         "--record-header-size must be a non-negative integer or -1 for null header value."),
        ([*NAMED, "--producer-acks", "1", "--num-headers=-1"], "must be a non-negative integer."),
        (["localhost:1", "t", "1", "1", "5", "--topic", "u"], "--topic is given as a word"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_end_to_end_latency_are_explained(
    capfd: Any, words: list[str], text: str
) -> None:
    assert main(["end-to-end-latency", *words]) == 1
    assert text in capfd.readouterr().err
