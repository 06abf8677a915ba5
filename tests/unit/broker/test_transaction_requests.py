"""Requests of transactional producers, in every version, to a broker."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker import transaction_markers, transaction_service
from kstore.broker.transaction_service import TransactionService
from kstore.cluster.metadata import AlterOp
from kstore.coordinator.transaction import transaction_state_store
from kstore.coordinator.transaction.transaction_state_records import TransactionState, decode_value
from kstore.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kstore.protocol.messages.end_txn import EndTxnRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest
from kstore.protocol.messages.list_transactions import ListTransactionsRequest
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from kstore.protocol.messages.produce import ProduceRequest
from kstore.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kstore.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from oracle.writer import batch
from support.client_batches import rows
from support.damage import flip
from support.raw_client import RawClient

Added = AddPartitionsToTxnRequest.Transactions
OldTopics = AddPartitionsToTxnRequest.V3AndBelowTopics
Data = ProduceRequest.TopicData
SETTINGS = {
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
}
Producer = tuple[int, int]
DEADLINE = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator["TransactionClient"]:
    with RawClient(broker.port) as raw:
        yield TransactionClient(raw)


class TransactionClient:
    """Sends the requests of one producer."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        self.sequence = 0
        for key_type in (0, 1):
            found = raw.ask(FindCoordinatorRequest("g", key_type, ["g"]), 6)
            assert found.coordinators[0].error_code == 0

    def init(
        self, name: str = "x", version: int = 5, timeout_ms: int = 60_000, **expected: int
    ) -> Any:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected.get("producer_id", -1),
            producer_epoch=expected.get("producer_epoch", -1),
        )
        return self.retried(lambda: self.raw.ask(request, version))

    def retried(self, ask: Callable[[], Any]) -> Any:
        """An answer that is neither CONCURRENT_TRANSACTIONS nor COORDINATOR_LOAD_IN_PROGRESS."""
        deadline = time.monotonic() + DEADLINE
        while (answer := ask()).error_code in (14, 51):
            assert time.monotonic() < deadline
        return answer

    def producer(self, name: str = "x", timeout_ms: int = 60_000) -> Producer:
        answer = self.init(name, timeout_ms=timeout_ms)
        assert answer.error_code == 0
        self.sequence = 0
        return answer.producer_id, answer.producer_epoch

    def add(
        self,
        producer: Producer,
        partitions: tuple[int, ...] = (0,),
        *,
        version: int = 3,
        name: str = "x",
        topic: str = "t",
        verify_only: bool = False,
    ) -> list[int]:
        """The error of each partition."""
        numbers = list(partitions)
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[OldTopics(topic, numbers)],
            )
            [result] = self.raw.ask(request, version).results_by_topic_v3_and_below
            return [each.partition_error_code for each in result.results_by_partition]
        request = AddPartitionsToTxnRequest(
            transactions=[Added(name, *producer, verify_only, [Added.Topics(topic, numbers)])]
        )
        [found] = self.raw.ask(request, version).results_by_transaction
        [topic_result] = found.topic_results
        return [each.partition_error_code for each in topic_result.results_by_partition]

    def begin(self, producer: Producer, partitions: tuple[int, ...] = (0,)) -> None:
        deadline = time.monotonic() + DEADLINE
        while (errors := set(self.add(producer, partitions))) == {51}:
            assert time.monotonic() < deadline
        assert errors == {0}

    def produce(
        self, producer: Producer, *, partition: int = 0, version: int = 11, name: str | None = "x"
    ) -> int:
        records = batch(
            rows(1),
            transactional=True,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=self.sequence,
        )
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[Data("t", partition_data=[Data.PartitionData(partition, records)])],
        )
        [topic] = self.raw.ask(request, version).responses
        [answer] = topic.partition_responses
        if not answer.error_code:
            self.sequence += 1
        return int(answer.error_code)

    def end(
        self, producer: Producer, *, commit: bool = True, version: int = 4, name: str = "x"
    ) -> int:
        request = EndTxnRequest(name, *producer, commit)
        return int(self.raw.ask(request, version).error_code)

    def add_offsets(self, producer: Producer, group: str = "g", version: int = 4) -> int:
        request = AddOffsetsToTxnRequest("x", *producer, group)
        return int(self.retried(lambda: self.raw.ask(request, version)).error_code)

    def commit_offsets(
        self, producer: Producer, offset: int, version: int = 3, **fields: Any
    ) -> int:
        topic = TxnOffsetCommitRequest.Topics(
            "t", [TxnOffsetCommitRequest.Topics.Partitions(0, offset)]
        )
        request = TxnOffsetCommitRequest(
            **{
                "transactional_id": "x",
                "group_id": "g",
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "topics": [topic],
                **fields,
            }
        )
        answer = self.raw.ask(request, version)
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, *, require_stable: bool = True) -> tuple[int, int]:
        """The error and the offset of t-0."""
        request = OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequest.Topics("t", [0])],
            require_stable=require_stable,
        )
        answer = self.retried(lambda: self.raw.ask(request, 7))
        [found] = answer.topics[0].partitions
        return found.error_code, found.committed_offset

    def state(self, name: str = "x") -> Any:
        request = DescribeTransactionsRequest([name])
        [found] = self.raw.ask(request, 0).transaction_states
        return found

    def wait_for(self, state: str, name: str = "x") -> None:
        deadline = time.monotonic() + DEADLINE
        while self.state(name).transaction_state != state:
            assert time.monotonic() < deadline, self.state(name)


def stored_states(store: kstore.Store) -> list[TransactionState]:
    found = []
    for log in store["__transaction_state"]:
        found += [decode_value("x", each.value).state for each in log.view() if each.value]
    return found


# --- a transaction --------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(5))
def test_a_transaction_in_every_version(
    store: kstore.Store, client: TransactionClient, version: int, commit: bool
) -> None:
    answer = client.init(version=version)
    producer = answer.producer_id, answer.producer_epoch
    assert client.add(producer, (0, 1), version=version) == [0, 0]
    assert client.produce(producer, version=3 + 2 * version) == 0
    assert store["t"][0].last_stable_offset == 0
    assert client.end(producer, commit=commit, version=version) == 0
    client.wait_for("CompleteCommit" if commit else "CompleteAbort")
    log = store["t"][0]
    assert log.last_stable_offset == log.end_offset == 2
    assert len(list(log.view(isolation="read_committed"))) == (1 if commit else 0)
    assert client.end(producer, commit=commit, version=version) == 0  # repeated
    assert client.end(producer, commit=not commit, version=version) == 48
    decided = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    assert stored_states(store)[:3] == [TransactionState.EMPTY, TransactionState.ONGOING, decided]


def test_records_of_a_partition_outside_the_transaction_are_refused(
    store: kstore.Store, client: TransactionClient
) -> None:
    producer = client.producer()
    client.begin(producer, (0,))
    for version in range(3, 12):
        expected = 48 if version < 11 else 120
        assert client.produce(producer, partition=1, version=version) == expected
    assert client.produce(producer, name=None) == 53
    assert client.produce((producer[0], producer[1] + 1)) == 47
    assert client.produce((producer[0] - 1, producer[1])) == 49
    assert client.produce(producer, name="other") == 49
    assert store["t"][1].end_offset == 0
    assert client.produce(producer) == 0
    client.end(producer)
    client.wait_for("CompleteCommit")
    assert client.produce(producer) == 120  # late
    assert store["t"][0].last_stable_offset == store["t"][0].end_offset


def test_a_check_that_is_switched_off(store: kstore.Store) -> None:
    settings = {**SETTINGS, "transaction.partition.verification.enable": False}
    with kstore.Broker(store, port=0, settings=settings) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        producer = client.producer()
        assert client.produce(producer) == 0
        assert store["t"][0].last_stable_offset == 0


def test_the_check_is_switched_off_while_the_broker_runs(
    store: kstore.Store, broker: kstore.Broker, client: TransactionClient
) -> None:
    producer = client.producer()
    assert client.produce(producer) == 120
    metadata = broker._metadata
    assert metadata is not None
    name = "transaction.partition.verification.enable"
    metadata.alter_broker_config([(AlterOp.SET, name, "false")])
    assert client.produce(producer) == 0


@pytest.mark.parametrize("version", range(6))
def test_a_fenced_producer_gets_the_code_that_its_version_knows(
    client: TransactionClient, version: int
) -> None:
    old = client.producer()
    client.begin(old)
    new = client.producer()
    assert new[1] == old[1] + 2
    assert client.add(old, version=version) == [90 if version >= 2 else 47]
    if version < 5:
        assert client.end(old, version=version) == (90 if version >= 2 else 47)
        assert client.add_offsets(old, version=version) == (90 if version >= 2 else 47)
    if version >= 3:
        answer = client.init(version=version, producer_id=old[0], producer_epoch=old[1])
        assert answer.error_code == (90 if version >= 4 else 47)
    answer = client.raw.ask(
        InitProducerIdRequest(
            transactional_id="x", transaction_timeout_ms=1000, producer_id=5, producer_epoch=-1
        ),
        5,
    )
    assert answer.error_code == 42


def test_partitions_that_do_not_exist_are_not_added(client: TransactionClient) -> None:
    producer = client.producer()
    for version in range(6):
        assert client.add(producer, (0, 9), version=version) == [55, 3]
        assert client.add(producer, topic="none", version=version) == [3]
    assert client.state().transaction_state == "Empty"


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_clients_cannot_add_internal_topics(
    client: TransactionClient, topic: str, version: int
) -> None:
    producer = client.producer()
    assert client.add(producer, topic=topic, version=version) == [29]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[OldTopics("t", [0, 9]), OldTopics(topic, [0, 99])],
    )
    answer = client.raw.ask(request, version).results_by_topic_v3_and_below
    errors = [[each.partition_error_code for each in one.results_by_partition] for one in answer]
    assert errors == [[55, 3], [29, 29]]
    assert client.state().transaction_state == "Empty"


def test_verification_adds_no_partition(client: TransactionClient) -> None:
    producer = client.producer()
    client.begin(producer, (0,))
    assert client.add(producer, (0, 1), version=4, verify_only=True) == [0, 120]
    assert client.state().topics[0].partitions == [0]


@pytest.mark.parametrize(
    ("name", "timeout_ms", "error"), [("", 1000, 42), ("x", 0, 50), ("x", 900_001, 50)]
)
def test_a_refused_producer_gets_an_error_and_no_id(
    client: TransactionClient, name: str, timeout_ms: int, error: int
) -> None:
    answer = client.init(name, timeout_ms=timeout_ms)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


def test_a_transaction_that_takes_too_long_is_aborted(
    store: kstore.Store, client: TransactionClient
) -> None:
    producer = client.producer(timeout_ms=100)
    client.begin(producer)
    assert client.produce(producer) == 0
    client.wait_for("CompleteAbort")
    assert store["t"][0].last_stable_offset == 2
    assert client.end(producer) == 90
    assert client.produce(producer) == 47


# --- offsets --------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(5))
def test_offsets_count_when_the_transaction_commits(
    client: TransactionClient, version: int, commit: bool
) -> None:
    producer = client.producer()
    assert client.committed() == (0, -1)  # the group is loaded
    assert client.commit_offsets(producer, 5, version) == (48 if version < 4 else 120)
    assert client.add_offsets(producer, version=version) == 0
    assert client.commit_offsets(producer, 5, version) == 0
    assert client.committed() == (88, -1)
    assert client.committed(require_stable=False) == (0, -1)
    assert client.end(producer, commit=commit) == 0
    client.wait_for("CompleteCommit" if commit else "CompleteAbort")
    assert client.committed() == (0, 5 if commit else -1)


def test_offsets_of_no_member_and_of_no_topic(client: TransactionClient) -> None:
    producer = client.producer()
    assert client.add_offsets(producer) == 0
    assert client.add_offsets(producer, group="") == 24
    assert client.commit_offsets(producer, 1, group_id="") == 24
    assert client.commit_offsets(producer, 1, member_id="m", generation_id=1) in (22, 25)
    assert client.commit_offsets((producer[0], producer[1] + 1), 1) == 47
    topic = TxnOffsetCommitRequest.Topics("none", [TxnOffsetCommitRequest.Topics.Partitions(0, 1)])
    assert client.commit_offsets(producer, 1, topics=[topic]) == 3
    assert client.commit_offsets(producer, 1) == 0


# --- administrators -------------------------------------------------------------------------


def test_transactions_are_listed_and_described(client: TransactionClient) -> None:
    client.producer("idle")
    producer = client.producer()
    client.begin(producer, (0, 1))
    found = client.state()
    assert (found.error_code, found.transaction_state) == (0, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer
    assert found.transaction_timeout_ms == 60_000
    assert [(each.topic, each.partitions) for each in found.topics] == [("t", [0, 1])]
    assert client.state("none").error_code == 105
    assert client.state("").error_code == 42

    def listed(version: int = 1, **filters: Any) -> list[tuple[str, str]]:
        answer = client.retried(lambda: client.raw.ask(ListTransactionsRequest(**filters), version))
        return [
            (each.transactional_id, each.transaction_state) for each in answer.transaction_states
        ]

    both = [("idle", "Empty"), ("x", "Ongoing")]
    assert listed(0) == listed() == both
    assert listed(state_filters=["Ongoing"]) == both[1:]
    assert listed(producer_id_filters=[producer[0]]) == both[1:]
    assert listed(duration_filter=3_600_000) in ([], both[:1])
    answer = client.raw.ask(ListTransactionsRequest(state_filters=["Wrong", "Empty"]), 0)
    assert answer.unknown_state_filters == ["Wrong"]


@pytest.mark.parametrize("version", [0, 1])
def test_markers_of_an_administrator(
    store: kstore.Store, client: TransactionClient, version: int
) -> None:
    client.producer()
    producer = client.producer()
    client.begin(producer)
    client.produce(producer)

    def write(
        epoch: int, coordinator_epoch: int, topic: str = "t", producer_id: int = producer[0]
    ) -> int:
        marker = WriteTxnMarkersRequest.Markers(
            producer_id,
            epoch,
            False,
            [WriteTxnMarkersRequest.Markers.Topics(topic, [0])],
            coordinator_epoch,
        )
        [found] = client.raw.ask(WriteTxnMarkersRequest([marker]), version).markers
        assert found.producer_id == producer_id
        return int(found.topics[0].partitions[0].error_code)

    assert write(producer[1], 4, "none") == 3
    assert write(producer[1], 4) == 0
    assert write(producer[1], 3) == 52
    assert write(producer[1], -1) == 52
    assert write(producer[1] - 1, 4) == 47
    assert write(-1, 4) == 47
    assert write(0, 4, producer_id=-1) == 42
    assert store["t"][0].last_stable_offset == store["t"][0].end_offset
    assert client.end(producer, commit=False) == 0  # under the epoch that the log has seen
    client.wait_for("CompleteAbort")


# --- restarts -------------------------------------------------------------------------------


def test_an_open_transaction_continues_at_the_next_broker(store: kstore.Store) -> None:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        producer = client.producer()
        client.begin(producer)
        assert client.produce(producer) == 0
        sequence = client.sequence
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        client.sequence = sequence
        client.wait_for("Ongoing")
        assert client.produce(producer) == 0
        assert client.end(producer) == 0
        client.wait_for("CompleteCommit")
    assert len(list(store["t"][0].view(isolation="read_committed"))) == 2


def test_a_damaged_partition_of_transaction_states_does_not_affect_the_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data"
    with kstore.open(path) as store:
        store.create_topic("t", 2)
        broker = kstore.Broker(store, port=0, settings=SETTINGS)
        with broker, RawClient(broker.port) as raw:
            client = TransactionClient(raw)
            for name in ("a", "b", "c"):
                client.producer(name)
        filled = [log for log in store["__transaction_state"] if log.end_offset]
        assert len(filled) > 1
        [damaged, sound] = [
            next(
                name
                for name in ("a", "b", "c")
                if any(name.encode() in (each.key or b"") for each in log.view())
            )
            for log in filled[:2]
        ]
        where = Path(filled[0].path) / "00000000000000000000.log"
    flip(where, -1)
    with kstore.serve(path, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        answer = client.init(damaged)
        assert answer.error_code == 15
        assert client.state(damaged).error_code == 15
        assert client.init(sound).error_code == 0


# --- embedded producers ---------------------------------------------------------------------


def test_embedded_producers_and_clients_fence_each_other(
    store: kstore.Store, client: TransactionClient
) -> None:
    producer = client.producer()
    client.begin(producer)
    client.produce(producer)
    with store.transactional_producer("x") as embedded:
        assert client.end(producer) == 90
        with embedded.transaction():
            embedded.send("t", b"embedded", partition=0)
        assert [each.value for each in store["t"][0].view(isolation="read_committed")] == [
            b"embedded"
        ]
        embedded.begin_transaction()
        embedded.send("t", b"lost", partition=0)
        embedded.flush()
        client.producer()
        with pytest.raises(kstore.ProducerFencedError):
            embedded.commit_transaction()
        embedded.close()
    assert store["t"][0].last_stable_offset == store["t"][0].end_offset


def test_an_embedded_producer_survives_start_and_stop_of_a_broker(store: kstore.Store) -> None:
    with store.transactional_producer("x") as embedded:
        with embedded.transaction():
            embedded.send("t", b"1", partition=0)
        embedded.begin_transaction()
        embedded.send("t", b"2", partition=0)
        embedded.flush()
        with kstore.Broker(store, port=0, settings=SETTINGS):
            embedded.commit_transaction()
            with embedded.transaction():
                embedded.send("t", b"3", partition=0)
        with embedded.transaction():
            embedded.send("t", b"4", partition=0)
    values = [each.value for each in store["t"][0].view(isolation="read_committed")]
    assert values == [b"1", b"2", b"3", b"4"]


def test_a_topic_that_is_deleted_and_created_again_gets_no_marker(
    store: kstore.Store, client: TransactionClient
) -> None:
    producer = client.producer()
    client.begin(producer, (0, 1))
    client.produce(producer)
    store.delete_topic("t")
    store.create_topic("t", 2)
    assert client.end(producer) == 0
    client.wait_for("CompleteCommit")
    assert store["t"][0].end_offset == store["t"][1].end_offset == 0


# --- durable acknowledgement ----------------------------------------------------------------


def test_records_decision_and_markers_are_synced_in_this_order(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where acknowledgements of transactions are durable, and those of records are not."""
    steps: list[str] = []
    append, mark = transaction_state_store.append_state, transaction_markers.append_marker

    def is_on_disk(log: Any) -> bool:
        return bool(log.recovery_point >= log.end_offset)

    def checked_append(log: Any, encoded: tuple[bytes, bytes]) -> Any:
        state = decode_value("x", encoded[1]).state
        steps.append(state.name)
        if state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT):
            assert all(is_on_disk(each) for each in store["t"]), state
        return append(log, encoded)

    def checked_mark(log: Any, *fields: Any, **more: Any) -> Any:
        steps.append("marker")
        assert all(is_on_disk(each) for each in store["__transaction_state"])
        return mark(log, *fields, **more)

    monkeypatch.setattr(TransactionService, "_is_durable", lambda self: True)
    for module in (transaction_state_store, transaction_service):  # on workers, and on the loop
        monkeypatch.setattr(module, "append_state", checked_append)
    monkeypatch.setattr(transaction_markers, "append_marker", checked_mark)
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker, RawClient(broker.port) as raw:
        client = TransactionClient(raw)
        producer = client.producer()
        client.begin(producer, (0, 1))
        assert client.produce(producer) == 0
        assert not is_on_disk(store["t"][0])  # else the test shows nothing
        assert client.end(producer) == 0
        client.wait_for("CompleteCommit")
    expected = ["EMPTY", "ONGOING", "PREPARE_COMMIT", "marker", "marker", "COMPLETE_COMMIT"]
    assert steps == expected
