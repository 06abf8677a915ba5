"""Requests to several brokers, and brokers that stop."""

import gc
import threading
from typing import Any

import pytest

from kstore.errors import KStoreError, SourceError
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kstore.remote.cluster import Cluster
from kstore.remote.connection import ClosedByBrokerError, Connection, UndecodableResponseError
from kstore.remote.offsets import ask_offsets
from kstore.topic_partition import TopicPartition
from support.fake_broker import (
    API_VERSIONS,
    LIST_OFFSETS,
    METADATA,
    close,
    fake_brokers,
    stop,
)

Topics = ListOffsetsResponse.Topics
REQUEST = ListOffsetsRequest(replica_id=-1, topics=[])


def offsets(**by_topic: dict[int, int]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            Topics(name, [Topics.Partitions(partition_index=n, offset=at) for n, at in at_.items()])
            for name, at_ in by_topic.items()
        ]
    )


def test_requests_are_sent_to_all_brokers_before_a_response_is_awaited() -> None:
    with fake_brokers(2) as (first, second), Cluster(first.address) as cluster:
        second_asked = threading.Event()

        def wait(_: Any) -> ListOffsetsResponse:
            assert second_asked.wait(20)
            return offsets(t={0: 1})

        def note(_: Any) -> ListOffsetsResponse:
            second_asked.set()
            return offsets(t={1: 2})

        first.answers[LIST_OFFSETS], second.answers[LIST_OFFSETS] = wait, note
        answers = cluster.ask_each([(1, REQUEST), (2, REQUEST)], ListOffsetsResponse)
        assert answers == [offsets(t={0: 1}), offsets(t={1: 2})]


def test_responses_of_one_broker_come_in_the_order_of_its_requests() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        numbers = iter(range(9))
        broker.answers[LIST_OFFSETS] = lambda _: offsets(t={0: next(numbers)})
        answers = cluster.ask_each([(1, REQUEST)] * 3, ListOffsetsResponse)
        assert answers == [offsets(t={0: n}) for n in range(3)]


def test_an_error_of_one_broker_leaves_the_other_answers() -> None:
    with fake_brokers(3) as (first, second, third), Cluster(first.address) as cluster:
        second.answers[LIST_OFFSETS] = close
        for broker in (first, third):
            broker.answers[LIST_OFFSETS] = lambda _: offsets()
        requests = [(node, REQUEST) for node in (1, 2, 3, 9)]
        answers = cluster.ask_each(requests, ListOffsetsResponse)
        assert answers[0] == answers[2] == offsets()
        assert isinstance(answers[1], ClosedByBrokerError)
        assert isinstance(answers[3], SourceError)
        assert "no broker 9" in str(answers[3])
        second.answers[LIST_OFFSETS] = lambda _: offsets()  # on another connection
        assert cluster.ask_each(requests[:3], ListOffsetsResponse) == [offsets()] * 3


def test_an_unsupported_request_is_an_error_in_its_place_and_the_connection_stays() -> None:
    with fake_brokers(1) as (broker,):
        broker.highest.pop(LIST_OFFSETS)
        with Cluster(broker.address) as cluster:
            (answer,) = cluster.ask_each([(1, REQUEST)], ListOffsetsResponse)
            assert isinstance(answer, KStoreError)
            assert answer.code == 35
            cluster.ask_each([(1, REQUEST)], ListOffsetsResponse)
            assert broker.connections == 2  # with that of the bootstrap server


def test_an_interruption_leaves_no_response_for_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_brokers(2) as brokers, Cluster(brokers[0].address) as cluster:
        for broker in brokers:
            broker.answers[LIST_OFFSETS] = lambda _: offsets(t={0: 1})
        requests = [(1, REQUEST), (2, REQUEST)]
        finish = Connection.finish

        def interrupted(connection: Connection, *arguments: Any) -> Any:
            raise KeyboardInterrupt

        cluster.ask_each(requests, ListOffsetsResponse)
        monkeypatch.setattr(Connection, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.ask_each(requests, ListOffsetsResponse)
        monkeypatch.setattr(Connection, "finish", finish)
        for broker in brokers:
            broker.answers[LIST_OFFSETS] = lambda _: offsets(t={0: 2})
        answers = cluster.ask_each(requests, ListOffsetsResponse)
        assert answers == [offsets(t={0: 2})] * 2


def test_a_known_broker_replaces_the_bootstrap_servers() -> None:
    with fake_brokers(2) as (first, second), Cluster(first.address, timeout=5) as cluster:
        first.answers[METADATA] = close
        stop(first)
        assert list(cluster.metadata(["t"])) == ["t"]
        assert second.of(METADATA)


def test_a_bootstrap_server_that_accepts_connections_and_answers_nothing_is_left() -> None:
    """Its connection is no reason to ask it again and again."""
    with fake_brokers(4) as brokers:
        for broker in brokers[:3]:
            broker.answers[METADATA] = close
        servers = ",".join(each.address for each in brokers)
        with Cluster(servers) as cluster:
            assert [len(each.of(METADATA)) for each in brokers] == [1, 1, 1, 1]
            brokers[3].answers[METADATA] = close
            with pytest.raises(ClosedByBrokerError):
                cluster.metadata([])
            assert [len(each.of(METADATA)) for each in brokers] == [2, 2, 2, 2]


def test_no_connection_is_left_open_by_a_cluster_that_cannot_be_asked(
    recwarn: pytest.WarningsRecorder,
) -> None:
    with fake_brokers(1) as (broker,):
        del broker.highest[METADATA]
        with pytest.raises(KStoreError, match="does not support METADATA"):
            Cluster(broker.address)
        gc.collect()
        assert [each for each in recwarn if each.category is ResourceWarning] == []


def test_a_broker_that_stops_is_not_taken_for_one_before_0_10() -> None:
    """Its Fetch of version 0 would convert batches."""
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[API_VERSIONS] = close
        (answer,) = cluster.ask_each([(1, REQUEST)], ListOffsetsResponse)
        assert isinstance(answer, ClosedByBrokerError)
        assert broker.connections == 2
        assert broker.of(LIST_OFFSETS) == []


def test_brokers_before_0_10_get_version_0() -> None:
    with fake_brokers(1) as (broker,):
        broker.answers[API_VERSIONS] = close
        broker.answers[LIST_OFFSETS] = lambda _: offsets()
        with Cluster(broker.address) as cluster:
            cluster.ask(REQUEST, ListOffsetsResponse, node=1)
            assert [version for version, _ in broker.of(LIST_OFFSETS)] == [0]


def test_a_response_that_cannot_be_decoded_is_not_asked_for_again() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address, timeout=10) as cluster:
        broker.answers[LIST_OFFSETS] = lambda _: b"\xff" * 50
        with pytest.raises(UndecodableResponseError, match=f"{broker.address} to LIST_OFFSETS"):
            cluster.retrying(lambda: cluster.ask(REQUEST, ListOffsetsResponse, node=1), forget=None)
        assert len(broker.of(LIST_OFFSETS)) == 1


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 99_999), ("a\0b", 1), ("a" * 70, 1)])
def test_an_address_that_no_broker_has_is_an_error_of_the_source(host: str, port: int) -> None:
    """A broker chooses what its metadata say."""
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        cluster.learn(5, host, port)
        with pytest.raises(SourceError, match="cannot connect"):
            cluster.ask(REQUEST, ListOffsetsResponse, node=5)


def test_a_large_response_is_received_whole() -> None:
    data = bytes(range(256)) * 20_000
    partition = FetchResponse.Responses.Partitions(partition_index=0, records=data)
    answer = FetchResponse(responses=[FetchResponse.Responses("", bytes(16), [partition])])
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[1] = lambda _: answer
        for _ in range(2):  # the second knows the size of the first
            found = cluster.ask(FetchRequest(), FetchResponse, node=1)
            assert bytes(found.responses[0].partitions[0].records or b"") == data


# --- offsets ------------------------------------------------------------------------------------


def test_a_leader_that_does_not_answer_is_looked_for_again() -> None:
    with fake_brokers(2) as (first, second), Cluster(first.address) as cluster:
        first.answers[LIST_OFFSETS] = lambda _: offsets(t={0: 3})
        second.answers[LIST_OFFSETS] = close
        wanted = [TopicPartition("t", 0), TopicPartition("t", 1)]
        with pytest.raises(ClosedByBrokerError):
            ask_offsets(cluster, wanted, -1)
        second.answers[LIST_OFFSETS] = lambda _: offsets(t={1: 4})
        before = len(first.of(METADATA))
        assert ask_offsets(cluster, wanted, -1) == dict(zip(wanted, (3, 4), strict=True))
        assert len(first.of(METADATA)) == before + 1


def test_offsets_that_were_not_asked_for_are_ignored() -> None:
    with fake_brokers(1) as (broker,), Cluster(broker.address) as cluster:
        broker.answers[LIST_OFFSETS] = lambda _: offsets(t={0: 3, 7: 9}, other={0: 5})
        wanted = TopicPartition("t", 0)
        assert ask_offsets(cluster, [wanted], -1) == {wanted: 3}
