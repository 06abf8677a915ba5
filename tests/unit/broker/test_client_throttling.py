"""Quotas over sockets, by a clock that the tests move: answered with the time, then muted."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kstore
from kstore.broker.broker import Broker
from kstore.broker.client_throttling import ClientThrottling
from kstore.broker.loop import Loop
from kstore.cluster.client_quotas import ClientQuotas, entity_of
from kstore.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kstore.protocol.messages.create_partitions import CreatePartitionsRequest
from kstore.protocol.messages.create_topics import CreateTopicsRequest
from kstore.protocol.messages.delete_topics import DeleteTopicsRequest
from kstore.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.messages.produce import ProduceRequest
from kstore.record.builder import BatchBuilder
from kstore.security.principal import ANONYMOUS
from support.clock import Clock
from support.raw_client import RawClient

BY_FRAME = {0, 1, 24, 26}  # Produce, Fetch, AddPartitionsToTxn, EndTxn
VALUE = 10_000  # bytes of a record


class Served:
    def __init__(self, broker: Broker, clock: Clock) -> None:
        self.broker = broker
        self._clock = clock

    def client(self, client_id: str = "c") -> RawClient:
        return RawClient(self.broker.port, client_id)

    def advance(self, seconds: float) -> None:
        self._clock.now += seconds
        self.broker._loop.call_soon_threadsafe(lambda: None)

    def limit(self, key: str, value: float | None, **names: str | None) -> None:
        """Set a quota by a client that none limits."""
        entry = AlterClientQuotasRequest.Entries
        request = AlterClientQuotasRequest(
            entries=[
                entry(
                    [entry.Entity(kind.replace("_", "-"), name) for kind, name in names.items()],
                    [entry.Ops(key, value or 0.0, value is None)],
                )
            ]
        )
        with self.client("admin") as client:
            [answer] = client.ask(request, 1).entries
        assert (answer.error_code, answer.error_message) == (0, None)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    clock = Clock()
    monkeypatch.setattr("kstore.broker.loop.monotonic", clock)
    monkeypatch.setattr(Loop, "time", staticmethod(clock))
    idle = {"connections.max.idle.ms": -1}  # minutes pass here
    with kstore.serve(tmp_path / "data", port=0, settings=idle) as broker:
        broker.store.create_topic("orders")
        yield Served(broker, clock)


def produce(acks: int = 1) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(os.urandom(VALUE), timestamp=1_700_000_000_000)
    data = ProduceRequest.TopicData
    partition = data.PartitionData(index=0, records=builder.build())
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[data(name="orders", partition_data=[partition])]
    )


def fetch(offset: int = 0) -> FetchRequest:
    topic = FetchRequest.Topics
    partition = topic.Partitions(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
        topics=[topic(topic="orders", partitions=[partition])],
    )  # fmt: skip


def is_silent(client: RawClient) -> bool:
    """Whether no byte has come, after the broker has answered another client."""
    client._socket.setblocking(False)
    try:
        return not client._socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        client._socket.settimeout(60)


def test_a_producer_sends_as_many_bytes_a_second_as_its_quota(served: Served) -> None:
    limit = 20_000
    served.limit("producer_byte_rate", limit, client_id="c")
    sent = waited = 0.0
    with served.client() as client:
        for number in range(100):
            answer = client.ask(produce(), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            sent += VALUE + 100
            waited += answer.throttle_time_ms / 1000
            if number < 15:
                assert answer.throttle_time_ms == 0  # the burst of ten seconds
            served.advance(answer.throttle_time_ms / 1000)
    assert sent / limit * 0.75 < waited < sent / limit * 1.1
    assert served.broker.store["orders"][0].end_offset == 100


def test_the_connection_is_muted_and_others_are_not(served: Served) -> None:
    served.limit("producer_byte_rate", 10, client_id="c")
    with served.client() as client, served.client("other") as other:
        answer = client.ask(produce(), 9)
        assert answer.throttle_time_ms > 900_000
        client.send(MetadataRequest(topics=[]), 1)
        assert other.ask(produce(), 9).throttle_time_ms == 0
        assert is_silent(client)
        served.advance(answer.throttle_time_ms / 1000 - 1)
        other.ask(MetadataRequest(topics=[]), 1)
        other.ask(MetadataRequest(topics=[]), 1)
        assert is_silent(client)
        served.advance(1.1)
        assert client.receive(3, 1).brokers


def test_what_a_client_has_sent_before_it_left_is_appended(served: Served) -> None:
    served.limit("producer_byte_rate", 900, client_id="c")
    log = served.broker.store["orders"][0]
    with served.client() as client, served.client("other") as other:
        topics = [MetadataRequest.Topics(name="orders")]
        other.ask(MetadataRequest(topics=topics), 1)  # from now on the loop appends by itself
        for _ in range(3):
            client.send(produce(acks=0), 9)
        other.ask(MetadataRequest(topics=[]), 1)
        other.ask(MetadataRequest(topics=[]), 1)
        assert log.end_offset == 1  # the second waits, though nothing is answered
    with served.client("other") as other:
        for _ in range(100):
            served.advance(10)
            other.ask(MetadataRequest(topics=[]), 1)
    assert log.end_offset == 3


def test_a_client_that_left_while_muted_counts_as_idle(served: Served) -> None:
    served.limit("producer_byte_rate", 1, client_id="c")
    with served.client() as staying, served.client("other") as other:
        assert staying.ask(produce(), 9).throttle_time_ms > 9_000_000
        with served.client() as leaving:
            assert leaving.ask(produce(), 9).throttle_time_ms > 9_000_000
        for _ in range(2):  # the loop has seen that it left
            other.ask(MetadataRequest(topics=[]), 1)
        listeners = served.broker._listeners
        assert listeners is not None
        assert [each.is_waiting for each in listeners.connections()].count(True) == 1
        assert is_silent(staying)


def test_a_consumer_gets_as_many_bytes_a_second_as_its_quota(served: Served) -> None:
    for _ in range(40):
        served.broker.store["orders"][0].append(os.urandom(VALUE))
    limit = 20_000
    served.limit("consumer_byte_rate", limit, user="ANONYMOUS")
    waited, received = 0.0, 0
    with served.client() as client:
        for _ in range(3):
            answer = client.ask(fetch(), 4)
            received += len(answer.responses[0].partitions[0].records)
            waited += answer.throttle_time_ms / 1000
            served.advance(answer.throttle_time_ms / 1000)
    assert received > 1_000_000
    assert received / limit * 0.6 < waited < received / limit * 1.1


def test_time_of_requests_is_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.limit("request_percentage", 10, user=None)
    handlers = served.broker._services.apis.get(3)
    assert handlers is not None
    usual = handlers.handle

    def slow(request: Any) -> Any:
        served._clock.now += 1.5
        return usual(request)

    object.__setattr__(handlers, "handle", slow)
    with served.client() as client:
        answer = client.ask(MetadataRequest(topics=[]), 3)
    assert answer.throttle_time_ms == 1000  # a window, at most
    object.__setattr__(handlers, "handle", usual)


def create(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.Topics(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=60_000)


def test_changes_of_partitions_are_limited(served: Served) -> None:
    served.limit("controller_mutation_rate", 1, client_id="c")
    with served.client() as client:
        answer = client.ask(create("a", 13), 6)  # 11 tokens: it may go below zero
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        answer = client.ask(create("b", 1), 6)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (89, 2000)
    with served.client() as client:
        asked = CreatePartitionsRequest.Topics(name="a", count=14, assignments=None)
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=60_000)
        assert client.ask(request, 3).results[0].error_code == 89
    with served.client() as client:
        request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topics(name="a")], timeout_ms=1)
        request.topic_names, request.timeout_ms = ["a"], 60_000
        assert client.ask(request, 5).responses[0].error_code == 89
        served.advance(2)
    with served.client() as client:  # an older client only waits
        answer = client.ask(create("old", 5), 4)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 5000)
    assert "b" not in served.broker.store
    assert "old" in served.broker.store


def test_connections_of_an_address_are_limited(served: Served) -> None:
    with served.client("admin") as admin:
        entry = AlterClientQuotasRequest.Entries
        entity = [entry.Entity("ip", "127.0.0.1")]
        ops = [entry.Ops("connection_creation_rate", 1.0, False)]
        answer = admin.ask(AlterClientQuotasRequest(entries=[entry(entity, ops)]), 1)
        assert answer.entries[0].error_code == 0
        clients = [served.client() for _ in range(11)]
        for client in clients[:10]:
            assert client.ask(MetadataRequest(topics=[]), 1).brokers
        refused = clients[10]
        admin.ask(MetadataRequest(topics=[]), 1)
        assert is_silent(refused)
        served.advance(1.1)
        assert refused._socket.recv(1) == b""  # closed, a second later
        served.advance(11)
        with served.client() as client:
            assert client.ask(MetadataRequest(topics=[]), 1).brokers
        for client in clients:
            client._socket.close()


def test_a_flood_of_connections_beyond_a_quota_is_not_held(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kstore.broker.listener._MOST_HELD", 2)
    with served.client("admin") as admin:
        served.limit("connection_creation_rate", 1, ip="127.0.0.1")
        clients = [served.client() for _ in range(20)]  # ten are within the quota
        for _ in range(2):  # the loop has accepted the others
            admin.ask(MetadataRequest(topics=[]), 1)
        closed = 0
        for client in clients:
            client._socket.setblocking(False)
            with suppress(BlockingIOError):
                closed += client._socket.recv(1) == b""
            client._socket.close()
    assert closed == 8


def test_nothing_is_measured_without_a_quota(served: Served) -> None:
    services = served.broker._services
    assert not services.throttling.is_active
    assert set(services.apis.frame_handlers()) == BY_FRAME
    with served.client() as client:
        assert client.ask(produce(), 9).throttle_time_ms == 0
        served.limit("producer_byte_rate", 1, user="another")
        assert services.apis.frame_handlers() == {}
        assert client.ask(produce(), 9).throttle_time_ms == 0
        assert services.throttling._rates == {}
        served.limit("producer_byte_rate", None, user="another")
        assert set(services.apis.frame_handlers()) == BY_FRAME
        assert client.ask(produce(), 9).throttle_time_ms == 0


def test_a_broker_stops_though_a_connection_is_muted(served: Served) -> None:
    served.limit("producer_byte_rate", 1, client_id="c")
    with served.client() as client:
        assert client.ask(produce(), 9).throttle_time_ms > 0
        served.broker.close()
        assert client._socket.recv(1) == b""


def test_a_refused_number_of_partitions_takes_no_tokens(served: Served) -> None:
    served.limit("controller_mutation_rate", 5, user=None)
    with served.client() as client:
        refused = client.ask(create("a", 2**31 - 1), 6)
        assert (refused.topics[0].error_code, refused.throttle_time_ms) == (44, 0)
        made = client.ask(create("a", 1), 6)
        assert (made.topics[0].error_code, made.throttle_time_ms) == (0, 0)
        topic = CreatePartitionsRequest.Topics("a", 2**31 - 1, None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=60_000)
        refused = client.ask(request, 3)
        assert (refused.results[0].error_code, refused.throttle_time_ms) == (44, 0)
        assert client.ask(create("b", 1), 6).topics[0].error_code == 0


def test_tokens_come_back_at_the_rate_of_their_own_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the quota of the client is that makes the broker check the others."""
    monkeypatch.setattr("kstore.broker.client_throttling._MOST_RATES", 2)
    key = "controller_mutation_rate"
    quotas = ClientQuotas(
        {
            entity_of([("client-id", "slow")]): {key: 1.0},
            entity_of([("client-id", None)]): {key: 1000.0},
        }
    )
    throttling = ClientThrottling(quotas)

    def takes(client_id: str, count: int) -> bool:
        request: Any = SimpleNamespace(
            api_key=19, client_id=client_id, connection=SimpleNamespace(principal=ANONYMOUS)
        )
        return throttling.take_mutations(throttling.usage(request, 100), count, is_strict=True)

    assert takes("slow", 100)
    for number in range(4):
        throttling.now += 1.0
        takes(f"fast-{number}", 1)
    assert not takes("slow", 1)


def test_rates_of_clients_that_left_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstore.broker.client_throttling._MOST_RATES", 100)
    quotas = ClientQuotas({entity_of([("client-id", None)]): {"producer_byte_rate": 1.0}})
    throttling = ClientThrottling(quotas)
    throttling._most_rates = 100
    for number in range(1000):
        throttling.now = number / 5
        throttling._rate(("producer_byte_rate", (None, str(number)))).record(1, throttling.now)
    assert len(throttling._rates) <= 160


def describe(
    client: RawClient, *components: tuple[str, int, str | None], strict: bool = False
) -> Any:
    request = DescribeClientQuotasRequest(
        components=[DescribeClientQuotasRequest.Components(*each) for each in components],
        strict=strict,
    )
    return client.ask(request, 1)


def test_quotas_are_described_by_filters(served: Served) -> None:
    served.limit("producer_byte_rate", 1, user="u")
    served.limit("consumer_byte_rate", 2, user=None)
    served.limit("request_percentage", 3, user="u", client_id="c")
    served.limit("connection_creation_rate", 4, ip="10.0.0.1")

    def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[float]:
        answer = describe(client, *components, strict=strict)
        assert (answer.error_code, answer.error_message) == (0, None)
        return sorted(value.value for entry in answer.entries for value in entry.values)

    with served.client("admin") as client:
        assert found() == [1.0, 2.0, 3.0, 4.0]
        assert found(strict=True) == []
        assert found(("user", 2, None)) == [1.0, 2.0, 3.0]
        assert found(("user", 2, None), strict=True) == [1.0, 2.0]
        assert found(("user", 0, "u")) == [1.0, 3.0]
        assert found(("user", 1, None)) == [2.0]
        assert found(("user", 0, "u"), ("client-id", 0, "c")) == [3.0]
        assert found(("ip", 2, None)) == [4.0]
        for components, code in (
            ([("topic", 2, None)], 35),
            ([("", 2, None)], 42),
            ([("user", 2, None), ("user", 2, None)], 42),
            ([("user", 2, None), ("ip", 2, None)], 42),
            ([("user", 0, None)], 42),
            ([("user", 1, "u")], 42),
            ([("user", 9, None)], 42),
        ):
            answer = describe(client, *components)
            assert (answer.error_code, answer.entries) == (code, None)


def test_an_alteration_that_is_refused_changes_nothing(served: Served) -> None:
    entry = AlterClientQuotasRequest.Entries
    good = entry([entry.Entity("user", "u")], [entry.Ops("producer_byte_rate", 5.0, False)])
    bad = entry([entry.Entity("user", "v")], [entry.Ops("bogus", 5.0, False)])
    twice = entry([entry.Entity("user", "w")], [entry.Ops("producer_byte_rate", 5.0, False)] * 2)
    with served.client("admin") as client:
        answer = client.ask(AlterClientQuotasRequest(entries=[bad, twice, good]), 0)
        assert [each.error_code for each in answer.entries] == [42, 42, 0]
        assert answer.entries[0].error_message == "Invalid configuration key bogus"
        assert [each.entity_name for each in answer.entries[0].entity] == ["v"]
        assert len(describe(client).entries) == 1
        request = AlterClientQuotasRequest(entries=[bad], validate_only=True)
        assert client.ask(request, 1).entries[0].error_code == 42
