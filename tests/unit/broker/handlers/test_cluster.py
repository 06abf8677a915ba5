"""DescribeCluster and DescribeTopicPartitions, from bytes; the answers are those of Kafka 3.9.2.

Where kstore differs: version 0 of DescribeCluster has no endpoint type to be wrong.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from kstore.broker.handlers.cluster import ClusterHandlers
from kstore.protocol.messages.describe_cluster import DescribeClusterRequest
from kstore.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from support.broker_requests import Client, cluster_image, topic_image

Cursor = DescribeTopicPartitionsRequest.Cursor
Topics = DescribeTopicPartitionsRequest.Topics
UNSET = -2147483648


def client(**options: Any) -> Client:
    image = cluster_image(topic_image("b", 1), topic_image("a", 3, number=7), topic_image("c", 2))
    return Client(ClusterHandlers, metadata=SimpleNamespace(image=image), **options)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described_in_every_version(version: int) -> None:
    response = client().ask(DescribeClusterRequest(), version)
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, "broker.test", 9092)
    assert (broker.rack, broker.is_fenced) == (None, False)
    assert (response.cluster_id, response.controller_id) == ("a-cluster", 1)
    assert (response.error_code, response.error_message, response.endpoint_type) == (0, None, 1)
    assert response.cluster_authorized_operations == UNSET
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert client().ask(asked, version).cluster_authorized_operations == 8096


def test_brokers_of_the_listener_that_was_asked() -> None:
    response = client(listener="OTHER").ask(DescribeClusterRequest(), 1)
    assert [each.port for each in response.brokers] == [9093]


@pytest.mark.parametrize(
    ("endpoint_type", "error", "message"),
    [
        (
            2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        ),
        (7, 115, "Unsupported endpoint type 7"),
    ],
)  # fmt: skip
def test_another_type_of_endpoint_is_refused(endpoint_type: int, error: int, message: str) -> None:
    response = client().ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (response.error_code, response.error_message) == (error, message)
    assert (response.cluster_id, response.controller_id, response.brokers) == ("", -1, [])


def pages(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None, **options: Any
) -> tuple[dict[str, tuple[int, list[int]]], tuple[str, int] | None]:
    """Error and partitions of each topic of a page, and where the next one begins."""
    asked = DescribeTopicPartitionsRequest(
        list(map(Topics, names)), limit, None if cursor is None else Cursor(*cursor)
    )
    response = client(**options).ask(asked, 0)
    following = response.next_cursor
    found = {
        topic.name: (topic.error_code, [each.partition_index for each in topic.partitions])
        for topic in response.topics
    }
    assert list(found) == sorted(found)
    return found, following and (following.topic_name, following.partition_index)


ALL = {"a": (0, [0, 1, 2]), "b": (0, [0]), "c": (0, [0, 1])}


def test_all_topics_by_name() -> None:
    assert pages() == (ALL, None)
    assert pages("c", "a", "a") == ({"a": ALL["a"], "c": ALL["c"]}, None)


def test_unknown_and_invalid_topics_get_their_errors() -> None:
    assert pages("b", "nope", "bad name") == (
        {"b": (0, [0]), "bad name": (17, []), "nope": (3, [])},
        None,
    )


def test_pages_continue_at_the_cursor_up_to_the_limit() -> None:
    assert pages(limit=2) == ({"a": (0, [0, 1])}, ("a", 2))
    assert pages(limit=2, cursor=("a", 2)) == ({"a": (0, [2]), "b": (0, [0])}, ("c", 0))
    assert pages(limit=2, cursor=("c", 0)) == ({"c": (0, [0, 1])}, None)
    assert pages("a", "b", limit=3) == ({"a": (0, [0, 1, 2])}, ("b", 0))
    assert pages("a", "b", limit=4) == ({"a": (0, [0, 1, 2]), "b": (0, [0])}, None)
    assert pages("a", "nope", limit=3) == ({"a": (0, [0, 1, 2])}, ("nope", 0))
    assert pages("a", limit=0) == ({"a": (0, [0])}, ("a", 1))
    assert pages("a", cursor=("a", 7)) == ({"a": (0, [])}, None)
    assert pages(limit=1, cursor=("aa", 1)) == ({"b": (0, [0])}, ("c", 0))


def test_the_broker_has_a_limit_of_its_own() -> None:
    settings = {"max.request.partition.size.limit": "2"}
    assert pages(settings=settings) == ({"a": (0, [0, 1])}, ("a", 2))


def test_cursors_that_are_refused() -> None:
    assert pages("a", cursor=("b", 0)) == ({"a": (42, [])}, None)
    assert pages("a", cursor=("a", -1)) == ({"a": (42, [])}, None)


def test_a_partition_as_kafka_describes_it() -> None:
    response = client().ask(DescribeTopicPartitionsRequest([Topics("a")]), 0)
    (topic,) = response.topics
    assert (topic.topic_id, topic.is_internal) == ((7).to_bytes(16, "big"), False)
    assert topic.topic_authorized_operations == 3576  # always: the request does not ask
    partition = topic.partitions[1]
    assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (1, 0, 0)
    assert partition.replica_nodes == partition.isr_nodes == [1]
    assert partition.eligible_leader_replicas == partition.last_known_elr == []
    assert partition.offline_replicas == []


def test_a_leader_without_the_listener_is_an_error() -> None:
    asked = DescribeTopicPartitionsRequest([Topics("b")])
    (partition,) = client(listener="INTERNAL").ask(asked, 0).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (72, -1)
