"""ElectLeaders and reassignments, from bytes; the answers are those of Kafka 3.9.2."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kstore.broker.handlers.elections import ElectionHandlers
from kstore.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kstore.protocol.messages.elect_leaders import ElectLeadersRequest
from kstore.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from support.broker_requests import Client, cluster_image, topic_image

Wanted = ElectLeadersRequest.TopicPartitions
Topic = AlterPartitionReassignmentsRequest.Topics
Partition = Topic.Partitions
NOT_NEEDED = (84, "Leader election not needed for topic partition.")


def client(*topics: Any) -> Client:
    image = cluster_image(*(topics or (topic_image("a", 2),)))
    return Client(ElectionHandlers, metadata=SimpleNamespace(image=image))


def elect(asker: Client, version: int, *wanted: Wanted, **fields: Any) -> tuple[int, Any]:
    response = asker.ask(ElectLeadersRequest(topic_partitions=list(wanted), **fields), version)
    return response.error_code, results(response)


def results(response: Any) -> list[tuple[str, list[tuple[int, int, str | None]]]]:
    return [
        (
            each.topic,
            [(p.partition_id, p.error_code, p.error_message) for p in each.partition_result],
        )
        for each in response.replica_election_results
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("election_type", [0, 1])
def test_no_election_is_needed(version: int, election_type: int) -> None:
    wanted = Wanted("a", [0, 0, 9]), Wanted("nope", [0])
    fields = {"election_type": election_type} if version else {}
    assert elect(client(), version, *wanted, **fields) == (
        0,
        [
            ("a", [(0, *NOT_NEEDED), (0, *NOT_NEEDED), (9, 3, "No such partition as a-9")]),
            ("nope", [(0, 3, "No such topic as nope")]),
        ],
    )


def test_an_election_of_all_omits_partitions_that_need_none() -> None:
    """Each topic, without the partitions that need no election."""
    response = client().ask(ElectLeadersRequest(topic_partitions=None), 2)
    assert (response.error_code, results(response)) == (0, [("a", [])])
    topic = topic_image("a", 2)
    partitions = {**topic.partitions, 1: replace(topic.partitions[1], leader=-1)}
    asker = client(replace(topic, partitions=partitions))
    for election_type, error in ((0, 80), (1, 83)):
        asked = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
        ((name, ((number, code, _),)),) = results(asker.ask(asked, 2))
        assert (name, number, code) == ("a", 1, error)


def test_requests_that_are_refused_completely() -> None:
    wanted = Wanted("a", [0])
    assert elect(client(), 2, wanted, election_type=5) == (
        42,
        [("a", [(0, 42, "Unknown election type 5")])],
    )
    assert elect(client(), 2, wanted, timeout_ms=0) == (7, [("a", [(0, 7, None)])])
    assert elect(client(), 2) == (0, [])


def alter(*topics: Topic, **fields: Any) -> tuple[int, Any]:
    asked = AlterPartitionReassignmentsRequest(topics=list(topics), **fields)
    response = client().ask(asked, 0)
    return response.error_code, [
        (topic.name, [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions])
        for topic in response.responses
    ]


def test_reassignments_to_other_brokers_are_refused() -> None:
    includes = "The manual partition assignment includes"
    wanted = [
        Partition(0, [1]), Partition(0, None), Partition(1, []), Partition(1, [9]),
        Partition(1, [1, 1]), Partition(1, [1, 9]), Partition(1, [-1]), Partition(9, [1]),
    ]  # fmt: skip
    assert alter(Topic("a", wanted), Topic("nope", [Partition(0, None)])) == (
        0,
        [
            (
                "a",
                [
                    (0, 0, None),
                    (0, 85, None),
                    (1, 39, f"{includes} an empty replica list."),
                    (1, 39, f"{includes} broker 9, but no such broker is registered."),
                    (1, 39, f"{includes} the broker 1 more than once."),
                    (1, 39, f"{includes} broker 9, but no such broker is registered."),
                    (1, 39, f"{includes} broker -1, but no such broker is registered."),
                    (9, 3, "Unable to find partition a:9."),
                ],
            ),
            ("nope", [(0, 3, "Unable to find a topic named nope.")]),
        ],
    )
    assert alter(Topic("a", [Partition(0, [1])]), timeout_ms=0) == (7, [("a", [(0, 7, None)])])
    assert alter() == (0, [])


def test_no_reassignment_is_in_progress() -> None:
    of_a = ListPartitionReassignmentsRequest.Topics("a", [0, 9])
    for topics in (None, [], [of_a]):
        response = client().ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])
