"""Kafka's own consumers and ConsumerGroupCommand with groups of a kstore broker (KIP-848)."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from interop.kafka_jars import VERSIONS, java_command, libs, run
from interop.kstore_node import KstoreNode, kstore_node

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PATIENCE = 120.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[KstoreNode]:
    settings = {
        "group_initial_rebalance_delay_ms": 0,
        "group_consumer_heartbeat_interval_ms": 300,
        "group_consumer_min_heartbeat_interval_ms": 300,
    }
    with kstore_node(tmp_path, **settings) as node:
        yield node


class VerifiableConsumer:
    """One of Kafka's VerifiableConsumers, and the events that it printed."""

    def __init__(self, version: str, served: KstoreNode, *words: object) -> None:
        self.events: list[dict[str, Any]] = []
        command = java_command(
            version, VERIFIABLE_CONSUMER, "--bootstrap-server", served.address, "--topic", "t",
            "--group-id", "g", "--reset-policy", "earliest", "--verbose", *words,
        )  # fmt: skip
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    self.events.append(json.loads(line))

    @property
    def assigned(self) -> set[int]:
        """What it owns by its own account."""
        found: set[int] = set()
        for event in list(self.events):
            each = {one["partition"] for one in event.get("partitions", ()) if "partition" in one}
            if event["name"] == "partitions_assigned":
                found |= each
            elif event["name"] == "partitions_revoked":
                found -= each
        return found

    @property
    def consumed(self) -> list[tuple[int, int]]:
        return [
            (event["partition"], event["offset"])
            for event in list(self.events)
            if event["name"] == "record_data"
        ]

    @property
    def committed(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for event in list(self.events):
            if event["name"] == "offsets_committed" and event["success"]:
                found |= {each["partition"]: each["offset"] for each in event["offsets"]}
        return found

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(60)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(60)
        self._reader.join(60)


@pytest.fixture
def start(served: KstoreNode) -> Iterator[Callable[..., VerifiableConsumer]]:
    consumers: list[VerifiableConsumer] = []

    def start(version: str, *words: object) -> VerifiableConsumer:
        consumers.append(VerifiableConsumer(version, served, *words))
        return consumers[-1]

    yield start
    for consumer in consumers:
        consumer.kill()


def wait_for(condition: Callable[[], bool], *consumers: VerifiableConsumer) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, [each.events[-5:] for each in consumers]
        time.sleep(0.1)


def produce(version: str, served: KstoreNode, count: int) -> None:
    run(
        version, VERIFIABLE_PRODUCER, "--bootstrap-server", served.address, "--topic", "t",
        "--max-messages", count, "--throughput", 1000,
    )  # fmt: skip


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_consumers_share_a_topic(
    served: KstoreNode,
    start: Callable[..., VerifiableConsumer],
    version: str,
    protocol: str,
) -> None:
    libs(version)
    served.create_topic("t", partitions=4)
    produce(version, served, 400)
    words = ["--group-protocol", protocol]
    first = start(version, *words)
    wait_for(lambda: len(first.consumed) == 400 and sum(first.committed.values()) == 400, first)
    second = start(version, *words)
    wait_for(lambda: len(first.assigned) == len(second.assigned) == 2, first, second)
    assert first.assigned | second.assigned == {0, 1, 2, 3}
    tool = ["--bootstrap-server", served.address]
    listed = run(version, GROUPS, *tool, "--list", "--state").stdout.decode()
    assert listed.splitlines()[-1].split()[-1] == "Stable"
    members = run(
        version, GROUPS, *tool, "--describe", "--group", "g", "--members", "--verbose"
    ).stdout.decode()
    assert members.count("/127.0.0.1") == 2
    produce(version, served, 400)
    wait_for(lambda: sum({**first.committed, **second.committed}.values()) == 800, first, second)
    both = first.consumed + second.consumed
    assert len(both) == len(set(both)) == 800
    second.stop()
    wait_for(lambda: first.assigned == {0, 1, 2, 3}, first)
    first.stop()
    described = run(version, GROUPS, *tool, "--describe", "--group", "g").stdout.decode()
    lags = [line.split()[5] for line in described.splitlines() if line.startswith("g ")]
    assert set(lags) == {"0"}  # of the partitions that have records
    state = run(version, GROUPS, *tool, "--describe", "--group", "g", "--state").stdout.decode()
    assert "Empty" in state


def test_tools_of_kstore_and_kafka_4_say_the_same(served: KstoreNode) -> None:
    """Of a group of KIP-848 with a static member; the texts are compared word by word."""
    version = "4.3.0"
    libs(version)
    served.create_topic("t", partitions=12)
    served.create_topic("u", partitions=2)
    members = []
    for instance in ({}, {"group.instance.id": "i"}):
        settings = {"group.id": "g", "group.protocol": "consumer", **instance}
        members.append(Consumer({"bootstrap.servers": served.address, **settings}))
        members[-1].subscribe(["t", "u"])
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            for member in members:
                member.poll(0.05)

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        wait_for(lambda: [len(each.assignment()) for each in members] == [7, 7])
        group = ("--describe", "--group", "g")
        for words in (
            group, (*group, "--members"), (*group, "--members", "--verbose"),
            (*group, "--state"), (*group, "--state", "--verbose"), ("--list", "--state"),
            ("--list", "--type"), ("--list", "--type", "consumer"), ("--list", "--type", "classic"),
        ):  # fmt: skip
            server = ("--bootstrap-server", served.address)
            command = [sys.executable, "-m", "kstore", "consumer-groups", *words, *server]
            ours = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
            theirs = run(version, GROUPS, *words, "--timeout", 60_000, *server).stdout
            assert ours.decode().split() == theirs.decode().split(), words
    finally:
        ended.set()
        poller.join()
        for member in members:
            member.close()
