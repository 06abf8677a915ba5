"""Single partitions of a topic, by topic id: created, opened and deleted alone."""

import contextlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store
from kstore.coordinator.group.offsets_store import OffsetsStore
from kstore.errors import (
    InconsistentTopicIdError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidTopicError,
    InvalidTxnStateError,
    PolicyViolationError,
    ReadOnlyError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicOrPartitionError,
)
from support.stores import QUIET, leave_to_kafka, make_kafkas_partition, snapshot

A, B = "KkfQFslATR-nwp1ii66Mkw", "wl29c-eVQmCyOOzKBLyFwA"
NUMBERS = (1, 4, 7)


def open_store(path: Path | list[Path], mode: str = "a") -> Store:
    return kstore.open(path, mode, config=QUIET)


def make(path: Path | list[Path], topic_id: str = A) -> None:
    """A store with partitions 1, 4 and 7 of a topic, with so many records."""
    with open_store(path) as store:
        for number in NUMBERS:
            store.create_partition("t", number, topic_id=topic_id).extend([b"v"] * number)


def entry(path: Path, topic: str = "t") -> Any:
    return json.loads((path / "kstore.topics").read_bytes())["topics"].get(topic)


def folders(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def committed(store: Store, topic: str, partition: int = 0) -> list[bytes | None]:
    return [each.value for each in store[topic][partition].view(isolation="read_committed")]


# --- creation -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_directory_holds_some_partitions_of_a_topic(tmp_path: Path, mode: str) -> None:
    make(tmp_path)
    assert folders(tmp_path) == ["t-1", "t-4", "t-7"]
    for number in NUMBERS:
        text = (tmp_path / f"t-{number}" / "partition.metadata").read_text()
        assert text == f"version: 0\ntopic_id: {A}"
    with open_store(tmp_path, mode) as store:
        assert list(store) == ["t"]
        topic = store["t"]
        assert (topic.partitions, len(topic), topic.topic_id) == (NUMBERS, 8, A)
        assert topic.end_offsets() == {1: 1, 4: 4, 7: 7}
        assert store.partition("t", 4) is topic[4]
        assert store.partition("t", 4, topic_id=A).end_offset == 4
        assert store.verify().ok
        with pytest.raises(UnknownPartitionError, match="has no partition 5 here; it has 1, 4, 7"):
            store.partition("t", 5)


def test_nothing_is_missed_that_was_never_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path)
    with caplog.at_level(logging.WARNING, "kstore"), open_store(tmp_path) as store:
        assert store.verify().warnings == []
    assert caplog.messages == []
    assert entry(tmp_path)["held"] == [1, 4, 7]


def test_the_id_of_the_topic_is_the_default(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create_partition("t", 3)
        store.create_partition("t", 5)
        assert store["t"].topic_id is not None
        ids = {(tmp_path / name / "partition.metadata").read_text() for name in folders(tmp_path)}
        assert ids == {f"version: 0\ntopic_id: {store['t'].topic_id}"}
        with pytest.raises(InconsistentTopicIdError):
            store.create_partition("t", 6, topic_id=A)


def test_settings_are_those_of_a_new_topic_and_stay(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.create_partition("t", 1, config={"retention.ms": 5000})
        assert log.config.retention_ms == 5000
        assert store.create_partition("t", 4, config={"retention.ms": 7000}).config == log.config
    assert entry(tmp_path)["config"]["retention.ms"] == "5000"


def test_a_partition_with_another_id_is_refused_and_unchanged(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        before = snapshot(tmp_path)
        for refused in (
            lambda: store.create_partition("t", 5, topic_id=B),
            lambda: store.create_partition("t", 4, topic_id=B),
            lambda: store.create_partition("t", 4, topic_id=B, exist_ok=True),
            lambda: store.partition("t", 4, topic_id=B),
            lambda: store.delete_partition("t", 4, topic_id=B),
        ):
            with pytest.raises(InconsistentTopicIdError, match=A) as caught:
                refused()
            assert caught.value.code == 103
        assert snapshot(tmp_path) == before
        assert store["t"].partitions == NUMBERS


def test_the_own_file_of_a_partition_counts(tmp_path: Path) -> None:
    """Not the id of its topic: the folder of another topic was copied here."""
    make(tmp_path)
    (tmp_path / "t-4" / "partition.metadata").write_text(f"version: 0\ntopic_id: {B}")
    with open_store(tmp_path, "r") as store:
        assert store.partition("t", 7, topic_id=A)
        assert store.partition("t", 4, topic_id=B)
        with pytest.raises(InconsistentTopicIdError):
            store.partition("t", 4, topic_id=A)


def test_an_existing_partition_is_refused_or_returned(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        with pytest.raises(TopicExistsError, match="partition t-4 already exists"):
            store.create_partition("t", 4, topic_id=A)
        assert store.create_partition("t", 4, topic_id=A, exist_ok=True) is store["t"][4]
        assert store.create_partition("t", 4, exist_ok=True).end_offset == 4


def test_arguments_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        before = sorted(tmp_path.iterdir())
        wrong: Any
        for wrong in (-1, 1_000_000, True, 1.0, "1", None):
            for call in (store.create_partition, store.partition, store.delete_partition):
                with pytest.raises(InvalidPartitionsError, match="0 to 999999"):
                    call("t", wrong)
        for wrong in (5, "short", "AAAAAAAAAAAAAAAAAAAAAA"):
            with pytest.raises(InvalidConfigError):
                store.create_partition("t", 1, topic_id=wrong)
        with pytest.raises(InvalidTopicError):
            store.create_partition("a/b", 1)
        with pytest.raises(InvalidConfigError):
            store.create_partition("t", 1, config={"no.such.setting": "1"})
        assert sorted(tmp_path.iterdir()) == before
        store.create_topic("a.b")
        with pytest.raises(InvalidTopicError, match="collides"):
            store.create_partition("a_b", 1)


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path, "r") as store:
        for call in (store.create_partition, store.delete_partition):
            with pytest.raises(ReadOnlyError):
                call("t", 4)
    assert folders(tmp_path) == ["t-1", "t-4", "t-7"]


def test_partitions_are_spread_over_the_directories(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    make(dirs)
    assert sorted(len(folders(each)) for each in dirs) == [1, 2]
    with open_store(dirs) as store:
        assert store["t"].end_offsets() == {1: 1, 4: 4, 7: 7}


# --- deletion -----------------------------------------------------------------------------


def test_one_partition_is_deleted_alone(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        topic, log = store["t"], store["t"][4]
        store.delete_partition("t", 4, topic_id=A)
        assert (topic.partitions, log.closed) == ((1, 7), True)
        with pytest.raises(UnknownPartitionError):
            store.delete_partition("t", 4)
        store.delete_partition("t", 4, missing_ok=True)
        store.delete_partition("other", 4, missing_ok=True)
        with pytest.raises(UnknownTopicOrPartitionError):
            store.delete_partition("other", 4)
    assert folders(tmp_path) == ["t-1", "t-7"]
    assert entry(tmp_path)["held"] == [1, 7]
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert "t 4 " not in (tmp_path / name).read_text()
    with open_store(tmp_path) as store:
        assert store["t"].end_offsets() == {1: 1, 7: 7}
        log = store.create_partition("t", 4, topic_id=A)
        assert (log.start_offset, log.end_offset) == (0, 0)


def test_a_reader_in_another_process_follows(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store, open_store(tmp_path, "r") as reader:
        topic = reader["t"]
        assert topic[4].end_offset == 4
        store.delete_partition("t", 4)
        assert topic.partitions == (1, 7)
        store.create_partition("t", 4).append(b"new")
        store.flush()
        assert topic.partitions == NUMBERS
        assert [record.value for record in topic[4]] == [b"new"]
        store.create_partition("t", 9).append(b"v")
        assert (len(topic), topic[9].end_offset) == (10, 1)


def test_a_topic_of_which_the_last_partition_was_deleted(tmp_path: Path) -> None:
    """Its settings and committed offsets are those of the same id, and of no other."""
    with open_store(tmp_path) as store:
        store.create_partition("t", 4, topic_id=A, config={"retention.ms": 5000}).append(b"v")
        with store.consumer("t", group="g") as consumer:
            consumer.commit({("t", 4): 1})
        store.delete_partition("t", 4)
        assert "t" not in store
        with pytest.raises(UnknownTopicOrPartitionError):
            store["t"]
    with open_store(tmp_path) as store:
        assert store.create_partition("t", 7, topic_id=A).config.retention_ms == 5000
        assert store.group("g").offsets["t", 4].offset == 1
        store.delete_partition("t", 7)
        log = store.create_partition("t", 4, topic_id=B)
        assert (store["t"].topic_id, log.config.retention_ms) == (B, -1)
        with store.consumer(assignment=[("t", 4)], group="g") as consumer:
            assert consumer.committed(("t", 4)) is None


def create_again(store: Store) -> None:
    store.create_topic("t", 2)


def delete_again(store: Store) -> None:
    store.delete_topic("t")
    store.create_topic("t", 2)


@pytest.mark.parametrize("call", [create_again, delete_again])
def test_a_whole_topic_takes_the_name_of_an_emptied_one(
    tmp_path: Path, call: Callable[[Store], None]
) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        for number in NUMBERS:
            store.delete_partition("t", number)
        call(store)
        assert (store["t"].partitions, len(store["t"])) == ((0, 1), 2)
        assert store["t"].topic_id != A
    assert "held" not in entry(tmp_path)


def test_a_partial_topic_is_deleted_as_a_whole(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        store.delete_topic("t")
        assert store.create_topic("t", 2).partitions == (0, 1)
    assert folders(tmp_path) == ["t-0", "t-1"]


def test_a_whole_topic_becomes_a_partial_one(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        topic = store.create_topic("t", 3)
        store.delete_partition("t", 1)
        assert topic.partitions == (0, 2)
        store.create_partition("t", 7)
        with pytest.raises(PolicyViolationError, match="has only 0, 2, 7 of"):
            topic.add_partitions(9)
        with pytest.raises(TopicExistsError, match="has only its partitions 0, 2, 7"):
            store.create_topic("t", 8, exist_ok=True)
    with open_store(tmp_path) as store:
        assert store["t"].partitions == (0, 2, 7)


# --- losses -------------------------------------------------------------------------------


def test_a_lost_partition_is_reported_and_not_created_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path)
    shutil.rmtree(tmp_path / "t-4")
    with caplog.at_level(logging.WARNING, "kstore"), open_store(tmp_path) as store:
        assert "kstore.topics has t-4, but no such folder exists" in caplog.text
        assert "t-5" not in caplog.text
        (lost,) = store.verify().warnings
        assert (lost.kind, lost.path) == ("missing", str(tmp_path / "t-4"))
        with pytest.raises(UnknownPartitionError, match="t-4 is lost"):
            store.create_partition("t", 4, topic_id=A)
        with pytest.raises(InconsistentTopicIdError):
            store.delete_partition("t", 4, topic_id=B)
        store.delete_partition("t", 4, topic_id=A)
        assert store.verify().warnings == []
        assert store.create_partition("t", 4, topic_id=A).end_offset == 0


def test_a_folder_that_was_put_here_is_one_more(tmp_path: Path) -> None:
    make(tmp_path)
    shutil.copytree(tmp_path / "t-4", tmp_path / "t-6")
    with open_store(tmp_path) as store:
        assert store["t"].partitions == (1, 4, 6, 7)
    assert entry(tmp_path)["held"] == [1, 4, 6, 7]


def test_a_partition_that_may_be_in_an_offline_directory(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    make(dirs)
    lost = next(each for each in dirs if (each / "t-4").exists())
    hidden = lost.rename(tmp_path / "hidden")
    lost.write_text("not a directory")
    with open_store(dirs) as store:
        assert 4 not in store["t"].partitions
        for number, is_new in ((4, False), (4, True), (5, False)):
            with pytest.raises(kstore.errors.LogDirOfflineError):
                store.create_partition("t", number, is_new=is_new)
        with pytest.raises(kstore.errors.LogDirOfflineError):
            store.delete_partition("t", 4)
        assert store.create_partition("t", 5, is_new=True).end_offset == 0
    lost.unlink()
    hidden.rename(lost)
    with open_store(dirs) as store:
        assert store["t"].partitions == (1, 4, 5, 7)


# --- topics of Kafka ----------------------------------------------------------------------


@pytest.fixture
def kafkas(tmp_path: Path) -> Path:
    """The directory of a broker that has 1, 4 and 7 of a topic."""
    make(tmp_path)
    return leave_to_kafka(tmp_path)


def test_the_directory_of_a_broker_with_some_partitions(kafkas: Path) -> None:
    with open_store(kafkas) as store:
        assert store["t"].partitions == NUMBERS
        assert store.partition("t", 4, topic_id=A).end_offset == 4
        store.create_partition("t", 5, topic_id=A).append(b"v")
        with pytest.raises(PolicyViolationError, match="foreign=True"):
            store.delete_partition("t", 4)
        store.delete_partition("t", 4, foreign=True)
        assert store["t"].partitions == (1, 5, 7)
    assert not (kafkas / "kstore.topics").exists()
    assert folders(kafkas) == ["t-1", "t-5", "t-7"]


def test_settings_of_a_topic_of_kafka_do_not_make_its_other_partitions_lost(
    kafkas: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(kafkas) as store:
        store.alter_topic("t", {"retention.ms": 5000})
    assert entry(kafkas)["held"] == [1, 4, 7]
    with caplog.at_level(logging.WARNING, "kstore"), open_store(kafkas) as store:
        store.create_partition("t", 9, topic_id=A)
        store.delete_partition("t", 1)
        assert store.verify().warnings == []
    assert caplog.messages == []
    assert (entry(kafkas)["held"], entry(kafkas)["topic_id"]) == ([4, 7, 9], A)


def test_a_topic_without_an_id_gets_the_one_that_its_cluster_has_given_it(tmp_path: Path) -> None:
    for number in (1, 4):
        make_kafkas_partition(tmp_path, "t", number)
    with open_store(tmp_path) as store:
        assert store.partition("t", 4, topic_id=B).topic == "t"  # it matches any
        store.create_partition("t", 7, topic_id=A)
        for number in NUMBERS:
            assert store.partition("t", number, topic_id=A)
            with pytest.raises(InconsistentTopicIdError):
                store.partition("t", number, topic_id=B)


# --- appends and reads --------------------------------------------------------------------


def test_records_without_a_key_go_to_partitions_that_are_here(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        topic = store["t"]
        topic.alter({"retention.ms": -1})
        chosen = {topic.append(b"v" * 20_000).partition for _ in range(100)}
        assert chosen == set(NUMBERS)
        assert set(topic.extend([b"v" * 20_000] * 100)) == set(NUMBERS)
        with store.producer("t") as producer:
            sent = {producer.send(b"v" * 20_000).result(60).partition for _ in range(100)}
        assert sent == set(NUMBERS)


def test_the_partition_of_a_key_is_not_guessed(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        topic = store["t"]
        with pytest.raises(UnknownPartitionError, match="has only 1, 4, 7"):
            topic.append(b"v", key=b"k")
        assert topic.append(b"v", key=b"k", partition=4).partition == 4
        topic.partition_by(lambda key, value, count: 7)
        assert topic.append(b"v", key=b"k").partition == 7


def test_a_handle_chooses_by_what_its_topic_has_become(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        topic = store.create_topic("t", 2)
        topic.append(b"v", key=b"k")
        store.delete_partition("t", 0)
        with pytest.raises(UnknownPartitionError, match="has only 1"):
            topic.append(b"v", key=b"k")
        assert topic.append(b"v").partition == 1


def test_a_consumer_reads_what_is_here(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store, store.consumer("t", group="g") as consumer:
        found = consumer.poll()
        assert {tp.partition: len(records) for tp, records in found.items()} == {1: 1, 4: 4, 7: 7}
        store.create_partition("t", 5).append(b"v")
        assert {tp.partition for tp in consumer.poll()} == {5}
        with pytest.raises(UnknownPartitionError, match="it has 1, 4, 5, 7"):
            store.consumer(assignment=[("t", 2)])


@pytest.mark.parametrize("is_served", [False, True], ids=["embedded", "served"])
@pytest.mark.parametrize("is_recreated", [False, True], ids=["deleted", "recreated"])
@pytest.mark.parametrize("is_flushed", [False, True], ids=["buffered", "flushed"])
def test_a_transaction_whose_partition_was_deleted_can_only_be_aborted(
    tmp_path: Path, is_served: bool, is_recreated: bool, is_flushed: bool
) -> None:
    make(tmp_path)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(open_store(tmp_path))
        store.create_topic("other")
        if is_served:
            stack.enter_context(kstore.Broker(store, port=0))
        producer = store.transactional_producer("x")
        producer.begin_transaction()
        producer.send("other", b"two", partition=0)
        producer.send("t", b"lost", partition=4)
        if is_flushed:
            producer.flush()
        store.delete_partition("t", 4)
        if is_recreated:
            store.create_partition("t", 4, topic_id=A)
        with pytest.raises(InvalidTxnStateError, match=r"partition t-4.* only be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert committed(store, "other") == []
        if is_recreated:
            assert store["t"][4].end_offset == 0  # no record and no marker of it
        with producer.transaction():
            producer.send("other", b"three", partition=0)
        assert committed(store, "other") == [b"three"]
        producer.close()


def test_a_transaction_without_the_deleted_partition_commits(tmp_path: Path) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        producer = store.transactional_producer("x")
        with producer.transaction():
            producer.send("t", b"kept", partition=1)
            producer.flush()
            store.delete_partition("t", 4)
        assert committed(store, "t", 1) == [b"v", b"kept"]
        store.create_partition("t", 4, topic_id=A)
        with producer.transaction():
            producer.send("t", b"new", partition=4)
        assert committed(store, "t", 4) == [b"new"]
        producer.close()


def test_a_missing_partition_of_an_internal_topic_says_what_to_do(tmp_path: Path) -> None:
    offsets, states = "__consumer_offsets", "__transaction_state"
    with open_store(tmp_path) as store:
        store.create_topic("t")
        for name in (offsets, states):
            store.create_partition(name, 3)
        with pytest.raises(UnknownPartitionError, match="it has 3; groups and trans") as refused:
            store.transactional_producer("p")
        advice = refused.value.reason
        assert f"create_partition({states!r}, 0)" in advice
        assert f"delete_topic({states!r})" in advice
        store.create_partition(states, 0)  # as it says
        with store.transactional_producer("p") as producer:
            with pytest.raises(UnknownPartitionError) as refused, producer.transaction():
                producer.send_offsets_to_transaction({("t", 0): 3}, "a")
            assert f"create_partition({offsets!r}, 1)" in refused.value.reason
            store.delete_topic(offsets)
            with producer.transaction():
                producer.send_offsets_to_transaction({("t", 0): 3}, "a")
        assert len(store[offsets]) == 50
        store.delete_topic(offsets)
        store.create_partition(offsets, 3)
        with pytest.raises(UnknownPartitionError, match="create_partition"):
            OffsetsStore(store).fetch(1, "a")


def test_another_thread_deletes_a_partition_that_is_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path)
    with open_store(tmp_path) as store:
        opened = store._log

        def delete_before(topic: str, partition: int) -> kstore.Log:
            monkeypatch.undo()
            store.delete_partition(topic, partition)
            return opened(topic, partition)

        monkeypatch.setattr(store, "_log", delete_before)
        log = store.create_partition("t", 4, exist_ok=True)
        assert log.end_offset == 0


def test_changes_are_events(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        events: list[Any] = []
        store.watch(lambda store, event: events.append((event.type.name, event.partitions)))
        store.create_partition("t", 1, topic_id=A)
        store.create_partition("t", 4)
        store.delete_partition("t", 1)
        store.delete_partition("t", 4)
        store.create_partition("t", 7, topic_id=B)
    assert events == [
        ("CREATED", (1,)),
        ("PARTITIONS_ADDED", (4,)),
        ("PARTITIONS_DELETED", (1,)),
        ("DELETED", (4,)),
        ("CREATED", (7,)),
    ]
