"""Metadata, from the bytes of requests; Kafka's answers were recorded from 3.9.2.

Where kstore differs: 5 instead of 3 for a topic that is being created (old clients know 5 as an
answer that precedes the first record, and KafkaJS does not retry after 3), partitions in order
(Kafka's hash order has no meaning), and 42 instead of -1 for neither name nor id.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kstore.broker.handlers.metadata import MetadataHandlers
from kstore.errors import InvalidTopicError, LogDirOfflineError
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from support.broker_requests import Client, cluster_image, topic_image

Topics = MetadataRequest.Topics
A_ID = (7).to_bytes(16, "big")
ORDERS = topic_image("orders", 3, number=7)
EVENTS = topic_image("events", 1)
UNSET = -2147483648


class Metadata:
    """The port, with an image that ``create_topic`` changes."""

    def __init__(self, *topics: Any) -> None:
        self.image = cluster_image(*topics)
        self.created: list[str] = []
        self.error: Exception | None = None

    def create_topic(self, name: str) -> Any:
        if self.error is not None:
            raise self.error
        self.created.append(name)
        self.image = cluster_image(*self.image.topics.values(), topic_image(name))
        return self.image.topics[name]


def client(*topics: Any, **options: Any) -> Client:
    return Client(MetadataHandlers, metadata=Metadata(*(topics or (ORDERS, EVENTS))), **options)


def names(response: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


def asking(*wanted: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest([Topics(name=name) for name in wanted], **fields)


@pytest.mark.parametrize("version", range(14))
def test_every_version_names_brokers_and_partitions(version: int) -> None:
    response = client().ask(asking("orders"), version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "broker.test", 9092)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("a-cluster" if version >= 2 else None)
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("orders", 0, False)
    assert topic.topic_id == (A_ID if version >= 10 else bytes(16))
    assert [each.partition_index for each in topic.partitions] == [0, 1, 2]
    assert {each.leader_id for each in topic.partitions} == {1}
    assert {each.leader_epoch for each in topic.partitions} == {0 if version >= 7 else -1}
    assert topic.partitions[2].replica_nodes == topic.partitions[2].isr_nodes == [1]
    assert topic.topic_authorized_operations == UNSET


def test_an_empty_list_is_every_topic_in_version_0_and_none_later() -> None:
    assert names(client().ask(asking(), 0)) == [("orders", 0), ("events", 0)]
    for version in range(1, 14):
        assert names(client().ask(asking(), version)) == []
        assert names(client().ask(MetadataRequest(None), version)) == [("orders", 0), ("events", 0)]


def test_brokers_have_the_address_of_the_listener_that_was_asked() -> None:
    response = client(listener="OTHER").ask(asking("orders"), 12)
    assert [(each.host, each.port) for each in response.brokers] == [("other.test", 9093)]


@pytest.mark.parametrize(("version", "error"), [(5, 5), (6, 72), (12, 72)])
def test_a_leader_without_the_listener_is_an_error(version: int, error: int) -> None:
    response = client(listener="INTERNAL").ask(asking("events"), version)
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, response.brokers) == (error, -1, [])
    assert partition.replica_nodes == [1]


def test_a_partition_without_a_leader_has_error_5() -> None:
    partition = replace(EVENTS.partitions[0], leader=-1, offline_replicas=(1,))
    topic = replace(EVENTS, partitions={0: partition})
    for version in (1, 5, 6, 12):
        (found,) = client(topic).ask(asking("events"), version).topics[0].partitions
        assert (found.error_code, found.leader_id) == (5, -1)
        assert found.offline_replicas == ([1] if version >= 5 else [])


def test_unknown_and_invalid_names_come_last_and_once() -> None:
    asked = asking("nope", "orders", "bad name", "", "orders", allow_auto_topic_creation=False)
    assert names(client().ask(asked, 12)) == [
        ("orders", 0),
        ("nope", 3),
        ("bad name", 17),
        ("", 17),
    ]


def test_authorized_operations_only_where_asked() -> None:
    for version in range(8, 14):
        response = client().ask(asking("orders", include_topic_authorized_operations=True), version)
        assert response.topics[0].topic_authorized_operations == 3576  # Kafka's, without ACLs
        assert response.cluster_authorized_operations == UNSET
    for version in (8, 9, 10):
        asked = asking("orders", include_cluster_authorized_operations=True)
        response = client().ask(asked, version)
        assert response.cluster_authorized_operations == 8096
        assert response.topics[0].topic_authorized_operations == UNSET


# --- by id ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(version: int) -> None:
    """Unknown ids come first with error 100; the name beside an id is ignored, and so are names
    in a request that has an id."""
    other = b"\x09" * 16
    wanted = [Topics(A_ID, None), Topics(other, "orders"), Topics(name="events")]
    response = client().ask(MetadataRequest(wanted), version)
    assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [
        (None, other, 100),
        ("orders", A_ID, 0),
    ]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", [None, "orders"])
def test_ids_are_refused_before_version_12(version: int, name: str | None) -> None:
    wanted = [Topics(A_ID, name), Topics(name="events")]
    response = client().ask(MetadataRequest(wanted), version)
    assert names(response) == [(name or "", 42), ("events", 42)]
    assert (response.brokers, response.cluster_id, response.controller_id) == ([], None, -1)


def test_neither_name_nor_id_is_refused() -> None:
    assert names(client().ask(MetadataRequest([Topics(name=None)]), 12)) == [("", 42)]


# --- created automatically ------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
def test_an_unknown_topic_is_created_and_the_first_answer_is_5(version: int) -> None:
    asker = client()
    assert names(asker.ask(asking("new"), version)) == [("new", 5)]
    assert names(asker.ask(asking("new"), version)) == [("new", 5)]
    assert asker.metadata.created == []  # on the disk workers, in no request's way
    asker.workers.run()
    assert asker.metadata.created == ["new"]
    assert names(asker.ask(asking("new"), version)) == [("new", 0)]


def test_no_topic_is_created_where_the_client_or_the_broker_does_not_want_it() -> None:
    asker = client()
    assert names(asker.ask(asking("new", allow_auto_topic_creation=False), 4)) == [("new", 3)]
    assert names(asker.ask(asking("__consumer_offsets", "bad name"), 4)) == [
        ("__consumer_offsets", 3),
        ("bad name", 17),
    ]
    assert not asker.workers.waiting
    asker = client(settings={"auto.create.topics.enable": "false"})
    for version in (0, 4, 13):
        assert names(asker.ask(asking("new"), version)) == [("new", 3)]
    assert not asker.workers.waiting


def test_no_topic_is_created_while_a_log_directory_is_offline() -> None:
    offline = SimpleNamespace(offline=LogDirOfflineError("a disk is gone"))
    store = SimpleNamespace(log_dirs=(SimpleNamespace(offline=None), offline))
    asker = client(store=store)
    assert names(asker.ask(asking("new"), 12)) == [("new", 5)]
    asker.workers.run()
    assert names(asker.ask(asking("new"), 12)) == [("new", 5)]
    assert asker.metadata.created == []
    offline.offline = None
    asker.workers.run()
    assert names(asker.ask(asking("new"), 12)) == [("new", 0)]


def test_why_a_topic_was_not_created_is_the_next_answer() -> None:
    asker = client()
    asker.metadata.error = InvalidTopicError("Topic 'a.b' collides with existing topic: a_b")
    assert names(asker.ask(asking("a.b"), 12)) == [("a.b", 5)]
    asker.workers.run()
    assert names(asker.ask(asking("a.b"), 12)) == [("a.b", 17)]
    asker.metadata.error = None
    assert names(asker.ask(asking("a.b"), 12)) == [("a.b", 5)]  # tried again
    asker.workers.run()
    assert names(asker.ask(asking("a.b"), 12)) == [("a.b", 0)]
