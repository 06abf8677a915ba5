"""A topic that is deleted and recreated under its name is another topic for everybody."""

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.errors import (
    InvalidTxnStateError,
    KStoreError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

QUIET = StoreConfig(background=False)
T0, U0 = ("t", 0), ("u", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        fill(opened.create_topic("t"), b"old", 10)
        fill(opened.create_topic("u"), b"other", 10)
        yield opened


@pytest.fixture
def reader(store: Store) -> Iterator[Store]:
    with kstore.open(store.paths, "r", config=QUIET) as opened:
        yield opened


def fill(topic: kstore.Topic, name: bytes, count: int) -> None:
    for number in range(count):
        topic.append(b"%b %d" % (name, number), partition=0)


def make_again(store: Store, count: int = 15, partitions: int = 1) -> kstore.Topic:
    store.delete_topic("t")
    topic = store.create_topic("t", partitions)
    fill(topic, b"new", count)
    return topic


def values(found: dict[kstore.TopicPartition, list[kstore.Record]]) -> list[bytes]:
    return [record.value or b"" for records in found.values() for record in records]


NEW = [b"new %d" % number for number in range(15)]


# --- committed offsets ----------------------------------------------------------------------


def test_a_group_begins_a_recreated_topic_at_its_beginning(store: Store) -> None:
    with store.consumer(["t", "u"], group="g") as consumer:
        consumer.poll()
        consumer.commit()
    make_again(store)
    with store.consumer(["t", "u"], group="g") as consumer:
        assert (consumer.committed(T0), consumer.committed(U0)) == (None, 10)
        assert values(consumer.poll()) == NEW


def test_offsets_committed_in_a_transaction_go_with_the_topic(store: Store) -> None:
    producer = store.transactional_producer("id")
    with producer.transaction():
        producer.send_offsets_to_transaction({T0: 5, U0: 6}, "g")
    make_again(store)
    with store.consumer(["t", "u"], group="g") as consumer:
        assert (consumer.committed(T0), consumer.committed(U0)) == (None, 6)


def test_every_group_in_every_partition_of_the_offsets_is_found(store: Store) -> None:
    groups = [f"group {number}" for number in range(60)]
    for group in groups:
        with store.consumer("t", group=group) as consumer:
            consumer.commit({T0: 5})
    used = {
        partition for (_, partition), end in store.end_offsets("__consumer_offsets").items() if end
    }
    assert len(used) > 20
    make_again(store)
    for group in groups:
        with store.consumer("t", group=group) as consumer:
            assert consumer.committed(T0) is None


def test_deleting_many_topics_reads_the_offsets_once(store: Store) -> None:
    with store.consumer("u", group="g") as consumer:
        for number in range(50):
            consumer.commit({U0: number})
    names = [f"topic{number}" for number in range(5)]
    for name in names:
        store.create_topic(name)
    read: list[int] = []
    log = next(log for log in store["__consumer_offsets"] if log.end_offset)
    original = log.settled

    def count(start: int) -> Iterator[kstore.Record]:
        for record in original(start):
            read.append(record.offset)
            yield record

    log.settled = count
    store._offsets_tables.clear()  # as in a store that was opened again
    for name in names:
        store.delete_topic(name)
    assert len(read) == 50


def test_offsets_that_a_reader_committed_beside_go_with_the_topic(
    store: Store, reader: Store
) -> None:
    with reader.consumer(["t", "u"], group="g") as consumer:
        consumer.commit({T0: 5, U0: 6})
        document = json.loads(Path(store.paths[0], "kstore.offsets.g").read_bytes())
        assert document["format"] == 2
        assert document["topic_ids"] == {"t": store["t"].topic_id, "u": store["u"].topic_id}
        make_again(store)
        assert (consumer.committed(T0), consumer.committed(U0)) == (None, 6)
    with store.consumer(["t", "u"], group="g") as consumer:
        assert (consumer.committed(T0), consumer.committed(U0)) == (None, 6)


def test_offsets_folded_in_later_for_another_topic_id_are_dropped_and_reported(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "kstore.offsets.g"
    with kstore.open(tmp_path, "r") as reader, reader.consumer(["t", "u"], group="g") as consumer:
        consumer.commit({T0: 5, U0: 6})
    late = file.read_bytes()  # as a reader writes it that has not seen the deletion
    make_again(store)
    file.write_bytes(late)
    with store.consumer("t", group="g") as consumer:
        assert consumer.committed(T0) is None  # also before it is folded in
    store.close()
    caplog.clear()
    with kstore.open(tmp_path, config=QUIET) as again:
        assert not file.exists()
        with again.consumer(["t", "u"], group="g") as consumer:
            assert (consumer.committed(T0), consumer.committed(U0)) == (None, 6)
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warned) == 1
    assert "group g: committed offsets dropped" in warned[0]
    assert "t-0 5" in warned[0]
    assert str(file) in warned[0]


def test_offsets_of_a_topic_that_is_not_here_stay_in_their_file(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "kstore.offsets.g"
    with kstore.open(tmp_path, "r") as reader, reader.consumer(["t", "u"], group="g") as consumer:
        consumer.commit({T0: 5, U0: 6})
    late = file.read_bytes()
    store.delete_topic("t")
    file.write_bytes(late)
    store.close()
    with kstore.open(tmp_path, config=QUIET) as again:
        assert "t-0 5" in caplog.text
        assert list(json.loads(file.read_bytes())["offsets"]) == ["t"]
        again.create_topic("t")
        with again.consumer(["t", "u"], group="g") as consumer:
            assert (consumer.committed(T0), consumer.committed(U0)) == (None, 6)


def test_a_deletion_whose_offsets_cannot_be_deleted_is_not_final(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.consumer("t", group="g") as consumer:
        consumer.commit({T0: 5})

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("kstore.store.topic_deletion.forget_topic", fail)
        with pytest.raises(StorageError):
            store.delete_topic("t")
        assert "t" not in store
        with pytest.raises(StorageError):
            store.create_topic("t")
    entry = json.loads((tmp_path / "kstore.topics").read_bytes())["topics"]["t"]
    assert entry["state"] == "deleting"
    fill(store.create_topic("t"), b"new", 15)
    with store.consumer("t", group="g") as consumer:
        assert values(consumer.poll()) == NEW


# --- consumers ------------------------------------------------------------------------------


@pytest.fixture(params=["a", "r"])
def reading(request: pytest.FixtureRequest, store: Store) -> Iterator[Store]:
    """The store itself, and one of another process beside it."""
    if request.param == "a":
        yield store
        return
    with kstore.open(store.paths, "r", config=QUIET) as opened:
        yield opened


@pytest.mark.parametrize("group", ["g", None])
@pytest.mark.parametrize(("reset", "wanted"), [("earliest", NEW), ("latest", [])])
def test_a_live_consumer_is_reset_with_a_warning(
    store: Store, reading: Store, group: str | None, reset: str, wanted: list[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    with reading.consumer(
        "t", group=group, auto_offset_reset=reset, metadata_max_age_ms=0
    ) as consumer:
        consumer.seek_to_beginning()
        assert len(values(consumer.poll())) == 10
        topic = make_again(store)
        assert values(consumer.poll()) == wanted
        assert "topic t was deleted and recreated: its partitions (0)" in caplog.text
        assert f"auto.offset.reset={reset}" in caplog.text
        topic.append(b"later")
        assert values(consumer.poll()) == [b"later"]
        if group is not None:
            consumer.commit()
            assert consumer.committed(T0) == 16


def test_a_live_consumer_that_must_not_be_reset_gets_an_error(store: Store, reading: Store) -> None:
    with reading.consumer(
        "t", group="g", auto_offset_reset="none", metadata_max_age_ms=0
    ) as consumer:
        consumer.seek_to_beginning()
        consumer.poll()
        make_again(store)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="nothing is committed for t-0"):
                consumer.poll()
        consumer.seek_to_beginning()
        assert values(consumer.poll()) == NEW


def test_a_live_consumer_gets_an_error_while_its_topic_is_deleted(
    store: Store, reading: Store
) -> None:
    with reading.consumer("t", metadata_max_age_ms=0) as consumer:
        consumer.poll()
        store.delete_topic("t")
        for _ in range(2):
            with pytest.raises(UnknownTopicOrPartitionError, match="no topic 't'"):
                consumer.poll()
        fill(store.create_topic("t"), b"new", 15)
        assert values(consumer.poll()) == NEW


def test_partitions_that_a_recreated_topic_lacks_are_no_longer_read(
    store: Store, reading: Store
) -> None:
    store.add_partitions("t", 3)
    with (
        reading.consumer("t", group="g", metadata_max_age_ms=0) as chosen,
        reading.consumer(group="h", assignment=[("t", 2)], metadata_max_age_ms=0) as named,
    ):
        chosen.poll()
        named.poll()
        make_again(store, partitions=2)
        assert values(chosen.poll()) == NEW
        assert chosen.assignment == {("t", 0), ("t", 1)}
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
            named.poll()
        store.add_partitions("t", 3)
        with reading.consumer(group="g", assignment=[("t", 2)]):  # no consumer holds it any more
            pass


def test_a_position_in_the_old_topic_is_not_committed_in_the_new_one(
    store: Store, reading: Store
) -> None:
    with reading.consumer(["t", "u"], group="g", metadata_max_age_ms=0) as consumer:
        consumer.poll(max_records=100)
        make_again(store)
        for commit in (consumer.commit, lambda: consumer.commit({T0: 10})):
            with pytest.raises(UnknownTopicIdError, match="topic 't' was deleted since"):
                commit()
        assert (consumer.committed(T0), consumer.committed(U0)) == (None, None)
        assert values(consumer.poll(max_records=100)) == NEW
        consumer.commit()
        assert (consumer.committed(T0), consumer.committed(U0)) == (15, 10)


@pytest.mark.parametrize("is_assigned_again", [False, True])
def test_a_batch_of_the_old_topic_does_not_reach_the_new_one(
    store: Store, reading: Store, is_assigned_again: bool
) -> None:
    """Neither by its commit nor by its view, also where the consumer reads the new topic by now."""
    with reading.consumer(
        group="g", assignment=[T0], max_poll_records=10, metadata_max_age_ms=0
    ) as consumer:
        old = next(consumer.batches())
        assert (old.start_offset, old.stop_offset, len(old)) == (0, 10, 10)
        if is_assigned_again:
            consumer.assign([U0])
        make_again(store)
        if is_assigned_again:
            consumer.assign([T0])
        new = next(consumer.batches())
        assert next(iter(new)).value == NEW[0]
        with pytest.raises(UnknownTopicIdError, match="topic 't' was deleted since"), old:
            pass
        assert consumer.committed(T0) is None
        with pytest.raises(UnknownTopicIdError, match="topic 't' was deleted since"):
            _ = old.view
        with pytest.raises(RuntimeError), old:
            raise RuntimeError
        assert consumer.position(T0) == 10  # not the old batch's beginning
        with new:
            assert len(list(new.view)) == 10
        assert consumer.committed(T0) == 10


def test_no_record_of_another_topic_is_returned_where_a_poll_is_overtaken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is recreated after the consumer has looked, before and after it reads."""
    for method in ("log", "_view"):
        with store.consumer("t") as consumer:
            consumer.poll(max_records=3)
            real = getattr(consumer._fetcher, method)

            def overtaken(*given: object, real=real, method=method) -> object:
                monkeypatch.undo()
                found = real(*given)
                if method == "_view":
                    found = list(found)
                make_again(store)
                return found

            monkeypatch.setattr(consumer._fetcher, method, overtaken)
            assert values(consumer.poll()) == NEW


# --- readers and producers --------------------------------------------------------------------


@pytest.mark.parametrize("before", [1, 3])
def test_a_reader_in_another_process_reads_the_recreated_topic(
    store: Store, reader: Store, before: int
) -> None:
    if before > 1:
        store.add_partitions("t", before)
    log, topic = reader["t"][0], reader["t"]
    assert log.end_offset == 10
    view = list(log)
    store.delete_topic("t")
    for look in (lambda: log.end_offset, lambda: topic[0].end_offset, lambda: len(topic)):
        with pytest.raises(UnknownTopicOrPartitionError):
            look()
    assert "t" not in reader
    fill(store.create_topic("t", 2), b"new", 15)
    assert [record.value for record in topic[0]] == NEW
    assert len(topic) == len(reader["t"]) == 2
    assert reader.end_offsets("t") == {("t", 0): 15, ("t", 1): 0}
    with pytest.raises(UnknownTopicIdError, match="ask the store for the topic again"):
        log.end_offset  # noqa: B018
    assert [record.value for record in view] == [b"old %d" % number for number in range(10)]


def test_a_log_that_lists_the_directories_itself_does_not_hide_the_deletion_from_the_store(
    store: Store, reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kstore.files.modification_time.TICK_NS", -1
    )  # as if all had happened long ago
    log = reader["t"][0]
    assert log.end_offset == 10
    store.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError):
        log.end_offset  # noqa: B018
    assert "t" not in reader
    fill(store.create_topic("t"), b"new", 15)
    assert [record.value for record in reader["t"][0]] == NEW


def test_a_reader_that_looked_neither_at_the_end_nor_between_sees_no_mixture(
    store: Store, reader: Store
) -> None:
    log = reader["t"][0]
    assert log[3].value == b"old 3"
    make_again(store)
    with pytest.raises(UnknownTopicIdError):
        log[3]
    assert reader["t"][0][3].value == b"new 3"


def test_a_reader_follows_a_partition_that_moves_there_and_back(tmp_path: Path) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    with kstore.open(dirs, config=QUIET) as store, kstore.open(dirs, "r", config=QUIET) as reader:
        fill(store.create_topic("t"), b"old", 10)
        log = reader["t"][0]
        assert log.end_offset == 10
        first = Path(store["t"][0].path).parent
        second = next(each for each in dirs if each != first)
        store.move("t", 0, second)
        store.move("t", 0, first)
        assert log.end_offset == 10
        store["t"].append(b"more")
        assert log[10].value == b"more"


@pytest.mark.parametrize("enable_idempotence", [False, True])
def test_a_producer_continues_in_the_recreated_topic(
    store: Store, enable_idempotence: bool
) -> None:
    with store.producer("t", linger_ms=0, enable_idempotence=enable_idempotence) as producer:
        producer.send(b"old").result(30)
        store.delete_topic("t")
        with pytest.raises(UnknownTopicOrPartitionError):
            producer.send(b"lost", partition=0).result(30)
        topic = store.create_topic("t")
        for number in range(3):
            assert producer.send(b"new", partition=0).result(30) == (0, number)
        assert [record.value for record in topic[0]] == [b"new"] * 3


# --- transactions ---------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_transaction_open_across_a_deletion_is_refused_at_commit(
    store: Store, again: bool, flushed: bool
) -> None:
    producer = store.transactional_producer("id")
    producer.begin_transaction()
    producer.send("t", b"lost")
    producer.send("u", b"aborted")
    if flushed:
        producer.flush()
    store.delete_topic("t")
    if again:
        store.create_topic("t")
    with pytest.raises(InvalidTxnStateError, match=r"topic 't', .* can only be aborted"):
        producer.commit_transaction()
    if again:
        with pytest.raises(InvalidTxnStateError):
            producer.send("t", b"into the new topic")
    producer.abort_transaction()
    if not again:
        store.create_topic("t")
    assert store["t"][0].end_offset == 0  # neither records nor markers
    assert store["u"][0].last_stable_offset == store["u"][0].end_offset
    assert len(list(store["u"][0].view(isolation="read_committed"))) == 10
    with producer.transaction():
        producer.send("t", b"next")
    assert [each.value for each in store["t"][0].view(isolation="read_committed")] == [b"next"]


def test_offsets_of_a_recreated_topic_are_not_committed_by_a_transaction(store: Store) -> None:
    with store.consumer("t", group="g") as consumer:
        consumer.poll()
        producer = store.transactional_producer("id")
        producer.begin_transaction()
        producer.send("u", b"aborted")
        producer.send_offsets_to_transaction(consumer)
        make_again(store)
        with pytest.raises(InvalidTxnStateError, match=r"topic 't', .* can only be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert consumer.committed(T0) is None
        with pytest.raises(UnknownTopicIdError):
            consumer.commit({T0: 10})
        assert values(consumer.poll()) == NEW


def test_positions_of_a_recreated_topic_do_not_enter_a_transaction(store: Store) -> None:
    """The transaction begins behind the deletion, with what was read in front of it."""
    with store.consumer("t", group="g") as consumer:
        consumer.poll()
        make_again(store)
        producer = store.transactional_producer("id")
        producer.begin_transaction()
        with pytest.raises(UnknownTopicIdError):
            producer.send_offsets_to_transaction(consumer)
        producer.abort_transaction()
        assert values(consumer.poll()) == NEW
        with producer.transaction():
            producer.send_offsets_to_transaction(consumer)
        assert consumer.committed(T0) == 15


def test_a_deletion_between_the_check_and_the_decision_is_seen(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = store.transactional_producer("id")
    producer.begin_transaction()
    producer.send("t", b"lost")
    producer.flush()
    check = producer._topics.check

    def overtaken() -> None:
        check()
        make_again(store, 0)

    monkeypatch.setattr(producer._topics, "check", overtaken)
    with pytest.raises(InvalidTxnStateError, match=r"topic 't', .* can only be aborted"):
        producer.commit_transaction()
    producer.abort_transaction()
    assert store["t"][0].end_offset == 0


def test_a_transaction_open_at_a_kill_leaves_no_marker_in_the_recreated_topic(
    store: Store, tmp_path: Path
) -> None:
    producer = store.transactional_producer("id")
    producer.begin_transaction()
    producer.send("t", b"lost")
    producer.send("u", b"aborted")
    producer.flush()
    make_again(store, 0)
    store._manager.release()  # as if the process had been killed
    with kstore.open(tmp_path, config=QUIET) as again:
        with again.transactional_producer("id").transaction() as producer:
            producer.send("u", b"next")
        assert again["t"][0].end_offset == 0
        assert [each.value for each in again["u"][0].view(10, isolation="read_committed")] == [
            b"next"
        ]


def test_threads_that_create_and_delete_one_topic_leave_nothing_of_it(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def create_and_delete(store: kstore.Store) -> None:
        for _ in range(30):
            try:
                store.create_topic("race", 2, exist_ok=True, config={"retention.ms": 12345678})
                store.delete_topic("race", missing_ok=True)
            except KStoreError as error:
                errors.append(error)

    with kstore.open(tmp_path) as store:
        threads = [threading.Thread(target=create_and_delete, args=(store,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (errors, store.topics) == ([], [])
        topic = store.create_topic("race", config={"retention.ms": 12345678})
        assert topic.config["retention.ms"] == 12345678
        store.delete_topic("race")
    with kstore.open(tmp_path) as store:
        assert store.topics == []
