"""A request with more partitions than ``kstore.max.request.partitions`` is refused."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.list_offsets import ListOffsetsRequest
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.messages.produce import ProduceRequest
from oracle.writer import batch
from support.client_batches import rows
from support.raw_client import RawClient

LIMIT = 10  # array elements: the topic counts too


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kstore.Broker]:
    settings = {"kstore.max.request.partitions": LIMIT}
    with kstore.serve(tmp_path, port=0, settings=settings) as broker:
        broker.store.create_topic("t", LIMIT)
        yield broker


def produce(count: int) -> Any:
    data = [ProduceRequest.TopicData.PartitionData(n, batch(rows(1))) for n in range(count)]
    return ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[ProduceRequest.TopicData("t", partition_data=data)]
    )


def fetch(count: int) -> Any:
    wanted = [FetchRequest.Topics.Partitions(n, partition_max_bytes=100) for n in range(count)]
    return FetchRequest(topics=[FetchRequest.Topics(topic="t", partitions=wanted)])


def list_offsets(count: int) -> Any:
    wanted = [ListOffsetsRequest.Topics.Partitions(n, timestamp=-1) for n in range(count)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topics("t", wanted)])


def metadata(count: int) -> Any:
    """Its topics are its only array."""
    return MetadataRequest(
        topics=[MetadataRequest.Topics(name=f"t{n}") for n in range(count + 1)],
        allow_auto_topic_creation=False,
    )


@pytest.mark.parametrize(
    ("make", "version"),
    [(produce, 3), (produce, 9), (fetch, 4), (fetch, 12), (list_offsets, 1), (list_offsets, 7),
     (metadata, 4), (metadata, 9)],
)  # fmt: skip
def test_one_partition_more_than_the_limit_closes_the_connection(
    broker: kstore.Broker, caplog: pytest.LogCaptureFixture, make: Any, version: int
) -> None:
    with RawClient(broker.port) as client:
        client.ask(make(LIMIT - 1), version)  # the most
        ends = broker.store.end_offsets()
        with caplog.at_level(logging.WARNING, "kstore.broker"), pytest.raises(ConnectionError):
            client.ask(make(LIMIT), version)
    assert "the message has too many array elements" in caplog.text
    assert broker.store.end_offsets() == ends
    with RawClient(broker.port) as client:
        client.ask(make(1), version)


@pytest.mark.parametrize(("make", "version"), [(produce, 9), (fetch, 11)])
def test_the_limit_holds_for_requests_of_one_partition(
    tmp_path: Path, make: Any, version: int
) -> None:
    settings = {"kstore.max.request.partitions": 1}
    with kstore.serve(tmp_path, port=0, settings=settings) as broker:
        broker.store.create_topic("t")
        with RawClient(broker.port) as client, pytest.raises(ConnectionError):
            client.ask(make(1), version)
        assert broker.store.end_offsets() == {("t", 0): 0}
