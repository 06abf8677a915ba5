"""A broker over a store that has partitions 1, 4 and 7 of a topic: what clients see of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

import kstore
from kstore.cli import main
from kstore.kafka_uuid import uuid_to_text
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.create_topics import CreateTopicsRequest
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest
from kstore.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kstore.protocol.messages.list_offsets import ListOffsetsRequest
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.remote import cluster
from support.raw_client import RawClient
from support.waiting import until

HERE = [1, 4, 7]
ELSEWHERE = [0, 2, 3, 5, 6]
SETTINGS = {"kstore.metrics.port": 0, "group.initial.rebalance.delay.ms": 0}
WAIT = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        for number in HERE:
            store.create_partition("t", number).append(b"old")
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def partitions(client: RawClient, topic: str = "t") -> dict[int, Any]:
    asked = MetadataRequest([MetadataRequest.Topics(name=topic)])
    (found,) = client.ask(asked, 12).topics
    return {each.partition_index: each for each in found.partitions}


def test_metadata_has_every_number_up_to_the_highest(client: RawClient) -> None:
    """Clients hash keys over the number of partitions, which they take for 0 to n - 1."""
    found = partitions(client)
    assert list(found) == list(range(8))
    for number in HERE:
        assert (found[number].error_code, found[number].leader_id) == (0, 0)
        assert found[number].replica_nodes == [0]
    for number in ELSEWHERE:
        assert found[number].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert found[number].leader_id == -1
        assert found[number].replica_nodes == found[number].offline_replicas == []
    wanted = [DescribeTopicPartitionsRequest.Topics(name="t")]
    described = client.ask(DescribeTopicPartitionsRequest(topics=wanted), 0).topics[0]
    assert [each.leader_id for each in described.partitions] == [-1, 0, -1, -1, 0, -1, -1, 0]


def test_partitions_follow_the_store(store: kstore.Store, client: RawClient) -> None:
    def leaders() -> list[int]:
        return [each.leader_id for each in partitions(client).values()]

    assert leaders() == [-1, 0, -1, -1, 0, -1, -1, 0]
    store.create_partition("t", 5)
    store.delete_partition("t", 1)
    assert leaders() == [-1, -1, -1, -1, 0, 0, -1, 0]
    store.delete_partition("t", 7)
    assert leaders() == [-1, -1, -1, -1, 0, 0]


def test_a_lost_partition_is_offline_and_others_are_elsewhere(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        for number in HERE:
            store.create_partition("t", number)
    shutil.rmtree(tmp_path / "data" / "t-4")
    with (
        kstore.open(tmp_path / "data") as store,
        kstore.Broker(store, port=0) as broker,
        RawClient(broker.port) as client,
    ):
        found = partitions(client)
        assert {n: each.offline_replicas for n, each in found.items() if each.replica_nodes} == {
            1: [],
            4: [0],
            7: [],
        }


def test_a_topic_without_any_folder_is_offline_until_a_client_deletes_it(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        topic_id = store.create_topic("t", 2).topic_id
        log_dir = tmp_path / "data"
    for number in range(2):
        shutil.rmtree(log_dir / f"t-{number}")
    with (
        kstore.open(log_dir) as store,
        kstore.Broker(store, port=0, settings={"kstore.delete.existing.topics": True}) as broker,
        RawClient(broker.port) as client,
    ):
        (found,) = client.ask(MetadataRequest(None), 12).topics
        assert (found.name, str(topic_id)) == ("t", uuid_to_text(found.topic_id))
        lacks_leader = ErrorCode.LEADER_NOT_AVAILABLE
        assert [each.error_code for each in found.partitions] == [lacks_leader] * 2
        wanted = CreateTopicsRequest([CreateTopicsRequest.Topics("t", 1, 1)], timeout_ms=9000)
        assert client.ask(wanted, 5).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        unwanted = DeleteTopicsRequest(topic_names=["t"], timeout_ms=9000)
        assert client.ask(unwanted, 5).responses[0].error_code == ErrorCode.NONE
        assert client.ask(MetadataRequest(None), 12).topics == []
        assert client.ask(wanted, 5).topics[0].error_code == ErrorCode.NONE
        assert len(store["t"]) == 1


def test_partitions_elsewhere_are_left_out_if_they_are_too_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far = 999_999
    with kstore.open(tmp_path / "data") as store:
        log = store.create_partition("t", far)
        log.append(b"old")
        store.create_partition("t", 1)
        with kstore.Broker(store, port=0) as broker, RawClient(broker.port) as client:
            for _ in range(2):
                found = partitions(client)
                assert {n: each.leader_id for n, each in found.items()} == {1: 0, far: 0}
                store.alter_topic("t", {"retention.ms": 1})
            [warned] = [each for each in caplog.messages if "clients see no others" in each]
            assert f"t-{far}" in warned
            described = client.ask(
                DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequest.Topics("t")]), 0
            ).topics[0]
            assert [each.partition_index for each in described.partitions] == [1, far]
            consumer = KafkaConsumer(
                bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            )
            consumer.assign([KafkaTopicPartition("t", far)])
            assert next(consumer).value == b"old"
            consumer.close()
        store.delete_partition("t", far)
        store.create_partition("t", 10_001)
        with kstore.Broker(store, port=0) as broker, RawClient(broker.port) as client:
            assert len(partitions(client)) == 10_002
            store.create_partition("t", 10_003)
            assert list(partitions(client)) == [1, 10_001, 10_003]


def test_a_folder_that_ends_with_a_date_is_one_partition(tmp_path: Path) -> None:
    (tmp_path / "data" / "backup-20240101").mkdir(parents=True)
    with (
        kstore.open(tmp_path / "data") as store,
        kstore.Broker(store, port=0) as broker,
        RawClient(broker.port) as client,
    ):
        assert list(partitions(client, "backup")) == [20240101]


def test_offsets_of_a_partition_elsewhere_are_not_led_here(client: RawClient) -> None:
    asked = [
        ListOffsetsRequest.Topics.Partitions(partition_index=number, timestamp=-1)
        for number in range(9)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.Topics(name="t", partitions=asked)]
    )
    found = client.ask(request, 5).topics[0].partitions
    codes = {each.partition_index: ErrorCode(each.error_code) for each in found}
    assert codes == {
        **dict.fromkeys(HERE, ErrorCode.NONE),
        **dict.fromkeys(ELSEWHERE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        8: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_clients_write_and_read_what_is_here(store: kstore.Store, broker: kstore.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    sent = {producer.send("t", b"v").get(WAIT).partition for _ in range(30)}
    producer.close()
    assert sent <= set(HERE)
    assert sum(store["t"].end_offsets().values()) == 33
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    found = []
    while len(found) < 33:
        message = consumer.poll(WAIT)
        assert message is not None
        if message.error() is None:
            found.append(message.partition())
    consumer.close()
    assert set(found) == set(HERE)


def page(broker: kstore.Broker) -> str:
    with urlopen(f"http://{broker.metrics_address}/metrics", timeout=WAIT) as answer:
        return str(answer.read().decode())


def test_metrics_count_the_partitions_that_exist(broker: kstore.Broker) -> None:
    names = ("globalpartitioncount", "offlinepartitionscount")
    found = {
        line.split()[0].rpartition("_")[2]: float(line.split()[1])
        for line in page(broker).splitlines()
        if line.startswith("kafka_controller") and line.split()[0].endswith(names)
    }
    assert found == {"globalpartitioncount": 3, "offlinepartitionscount": 0}


def test_partitions_without_an_open_log_are_measured_while_they_exist(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        for number in HERE:
            store.create_partition("t", number)
    with (
        kstore.open(tmp_path / "data") as store,
        kstore.Broker(store, port=0, settings=SETTINGS) as broker,
    ):
        assert 'topic="t",partition="4"' in page(broker)
        assert 'topic="t",partition="5"' not in page(broker)
        store.delete_partition("t", 4)
        assert 'topic="t",partition="4"' not in page(broker)
        assert 'topic="t",partition="7"' in page(broker)


def wait_for_markers(log: kstore.Log) -> None:
    """They are written after the client is answered."""
    until(lambda: log.last_stable_offset == log.end_offset)


def test_a_transaction_ends_where_a_partition_of_it_was_deleted(
    store: kstore.Store, broker: kstore.Broker
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "id"}
    producer = Producer(settings)
    producer.init_transactions(WAIT)
    log = store["t"][7]
    for last in (b"first", b"second"):
        producer.begin_transaction()
        producer.produce("t", b"gone", partition=4)
        producer.produce("t", last, partition=7)
        assert producer.flush(WAIT) == 0
        if last == b"first":
            store.delete_partition("t", 4)
            producer.commit_transaction(WAIT)
            wait_for_markers(log)
            store.create_partition("t", 4)
    producer.commit_transaction(WAIT)
    wait_for_markers(log)
    assert [r.value for r in log.view(isolation="read_committed")] == [b"old", b"first", b"second"]


def test_get_offsets_shows_the_partitions_that_have_a_leader(
    broker: kstore.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_bounded", lambda timeout: 0.5)
    assert (
        main(["get-offsets", "--topic", "t", "--bootstrap-server", broker.bootstrap_servers]) == 0
    )
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [f"t:{number}:1" for number in HERE]
    skipped = printed.err.splitlines()
    assert len(skipped) == len(ELSEWHERE)
    for number, line in zip(ELSEWHERE, skipped, strict=True):
        assert line.startswith(
            f"Skip getting offsets for topic-partition t-{number} due to error: "
        )


def test_an_error_has_the_name_of_kafkas_exception(
    broker: kstore.Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "_bounded", lambda timeout: 0.5)
    asked = tmp_path / "offsets.json"
    asked.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}')
    arguments = ["delete-records", "--offset-json-file", str(asked)]
    assert main([*arguments, "--bootstrap-server", broker.bootstrap_servers]) == 1
    assert "org.apache.kafka.common.errors.LeaderNotAvailableException: " in capsys.readouterr().out
