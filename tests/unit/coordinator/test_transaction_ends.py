"""Transactions whose end failed half-way, and states that cannot be read."""

import shutil
from pathlib import Path

import pytest

import kstore
from kstore.coordinator.transaction.transaction_state_records import TransactionState, encode_key
from kstore.errors import CorruptRecordError, InvalidTxnStateError, StorageError
from support.stores import QUIET


@pytest.fixture
def store(tmp_path: Path):
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("a", partitions=2)
        opened.create_topic("__transaction_state")  # one partition: quicker than fifty
        yield opened


def committed(store: kstore.Store) -> list[bytes | None]:
    return [each.value for log in store["a"] for each in log.view(isolation="read_committed")]


def send(producer: kstore.TransactionalProducer, text: bytes) -> None:
    for partition in (0, 1):
        producer.send("a", text, partition=partition)


def full(*_: object, **__: object) -> None:
    raise StorageError("the disk is full", errno=28)


@pytest.mark.parametrize("step", ["mark", "flush"])
def test_a_commit_that_failed_after_its_decision_is_finished_by_the_next_call(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    producer = store.transactional_producer("id")
    effects = store._transactions()
    flush, flushed = effects.flush, []

    def flush_once(partition_keys: object) -> None:
        flushed.append(partition_keys)
        if len(flushed) > 1:  # the markers; before the decision it is the records
            full()
        flush(partition_keys)

    with monkeypatch.context() as patch:
        patch.setattr(effects, step, full if step == "mark" else flush_once)
        with pytest.raises(StorageError), producer.transaction():
            send(producer, b"1")
        assert effects.coordinator["id"].state is TransactionState.PREPARE_COMMIT
        with pytest.raises(InvalidTxnStateError):  # it cannot be undone
            producer.abort_transaction()
        flushed.append(None)
        with pytest.raises(StorageError):  # the disk still is full
            producer.begin_transaction()
    with producer.transaction():
        send(producer, b"2")
    assert committed(store) == [b"1", b"2"] * 2
    producer.begin_transaction()
    with pytest.raises(InvalidTxnStateError, match="already has an open"):
        producer.begin_transaction()
    producer.abort_transaction()


@pytest.mark.parametrize("commit", [True, False])
def test_a_producer_that_is_closed_finishes_what_was_decided(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    producer = store.transactional_producer("id")
    effects = store._transactions()
    producer.begin_transaction()
    send(producer, b"1")
    producer.flush()
    with monkeypatch.context() as patch:
        patch.setattr(effects, "mark", full)
        with pytest.raises(StorageError):
            (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    ended = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    assert effects.coordinator["id"].state is ended
    assert committed(store) == [b"1"] * 2 * commit
    assert all(log.last_stable_offset == log.end_offset for log in store["a"])


@pytest.mark.parametrize("step", ["mark", "store"])
def test_an_abort_that_succeeds_on_retry_rewinds_the_consumer(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store["a"][0].append(b"input")
    producer = store.transactional_producer("id")
    effects = store._transactions()
    with store.consumer(group="g", assignment=[("a", 0)], timeout=0) as consumer:
        tp = ("a", 0)

        def fail() -> None:
            with producer.transaction():
                (batch,) = consumer.poll().values()
                assert [record.value for record in batch] == [b"input"]
                producer.send_offsets_to_transaction(consumer)
                producer.flush()
                monkeypatch.setattr(effects, step, full)
                raise RuntimeError("the work failed")

        with pytest.raises(RuntimeError, match="the work failed"):
            fail()
        assert producer.in_transaction
        monkeypatch.undo()
        if step == "store":  # it is not decided yet: the producer has to ask for it again
            producer.abort_transaction()
        producer.begin_transaction()
        assert consumer.position(tp) == 0
        producer.abort_transaction()


def test_an_abort_succeeds_although_the_consumer_is_closed(store: kstore.Store) -> None:
    producer = store.transactional_producer("id")
    producer.begin_transaction()
    with store.consumer(group="g", assignment=[("a", 0)]) as consumer:
        producer.send_offsets_to_transaction(consumer)
    producer.abort_transaction()
    assert not producer.in_transaction


def test_states_that_cannot_be_read_say_what_to_do(store: kstore.Store) -> None:
    (path,) = store.paths
    with store.transactional_producer("id") as producer, producer.transaction():
        send(producer, b"1")
    store["__transaction_state"][0].append(b"\0\x63", key=encode_key("id"))
    store.close()
    with pytest.raises(CorruptRecordError) as caught:
        kstore.open(path, config=QUIET)
    assert "mode='r'" in caught.value.reason
    assert "move __transaction_state-0 away" in caught.value.reason
    with kstore.open(path, mode="r") as reader:
        assert committed(reader) == [b"1"] * 2
    shutil.move(Path(path) / "__transaction_state-0", Path(path).parent / "kept-elsewhere")
    with kstore.open(path, config=QUIET) as again:
        with again.transactional_producer("id") as producer, producer.transaction():
            send(producer, b"2")
        assert committed(again) == [b"1", b"2"] * 2
