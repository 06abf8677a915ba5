"""AddPartitionsToTxn and AddOffsetsToTxn while the producer's last transaction is completed.

Clients repeat a request after CONCURRENT_TRANSACTIONS (51); the broker keeps it instead.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker import transaction_markers, transaction_service
from kstore.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.end_txn import EndTxnRequest
from support.raw_client import RawClient
from support.waiting import until

CONCURRENT = 51
WAIT = 60.0
SETTINGS: dict[str, object] = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}


class HeldMarkers:
    """Markers are written once they are released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self._append = transaction_markers.append_marker
        monkeypatch.setattr(transaction_markers, "append_marker", self.append)

    def append(self, *arguments: Any, **options: Any) -> Any:
        self.begun.set()
        assert self.released.wait(WAIT)
        return self._append(*arguments, **options)


class Producer:
    """The requests of a transactional producer with the id x."""

    def __init__(self, broker: kstore.Broker, client: RawClient) -> None:
        client.find_coordinators("x")
        self.broker, self.client = broker, client
        self.id = client.begin_producer("x")
        self.service = transaction_service.transaction_service(broker._services)
        self._coordinator = self.service.coordinator

    def send_partition(self, partition: int) -> None:
        topics = [AddPartitionsToTxnRequest.V3AndBelowTopics("t", [partition])]
        self.client.send(AddPartitionsToTxnRequest([], "x", *self.id, topics), 3)

    def send_transactions(self) -> None:
        """In the version of brokers: the first id is unknown, the second one may have to wait."""
        kind = AddPartitionsToTxnRequest.Transactions
        topics = [kind.Topics("t", [1])]
        each = [kind(name, *self.id, False, topics) for name in ("unknown", "x")]
        self.client.send(AddPartitionsToTxnRequest(each), 4)

    def send_offsets(self) -> None:
        self.client.send(AddOffsetsToTxnRequest("x", *self.id, "g"), 3)

    def receive_partition(self) -> int:
        """The error code of the one that was sent."""
        answer = self.client.receive(AddPartitionsToTxnRequest.API_KEY, 3)
        [partition] = answer.results_by_topic_v3_and_below[0].results_by_partition
        return int(partition.partition_error_code)

    def commit(self) -> int:
        return int(self.client.ask(EndTxnRequest("x", *self.id, True), 3).error_code)

    def wait_until_kept(self) -> None:
        """Until the broker keeps a request of it."""
        until(lambda: self.is_kept)

    @property
    def is_kept(self) -> bool:
        return bool(self._coordinator._ids["x"].kept)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldMarkers:
    return HeldMarkers(monkeypatch)


@pytest.fixture
def producer(tmp_path: Path, held: HeldMarkers) -> Iterator[Producer]:
    """It has committed a transaction, whose marker is held."""
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
        with (
            kstore.Broker(store, port=0, settings=SETTINGS) as broker,
            RawClient(broker.port) as client,
        ):
            try:
                producer = Producer(broker, client)
                producer.send_partition(0)
                assert producer.receive_partition() == 0
                assert producer.commit() == 0
                assert held.begun.wait(WAIT)
                yield producer
            finally:
                held.released.set()


def let_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_service, "_COMPLETION_SECONDS", 10 * WAIT)


def test_partitions_are_added_after_the_completion(
    producer: Producer, held: HeldMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch)
    producer.send_partition(1)
    producer.wait_until_kept()
    held.released.set()
    assert producer.receive_partition() == 0
    assert producer.commit() == 0


def test_offsets_are_added_after_the_completion(
    producer: Producer, held: HeldMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch)
    producer.send_offsets()
    producer.wait_until_kept()
    held.released.set()
    assert producer.client.receive(AddOffsetsToTxnRequest.API_KEY, 3).error_code == 0


def test_a_completion_that_takes_long_is_kafkas_error(
    producer: Producer, held: HeldMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_service, "_COMPLETION_SECONDS", 0.01)
    producer.send_partition(1)
    assert producer.receive_partition() == CONCURRENT
    let_wait(monkeypatch)
    producer.send_partition(1)
    producer.wait_until_kept()
    held.released.set()
    assert producer.receive_partition() == 0


def test_no_timer_is_left_of_an_answered_request(
    producer: Producer, held: HeldMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch)
    producer.send_partition(1)
    until(lambda: producer.service._waits)
    [timer] = producer.service._waits.values()
    held.released.set()
    assert producer.receive_partition() == 0
    assert not producer.service._waits
    assert timer._function is None


@pytest.mark.parametrize(
    "send",
    [lambda each: each.send_partition(1), Producer.send_transactions, Producer.send_offsets],
    ids=["partition", "transactions", "offsets"],
)
def test_a_request_of_a_closed_connection_waits_no_more(
    producer: Producer, send: Callable[[Producer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch)
    send(producer)
    producer.wait_until_kept()
    producer.client.close()
    until(lambda: not producer.is_kept)
    until(lambda: not producer.service._waits)


def test_a_broker_that_stops_answers_those_who_wait(
    producer: Producer, held: HeldMarkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(monkeypatch)
    producer.send_partition(1)
    producer.wait_until_kept()
    stopping = threading.Thread(target=producer.broker.close)
    stopping.start()
    assert producer.receive_partition() == CONCURRENT
    held.released.set()
    stopping.join()
