"""Fetches of many partitions from leaders of several versions."""

from typing import Any

import pytest

from kstore.errors import SourceError
from kstore.protocol.messages.fetch import FetchResponse
from kstore.remote.cluster import Cluster
from kstore.remote.connection import UndecodableResponseError
from kstore.remote.fetches import Fetched, Position, TopicLeaders, fetch_partitions
from support.fake_broker import API_VERSIONS, FETCH, close, fake_brokers

Responses = FetchResponse.Responses
ID, OTHER = b"i" * 16, b"o" * 16


def response(*numbers: int, topic: str = "t", topic_id: bytes = ID) -> FetchResponse:
    partitions = [
        Responses.Partitions(partition_index=n, high_watermark=n + 10, records=b"data %d" % n)
        for n in numbers
    ]
    return FetchResponse(responses=[Responses(topic, topic_id, partitions)])


def fetch(
    cluster: Cluster, leaders: dict[int, int], topic_id: bytes = ID, **options: Any
) -> dict[int, Fetched]:
    positions = options.pop("positions", {n: Position(0) for n in leaders})
    options = {"max_wait_ms": 0, "max_bytes": 1000, "partition_max_bytes": 400, **options}
    return fetch_partitions(cluster, TopicLeaders("t", topic_id, leaders), positions, **options)


def test_each_leader_is_asked_for_its_partitions() -> None:
    with fake_brokers(2) as (first, second), Cluster(first.address) as cluster:
        first.answers[FETCH] = lambda _: response(0, 2)
        second.answers[FETCH] = lambda _: response(1)
        found = fetch(cluster, {0: 1, 1: 2, 2: 1, 3: -1})
        assert {n: bytes(each.records) for n, each in found.items()} == {
            0: b"data 0", 1: b"data 1", 2: b"data 2"
        }  # fmt: skip
        assert found[1].high_watermark == 11
        ((version, request),) = first.of(FETCH)
        assert version == 17
        assert [each.partition for each in request.topics[0].partitions] == [0, 2]
        assert request.topics[0].topic_id == ID


def test_a_topic_without_id_is_fetched_by_its_name() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[FETCH] = lambda _: response(0)
        assert list(fetch(cluster, {0: 1}, bytes(16))) == [0]
        ((version, request),) = broker.of(FETCH)
        assert (version, request.topics[0].topic) == (12, "t")


@pytest.mark.parametrize(("highest", "expected"), [(2, 250), (3, 400)])
def test_partitions_share_the_limit_that_an_old_response_does_not_have(
    highest: int, expected: int
) -> None:
    with fake_brokers(1) as (broker,):
        broker.highest[FETCH] = highest
        broker.answers[FETCH] = lambda _: response(0, 1, 2, 3)
        with Cluster(broker.address) as cluster:
            assert len(fetch(cluster, dict.fromkeys(range(4), 1), bytes(16))) == 4
            ((version, request),) = broker.of(FETCH)
            assert version == highest
            sizes = {each.partition_max_bytes for each in request.topics[0].partitions}
            assert sizes == {expected}


def test_committed_positions_do_not_wait() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[FETCH] = lambda request: response(request.topics[0].partitions[0].partition)
        positions = {0: Position(5, 3), 1: Position(6, committed=True)}
        assert len(fetch(cluster, {0: 1, 1: 1}, positions=positions, max_wait_ms=7)) == 2
        asked = [(each.isolation_level, each.max_wait_ms) for _, each in broker.of(FETCH)]
        assert asked == [(1, 0), (0, 7)]
        (partition,) = broker.of(FETCH)[1][1].topics[0].partitions
        assert (partition.fetch_offset, partition.last_fetched_epoch) == (5, 3)


@pytest.mark.parametrize("highest", [12, 13])
def test_a_response_about_another_topic_is_refused(highest: int) -> None:
    with fake_brokers(1) as (broker,):
        broker.highest[FETCH] = highest
        broker.answers[FETCH] = lambda _: response(0, topic="u", topic_id=OTHER)
        with (
            Cluster(broker.address) as cluster,
            pytest.raises(UndecodableResponseError, match="not about topic 't'"),
        ):
            fetch(cluster, {0: 1})


def test_partitions_that_were_not_asked_for_are_ignored() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[FETCH] = lambda _: response(0, 7)
        assert list(fetch(cluster, {0: 1})) == [0]


def test_an_error_of_the_whole_response_is_of_every_partition() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[FETCH] = lambda _: FetchResponse(error_code=71)
        assert {n: each.error for n, each in fetch(cluster, {0: 1, 1: 1}).items()} == {0: 71, 1: 71}


@pytest.mark.parametrize("api_key", [FETCH, API_VERSIONS])
def test_a_leader_that_does_not_answer_is_left_out(api_key: int) -> None:
    with fake_brokers(2) as (first, second), Cluster(first.address) as cluster:
        first.answers[FETCH] = lambda _: response(0)
        second.answers[api_key] = close
        assert list(fetch(cluster, {0: 1, 1: 2})) == [0]


def test_garbage_is_an_error() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[FETCH] = lambda _: b"\xff" * 40
        with pytest.raises(SourceError, match="cannot decode"):
            fetch(cluster, {0: 1})
