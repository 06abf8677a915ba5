"""producer-perf and consumer-perf: the lines of Kafka's tools, and what they send and read."""

import re
from argparse import Namespace
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore.broker.broker import Broker, serve
from kstore.cli import main
from kstore.cli.producer_perf import apply_transactions, percentiles

Outcome = tuple[int, list[str], list[str]]
Tool = Callable[..., Outcome]
LINE = re.compile(
    r"(\d+) records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
    r"\d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=settings) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name.partition("[")[0]
    broker.store.create_topic(name, partitions=2)
    return name


@pytest.fixture
def tool(capfd: Any) -> Tool:
    def run(*words: object) -> Outcome:
        capfd.readouterr()
        status = main(list(map(str, words)))
        output, errors = capfd.readouterr()
        return status, output.splitlines(), errors.splitlines()

    return run


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for log in broker.store[topic] for record in log]


def produce(tool: Tool, broker: Broker, topic: str, count: int, *words: object) -> Outcome:
    return tool(
        "producer-perf", "--topic", topic, "--num-records", count, "--throughput", -1,
        *words, "--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", "acks=all",
    )  # fmt: skip


def test_producer_perf_sends_one_array_of_random_letters(
    tool: Tool, broker: Broker, topic: str
) -> None:
    status, lines, errors = produce(tool, broker, topic, 500, "--record-size", 20)
    assert (status, errors) == (0, [])
    found = LINE.fullmatch(lines[-1])
    assert found is not None
    assert found[1] == "500"
    sent = values(broker, topic)
    assert len(sent) == 500
    assert re.fullmatch(rb"[A-Z]{20}", sent[0] or b"")
    assert len(set(sent)) == 1  # one array, as in Kafka


def test_payload_monotonic_sends_increasing_numbers(tool: Tool, broker: Broker, topic: str) -> None:
    assert produce(tool, broker, topic, 50, "--payload-monotonic")[0] == 0
    assert sorted(int(value or b"") for value in values(broker, topic)) == list(range(50))


def test_values_are_those_of_a_payload_file(
    tool: Tool, broker: Broker, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "values"
    path.write_text("one;two;")
    words = ("--payload-file", path, "--payload-delimiter", ";")
    assert produce(tool, broker, topic, 50, *words)[0] == 0
    assert set(values(broker, topic)) == {b"one", b"two"}
    path.write_text("")
    status, _, errors = produce(tool, broker, topic, 1, *words)
    assert status == 1
    assert "is empty" in errors[0]


def test_throughput_limits_the_rate(tool: Tool, broker: Broker, topic: str) -> None:
    words = ("--num-records", 30, "--throughput", 100, "--record-size", 1)
    words = ("producer-perf", "--topic", topic, *words, "--bootstrap-server")
    status, lines, _ = tool(*words, broker.bootstrap_servers)
    assert status == 0
    rate = float(lines[-1].partition("records sent, ")[2].partition(" ")[0])
    assert rate <= 110


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--producer-props", "acks=all"], "needs bootstrap.servers=host:port"),
        (["--producer-props", "acks"], "Invalid property: acks"),
        (
            ["--producer-props", "bootstrap.servers=x:1", "acks=1", "transaction.timeout.ms=x"],
            "transaction.timeout.ms",
        ),
        (["--payload-monotonic"], "not allowed with argument"),
    ],
)
def test_wrong_options_of_producer_perf_are_explained(
    tool: Tool, words: list[str], text: str
) -> None:
    asked = ("--topic", "t", "--num-records", 1, "--throughput", -1, "--record-size", 1)
    status, _, errors = tool("producer-perf", *asked, *words)
    assert status == 1
    assert text in "\n".join(errors[:2])


def test_percentiles_are_those_of_kafkas_tool() -> None:
    assert percentiles(array("i", range(1000)), (0.5, 0.99, 0.999)) == [500, 990, 999]
    assert percentiles(array("i", [7]), (0.5, 0.999)) == [7, 7]
    assert percentiles(array("i"), (0.5,)) == [0]


def test_consumer_perf_prints_what_it_read_and_warns_of_fewer(
    tool: Tool, broker: Broker, topic: str
) -> None:
    for log in broker.store[topic]:
        for number in range(100):
            log.append(b"%03d" % number)
    asked = ("consumer-perf", "--topic", topic, "--bootstrap-server", broker.bootstrap_servers)
    status, lines, errors = tool(*asked, "--messages", 200, "--timeout", 20_000)
    assert (status, errors) == (0, [])
    names, row = ([cell.strip() for cell in line.split(",")] for line in lines)
    assert names == [
        "start.time", "end.time", "data.consumed.in.MB", "MB.sec", "data.consumed.in.nMsg",
        "nMsg.sec", "rebalance.time.ms", "fetch.time.ms", "fetch.MB.sec", "fetch.nMsg.sec",
    ]  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", row[0])
    assert row[2] == f"{600 / 1024 / 1024:.4f}"
    assert row[4] == "200"
    status, lines, errors = tool(*asked, "--messages", 201, "--timeout", 300, "--hide-header")
    assert (status, len(lines)) == (0, 1)
    assert errors[0].startswith("WARNING: Exiting before consuming the expected number")


def figures(lines: list[str]) -> dict[str, float]:
    """Metrics by their names without groups and tags; the table follows an empty line."""
    width = lines[lines.index("") + 1].index("Value")
    table = lines[lines.index("") + 2 :]
    assert {line[width - 2 : width] for line in table} == {": "}
    assert table == sorted(table)
    return {line.split(":")[1]: float(line[width:]) for line in table if ", topic" not in line}


def test_markers_of_transactions_are_no_records(tool: Tool, broker: Broker, topic: str) -> None:
    words = ("--record-size", 20, "--transaction-duration-ms", 60_000)
    assert produce(tool, broker, topic, 10, *words)[0] == 0
    asked = ("consumer-perf", "--topic", topic, "--bootstrap-server", broker.bootstrap_servers)
    # One record more than there are, so that the markers are fetched, too.
    status, lines, _ = tool(*asked, "--messages", 11, "--timeout", 500, "--print-metrics")
    assert status == 0
    assert figures(lines)["bytes-consumed-total"] == 10 * 27  # a record of 20 bytes takes 27


def test_metrics_follow_the_total(tool: Tool, broker: Broker, topic: str) -> None:
    words = ("--record-size", 20, "--print-metrics")
    status, lines, errors = produce(tool, broker, topic, 100, *words)
    assert (status, errors) == (0, [])
    assert LINE.fullmatch(lines[lines.index("") - 1])
    found = figures(lines)
    assert (found["record-send-total"], found["record-error-total"]) == (100, 0)
    assert found["outgoing-byte-total"] > found["batch-size-max"] >= 61 + 20
    assert any("{client-id=perf-producer-client, topic=" in line for line in lines)
    asked = ("consumer-perf", "--topic", topic, "--bootstrap-server", broker.bootstrap_servers)
    status, lines, errors = tool(*asked, "--messages", 100, "--print-metrics")
    assert (status, errors) == (0, [])
    found = figures(lines)
    assert (found["records-consumed-total"], found["join-total"]) == (100, 1)
    assert 100 * 27 <= found["bytes-consumed-total"] <= 100 * 29  # with fields of 7 to 9 bytes
    assert "request-total" not in found  # as in Kafka, whose tool has closed its connections


def markers(broker: Broker, topic: str) -> int:
    """How many commits and aborts the partitions have, beside 30 records."""
    return sum(log.end_offset for log in broker.store[topic]) - 30


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--transaction-duration-ms", 60], "performance-producer-default-transactional-id"),
        (["--transaction-duration-ms", 60, "--transactional-id", "mine"], "mine"),
        (["--transactional-id", "three-seconds"], "three-seconds"),
        (["--transactional-id", "none", "--transaction-duration-ms", 0], None),
    ],
)
def test_records_are_sent_in_transactions(
    tool: Tool, broker: Broker, words: list[object], name: str | None
) -> None:
    topic = f"in-transactions-{name}"
    broker.store.create_topic(topic)
    server = ("--bootstrap-server", broker.bootstrap_servers)
    sent = ("--num-records", 30, "--throughput", 100, "--record-size", 5, "--print-metrics")
    status, lines, errors = tool("producer-perf", "--topic", topic, *sent, *words, *server)
    assert (status, errors) == (0, [])
    assert ("txn-commit-time-ns-total" in figures(lines)) == (name is not None)
    assert len(list(broker.store[topic][0].view(isolation="read_committed"))) == 30
    if name is None:
        assert markers(broker, topic) == 0
        return
    fewest = 1 if name == "three-seconds" else 2  # after 60 ms each, in 300 ms or longer
    assert markers(broker, topic) >= fewest
    _, listed, _ = tool("transactions", *server, "list")
    states = {line.split()[0]: line.split()[3] for line in listed}
    assert states[name] == "CompleteCommit"


def test_records_that_fail_are_counted_and_the_status_is_1(tool: Tool, broker: Broker) -> None:
    broker.store.create_topic("small", config={"max.message.bytes": 500})
    status, lines, errors = produce(tool, broker, "small", 3, "--record-size", 1000)
    assert status == 1
    assert lines[-1].startswith("0 records sent, ")
    assert errors[0].startswith("kstore producer-perf: 3 records failed: ")
    assert "max.message.bytes" in errors[0]
    assert not values(broker, "small")


@pytest.mark.parametrize(
    ("identifier", "duration", "settings", "found"),
    [
        (None, None, {}, (0, 60_000)),
        ("a", None, {}, (3000, 60_000)),
        (None, None, {"transactional.id": "b", "transaction.timeout.ms": "9"}, (3000, 9)),
        ("a", 0, {"transactional.id": "b"}, (0, 60_000)),
        (None, 5, {}, (5, 60_000)),
    ],
)
def test_transactions_take_three_seconds_unless_the_options_say_otherwise(
    identifier: str | None, duration: int | None, settings: dict[str, str], found: tuple[int, int]
) -> None:
    given = Namespace(transactional_id=identifier, transaction_duration_ms=duration)
    apply_transactions(given, settings)
    assert (given.transaction_duration_ms, given.transaction_timeout_ms) == found
    if identifier is not None:
        assert given.transactional_id == identifier  # the option takes precedence
    assert settings == {}


def test_settings_of_transactions_come_from_the_producers(
    tool: Tool, broker: Broker, topic: str
) -> None:
    by_property = ("transactional.id=by-property", "transaction.timeout.ms=4567")
    server = f"bootstrap.servers={broker.bootstrap_servers}"
    sent = ("--topic", topic, "--num-records", 30, "--throughput", -1, "--record-size", 5)
    assert tool("producer-perf", *sent, "--producer-props", server, *by_property)[0] == 0
    words = ("describe", "--transactional-id", "by-property")
    _, lines, _ = tool("transactions", "--bootstrap-server", broker.bootstrap_servers, *words)
    assert "4567" in lines[1].split()


def test_figures_of_reading_are_printed_by_interval(tool: Tool, broker: Broker, topic: str) -> None:
    asked = ("consumer-perf", "--topic", topic, "--bootstrap-server", broker.bootstrap_servers)
    words = ("--messages", 1, "--timeout", 1000, "--show-detailed-stats")
    status, lines, _ = tool(*asked, *words, "--reporting-interval", 100)
    assert status == 0
    assert lines[0].startswith("time, threadId, data.consumed.in.MB")
    assert lines[1].split(", ")[1:5] == ["0", "0.0000", "0.0000", "0"]
