"""Work that a store does by itself: lost races are no errors, failures reach no caller."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig, Store, StoreConfig
from kstore.background.scheduler import ScheduledTask
from kstore.errors import (
    BackgroundFailure,
    ClosedError,
    InvalidConfigError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.log.writable_log import WritableLog
from kstore.store.background_tasks import background_tasks
from kstore.store.log_manager import _weak_work
from support.stores import QUIET

ALWAYS = LogConfig(flush_ms=1, retention_ms=1, segment_bytes=300, file_delete_delay_ms=0)


def run_chores(store: Store, *names: str) -> None:
    """Run the background work of a store now, in this thread, as its own thread would."""
    manager = store._manager
    for task in list(background_tasks(manager)):
        if task.name.split()[0] in names:
            task.work()


def delete_before(
    monkeypatch: pytest.MonkeyPatch, store: Store, owner: type, method: str
) -> Callable[[], bool]:
    """Have topic "gone" deleted just before a method of its log is called."""
    real = getattr(owner, method)
    done: list[Log] = []

    def call(self: object, *arguments: object, **named: object) -> object:
        if isinstance(self, Log) and self.topic == "gone" and not done:
            done.append(self)
            store.delete_topic("gone")
        return real(self, *arguments, **named)

    monkeypatch.setattr(owner, method, call)
    return lambda: bool(done)


@pytest.mark.parametrize(
    ("task", "method"),
    [
        ("retention", "apply_retention"),
        ("retention", "remove_retired"),
        ("flush", "flush"),
        ("producers", "expire_producers"),
    ],
)
def test_losing_a_race_with_delete_topic_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, method: str
) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        for name in ("gone", "kept"):
            log = store.create_topic(name, config=ALWAYS)[0]
            log.extend([b"x" * 100] * 10, timestamp=1)
        raced = delete_before(monkeypatch, store, WritableLog, method)
        run_chores(store, task)
        assert raced()
        assert "gone" not in store
        assert store.background_failures == ()
        assert store["kept"][0].append(b"y") == 10


def test_a_topic_deleted_between_the_listing_and_its_turn_is_no_error(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        logs = [store.create_topic(name, config=ALWAYS)[0] for name in ("a", "gone", "kept")]
        for log in logs:
            log.append(b"x", timestamp=1)
        due = list(background_tasks(store._manager))
        retained = store._manager.retention.run()
        assert next(retained) == (("a", 0), 1)
        store.delete_topic("gone")
        assert list(retained) == [(("kept", 0), 1)]
        for task in due:
            task.work()
        assert store.background_failures == ()
        assert logs[2].append(b"y") >= 1


def test_a_partition_whose_retention_fails_does_not_stop_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BackgroundFailure] = []
    failing = {"b"}
    real = WritableLog.apply_retention

    def apply_retention(log: WritableLog) -> int:
        if log.topic in failing:
            raise StorageError("no space", errno=errno.ENOSPC, path=log.path)
        return real(log)

    monkeypatch.setattr(WritableLog, "apply_retention", apply_retention)
    config = StoreConfig(background=False, on_background_error=seen.append)
    with kstore.open(tmp_path, config=config) as store:
        logs = [store.create_topic(name, config=ALWAYS)[0] for name in ("a", "b", "c")]
        for log in logs:
            log.extend([b"x" * 100] * 10, timestamp=1)
        run_chores(store, "retention")
        run_chores(store, "retention")
        (failure,) = store.background_failures
        assert (failure.work, failure.topic, failure.partition) == ("retention", "b", 0)
        assert isinstance(failure.error, StorageError)
        assert not failure.is_lasting
        assert seen == [failure], "called once for as long as it fails the same way"
        assert [log.start_offset for log in (logs[0], logs[2])] == [10, 10]
        with pytest.raises(StorageError, match="no space"):
            store.apply_retention()  # a caller who asks for it gets the error
        assert logs[0].append(b"y") == 10
        failing.clear()
        run_chores(store, "retention")
        assert store.background_failures == ()
        assert logs[1].start_offset == 10


def test_a_failure_of_a_background_task_ends_when_the_task_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, ended = threading.Event(), threading.Event()
    failing = [True]

    def checkpoint(_: object) -> None:
        if failing[0]:
            raise StorageError("no space", errno=errno.ENOSPC)
        ended.set()

    monkeypatch.setattr("kstore.store.background_tasks.CHECKPOINT_INTERVAL_MS", 1)
    monkeypatch.setattr("kstore.store.log_dir_checkpoints.LogDirCheckpoints.write", checkpoint)
    config = StoreConfig(on_background_error=lambda _: failed.set())
    with kstore.open(tmp_path, config=config) as store:
        topic = store.create_topic("t", config=LogConfig(flush_ms=1))
        topic.append(b"x")
        assert failed.wait(30)
        (failure,) = store.background_failures
        assert (failure.work, failure.topic) == ("checkpoint", None)
        assert topic[0].append(b"y") == 1
        failing[0] = False
        assert ended.wait(30)
        store._manager.stop_background()
        assert store.background_failures == ()


@pytest.mark.parametrize(
    ("error", "is_failure"),
    [
        (ClosedError("the log is closed"), False),
        (UnknownTopicOrPartitionError("no topic"), False),
        (StorageError("full"), True),
    ],
)
def test_a_background_task_of_the_store_may_lose_a_race_too(
    tmp_path: Path, error: Exception, is_failure: bool
) -> None:
    def fail() -> None:
        raise error

    with kstore.open(tmp_path, config=QUIET) as store:
        store._manager.more_tasks.append(ScheduledTask("transactions", 0, fail))
        work = _weak_work(store._manager)
        assert work() is not None
        assert [each.work for each in store.background_failures] == ["transactions"] * is_failure


def test_the_callback_has_to_be_callable() -> None:
    with pytest.raises(InvalidConfigError, match="on_background_error must be callable"):
        StoreConfig(on_background_error="print")
