"""Topics without an id, as Kafka before 2.8 created them, are served without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore.cluster.image import ZERO_UUID
from kstore.protocol.messages.create_partitions import CreatePartitionsRequest
from kstore.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.messages.produce import ProduceRequest
from oracle.writer import batch
from support.client_batches import rows
from support.raw_client import RawClient
from support.topics_without_id import ID, assign_id, forget_stamps, make_topic

PARTITION_METADATA = "partition.metadata"


@pytest.fixture(params=[True, False], ids=["stamped", "of Kafka"])
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_topic(tmp_path, 3, 2)
    if not request.param:
        forget_stamps(tmp_path)
    return tmp_path


@pytest.fixture
def client(log_dir: Path) -> Iterator[RawClient]:
    """A client of a broker that serves the directory; its end is a clean stop."""
    with kstore.serve(log_dir, port=0) as broker, RawClient(broker.port) as client:
        yield client
    assert ids_written(log_dir) == []


def ids_written(log_dir: Path) -> list[Path]:
    return sorted(log_dir.glob(f"t-*/{PARTITION_METADATA}*"))


def fetch(client: RawClient, version: int, **topic: object) -> FetchResponse.Responses:
    wanted = FetchRequest.Topics.Partitions(0, fetch_offset=1, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, topics=[FetchRequest.Topics(partitions=[wanted], **topic)]
    )
    [answer] = client.ask(request, version).responses
    return answer


@pytest.mark.parametrize("version", range(10, 14))
def test_its_id_is_zero(client: RawClient, version: int) -> None:
    for topics in (None, [MetadataRequest.Topics(name="t")]):
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        [topic] = client.ask(request, version).topics
        assert (topic.name, topic.topic_id, topic.error_code) == ("t", ZERO_UUID, 0)
        assert [each.partition_index for each in topic.partitions] == [0, 1]


def test_its_id_is_zero_in_descriptions(client: RawClient) -> None:
    wanted = DescribeTopicPartitionsRequest.Topics("t")
    [topic] = client.ask(DescribeTopicPartitionsRequest(topics=[wanted]), 0).topics
    assert (topic.name, topic.topic_id, topic.error_code) == ("t", ZERO_UUID, 0)


@pytest.mark.parametrize("version", [4, 11, 12])
def test_it_is_fetched_by_name(client: RawClient, version: int) -> None:
    answer = fetch(client, version, topic="t")
    [partition] = answer.partitions
    assert (partition.error_code, partition.high_watermark) == (0, 3)
    assert bytes(partition.records)


@pytest.mark.parametrize("version", range(13, 18))
def test_a_fetch_by_the_zero_id_finds_no_topic(client: RawClient, version: int) -> None:
    answer = fetch(client, version, topic_id=ZERO_UUID)
    [partition] = answer.partitions
    assert (answer.topic_id, partition.error_code) == (ZERO_UUID, 100)
    assert not partition.records


def test_a_produce_by_the_zero_id_finds_no_topic(client: RawClient) -> None:
    records = ProduceRequest.TopicData.PartitionData(0, batch(rows(1)))
    topics = [ProduceRequest.TopicData(topic_id=ZERO_UUID, partition_data=[records])]
    [answer] = client.ask(ProduceRequest(acks=1, topic_data=topics), 13).responses
    [partition] = answer.partition_responses
    assert (answer.topic_id, partition.error_code) == (ZERO_UUID, 100)


def test_changing_it_gives_it_no_id(log_dir: Path, client: RawClient) -> None:
    data = ProduceRequest.TopicData(
        "t", partition_data=[ProduceRequest.TopicData.PartitionData(0, batch(rows(1)))]
    )
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data])
    assert client.ask(request, 9).responses[0].partition_responses[0].error_code == 0
    more = CreatePartitionsRequest.Topics("t", 3, assignments=None)
    [result] = client.ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000), 3).results
    assert result.error_code == 44  # only Kafka can extend its topic
    [topic] = client.ask(MetadataRequest(topics=None), 12).topics
    assert (topic.topic_id, len(topic.partitions)) == (ZERO_UUID, 2)
    assert ids_written(log_dir) == []


def test_the_id_that_kafka_gives_it_later_is_served(log_dir: Path) -> None:
    with kstore.serve(log_dir, port=0):
        pass
    assign_id(log_dir)
    with kstore.serve(log_dir, port=0) as broker, RawClient(broker.port) as client:
        [topic] = client.ask(MetadataRequest(topics=None), 12).topics
        assert topic.topic_id == bytes(15) + b"\1"
        [partition] = fetch(client, 13, topic_id=topic.topic_id).partitions
        assert (partition.error_code, partition.high_watermark) == (0, 3)
    assert all(path.read_text().endswith(ID) for path in ids_written(log_dir))
