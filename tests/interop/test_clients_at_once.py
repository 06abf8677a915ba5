"""Console clients of 0.8.2 to 4.3 at one partition at once: all of them write, all of them read.

The second half of the lines is sent only when every consumer has printed lines of every producer,
so that all eight were at work together.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.kafka_jars import java_command, libs
from interop.kstore_node import KstoreNode, kstore_node
from interop.node import die_with_parent
from support.waiting import until

pytestmark = [pytest.mark.all_versions, pytest.mark.timeout(400)]

TOPIC = "ages"
HALF = 60  # lines of a producer
PATIENCE = 120.0
_OLD, _NEW = "kafka.tools.ConsoleProducer", "org.apache.kafka.tools.ConsoleProducer"
_CONSUMER = "kafka.tools.ConsoleConsumer"
# A codec each: messages v0, messages v1 and batches v2 are wrapped and converted for all others.
PRODUCERS = {
    "0.8.2.2": (_OLD, "--broker-list", "snappy"),
    "0.10.2.2": (_OLD, "--broker-list", "gzip"),
    "2.8.2": (_OLD, "--bootstrap-server", "lz4"),
    "4.3.0": (_NEW, "--bootstrap-server", "none"),
}
COUNT = 2 * HALF * len(PRODUCERS)
_FROM_START = ("--partition", 0, "--offset", "earliest", "--max-messages", COUNT)
CONSUMERS: dict[str, tuple[str | int, ...]] = {
    # the only one of its time that asks no ZooKeeper; it prints more than the lines
    "0.8.2.2": (
        "kafka.tools.SimpleConsumerShell", "--broker-list", "ADDRESS",
        "--partition", 0, "--offset", -2, "--max-messages", COUNT,
    ),
    "0.10.2.2": (_CONSUMER, "--new-consumer", "--bootstrap-server", "ADDRESS", *_FROM_START),
    "2.8.2": (_CONSUMER, "--bootstrap-server", "ADDRESS", *_FROM_START),
    "4.3.0": (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", "ADDRESS", *_FROM_START,
    ),
}  # fmt: skip


class Console:
    """A running console client, whose output goes into a file."""

    def __init__(self, version: str, words: list[object], output: Path) -> None:
        self.version = version
        self._output = output
        with output.open("wb") as out, output.with_suffix(".errors").open("wb") as errors:
            self.process = subprocess.Popen(
                java_command(version, *map(str, words)),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                preexec_fn=die_with_parent,
            )

    def type(self, lines: list[str]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def lines(self) -> list[str]:
        """The lines of producers among those that it printed."""
        printed = self._output.read_text(errors="replace").splitlines()
        return [line for line in printed if line.startswith("line ")]

    def said(self) -> str:
        errors = self._output.with_suffix(".errors").read_text(errors="replace")
        return f"{self.version}: {self.process.poll()} {errors[-1000:]}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[KstoreNode]:
    for version in PRODUCERS:
        libs(version)
    with kstore_node(tmp_path / "served") as broker:
        broker.create_topic(TOPIC, retention_ms=-1)
        yield broker


@pytest.fixture
def started(served: KstoreNode, tmp_path: Path) -> Iterator[tuple[list[Console], list[Console]]]:
    """The producers and the consumers."""
    clients: list[Console] = []
    try:
        for version, (main, option, codec) in PRODUCERS.items():
            words: list[object] = [main, option, served.address, "--topic", TOPIC]
            words += ["--compression-codec", codec]
            words += ["--sync"] * (version == "0.8.2.2")  # else what it has when killed is lost
            clients.append(Console(version, words, tmp_path / f"producer-{version}"))
        for version, each in CONSUMERS.items():
            words = [served.address if word == "ADDRESS" else word for word in each]
            words += ["--topic", TOPIC]
            clients.append(Console(version, words, tmp_path / f"consumer-{version}"))
        yield clients[: len(PRODUCERS)], clients[len(PRODUCERS) :]
    finally:
        for client in clients:
            client.process.kill()
            client.process.communicate()


def wait(is_done: Callable[[], bool], clients: list[Console]) -> None:
    until(
        is_done,
        PATIENCE,
        said=lambda: "\n".join(f"{len(each.lines())} lines, {each.said()}" for each in clients),
    )


def test_console_clients_of_four_ages_write_and_read_one_topic_at_once(
    started: tuple[list[Console], list[Console]],
) -> None:
    producers, consumers = started
    sent = {
        each.version: [f"line {each.version} {n}" for n in range(2 * HALF)] for each in producers
    }
    for producer in producers:
        producer.type(sent[producer.version][:HALF])
    wait(
        lambda: all(
            {line.split()[1] for line in each.lines()} == set(PRODUCERS) for each in consumers
        ),
        consumers,
    )
    for producer in producers:
        assert producer.process.poll() is None, producer.said()
        producer.type(sent[producer.version][HALF:])
    wait(lambda: all(len(each.lines()) >= COUNT for each in consumers), consumers)
    for consumer in consumers:
        found = consumer.lines()
        assert len(found) == COUNT
        for version, lines in sent.items():
            mine = [line for line in found if line.split()[1] == version]
            assert mine == lines, (consumer.version, version)
    assert all(each.lines() == consumers[0].lines() for each in consumers)
