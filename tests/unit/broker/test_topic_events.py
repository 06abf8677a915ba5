"""Changes of topics reach a broker and the store's user of the same process, both ways."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import TopicEvent, TopicEventType
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from support.waiting import until
from support.wire_client import Connection, encode, frame

TOPIC = 2  # the type of a resource
_GONE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0) as broker:
        yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator[Connection]:
    connection = Connection(broker.bootstrap_servers)
    yield connection
    connection.close()


def partitions(client: Connection, topic: str) -> int:
    """How many a client sees; 0 for a topic that does not exist."""
    found = client.ask(
        ApiKey.METADATA, 8, topics=[{"name": topic}], allow_auto_topic_creation=False
    )
    return len(found.topics[0].partitions)


def retention(client: Connection, topic: str) -> str:
    asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 1, resources=[asked]).results
    return str(result.configs[0].value)


def test_a_client_sees_what_the_user_changes(store: kstore.Store, client: Connection) -> None:
    assert partitions(client, "t") == 0
    store.create_topic("t", 2)
    assert partitions(client, "t") == 2
    store.add_partitions("t", 3)
    assert partitions(client, "t") == 3
    store.alter_topic("t", {"retention.ms": 5})
    assert retention(client, "t") == "5"
    store.delete_topic("t")
    assert partitions(client, "t") == 0


def test_the_user_is_told_what_a_client_changes(store: kstore.Store, client: Connection) -> None:
    found: list[TopicEvent] = []
    store.watch(lambda store, event: found.append(event))
    new = {"name": "t", "num_partitions": 2, "replication_factor": 1}
    client.ask(ApiKey.CREATE_TOPICS, 4, topics=[new], timeout_ms=30_000)
    assert found.pop()[:3] == (TopicEventType.CREATED, "t", (0, 1))
    more = {"name": "t", "count": 3, "assignments": None}
    client.ask(ApiKey.CREATE_PARTITIONS, 1, topics=[more], timeout_ms=30_000)
    assert found.pop()[:3] == (TopicEventType.PARTITIONS_ADDED, "t", (2,))
    setting = {"name": "retention.ms", "config_operation": 0, "value": "7"}
    change = {"resource_type": TOPIC, "resource_name": "t", "configs": [setting]}
    client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, resources=[change])
    assert found.pop().config == {"retention.ms": "7"}
    replaced = {"name": "retention.ms", "value": "8"}
    change = {"resource_type": TOPIC, "resource_name": "t", "configs": [replaced]}
    client.ask(ApiKey.ALTER_CONFIGS, 0, resources=[change])
    assert found.pop().config == {"retention.ms": "8"}
    client.ask(ApiKey.DELETE_TOPICS, 3, topic_names=["t"], timeout_ms=30_000)
    assert [event[:2] for event in found] == [(TopicEventType.DELETED, "t")]


def test_a_client_changes_what_a_waiting_consumer_reads(
    store: kstore.Store, client: Connection
) -> None:
    store.create_topic("t")
    with store.consumer("t") as consumer, ThreadPoolExecutor(1) as other:
        polled = other.submit(consumer.poll, timeout=60)
        until(lambda: consumer._waits._waits)
        more = {"name": "t", "count": 2, "assignments": None}
        client.ask(ApiKey.CREATE_PARTITIONS, 1, topics=[more], timeout_ms=30_000)
        store["t"][1].append(b"v")
        assert list(polled.result(60)) == [("t", 1)]


@pytest.mark.parametrize("version", [11, 13])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("by_user", [True, False])
def test_parked_fetches_of_a_deleted_topic_are_answered(
    store: kstore.Store,
    broker: kstore.Broker,
    client: Connection,
    *,
    by_user: bool,
    count: int,
    version: int,
) -> None:
    new = {"name": "t", "num_partitions": count, "replication_factor": 1}
    client.ask(ApiKey.CREATE_TOPICS, 4, topics=[new], timeout_ms=30_000)
    waiting = Connection(broker.bootstrap_servers)
    services = broker._services
    waiting.send(fetch(version, services.metadata.image.topics["t"].topic_id, count))
    until(lambda: services.delayed_fetches.requests > 0)
    if by_user:
        store.delete_topic("t")
    else:
        client.ask(ApiKey.DELETE_TOPICS, 3, topic_names=["t"], timeout_ms=30_000)
    answer = waiting.answer(ApiKey.FETCH, version)  # an hour before max_wait_ms
    waiting.close()
    codes = [each.error_code for found in answer.responses for each in found.partitions]
    assert len(codes) == count
    assert set(codes) & _GONE  # of the first partition that went; the others may still be there
    assert set(codes) <= _GONE | {ErrorCode.NONE}
    assert "t" not in store
    assert partitions(client, "t") == 0


def test_a_change_does_not_wait_for_the_metadata(
    store: kstore.Store, broker: kstore.Broker, client: Connection
) -> None:
    """The thread that has the metadata follows the store, when it is done with its own change."""
    metadata = broker._services.metadata
    with ThreadPoolExecutor(1) as other:
        with metadata._lock:
            other.submit(store.create_topic, "t", 2).result(60)
            other.submit(store.delete_topic, "t").result(60)
            other.submit(store.create_topic, "u").result(60)
            assert "u" not in metadata.image.topics
        assert list(metadata.image.topics) == ["u"]
    assert partitions(client, "u") == 1


def test_only_the_changed_topics_are_read_again(
    store: kstore.Store, broker: kstore.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kstore.cluster import local_image

    store.create_topic("a")
    store.create_topic("b")
    read: list[str] = []
    original = local_image.topic_image

    def counting(store: kstore.Store, name: str, *rest: Any) -> Any:
        read.append(name)
        return original(store, name, *rest)

    monkeypatch.setattr(local_image, "topic_image", counting)
    store.add_partitions("a", 2)
    assert read == ["a"]
    assert len(broker._services.metadata.image.topics["a"].partitions) == 2


def test_an_image_that_fails_is_tried_again(
    store: kstore.Store, broker: kstore.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = broker._services.metadata

    def fail(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr("kstore.cluster.local_metadata.topic_images", fail)
        store.create_topic("a")
        assert "a" in store
        assert "a" not in metadata.image.topics
    store.create_topic("b")
    assert list(metadata.image.topics) == ["a", "b"]


def test_a_stopped_broker_is_told_nothing_more(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0) as broker:
        metadata = broker._services.metadata
    before = metadata.image
    store.create_topic("t")
    assert metadata.image is before
    assert store._manager.changes._listeners == ()


def fetch(version: int, topic_id: bytes, count: int) -> bytes:
    each = {"partition_max_bytes": 1 << 20, "fetch_offset": 0}
    topic: dict[str, Any] = {"partitions": [{"partition": n, **each} for n in range(count)]}
    topic |= {"topic": "t"} if version < 13 else {"topic_id": topic_id}
    values = {"max_wait_ms": 3_600_000, "min_bytes": 1, "max_bytes": 1 << 20, "topics": [topic]}
    return frame(ApiKey.FETCH, version, 0, encode(ApiKey.FETCH, version, values))
