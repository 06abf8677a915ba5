"""Kafka's own tools for transactions against a served directory; brokers that take turns."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from interop.kafka_jars import VERSIONS, run
from interop.kstore_node import KstoreNode
from interop.node import Node

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COMMAND = "org.apache.kafka.tools.TransactionsCommand"
COUNT = 500
WAIT = 60.0
DUMP = {"3": "kafka.tools.DumpLogSegments", "4": "org.apache.kafka.tools.DumpLogSegments"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[KstoreNode]:
    node = KstoreNode(tmp_path / "served")
    node.settings = {
        "group.initial.rebalance.delay.ms": 0,
        "transaction.state.log.num.partitions": 1,
        "offsets.topic.num.partitions": 1,
    }
    node.start()
    try:
        yield node
    finally:
        node.kill()


def producer_of(address: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": name,
            "transaction.timeout.ms": 300_000,
            "reconnect.backoff.max.ms": 200,
        }
    )
    producer.init_transactions(WAIT)
    return producer


def command(version: str, address: str, *words: object) -> str:
    return run(version, COMMAND, "--bootstrap-server", address, *words).stdout.decode()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_copier_copies_exactly_once(served: KstoreNode, version: str) -> None:
    served.version = version
    served.create_topic("source")
    served.create_topic("copy")
    served.produce("source", [(f"k{n}", str(n)) for n in range(COUNT)])
    words = ["--broker-list", served.address, "--input-topic", "source", "--input-partition", 0]
    words += ["--output-topic", "copy", "--transactional-id", "copier", "--transaction-size", 50]
    words += ["--consumer-group", "copying", "--max-messages", COUNT, "--enable-random-aborts"]
    done = run(version, COPIER, *words).stdout.decode()
    assert any(json.loads(line)["consumed"] for line in done.splitlines() if line[:1] == "{")
    found = served.consume("copy", COUNT + 1, "read_committed")
    assert sorted(int(each.value or "") for each in found) == list(range(COUNT))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_administrator_lists_describes_and_aborts(served: KstoreNode, version: str) -> None:
    served.version = version
    served.create_topic("t")
    producer = producer_of(served.address, "billing")
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush(WAIT)
    listed = command(version, served.address, "list")
    assert "billing" in listed
    assert "Ongoing" in listed
    described = command(version, served.address, "describe", "--transactional-id", "billing")
    assert "t-0" in described
    producers = command(
        version, served.address, "describe-producers", "--topic", "t", "--partition", 0
    )
    assert len(producers.splitlines()) == 2
    abort = ["abort", "--topic", "t", "--partition", 0, "--start-offset", 0]
    command(version, served.address, *abort)
    assert served.end_offsets("t") == {0: 2}  # with the marker
    assert served.consume("t", 1, "read_committed") == []
    producer.abort_transaction(WAIT)
    assert "CompleteAbort" in command(version, served.address, "list")
    served.stop()
    segment = served.log_dir / "__transaction_state-0" / "00000000000000000000.log"
    dumped = run(
        version, DUMP[version[0]], "--files", segment, "--transaction-log-decoder"
    ).stdout.decode()
    assert dumped.count("billing") >= 4
    assert "isvalid: false" not in dumped


def committed(node: KstoreNode | Node, count: int) -> list[str | None]:
    return [each.value for each in node.consume("t", count, "read_committed")]


def test_an_open_transaction_can_be_continued_at_the_next_broker(tmp_path: Path) -> None:
    """Begun at Kafka 3.9 and ended at kstore, begun at kstore and ended at Kafka 3.9."""
    (tmp_path / "kafka").mkdir()
    kafka = Node("3.9.2", tmp_path / "kafka")
    ours = KstoreNode(tmp_path / "ours", log_dir=kafka.log_dir)
    ours._port = kafka._port  # as one broker that is replaced
    try:
        kafka.start()
        kafka.create_topic("t")
        producer = producer_of(kafka.address, "moving")
        for text in (b"0", b"1"):  # the second one stays open
            producer.begin_transaction()
            producer.produce("t", text)
            producer.flush(WAIT)
            if text == b"0":
                producer.commit_transaction(WAIT)
                # Its consumer makes Kafka create __consumer_offsets: a topic that is in no Kafka
                # metadata would be stray.
                assert committed(kafka, 1) == ["0"]
        kafka.stop()

        ours.start()
        assert committed(ours, 1) == ["0"]
        producer.produce("t", b"2")
        producer.commit_transaction(WAIT)
        assert committed(ours, 3) == ["0", "1", "2"]
        producer.begin_transaction()
        producer.produce("t", b"3")
        producer.flush(WAIT)
        ours.stop()

        kafka.start()
        producer.produce("t", b"4")
        producer.commit_transaction(WAIT)
        assert committed(kafka, 5) == ["0", "1", "2", "3", "4"]
        producer.begin_transaction()
        producer.produce("t", b"lost")
        producer.flush(WAIT)
        kafka.stop()

        ours.start()
        successor = producer_of(ours.address, "moving")  # ends what is open
        successor.begin_transaction()
        successor.produce("t", b"5")
        successor.commit_transaction(WAIT)
        assert committed(ours, 6) == ["0", "1", "2", "3", "4", "5"]
        ours.stop()
        kafka.start()
        assert committed(kafka, 6) == ["0", "1", "2", "3", "4", "5"]
    finally:
        kafka.kill()
        ours.kill()
