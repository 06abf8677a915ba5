"""Records in transactions on a broker: commits, aborts, lost records, newer producers."""

from collections.abc import Iterator
from typing import Any

import pytest

from kstore._native.format import batch_fields
from kstore.broker.broker import Broker, serve
from kstore.errors import (
    ClosedError,
    InvalidConfigError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KStoreError,
    MessageTooLargeError,
    ProducerFencedError,
)
from kstore.remote.remote_log import RemoteLog
from kstore.remote.store import RemoteStore
from kstore.remote.transactional_producer import RemoteTransactionalProducer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"transaction.state.log.num.partitions": "1"}
    with serve(tmp_path_factory.mktemp("kafka"), port=0, settings=settings) as broker:
        yield broker


@pytest.fixture
def store(broker: Broker) -> Iterator[RemoteStore]:
    with RemoteStore(broker.bootstrap_servers) as store:
        yield store


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name.translate(str.maketrans("[]", "-."))
    broker.store.create_topic(name, config={"max.message.bytes": 10_000})
    return name


def committed(broker: Broker, topic: str) -> list[bytes | None]:
    return [each.value for each in broker.store[topic][0].view(isolation="read_committed")]


def test_committed_records_are_read_and_aborted_ones_are_not(
    broker: Broker, store: RemoteStore, topic: str
) -> None:
    with store.transactional_producer(topic, "t") as producer:
        for name in (b"a", b"b", b"c"):
            producer.begin_transaction()
            delivery = producer.send(name, key=b"k")
            producer.send(name * 2, key=b"k")
            assert delivery.result(30).offset >= 0
            assert committed(broker, topic)[-1:] != [name * 2]
            if name == b"b":
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        assert committed(broker, topic) == [b"a", b"aa", b"c", b"cc"]
        producer.begin_transaction()
        producer.send(b"open").result(30)
    assert broker.store[topic][0].last_stable_offset == broker.store[topic][0].end_offset
    assert committed(broker, topic) == [b"a", b"aa", b"c", b"cc"]  # close aborts the last one


def test_transactions_without_records_need_no_coordinator(store: RemoteStore, topic: str) -> None:
    with store.transactional_producer(topic, "empty") as producer:
        for _ in range(2):
            producer.begin_transaction()
            producer.commit_transaction()
            producer.begin_transaction()
            producer.abort_transaction()


def test_batches_larger_than_the_topic_allows_are_split(
    broker: Broker, store: RemoteStore, topic: str
) -> None:
    with store.transactional_producer(topic, "split", linger_ms=1000) as producer:
        producer.begin_transaction()
        values = [b"%d" % number * 1000 for number in range(8)]
        for value in values:
            producer.send(value)
        broker.store.alter_topic(topic, {"max.message.bytes": 3000})
        producer.commit_transaction()
        assert committed(broker, topic) == values
        producer.begin_transaction()
        producer.send(b"x" * 4000)
        with pytest.raises(MessageTooLargeError):
            producer.commit_transaction()
        with pytest.raises(InvalidTxnStateError, match="can only be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        commit_one(producer, b"next")
        assert committed(broker, topic) == [*values, b"next"]


def commit_one(producer: RemoteTransactionalProducer, value: bytes) -> None:
    producer.begin_transaction()
    producer.send(value)
    producer.commit_transaction()


def test_a_newer_producer_fences_the_older_one(
    broker: Broker, store: RemoteStore, topic: str
) -> None:
    with store.transactional_producer(topic, "same") as older:
        commit_one(older, b"first")
        older.begin_transaction()
        older.send(b"aborted").result(30)
        with store.transactional_producer(topic, "same") as newer:
            commit_one(newer, b"newer")
            older.send(b"refused")
            with pytest.raises(ProducerFencedError):
                older.commit_transaction()
            commit_one(newer, b"last")
    assert committed(broker, topic) == [b"first", b"newer", b"last"]
    with store.transactional_producer(topic, "same") as third:
        third.begin_transaction()
        with store.transactional_producer(topic, "same"), pytest.raises(ProducerFencedError):
            third.send(b"refused").result(30)  # already when its partition is added


@pytest.mark.parametrize("is_written", [True, False])
def test_after_a_lost_answer_the_transaction_is_aborted_and_the_next_one_works(
    broker: Broker,
    store: RemoteStore,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    is_written: bool,
) -> None:
    produce = RemoteLog._produce

    def lose(self: RemoteLog, request: Any, size: int) -> Any:
        if is_written:
            produce(self, request, size)
        raise KStoreError("lost")

    with store.transactional_producer(topic, f"lost-{is_written}") as producer:
        commit_one(producer, b"a")
        producer.begin_transaction()
        with monkeypatch.context() as patched:
            patched.setattr(RemoteLog, "_produce", lose)
            assert str(producer.send(b"lost").exception(30)) == "lost"  # seen by the caller
        with pytest.raises(InvalidTxnStateError, match="can only be aborted: lost"):
            producer.commit_transaction()
        producer.abort_transaction()
        commit_one(producer, b"b")
    assert committed(broker, topic) == [b"a", b"b"]


def test_batches_have_the_producers_id_and_sequences(
    broker: Broker, store: RemoteStore, topic: str
) -> None:
    with store.transactional_producer(topic, "stamped", compression="gzip") as producer:
        for count in (2, 1):
            producer.begin_transaction()
            for _ in range(count):
                producer.send(b"v" * 100)
            producer.commit_transaction()
        found = broker.store[topic][0].producers()
        assert [each.last_sequence for each in found] == [2]
        assert found[0].producer_id == producer._transactions.producer_id
    data = bytes(broker.store[topic][0].read(0, 1))
    assert batch_fields.attributes(data) == batch_fields.TRANSACTIONAL_BIT | 1


def test_calls_out_of_order_are_refused(store: RemoteStore, topic: str) -> None:
    producer = store.transactional_producer(topic, "order")
    for call in (
        lambda: producer.send(b"v"),
        producer.commit_transaction,
        producer.abort_transaction,
    ):
        with pytest.raises(InvalidTxnStateError, match="no transaction is open"):
            call()
    producer.begin_transaction()
    with pytest.raises(InvalidTxnStateError, match="already has an open transaction"):
        producer.begin_transaction()
    producer.close()
    producer.close()
    with pytest.raises(ClosedError):
        producer.begin_transaction()


def test_settings_that_exclude_transactions_are_refused(store: RemoteStore, topic: str) -> None:
    with pytest.raises(InvalidConfigError, match="acks must be 'all'"):
        store.transactional_producer(topic, "s", acks=1)
    with pytest.raises(InvalidConfigError, match="transactions need enable"):
        store.transactional_producer(topic, "s", enable_idempotence=False)
    with pytest.raises(InvalidTransactionTimeoutError):
        store.transactional_producer(topic, "s", timeout_ms=2**31 - 1)
    store.transactional_producer(topic, "s", enable_idempotence=True).close()
