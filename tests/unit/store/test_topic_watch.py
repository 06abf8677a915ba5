"""``Store.watch`` reports every change of a topic, whichever part of the process makes it."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kstore
from kstore import TopicEvent, TopicEventType
from kstore.errors import BackgroundFailure, ClosedError, StorageError
from kstore.store.topic_watch import WORK

CREATED, DELETED = TopicEventType.CREATED, TopicEventType.DELETED
ADDED, CHANGED = TopicEventType.PARTITIONS_ADDED, TopicEventType.CONFIG_CHANGED


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        yield store


def watched(store: kstore.Store) -> list[TopicEvent]:
    found: list[TopicEvent] = []
    store.watch(lambda store, event: found.append(event))
    return found


def kinds(events: list[TopicEvent]) -> list[tuple[TopicEventType, str]]:
    return [(event.type, event.topic) for event in events]


def test_each_kind_of_change_is_told(store: kstore.Store) -> None:
    found = watched(store)
    store.create_topic("a", 2, config={"retention.ms": 5})
    created = found.pop()
    assert created[:3] == (CREATED, "a", (0, 1))
    assert created.config["retention.ms"] == "5"
    store.add_partitions("a", 4)
    assert found.pop() == (ADDED, "a", (2, 3), {})
    store.alter_topic("a", {"retention.ms": 6})
    assert found.pop() == (CHANGED, "a", (), {"retention.ms": "6"})
    store["a"].alter(unset=["retention.ms"])
    assert found.pop().config == {"retention.ms": None}
    store.delete_topic("a")
    assert found == [(DELETED, "a", (0, 1, 2, 3), {})]


def test_what_changes_nothing_tells_nothing(store: kstore.Store) -> None:
    store.create_topic("a", config={"retention.ms": 5})
    found = watched(store)
    store.create_topic("a", exist_ok=True)
    store.alter_topic("a", {"retention.ms": 5})
    store["a"].append(b"v")
    store.delete_topic("b", missing_ok=True)
    with pytest.raises(kstore.errors.InvalidPartitionsError):
        store.add_partitions("a", 1)
    assert found == []


def test_a_callback_sees_the_change_and_its_store(store: kstore.Store) -> None:
    seen: list[tuple[bool, bool]] = []
    store.watch(lambda given, event: seen.append((given is store, event.topic in given)))
    store.create_topic("a")
    store.delete_topic("a")
    assert seen == [(True, True), (True, False)]


def test_a_closed_watch_is_not_called(store: kstore.Store) -> None:
    found: list[TopicEvent] = []
    watch = store.watch(lambda store, event: found.append(event))
    store.create_topic("a")
    watch.close()
    watch.close()
    store.create_topic("b")
    assert kinds(found) == [(CREATED, "a")]
    assert store._manager.changes._states == {}  # nothing is kept that no one needs


def test_a_callback_may_change_topics_and_end_its_watch(store: kstore.Store) -> None:
    found: list[TopicEvent] = []

    def follow(store: kstore.Store, event: TopicEvent) -> None:
        found.append(event)
        if event.type is CREATED and event.topic == "a":
            store.create_topic("b")
            assert kinds(found) == [(CREATED, "a")]  # each event after the one before
            store.delete_topic("a")
        if event.type is DELETED:
            watch.close()

    watch = store.watch(follow)
    store.create_topic("a")
    store.create_topic("c")
    assert kinds(found) == [(CREATED, "a"), (CREATED, "b"), (DELETED, "a")]
    assert not store.background_failures


def test_a_deleted_topic_may_be_created_again_at_once(store: kstore.Store) -> None:
    found: list[TopicEvent] = []

    def recreate(store: kstore.Store, event: TopicEvent) -> None:
        found.append(event)
        if event.type is DELETED:
            store.create_topic("a", 3)

    store.create_topic("a")
    store.watch(recreate)
    store.delete_topic("a")
    assert kinds(found) == [(DELETED, "a"), (CREATED, "a")]
    assert len(store["a"]) == 3


def test_what_a_callback_raises_is_a_background_failure(tmp_path: Path) -> None:
    reported: list[BackgroundFailure] = []
    config = kstore.StoreConfig(on_background_error=reported.append)
    with kstore.open(tmp_path / "data", config=config) as store:
        fails = True

        def fail(store: kstore.Store, event: TopicEvent) -> None:
            if fails:
                raise RuntimeError("of the callback")

        store.watch(fail)
        found = watched(store)
        store.create_topic("a")
        assert "a" in store
        assert kinds(found) == [(CREATED, "a")]  # the other callback is called all the same
        (failure,) = store.background_failures
        assert (failure.work, str(failure.error)) == (WORK, "of the callback")
        assert reported == [failure]
        fails = False
        store.create_topic("b")
        assert store.background_failures == ()


def test_events_of_many_threads_come_one_by_one_and_in_order(store: kstore.Store) -> None:
    found: list[TopicEvent] = []
    is_busy = threading.Lock()

    def follow(store: kstore.Store, event: TopicEvent) -> None:
        assert is_busy.acquire(blocking=False)
        found.append(event)
        is_busy.release()

    def change(name: str) -> None:
        for _ in range(3):
            store.create_topic(name)
            store.add_partitions(name, 2)
            store.delete_topic(name)

    store.watch(follow)
    names = [f"t{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change, names))
    for name in names:
        own = [event.type for event in found if event.topic == name]
        assert own == [CREATED, ADDED, DELETED] * 3
    assert store.background_failures == ()


def test_a_slow_callback_holds_up_no_other_change(store: kstore.Store) -> None:
    is_called, goes_on = threading.Event(), threading.Event()
    found: list[TopicEvent] = []

    def wait(store: kstore.Store, event: TopicEvent) -> None:
        found.append(event)
        is_called.set()
        assert goes_on.wait(60)

    store.watch(wait)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(store.create_topic, "a")
        assert is_called.wait(60)
        store.create_topic("b")  # returns: the other thread calls for it
        assert kinds(found) == [(CREATED, "a")]
        goes_on.set()
        first.result(60)
    assert kinds(found) == [(CREATED, "a"), (CREATED, "b")]


def test_an_interrupted_creation_is_told_once_it_is_finished(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watched(store)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kstore.store.topic_creation.write_topic_id", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.create_topic("a", 2)
    assert found == []
    store.create_topic("a", 2)
    assert kinds(found) == [(CREATED, "a")]


def test_an_interrupted_deletion_is_told(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("a", 2)
    found = watched(store)

    def fail(*_: object) -> None:
        raise StorageError("of the test", path="x")

    with monkeypatch.context() as patch:
        patch.setattr("kstore.store.log_deletion.retire", fail)  # once the deletion is on disk
        with pytest.raises(StorageError):
            store.delete_topic("a")
    assert kinds(found) == [(DELETED, "a")]
    store.create_topic("a")
    assert kinds(found) == [(DELETED, "a"), (CREATED, "a")]


def test_a_reader_is_told_when_it_finds_the_changes(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as writer:
        writer.create_topic("a")
        with kstore.open(tmp_path / "data", mode="r") as reader:
            found = watched(reader)
            writer.add_partitions("a", 2)
            writer.create_topic("b")
            assert reader.topics == ["a", "b"]
            assert kinds(found) == [(ADDED, "a"), (CREATED, "b")]
            found.clear()
            writer.delete_topic("a")
            writer.create_topic("a", 2)
            assert "a" in reader
            assert kinds(found) == [(DELETED, "a"), (CREATED, "a")]


def test_a_closed_store_cannot_be_watched(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        pass
    with pytest.raises(ClosedError):
        store.watch(print)


def test_a_watch_keeps_no_store_and_a_store_no_consumer(tmp_path: Path) -> None:
    store = kstore.open(tmp_path / "data")
    store.create_topic("a")
    watch = store.watch(lambda store, event: None)
    for _ in range(20):
        store.consumer("a").close()
    assert len(store._manager.changes._listeners) == 0
    consumer = store.consumer("a")
    gone = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert gone() is None
    store.close()
    there = weakref.ref(store)
    del store
    gc.collect()
    assert there() is None
    watch.close()
