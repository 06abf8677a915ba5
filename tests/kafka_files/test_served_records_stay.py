"""A broker shortens no topic that existed before it: every record here is ten years old when it is
served, under the broker's default retention of seven days."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import BrokerSet
from kstore.protocol.messages.alter_configs import AlterConfigsRequest
from kstore.protocol.messages.create_topics import CreateTopicsRequest
from kstore.protocol.messages.describe_configs import DescribeConfigsRequest
from kstore.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kstore.protocol.messages.list_offsets import ListOffsetsRequest
from support.raw_client import RawClient

TOPIC = 2  # Kafka's type of the resource
TEN_YEARS_MS = 3_653 * 86_400_000
SEVEN_DAYS_MS = 604_800_000
THEN_MS = 1_480_000_000_000
COUNT = 40
EARLIEST, LATEST = -2, -1
LEADER_NOT_AVAILABLE = 5
OTHER = ("max.message.bytes", "5000000")
Before = Callable[[RawClient, list[str]], None]
Offsets = dict[tuple[str, int], int]
Ends = dict[tuple[str, int], tuple[int, int]]


def nothing(_client: RawClient, _topics: list[str]) -> None:
    """Settings stay as they are."""


def alter_another_key(client: RawClient, topics: list[str]) -> None:
    """AlterConfigs, which also resets what it does not name."""
    request = AlterConfigsRequest(
        [
            AlterConfigsRequest.Resources(
                TOPIC, name, [AlterConfigsRequest.Resources.Configs(*OTHER)]
            )
            for name in topics
        ]
    )
    for version in range(3):
        assert {each.error_code for each in client.ask(request, version).responses} == {0}


def alter_another_key_incrementally(client: RawClient, topics: list[str]) -> None:
    kind = IncrementalAlterConfigsRequest.Resources
    key, value = OTHER
    request = IncrementalAlterConfigsRequest(
        [kind(TOPIC, name, [kind.Configs(key, 0, value)]) for name in topics]
    )
    for version in range(2):
        assert {each.error_code for each in client.ask(request, version).responses} == {0}


BEFORE = pytest.mark.parametrize(
    "before", [nothing, alter_another_key, alter_another_key_incrementally]
)


def pass_ten_years(monkeypatch: pytest.MonkeyPatch, since_ms: int) -> None:
    monkeypatch.setattr("kstore.clock.time_ns", lambda: (since_ms + TEN_YEARS_MS) * 1_000_000)


def offsets(client: RawClient, topics: list[ListOffsetsRequest.Topics]) -> Offsets:
    """What ListOffsets answers; asked again while logs are being opened, as a client does."""
    codes = {LEADER_NOT_AVAILABLE}
    while LEADER_NOT_AVAILABLE in codes:
        answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 5)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    assert codes == {0}
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
    }


def ends_of(client: RawClient, partitions: list[tuple[str, int]]) -> Ends:
    """The earliest and the latest offset of partitions, as a client sees them."""
    kind = ListOffsetsRequest.Topics
    earliest, latest = (
        offsets(client, [kind(name, [kind.Partitions(n, timestamp=at)]) for name, n in partitions])
        for at in (EARLIEST, LATEST)
    )
    return {key: (earliest[key], latest[key]) for key in partitions}


def settings_of(client: RawClient, topic: str) -> dict[str, str]:
    kind = DescribeConfigsRequest.Resources
    request = DescribeConfigsRequest([kind(TOPIC, topic, None)])
    [result] = client.ask(request, 4).results
    return {each.name: each.value for each in result.configs}


def serve(log_dir: Path, before: Before, partitions: list[tuple[str, int]]) -> Ends:
    """The offsets after retention and compaction ran in a broker, started twice."""
    topics = sorted({name for name, _ in partitions})
    for _ in range(2):
        with kstore.serve(log_dir, port=0) as broker, RawClient(broker.port) as client:
            before(client, topics)
            assert settings_of(client, topics[0])["retention.ms"] == "-1"
            broker.store.apply_retention()
            for name, number in partitions:  # by the settings of each log too
                broker.store[name][number].apply_retention()
            broker.store.compact()
            found = ends_of(client, partitions)
    return found


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a topic of an embedded user, in many segments."""
    log_dir = tmp_path / "embedded"
    with kstore.open(log_dir) as store:
        log = store.create_topic("old", config={"segment.bytes": "300"})[0]
        for number in range(COUNT):
            log.append(b"%020d" % number, key=b"k", timestamp=THEN_MS + number)
    pass_ten_years(monkeypatch, THEN_MS)
    return log_dir


@BEFORE
def test_an_embedded_topic(embedded: Path, before: Before) -> None:
    assert serve(embedded, before, [("old", 0)]) == {("old", 0): (0, COUNT)}
    with kstore.open(embedded, "r") as store:
        assert [record.offset for record in store["old"][0]] == list(range(COUNT))


def test_a_topic_of_the_broker_is_shortened(embedded: Path) -> None:
    """Without which the other tests would say nothing."""
    with kstore.serve(embedded, port=0) as broker, RawClient(broker.port) as client:
        topics = [CreateTopicsRequest.Topics("new", 1, 1)]
        [created] = client.ask(CreateTopicsRequest(topics, timeout_ms=10_000), 7).topics
        assert created.error_code == 0
        assert settings_of(client, "new")["retention.ms"] == str(SEVEN_DAYS_MS)
        broker.store["new"][0].append(b"as old as the others", timestamp=THEN_MS)
        broker.store.apply_retention()
        found = ends_of(client, [("new", 0), ("old", 0)])
    assert found == {("new", 0): (1, 1), ("old", 0): (0, COUNT)}


@pytest.fixture
def of_kafka(broker_set: BrokerSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that a Kafka broker wrote."""
    log_dir = tmp_path / "kafka"
    shutil.copytree(broker_set.log_dir, log_dir)
    stamps = [record.timestamp for each in broker_set.partitions for record in each.records]
    pass_ten_years(monkeypatch, max(stamps))
    return log_dir


@BEFORE
def test_topics_of_kafka(broker_set: BrokerSet, of_kafka: Path, before: Before) -> None:
    # Coordinators write to the internal topics: committed offsets expire.
    partitions = [each for each in broker_set.partitions if not each.topic.startswith("__")]
    found = serve(of_kafka, before, [(each.topic, each.partition) for each in partitions])
    expected = {
        (each.topic, each.partition): (each.beginning_offset, each.end_offset)
        for each in partitions
    }
    assert found == expected
    with kstore.open(of_kafka, "r") as store:
        for each in partitions:
            offsets = [record.offset for record in store[each.topic][each.partition]]
            assert offsets == [record.offset for record in each.records], each.name
