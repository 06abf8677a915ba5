"""A disk that stalls delays an answer of the group coordinator by offsets.commit.timeout.ms at
most, and only in the partition of ``__consumer_offsets`` that waits for it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import kstore
from kstore.broker import durable_commits
from kstore.coordinator.group.offsets_store import OffsetsStore
from kstore.errors import StorageError
from kstore.log.log import Log
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.fields import partition_for_name
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from support.raw_client import RawClient
from support.waiting import until
from unit.broker.test_durable_groups import (
    DURABLE,
    OFFSETS,
    SETTINGS,
    Act,
    commit,
    commit_in_transaction,
    consumer_joins,
    join_and_sync,
    receive_commit,
    send_commit,
)

WAIT = 60.0
ERRORS = [
    (commit, ErrorCode.REQUEST_TIMED_OUT),
    (join_and_sync, ErrorCode.REBALANCE_IN_PROGRESS),
    (consumer_joins, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (commit_in_transaction, ErrorCode.REQUEST_TIMED_OUT),
]
EACH = pytest.mark.parametrize(
    ("act", "error"), ERRORS, ids=lambda each: getattr(each, "__name__", "")
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("orders")
        yield store


@contextmanager
def serving(
    store: kstore.Store, *, is_durable: bool = True, partitions: int = 1, timeout_ms: int = 50
) -> Iterator[kstore.Broker]:
    settings = {
        **SETTINGS,
        DURABLE: is_durable,
        "offsets.topic.num.partitions": partitions,
        "offsets.commit.timeout.ms": timeout_ms,
    }
    with kstore.Broker(store, port=0, settings=settings) as broker:
        with RawClient(broker.port) as client:
            client.find_coordinators("g")
        yield broker


class StalledDisk:
    """The syncs of one partition of ``__consumer_offsets`` wait until they are released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partition: int = 0) -> None:
        self.release = threading.Event()
        self.is_stalled = False
        self.error: Exception | None = None
        self._partition = partition
        self._sync = durable_commits.flush_together
        monkeypatch.setattr(durable_commits, "flush_together", self.sync)

    def sync(self, logs: list[Log]) -> dict[Log, BaseException]:
        name = OFFSETS, self._partition
        stalled = [each for each in logs if (each.topic, each.partition) == name]
        if stalled:
            self.is_stalled = True
            assert self.release.wait(WAIT)
        if self.error is None:
            return self._sync(logs)
        return dict.fromkeys(stalled, self.error)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[StalledDisk]:
    disk = StalledDisk(monkeypatch)
    yield disk
    disk.release.set()


def committed_offset(client: RawClient, group: str = "g") -> int:
    topic = OffsetFetchRequest.Topics("orders", [0])
    answer = client.ask(OffsetFetchRequest(group, [topic]), 5)
    return int(answer.topics[0].partitions[0].committed_offset)


def group_in(partition: int) -> str:
    """A group whose offsets are in this partition, of two."""
    names = (f"g{number}" for number in range(100))
    return next(each for each in names if partition_for_name(each, 2) == partition)


@EACH
def test_the_error_comes_in_time(
    store: kstore.Store, disk: StalledDisk, act: Act, error: ErrorCode
) -> None:
    with serving(store) as broker, RawClient(broker.port) as client:
        assert act(client) == error
        disk.release.set()


@EACH
def test_an_append_that_is_stuck_counts_too(
    store: kstore.Store, act: Act, error: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    for name in ("commit", "commit_in_transaction", "append_group", "append_records"):
        append = getattr(OffsetsStore, name)

        def stuck(*arguments: object, append: Callable[..., object] = append) -> object:
            assert release.wait(WAIT)
            return append(*arguments)

        monkeypatch.setattr(OffsetsStore, name, stuck)
    with serving(store, is_durable=False) as broker, RawClient(broker.port) as client:
        assert act(client) == error
        release.set()


def test_the_commit_stays_and_later_ones_succeed(store: kstore.Store, disk: StalledDisk) -> None:
    with serving(store) as broker, RawClient(broker.port) as client:
        assert commit(client) == ErrorCode.REQUEST_TIMED_OUT
        log = store[OFFSETS][0]
        assert log.end_offset == 1
        disk.release.set()
        until(lambda: log.recovery_point == 1)
        assert committed_offset(client) == 5
        assert commit(client) == ErrorCode.NONE


def test_other_partitions_go_on(store: kstore.Store, disk: StalledDisk) -> None:
    with serving(store, partitions=2, timeout_ms=100_000) as broker, ExitStack() as stack:
        waiting, other = (stack.enter_context(RawClient(broker.port)) for _ in range(2))
        send_commit(waiting, group_in(0))
        until(lambda: disk.is_stalled)
        send_commit(other, group_in(1))
        assert receive_commit(other) == ErrorCode.NONE
        assert store[OFFSETS][0].recovery_point == 0
        disk.release.set()
        assert receive_commit(waiting) == ErrorCode.NONE


def test_records_that_fail_after_their_answer_are_loaded_again(
    store: kstore.Store, disk: StalledDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that is in memory may not be in the log."""
    disk.error = StorageError("the sync failed")
    with serving(store) as broker, RawClient(broker.port) as client:
        assert consumer_joins(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "were not stored" not in caplog.text
        disk.release.set()
        # before the member's session ends, which stores records of its own
        until(lambda: "records of group g were not stored" in caplog.text, 20)
        disk.error = None
        until(lambda: consumer_joins(client) == ErrorCode.NONE)
