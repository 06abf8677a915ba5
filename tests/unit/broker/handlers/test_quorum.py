"""DescribeQuorum, from bytes; compared with Kafka 3.9.2.

Where kstore differs: it has no metadata log, so offsets are versions of the cluster image, and the
node's listener is the one that was asked (Kafka names its controller's, which clients cannot use).
"""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from kstore.broker.handlers.quorum import QuorumHandlers
from kstore.protocol.messages.describe_quorum import DescribeQuorumRequest
from support.broker_requests import Client, cluster_image

Topics = DescribeQuorumRequest.Topics


def ask(version: int, *wanted: tuple[str, list[int]]) -> Any:
    metadata = SimpleNamespace(image=cluster_image(version=12))
    topics = [Topics(name, list(map(Topics.Partitions, numbers))) for name, numbers in wanted]
    asker = Client(QuorumHandlers, metadata=metadata)
    return asker.ask(DescribeQuorumRequest(topics), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_broker_is_the_only_voter_of_its_quorum(version: int) -> None:
    before = time.time_ns() // 1_000_000
    response = ask(version, ("__cluster_metadata", [0]))
    ((topic,), (partition,)) = response.topics, response.topics[0].partitions
    assert (topic.topic_name, partition.partition_index) == ("__cluster_metadata", 0)
    assert (response.error_code, partition.error_code, partition.error_message) == (0, 0, "")
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 12)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, 12)
    assert partition.observers == []
    if version >= 1:
        now = time.time_ns() // 1_000_000
        assert before <= voter.last_fetch_timestamp == voter.last_caught_up_timestamp <= now
    if version >= 2:
        (node,) = response.nodes
        assert [(each.host, each.port) for each in node.listeners] == [("broker.test", 9092)]


@pytest.mark.parametrize(
    "wanted",
    [
        [("__cluster_metadata", [1])],
        [("x", [0])],
        [("__cluster_metadata", [0]), ("x", [0])],
        [("__cluster_metadata", [0, 1])],
    ],
)
def test_any_other_partition_is_unknown(wanted: list[tuple[str, list[int]]]) -> None:
    response = ask(2, *wanted)
    assert response.error_code == 0
    assert [
        (topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ] == [(name, [(number, 3) for number in numbers]) for name, numbers in wanted]
    assert response.nodes == []


def test_a_request_without_partitions_gets_none() -> None:
    assert ask(2).topics == []
    assert ask(2, ("__cluster_metadata", [])).topics[0].partitions == []
