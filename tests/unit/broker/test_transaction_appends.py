"""States and markers are appended by the event loop's thread, or by a worker if that may block."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker import transaction_markers, transaction_service
from kstore.coordinator.transaction import transaction_state_store
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.api_versions import ApiVersionsRequest
from kstore.protocol.messages.end_txn import EndTxnRequest
from kstore.protocol.messages.produce import ProduceRequest
from oracle.writer import batch
from support.client_batches import rows
from support.raw_client import RawClient
from support.waiting import until

Data = ProduceRequest.TopicData
SETTINGS: dict[str, object] = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}
APPENDS = ["state", "state", "marker", "state"]  # of a transaction of one partition


class Appends:
    """What was appended, each with whether the loop's thread did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[str, bool]] = []
        self.loop: Any = None
        for module, name in (
            (transaction_state_store, "append_state"),
            (transaction_service, "append_state"),
            (transaction_markers, "append_marker"),
        ):
            append = getattr(module, name)
            monkeypatch.setattr(module, name, self._noted(name.removeprefix("append_"), append))

    def _noted(self, name: str, append: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            self.found.append((name, self.loop.is_own_thread))
            return append(*arguments, **options)

        return noted


class Producer:
    """Sends the requests of transactions of one record in t-0."""

    def __init__(self, broker: kstore.Broker, client: RawClient) -> None:
        client.find_coordinators("x")
        self.client = client
        self.id = client.begin_producer("x")
        self.sequence = 0

    def send_partition(self) -> None:
        topics = [AddPartitionsToTxnRequest.V3AndBelowTopics("t", [0])]
        self.client.send(AddPartitionsToTxnRequest([], "x", *self.id, topics), 3)

    def receive_partition(self) -> int:
        answer = self.client.receive(AddPartitionsToTxnRequest.API_KEY, 3)
        [partition] = answer.results_by_topic_v3_and_below[0].results_by_partition
        return int(partition.partition_error_code)

    def produce(self) -> int:
        records = batch(
            rows(1),
            transactional=True,
            producer_id=self.id[0],
            producer_epoch=self.id[1],
            base_sequence=self.sequence,
        )
        self.sequence += 1
        request = ProduceRequest(
            "x", -1, 10_000, [Data("t", partition_data=[Data.PartitionData(0, records)])]
        )
        return int(self.client.ask(request, 8).responses[0].partition_responses[0].error_code)

    def commit(self) -> int:
        request = EndTxnRequest("x", self.id[0], self.id[1], True)
        return int(self.client.ask(request, 3).error_code)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 1)
        yield store


@pytest.fixture(params=[False, True], ids=["fast", "durable"])
def broker(store: kstore.Store, request: pytest.FixtureRequest) -> Iterator[kstore.Broker]:
    settings = {**SETTINGS, "kstore.acks.durable": request.param}
    with kstore.Broker(store, port=0, settings=settings) as broker:
        yield broker


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch, broker: kstore.Broker) -> Appends:
    appends = Appends(monkeypatch)
    appends.loop = broker._services.loop
    return appends


@pytest.fixture
def producer(broker: kstore.Broker, appends: Appends) -> Iterator[Producer]:
    """One that has committed, so that the logs are open."""
    with RawClient(broker.port) as client:
        producer = Producer(broker, client)
        transact(producer, appends)
        yield producer


def transact(producer: Producer, appends: Appends) -> list[bool]:
    """Commit a transaction; whether the loop's thread made each of its appends."""
    appends.found.clear()
    producer.send_partition()
    assert producer.receive_partition() == 0
    assert producer.produce() == 0
    assert producer.commit() == 0
    until(lambda: len(appends.found) >= len(APPENDS))
    wanted = [name for name, _ in appends.found][-len(APPENDS) :]
    assert wanted == APPENDS
    return [is_own for _, is_own in appends.found]


def test_the_loop_appends_where_it_does_not_block(producer: Producer, appends: Appends) -> None:
    until(lambda: all(transact(producer, appends)))


def test_a_worker_appends_a_state_where_the_log_is_locked(
    store: kstore.Store, broker: kstore.Broker, producer: Producer, appends: Appends
) -> None:
    [log] = store["__transaction_state"]
    with log._require_writer().state.lock, RawClient(broker.port) as other:
        appends.found.clear()
        producer.send_partition()
        until(lambda: broker._services.workers.is_busy(("__transaction_state", 0)))
        assert other.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
    assert producer.receive_partition() == 0
    assert appends.found == [("state", False)]


def test_a_worker_appends_a_marker_where_the_log_is_locked(
    store: kstore.Store, broker: kstore.Broker, producer: Producer, appends: Appends
) -> None:
    producer.send_partition()
    assert producer.receive_partition() == 0
    assert producer.produce() == 0
    appends.found.clear()
    [log] = store["t"]
    with log._require_writer().state.lock, RawClient(broker.port) as other:
        assert producer.commit() == 0
        until(lambda: broker._services.workers.is_busy(("t", 0)))
        assert other.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0
    until(lambda: len(appends.found) == 3)
    assert appends.found[1] == ("marker", False)


def test_a_worker_appends_where_a_sync_is_due(
    store: kstore.Store, producer: Producer, appends: Appends
) -> None:
    """With flush.messages the append waits for the disk."""
    store.alter_topic("__transaction_state", {"flush.messages": 1})
    store.alter_topic("t", {"flush.messages": 1})
    assert not any(transact(producer, appends))


def test_an_append_that_fails_is_an_error_of_its_request(
    monkeypatch: pytest.MonkeyPatch, producer: Producer, appends: Appends
) -> None:
    until(lambda: all(transact(producer, appends)))

    def fail(*arguments: Any) -> None:
        raise OSError("injected")

    with monkeypatch.context() as patched:
        patched.setattr(transaction_service, "append_state", fail)
        producer.send_partition()
        assert producer.receive_partition() == 16  # NOT_COORDINATOR
    transact(producer, appends)


def test_workers_append_the_markers_beyond_those_of_a_turn(
    broker: kstore.Broker, producer: Producer, monkeypatch: pytest.MonkeyPatch, appends: Appends
) -> None:
    """After a start, many transactions may have to end in one turn of the loop."""
    until(lambda: all(transact(producer, appends)))
    monkeypatch.setattr(transaction_markers, "_A_TURN", 3)
    commits: Any = None
    writer = transaction_markers.MarkerWriter(broker._services, commits)
    turns: list[list[bool]] = []

    def turn() -> None:
        turns.append([writer.may_append() for _ in range(5)])

    for count in (1, 2):
        broker._services.loop.call_soon_threadsafe(turn)
        until(lambda count=count: len(turns) == count)
    assert turns == [[True] * 3 + [False] * 2] * 2
    monkeypatch.setattr(transaction_markers.MarkerWriter, "may_append", lambda _: False)
    by = transact(producer, appends)
    assert by[APPENDS.index("marker") - len(APPENDS)] is False
