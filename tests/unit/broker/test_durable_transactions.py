"""Transactions with durable acknowledgements: in logs that end with a gap, and at a clean stop."""

from pathlib import Path

import kstore
from kstore.coordinator.transaction.transaction_state_records import TransactionState
from kstore.coordinator.transaction.transaction_state_store import read_states
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.end_txn import EndTxnRequest
from kstore.protocol.messages.produce import ProduceRequest
from oracle.writer import batch
from support.client_batches import rows
from support.raw_client import RawClient

Data = ProduceRequest.TopicData
SETTINGS: dict[str, object] = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "kstore.acks.durable": True,
}
COUNT = 5


class Producer:
    """A producer with the id x; its transactions are in t-0."""

    def __init__(self, client: RawClient) -> None:
        client.find_coordinators("x")
        self._client, self._id = client, client.begin_producer("x")
        self._sequence = 0

    def add_partition(self) -> None:
        topics = [AddPartitionsToTxnRequest.V3AndBelowTopics("t", [0])]
        answer = self._client.ask(AddPartitionsToTxnRequest([], "x", *self._id, topics), 3)
        [topic] = answer.results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == 0

    def produce(self) -> None:
        records = batch(
            rows(1),
            transactional=True,
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            base_sequence=self._sequence,
        )
        self._sequence += 1
        request = ProduceRequest(
            "x", -1, 10_000, [Data("t", partition_data=[Data.PartitionData(0, records)])]
        )
        answer = self._client.ask(request, 8)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def commit(self) -> int:
        return int(self._client.ask(EndTxnRequest("x", *self._id, True), 3).error_code)


def test_a_transaction_ends_in_a_log_that_ends_with_a_gap(tmp_path: Path) -> None:
    """A partition that the transaction has not written to: no sync reaches its log end."""
    with kstore.open(tmp_path / "data") as store:
        [log] = store.create_topic("t")
        log.append(b"x")
        log.flush()
        log._require_writer().truncator.skip_to(10)
        assert (log.recovery_point, log.end_offset) == (1, 10)
        with (
            kstore.Broker(store, port=0, settings=SETTINGS) as broker,
            RawClient(broker.port) as client,
        ):
            producer = Producer(client)
            producer.add_partition()
            assert producer.commit() == 0


def test_a_clean_stop_completes_the_transactions_that_end(tmp_path: Path) -> None:
    """The client is answered after the first of three syncs, and the broker stops then."""
    with kstore.open(tmp_path / "data") as store:
        [log] = store.create_topic("t")
        for n in range(COUNT):
            with (
                kstore.Broker(store, port=0, settings=SETTINGS) as broker,
                RawClient(broker.port) as client,
            ):
                producer = Producer(client)
                producer.add_partition()
                producer.produce()
                assert producer.commit() == 0
            assert log.last_stable_offset == log.end_offset == 2 * (n + 1)
            [state] = read_states(store["__transaction_state"][0]).states
            assert state.state is TransactionState.COMPLETE_COMMIT
