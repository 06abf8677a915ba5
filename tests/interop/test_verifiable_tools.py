"""verifiable-producer, verifiable-consumer and end-to-end-latency print what Kafka's tools print,
on Kafka and on kstore, and end as they do."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from interop.kafka_jars import ToolError, java_command, libs, run
from interop.kstore_node import SOURCES, KstoreNode, either_node
from interop.node import Node, die_with_parent

VERSION = "3.9.2"
TOOLS = "org.apache.kafka.tools"
OURS = {
    "VerifiableProducer": "verifiable-producer",
    "VerifiableConsumer": "verifiable-consumer",
    "EndToEndLatency": "end-to-end-latency",
}
WHO = ("theirs", "ours")
Event = dict[str, Any]


@pytest.fixture(scope="module", params=["kstore", VERSION])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node | KstoreNode]:
    libs(VERSION)
    settings: dict[str, object] = {
        "group_initial_rebalance_delay_ms": 0,
        "group_coordinator_rebalance_protocols": "classic,consumer",
        "group_consumer_heartbeat_interval_ms": 1000,
        "group_consumer_min_heartbeat_interval_ms": 1000,
    }
    root = tmp_path_factory.mktemp("served")
    with either_node(request.param, root, **settings) as broker:
        yield broker


def command(who: str, tool: str, *words: object) -> list[str]:
    """The command line of Kafka's tool, or of ours."""
    if who == "theirs":
        return java_command(VERSION, f"{TOOLS}.{tool}", *words)
    return [sys.executable, "-m", "kstore", OURS[tool], *map(str, words)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.fspath(SOURCES)}


def printed(who: str, tool: str, *words: object, status: int = 0) -> list[str]:
    """The lines of a tool that ended with this status."""
    done = subprocess.run(
        command(who, tool, *words), capture_output=True, timeout=150, env=environment()
    )
    assert done.returncode == status, done.stderr[-2000:]
    return done.stdout.decode().splitlines()


def events(lines: Sequence[str]) -> list[Event]:
    """The events without the fields that differ from run to run."""
    found: list[Event] = [json.loads(line) for line in lines]
    for each in found:
        assert abs(each.pop("timestamp") / 1000 - time.time()) < 300
        if "avg_throughput" in each:
            assert each.pop("avg_throughput") >= 0
    return found


def both(tool: str, *words: object) -> list[Event]:
    """Run both tools, each on its own topic (WHO); their events must be equal, and are returned."""
    texts = []
    for who in WHO:
        named = [str(word).replace("WHO", who) for word in words]
        found = events(printed(who, tool, *named))
        texts.append([json.dumps(each).replace(f"{who}-", "WHO-") for each in found])
    assert texts[1] == texts[0]
    return [json.loads(text) for text in texts[1]]


def test_events_of_a_producer(served: Node | KstoreNode) -> None:
    for who in WHO:
        served.create_topic(f"{who}-numbers")
    at = ("--bootstrap-server", served.address, "--topic", "WHO-numbers")
    words = ("--max-messages", 5, "--value-prefix", 7, "--repeating-keys", 2)
    created = ("--message-create-time", 1_700_000_000_000)
    sent = both("VerifiableProducer", *at, *words, *created, "--acks", 1)
    assert [each["name"] for each in sent[1:-2]] == ["producer_send_success"] * 5
    assert sent[-1] == {"name": "tool_data", "sent": 5, "acked": 5, "target_throughput": -1}
    times = [each.timestamp for each in served.consume("ours-numbers", 5)]
    assert times == list(range(1_700_000_000_000, 1_700_000_000_005))
    limited = both("VerifiableProducer", *at, "--max-messages", 3, "--throughput", 10)
    assert limited[-1]["target_throughput"] == 10


def test_events_of_a_consumer(served: Node | KstoreNode) -> None:
    for who in WHO:
        served.create_topic(f"{who}-read")
        served.produce(f"{who}-read", [(f"k{number}", f"v{number}") for number in range(8)])
    at = ("--bootstrap-server", served.address, "--topic", "WHO-read", "--group-id", "WHO-readers")
    read = both("VerifiableConsumer", *at, "--max-messages", 3, "--verbose")
    assert [each["name"] for each in read] == [
        "startup_complete", "partitions_assigned", *["record_data"] * 3, "records_consumed",
        "offsets_committed", "partitions_revoked", "shutdown_complete",
    ]  # fmt: skip
    # Another member of the group continues there: a static one, which commits automatically.
    static = ("--group-instance-id", "one", "--enable-autocommit", "--session-timeout", 10_000)
    read = both("VerifiableConsumer", *at, *static, "--max-messages", 5)
    assert "offsets_committed" not in {each["name"] for each in read}
    assert read[2]["partitions"][0]["minOffset"] == 3


STRATEGY, PACKAGE = "--assignment-strategy", "org.apache.kafka.clients.consumer."


@pytest.mark.parametrize(
    "options",
    [
        ("--group-protocol", "consumer"),
        ("--group-protocol", "CONSUMER", "--group-remote-assignor", "range",
         "--group-instance-id", "i"),
        (STRATEGY, f"{PACKAGE}RoundRobinAssignor"),
        (STRATEGY, f"{PACKAGE}CooperativeStickyAssignor,{PACKAGE}StickyAssignor"),
    ],
    ids=["consumer", "static", "roundrobin", "several"],
)  # fmt: skip
def test_protocols_and_assignors(served: Node | KstoreNode, options: tuple[str, ...]) -> None:
    tag = f"{len(options)}-{options[-1][-20:]}"
    for who in WHO:
        served.create_topic(f"{who}-{tag}", partitions=2)
        served.produce(f"{who}-{tag}", [("k", f"v{number}") for number in range(4)])
    at = ("--bootstrap-server", served.address, "--topic", f"WHO-{tag}", "--group-id", f"WHO-{tag}")
    read = both("VerifiableConsumer", *at, "--max-messages", 3, *options)
    assert [each["name"] for each in read] == [
        "startup_complete", "partitions_assigned", "records_consumed", "offsets_committed",
        "partitions_revoked", "shutdown_complete",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("consumer", ("--group-protocol", "consumer")),
        ("cooperative", (STRATEGY, f"{PACKAGE}CooperativeStickyAssignor")),
        ("sticky", (STRATEGY, f"{PACKAGE}StickyAssignor")),
    ],
)
@pytest.mark.parametrize("first", WHO)
def test_members_of_both_in_a_group(
    served: Node | KstoreNode, first: str, name: str, options: tuple[str, ...]
) -> None:
    """The second one gets the last two of four partitions, and leaves them to the first again."""
    topic = f"mixed-{name}-{first}"
    served.create_topic(topic, partitions=4)
    at = ("--bootstrap-server", served.address, "--topic", topic, "--group-id", topic, *options)
    one = Running(command(first, "VerifiableConsumer", *at))
    one.read_until("partitions_assigned")
    two = Running(command(WHO[first == "theirs"], "VerifiableConsumer", *at))
    two.read_until('partitions_assigned","partitions":[{')
    two_ended = two.end(signal.SIGTERM)
    if name != "sticky":
        one.read_until(f'partitions_assigned","partitions":[{{"topic":"{topic}","partition":2}}')
    one_ended = one.end(signal.SIGTERM)
    every, last = ([{"topic": topic, "partition": n} for n in range(n, 4)] for n in (0, 2))
    shown = [
        [
            (each["name"], each["partitions"])
            for each in events(lines)
            if "partitions_" in each["name"]
        ]
        for _, lines in (one_ended, two_ended)
    ]
    given = [each for each in shown[1] if each[1]]
    assert given == [("partitions_assigned", last), ("partitions_revoked", last)]
    given = [each for each in shown[0] if each[1]]
    if name == "sticky":
        assert [numbers for _, numbers in given[:2]] == [every, every]
    else:
        assert given == [
            ("partitions_assigned", every), ("partitions_revoked", last),
            ("partitions_assigned", last), ("partitions_revoked", every),
        ]  # fmt: skip


def test_a_topic_of_an_invalid_name(served: Node | KstoreNode) -> None:
    """Kafka's tool reports each record; ours ends with the reason."""
    words = ("--bootstrap-server", served.address, "--topic", "no topic", "--max-messages", 1)
    theirs = events(printed("theirs", "VerifiableProducer", *words))
    assert [each["name"] for each in theirs[1:-2]] == ["producer_send_error"]
    ours = events(printed("ours", "VerifiableProducer", *words, status=1))
    assert [ours[0], *ours[1:]] == [theirs[0], theirs[-2], {**theirs[-1], "sent": 0}]


class Running:
    """A tool that runs until a signal."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
            preexec_fn=die_with_parent,
        )  # fmt: skip
        self._text = b""

    def read_until(self, name: str, patience: float = 150) -> None:
        """Read its output up to an event of this name, or with this text from its name on."""
        assert self.process.stdout is not None
        until = time.monotonic() + patience
        while f'"name":"{name}'.encode() not in self._text:
            assert time.monotonic() < until, self._text[-2000:]
            if select.select([self.process.stdout], [], [], 1)[0]:
                self._text += os.read(self.process.stdout.fileno(), 65536)

    def end(self, number: int) -> tuple[int, list[str]]:
        """Its status after a signal, and all of its lines."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=60)
        return self.process.returncode, (self._text + rest).decode().splitlines()


def test_a_signal_ends_them_cleanly(served: Node | KstoreNode) -> None:
    at = ("--bootstrap-server", served.address, "--topic", "ended")
    served.create_topic("ended")
    endings: list[tuple[int, list[str]]] = []
    for who in WHO:
        words = command(who, "VerifiableProducer", *at, "--throughput", 20)
        tool = Running(words)
        tool.read_until("producer_send_success")
        status, lines = tool.end(signal.SIGTERM)
        last = events(lines)
        assert last[-1]["sent"] == last[-1]["acked"] > 0
        endings.append((status, [each["name"] for each in last[-2:]]))
        tool = Running(command(who, "VerifiableConsumer", *at, "--group-id", f"{who}-readers"))
        tool.read_until("offsets_committed")
        status, lines = tool.end(signal.SIGTERM)
        endings.append((status, [each["name"] for each in events(lines)[-2:]]))
    assert endings[:2] == endings[2:]
    assert endings[0] == (128 + signal.SIGTERM, ["shutdown_complete", "tool_data"])
    assert endings[1] == (128 + signal.SIGTERM, ["partitions_revoked", "shutdown_complete"])


def test_latency(served: Node | KstoreNode) -> None:
    """The first run creates the topic, the second one finds it."""
    found = []
    for who in WHO:
        for count in (1, 1001):
            words = (served.address, f"{who}-latency", count, "all", 20)
            lines = printed(who, "EndToEndLatency", *words)
            found.append([re.sub(r"\d+(\.\d+)?", "0", line.replace(who, "")) for line in lines])
    assert found[2:] == found[:2]
    assert "does not exist" in found[2][0]
    named = ("--bootstrap-server", served.address, "--topic", "ours-latency", "--num-records", 1)
    named = (*named, "--producer-acks", "1", "--record-size", 5, "--record-key-size", 3)
    named = (*named, "--num-headers", 1, "--record-header-key-size", 2)
    assert printed("ours", "EndToEndLatency", *named)[-1].startswith("Percentiles: 50th = ")
    (record,) = [each for each in served.consume("ours-latency", 1003) if each.key]
    assert (len(record.key or ""), len(record.value or "")) == (3, 5)
    assert [len(name) for name, _ in record.headers] == [2]
    with pytest.raises(ToolError, match="requires synchronous acknowledgement"):
        run(VERSION, f"{TOOLS}.EndToEndLatency", served.address, "ours-latency", 1, "0", 5)
    assert printed("ours", "EndToEndLatency", served.address, "ours-latency", 1, "0", 5,
        status=1) == []  # fmt: skip
