"""Transactional producers: all or nothing over several partitions, also after crashes."""

import os
import threading
from pathlib import Path
from time import sleep

import pytest

import kstore
from kstore import TopicPartition
from kstore.coordinator.transaction.transaction_state_records import (
    TransactionMetadata,
    TransactionState,
    decode_value,
    encode_key,
    encode_value,
)
from kstore.errors import (
    ClosedError,
    ForkedError,
    InvalidConfigError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    LogDirOfflineError,
    ProducerFencedError,
    ReadOnlyError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.producer_state.producer_ids import LOWEST_PRODUCER_ID
from kstore.record.builder import BatchBuilder
from support.stores import QUIET

COMMITTED = "read_committed"


def committed(store: kstore.Store, topic: str) -> list[bytes | None]:
    return [record.value for log in store[topic] for record in log.view(isolation=COMMITTED)]


def everything(store: kstore.Store, topic: str) -> list[bytes | None]:
    return [record.value for log in store[topic] for record in log]


def state(store: kstore.Store, name: str) -> TransactionState:
    return store._transactions().coordinator[name].state


@pytest.fixture
def store(tmp_path: Path):
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("a", partitions=2)
        opened.create_topic("b")
        opened.create_topic("__transaction_state")  # one partition: quicker than fifty
        yield opened


def test_a_commit_shows_everything_at_once(store) -> None:
    producer = store.transactional_producer("id")
    with producer.transaction() as transaction:
        assert transaction is producer
        assert producer.send("a", b"1", partition=0) == TopicPartition("a", 0)
        producer.send("a", b"2", partition=1)
        producer.send("b", b"3", key=b"k", headers=[("h", b"x")], timestamp=1000)
        assert producer.flush(10) == 0
        assert everything(store, "a") == [b"1", b"2"]
        assert committed(store, "a") == committed(store, "b") == []
    assert committed(store, "a") == [b"1", b"2"]
    (record,) = store["b"][0].view(isolation=COMMITTED)
    assert (record.value, record.key, record.headers) == (b"3", b"k", (("h", b"x"),))
    assert record.timestamp == 1000
    assert state(store, "id") is TransactionState.COMPLETE_COMMIT


def test_an_error_in_the_block_aborts(store) -> None:
    producer = store.transactional_producer("id")

    def fail() -> None:
        with producer.transaction():
            producer.send("a", b"1", partition=0)
            producer.flush()
            producer.send("a", b"2", partition=1)  # never written
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not producer.in_transaction
    assert everything(store, "a") == [b"1"]
    assert committed(store, "a") == []
    with producer.transaction():
        producer.send("a", b"3", partition=0)
        producer.send("a", b"4", partition=1)
    assert committed(store, "a") == [b"3", b"4"]


def test_calls_outside_a_transaction_are_errors_and_a_commit_makes_records_visible(store) -> None:
    producer = store.transactional_producer("id")
    for call in (
        producer.commit_transaction,
        producer.abort_transaction,
        producer.flush,
        lambda: producer.send("b", b"x"),
        lambda: producer.send_offsets_to_transaction({("b", 0): 1}, "g"),
    ):
        with pytest.raises(InvalidTxnStateError, match="no transaction"):
            call()
    producer.begin_transaction()
    with pytest.raises(InvalidTxnStateError, match="already"):
        producer.begin_transaction()
    producer.send("b", b"1")
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("b", b"2")
    producer.abort_transaction()
    assert committed(store, "b") == [b"1"]


def test_a_transaction_of_nothing_writes_nothing(store) -> None:
    producer = store.transactional_producer("id")
    before = store.end_offsets()
    for commit in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        commit()
    assert store.end_offsets() == before


def test_full_batches_are_written_before_the_commit(store) -> None:
    producer = store.transactional_producer("id", batch_size=1000, compression="gzip")
    with producer.transaction():
        for n in range(100):
            producer.send("b", b"%d" % n * 20)
        assert 0 < len(everything(store, "b")) <= 100
    assert committed(store, "b") == [b"%d" % n * 20 for n in range(100)]


def test_several_transactions_side_by_side(store) -> None:
    one, two = store.transactional_producer("1"), store.transactional_producer("2")
    one.begin_transaction()
    two.begin_transaction()
    one.send("b", b"1")
    one.flush()
    two.send("b", b"2")
    two.commit_transaction()
    assert committed(store, "b") == []  # behind the open one
    one.abort_transaction()
    assert committed(store, "b") == [b"2"]
    assert one.producer_id != two.producer_id
    assert min(one.producer_id, two.producer_id) >= 2**62


# --- one producer an id -----------------------------------------------------------------------


def test_a_second_producer_fences_the_first(store) -> None:
    first = store.transactional_producer("id")
    first.begin_transaction()
    first.send("b", b"1")
    first.flush()
    second = store.transactional_producer("id")
    assert store["b"][0].last_stable_offset == store["b"][0].end_offset == 2
    for call in (
        first.commit_transaction,
        first.abort_transaction,
        lambda: first.send("a", b"x"),
    ):
        with pytest.raises(ProducerFencedError) as caught:
            call()
        assert caught.value.code == 90
    first.close()
    store.transactional_producer("id").begin_transaction()
    with pytest.raises(ProducerFencedError):
        second.begin_transaction()


def test_a_fenced_producer_cannot_write_to_a_partition_it_was_in(store) -> None:
    first = store.transactional_producer("id")

    def go_on() -> None:
        with first.transaction():
            first.send("b", b"1")
            first.flush()
            with store.transactional_producer("id").transaction() as second:
                second.send("b", b"2")
            first.send("b", b"3")
            first.flush()

    with pytest.raises(ProducerFencedError):
        go_on()
    assert committed(store, "b") == [b"2"]
    assert everything(store, "b") == [b"1", b"2"]


def test_a_transaction_beyond_its_timeout_is_aborted(store) -> None:
    producer = store.transactional_producer("id", timeout_ms=1)
    producer.begin_transaction()
    producer.send("b", b"1")
    producer.flush()
    threading.Event().wait(0.01)
    store._transactions().run_maintenance()
    assert store["b"][0].last_stable_offset == 2
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    assert committed(store, "b") == []
    with store.transactional_producer("id").transaction() as again:
        again.send("b", b"2")
    assert committed(store, "b") == [b"2"]


# --- restarts ---------------------------------------------------------------------------------


def test_a_producer_continues_after_a_restart(tmp_path: Path) -> None:
    epochs = []
    for n in range(3):
        with kstore.open(tmp_path, config=QUIET) as store:
            store.create_topic("a", exist_ok=True)
            producer = store.transactional_producer("id")
            with producer.transaction():
                producer.send("a", b"%d" % n)
            epochs.append((producer.producer_id, producer.producer_epoch))
            assert committed(store, "a") == [b"%d" % each for each in range(n + 1)]
    assert [epoch for _, epoch in epochs] == [0, 1, 2]
    assert len({producer_id for producer_id, _ in epochs}) == 1


def test_closing_aborts_the_open_transaction(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("a")
        producer = store.transactional_producer("id")
        producer.begin_transaction()
        producer.send("a", b"1")
        producer.flush()
    with pytest.raises(ClosedError):
        producer.send("a", b"2")
    with kstore.open(tmp_path, mode="r") as store:
        assert committed(store, "a") == []
        assert store["a"][0].last_stable_offset == 2
        with pytest.raises(ReadOnlyError):
            store.transactional_producer("id")


def test_a_transaction_whose_topic_is_deleted_can_only_be_aborted(store) -> None:
    producer = store.transactional_producer("id")
    producer.begin_transaction()
    producer.send("b", b"1")
    producer.send("a", b"2", partition=0)
    producer.flush()
    store.delete_topic("b")
    with pytest.raises(InvalidTxnStateError, match=r"topic .b., .* can only be aborted"):
        producer.commit_transaction()
    producer.abort_transaction()
    assert committed(store, "a") == []
    with producer.transaction():
        producer.send("a", b"3", partition=0)
    assert committed(store, "a") == [b"3"]


def test_states_are_kafka_s_records(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("b")
        with store.transactional_producer("txn-1").transaction() as transaction:
            transaction.send("b", b"1")
        topic = store["__transaction_state"]
        assert len(topic) == 50
        assert topic.config.cleanup_policy == "compact"
        records = list(topic[10])  # where Kafka's hash of "txn-1" puts it
    states = [decode_value("txn-1", record.value) for record in records]
    assert [record.key for record in records] == [b"\x00\x00\x00\x05txn-1"] * 4
    assert [each.state.name for each in states] == [
        "EMPTY", "ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT",
    ]  # fmt: skip
    assert [set(each.partitions) for each in states] == [set(), {("b", 0)}, {("b", 0)}, set()]


# --- offsets ----------------------------------------------------------------------------------


def test_consume_transform_produce_is_exactly_once_after_an_abort(store) -> None:
    store["a"][0].extend([b"%d" % n for n in range(10)])
    producer = store.transactional_producer("id")
    with store.consumer(
        group="g", assignment=[("a", 0)], isolation_level=COMMITTED, max_poll_records=4, timeout=0
    ) as consumer:
        failed = False
        for batch in consumer:
            try:
                with producer.transaction():
                    for record in batch:
                        producer.send("b", b"<" + record.value + b">")
                    producer.send_offsets_to_transaction(consumer)
                    if batch.start_offset == 4 and not failed:
                        failed = True
                        raise KeyError
            except KeyError:
                assert consumer.committed(("a", 0)) == 4
                continue
            assert consumer.committed(("a", 0)) == batch.stop_offset
    assert failed
    assert committed(store, "b") == [b"<%d>" % n for n in range(10)]
    with store.consumer(group="g", assignment=[("a", 0)], timeout=0) as consumer:
        assert consumer.position(("a", 0)) == 10


def test_offsets_of_an_open_transaction_do_not_count(store) -> None:
    producer = store.transactional_producer("id")
    with store.consumer(group="g", assignment=[("a", 0), ("a", 1)]) as consumer:
        consumer.commit({("a", 0): 5})
        producer.begin_transaction()
        producer.send_offsets_to_transaction({("a", 0): 7, ("a", 1): 8}, "g")
        producer.flush()
        with store.consumer(group="g") as other:
            assert other.committed(("a", 0)) == 5
            assert other.committed(("a", 1)) is None
        consumer.commit({("a", 1): 3})  # beside the open one, and later: it counts at once
        with store.consumer(group="g") as other:
            assert other.committed(("a", 1)) == 3
        producer.commit_transaction()
        with store.consumer(group="g") as other:
            assert other.committed(("a", 0)) == 7
            assert other.committed(("a", 1)) == 3


def test_a_consumer_that_looked_before_sees_the_commit(store) -> None:
    producer = store.transactional_producer("id")
    with store.consumer(group="g") as watcher:
        for offset, commit in ((1, True), (2, False), (3, True)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({("a", 0): offset}, "g")
            producer.flush()
            assert watcher.committed(("a", 0)) == {1: None, 2: 1, 3: 1}[offset]
            (producer.commit_transaction if commit else producer.abort_transaction)()
            assert watcher.committed(("a", 0)) == {1: 1, 2: 1, 3: 3}[offset]


def test_offsets_survive_a_restart_and_show_to_readers(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("a")
        with store.transactional_producer("id").transaction() as transaction:
            transaction.send_offsets_to_transaction({("a", 0): 7}, "g")
        aborted = store.transactional_producer("id")
        aborted.begin_transaction()
        aborted.send_offsets_to_transaction({("a", 0): 9}, "g")
        aborted.flush()
        aborted.abort_transaction()
    for mode in ("r", "a"):
        with kstore.open(tmp_path, mode=mode) as store, store.consumer(group="g") as consumer:
            assert consumer.committed(("a", 0)) == 7


def test_sending_offsets_needs_the_name_of_the_group(store) -> None:
    with store.transactional_producer("id").transaction() as transaction:
        with pytest.raises(InvalidConfigError, match="name it"):
            transaction.send_offsets_to_transaction({("a", 0): 7})
        with store.consumer("a") as consumer, pytest.raises(InvalidConfigError):
            transaction.send_offsets_to_transaction(consumer)


# --- mistakes ---------------------------------------------------------------------------------


def test_settings_are_checked(store) -> None:
    with pytest.raises(InvalidConfigError, match="transactional"):
        store.transactional_producer("")
    with pytest.raises(InvalidConfigError, match="acks"):
        store.transactional_producer("id", acks=0)
    with pytest.raises(InvalidConfigError, match="compression"):
        store.transactional_producer("id", compression="rar")
    with pytest.raises(InvalidConfigError, match="batch_size"):
        store.transactional_producer("id", batch_size=0)
    with pytest.raises(InvalidTransactionTimeoutError):
        store.transactional_producer("id", timeout_ms=10**9)


def test_a_bad_record_leaves_the_transaction_usable(store) -> None:
    with store.transactional_producer("id").transaction() as transaction:
        with pytest.raises(TypeError):
            transaction.send("b", "text")
        with pytest.raises(UnknownTopicOrPartitionError):
            transaction.send("b", b"x", partition=9)
        with pytest.raises(UnknownTopicOrPartitionError):
            transaction.send("nowhere", b"x")
        transaction.send("b", b"1")
    assert committed(store, "b") == [b"1"]


def test_not_in_a_forked_child(store) -> None:
    producer = store.transactional_producer("id")
    producer.begin_transaction()
    producer.send("b", b"1")
    child = os.fork()
    if child == 0:
        try:
            producer.send("b", b"2")
        except ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    producer.commit_transaction()
    assert committed(store, "b") == [b"1"]


def test_a_broker_s_coordinator_ended_what_the_producer_had_open(store):
    """Under a higher epoch than kstore's own coordinator has: that is no reason to be fenced."""
    producer = store.transactional_producer("shared")
    log = store.create_topic("marked")[0]
    producer.begin_transaction()
    producer.send("marked", b"1", partition=0)
    producer.flush()
    (entry,) = log.producers()
    log.append_end_marker(
        entry.producer_id, entry.producer_epoch, commit=False, coordinator_epoch=7
    )
    producer.abort_transaction()
    with producer.transaction():
        producer.send("marked", b"2", partition=0)
    assert committed(store, "marked") == [b"2"]
    assert {each.coordinator_epoch for each in log.producers()} == {7}


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_waits_for_a_missing_directory(tmp_path: Path, commit: bool) -> None:
    """Else half of a committed transaction is taken for an unknown one, and aborted."""
    dirs = tmp_path / "d1", tmp_path / "d2"
    with kstore.open(dirs, config=QUIET) as store:
        for name in ("__transaction_state", "a", "b"):
            store.create_topic(name)
        here = Path(store["__transaction_state"][0].path).parent
        far, near = ("b", "a") if Path(store["a"][0].path).parent == here else ("a", "b")
        away = Path(store[far][0].path).parent
        assert away != here
        producer = store.transactional_producer("id")
        producer.begin_transaction()
        for name in ("a", "b"):
            producer.send(name, b"1", partition=0)
        producer.flush()
        coordinator = store._transactions().coordinator
        coordinator._decide(coordinator["id"], commit=commit)
        producer._open = False  # as if it had been killed here
    away.rename(tmp_path / "away")
    away.write_bytes(b"no directory")
    with kstore.open(dirs, config=QUIET) as store:
        assert store[near][0].last_stable_offset == 2
        assert committed(store, near) == [b"1"] * commit
        assert state(store, "id") in (
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
        )
        with pytest.raises(LogDirOfflineError):
            store.transactional_producer("id")
        with store.transactional_producer("other") as other, other.transaction():
            other.send(near, b"2", partition=0)
    away.unlink()
    (tmp_path / "away").rename(away)
    with kstore.open(dirs, config=QUIET) as store:
        assert committed(store, far) == [b"1"] * commit
        assert committed(store, near) == [b"1"] * commit + [b"2"]
        assert state(store, "id") in (
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


def test_sequences_of_a_write_whose_outcome_is_unknown_are_not_used_again(store, monkeypatch):
    """The batch is in the log, but its append raised: the next one must not pass for it."""
    producer = store.transactional_producer("id")
    log = store["a"][0]
    append = log.append_as_leader

    def append_and_fail(batch: bytes) -> None:
        append(batch)
        raise StorageError("no descriptor left", errno=24)

    producer.begin_transaction()
    producer.send("a", b"lost", partition=0)
    with monkeypatch.context() as patch:
        patch.setattr(log, "append_as_leader", append_and_fail)
        with pytest.raises(StorageError):
            producer.flush()
    producer.abort_transaction()
    with producer.transaction():
        producer.send("a", b"kept", partition=0)
    assert everything(store, "a") == [b"lost", b"kept"]
    assert committed(store, "a") == [b"kept"]


def open_for(store: kstore.Store, topic: str, producer_id: int, epoch: int = 0) -> int:
    """A transaction begun in partition 0 by a producer that is gone; its first offset."""
    builder = BatchBuilder()
    builder.append(b"of %d" % producer_id, timestamp=1)
    builder.set_producer(producer_id, epoch, 0)
    return store[topic][0].append_as_leader(builder.build(attributes=0x10)).first_offset


def test_an_unfinished_transaction_of_a_broker_stays_open(tmp_path: Path, caplog) -> None:
    """The marker of a commit may be what a power cut took: to abort would undo the commit."""
    with kstore.open(tmp_path, config=QUIET) as store:
        for name in ("__transaction_state", "a"):
            store.create_topic(name)
        open_for(store, "a", 1008)
        store["a"][0].append(b"behind")
        ended = TransactionMetadata(
            "of a broker", 1008, 0, 60_000, TransactionState.COMPLETE_COMMIT
        )
        log = store["__transaction_state"][0]
        log.append(encode_value(ended), key=encode_key("of a broker"))
    with kstore.open(tmp_path, config=QUIET) as store:
        assert (store["a"][0].last_stable_offset, store["a"][0].end_offset) == (0, 2)
        assert "a-0: a transaction hangs (producer id 1008, from offset 0)" in caplog.text
        store["a"][0].append_end_marker(1008, 0, commit=True)
        assert committed(store, "a") == [b"of 1008", b"behind"]


def test_a_broker_s_transaction_is_on_disk_aborted_before_its_id_is_taken_over(
    store, monkeypatch
) -> None:
    """Afterwards nothing could show whether it had been committed."""
    log, flushed = store["b"][0], []
    open_for(store, "b", 1008)
    ongoing = TransactionMetadata(
        "taken", 1008, 0, 60_000, TransactionState.ONGOING, frozenset({("b", 0)})
    )
    effects = store._transactions()
    effects.coordinator.load(ongoing)
    flush = effects.flush
    monkeypatch.setattr(effects, "flush", lambda keys: (flush(keys), flushed.append(
        (list(keys), effects.coordinator["taken"].state, log.last_stable_offset)
    )))  # fmt: skip
    producer = store.transactional_producer("taken")
    assert producer.producer_id >= LOWEST_PRODUCER_ID
    assert flushed == [([("b", 0)], TransactionState.PREPARE_ABORT, log.end_offset)]
    assert committed(store, "b") == []


def begun(store: kstore.Store, value: bytes) -> kstore.TransactionalProducer:
    """A commit in both partitions of "a", and a transaction after it, whose process then dies."""
    producer = store.transactional_producer("id")
    with producer.transaction():
        for partition in (0, 1):
            producer.send("a", b"committed", partition=partition)
    sleep(0.003)  # the next one's marker would have another millisecond
    producer.begin_transaction()
    producer.send("a", value, partition=0)
    producer.flush()
    producer._open = False
    return producer


def states_cut_behind(store: kstore.Store, last: TransactionState) -> None:
    """A power cut took what the log of states had after the last of these; the rest remains."""
    log = store["__transaction_state"][0]
    found = [r.offset for r in log if decode_value("id", r.value or b"").state is last]
    log.truncate_to(found[-1] + 1)


@pytest.mark.parametrize(
    "last", [TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT]
)
def test_a_commit_that_is_finished_again_is_not_the_next_transaction_s(
    tmp_path: Path, last: TransactionState
) -> None:
    """Its records were on disk before the states that would have named them."""
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("__transaction_state")
        store.create_topic("a", partitions=2)
        begun(store, b"never committed")
        states_cut_behind(store, last)
    with kstore.open(tmp_path, config=QUIET) as store:
        assert everything(store, "a") == [b"committed", b"never committed", b"committed"]
        assert committed(store, "a") == [b"committed"] * 2
        assert [log.last_stable_offset == log.end_offset for log in store["a"]] == [True, True]


@pytest.mark.parametrize("before", [0, 2])
def test_a_commit_whose_marker_was_lost_is_marked_again(
    tmp_path: Path, caplog, before: int
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("__transaction_state")
        store.create_topic("a", partitions=2)
        producer = store.transactional_producer("id", acks=1)
        for number in range(before + 1):
            sleep(0.003)
            with producer.transaction():
                for partition in (0, 1):
                    producer.send("a", b"%d" % number, partition=partition)
        store._manager.owns_producer = None  # a power failure would not write the marker again
        store["a"][1].truncate_to(store["a"][1].end_offset - 1)
        assert committed(store, "a").count(b"%d" % before) == 1
    with kstore.open(tmp_path, config=QUIET) as store:
        assert committed(store, "a") == [b"%d" % n for n in range(before + 1)] * 2
    assert "a-1: the marker of a committed transaction was lost" in caplog.text
