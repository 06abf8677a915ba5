"""A consumer that waits is woken by what it waits for, and by nothing else."""

import asyncio
import gc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.client.consumer import Consumer
from kstore.errors import ClosedError, UnknownTopicOrPartitionError
from support.waiting import until, until_in_loop

WAIT = 60  # seconds, which no test takes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 3)
        yield store


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an item for each look at the partitions."""
    found: list[int] = []
    original = Consumer._read

    def counting(self: Consumer, count: int) -> object:
        found.append(count)
        return original(self, count)

    monkeypatch.setattr(Consumer, "_read", counting)
    return found


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def is_idle(consumer: Consumer) -> bool:
    """Whether a caller waits, with nothing left to look at."""
    waits = consumer._waits._waits
    return bool(waits) and all(each.is_waiting and each._watches for each in waits)


def is_watched(consumer: Consumer) -> bool:
    """Whether a task waits for changes of the partitions."""
    waits = consumer._waits._waits
    return bool(waits) and bool(waits[0]._watches)


def begin(
    pool: ThreadPoolExecutor, consumer: Consumer
) -> "Future[dict[kstore.TopicPartition, list[kstore.Record]]]":
    """A poll in another thread, which waits."""
    polled = pool.submit(consumer.poll, timeout=WAIT)
    until(lambda: is_idle(consumer))
    return polled


def test_a_waiting_consumer_looks_only_after_an_event(
    store: kstore.Store, other: ThreadPoolExecutor, reads: list[int]
) -> None:
    with store.consumer("t") as consumer:
        assert consumer.poll() == {}
        with consumer._waits.begin() as wait:
            assert wait.watch(consumer._awaited())
            assert consumer._longest_wait(wait, None) is None  # without an event it never looks
        polled = begin(other, consumer)
        before = len(reads)
        store["t"][2].append(b"v")
        assert list(polled.result(WAIT)) == [("t", 2)]
        assert len(reads) <= before + 3


def test_a_poll_without_time_registers_nothing(store: kstore.Store, reads: list[int]) -> None:
    log = store["t"][0]
    with store.consumer("t") as consumer:
        assert consumer.poll() == {}
        assert len(reads) == 1
        assert log._require_writer().state.watchers._watches == ()


def test_a_poll_leaves_no_watch_behind(store: kstore.Store, other: ThreadPoolExecutor) -> None:
    with store.consumer("t") as consumer:
        polled = begin(other, consumer)
        store["t"][0].append(b"v")
        polled.result(WAIT)
        assert consumer.poll(timeout=0.01) == {}
        assert consumer._waits._waits == []
        for log in store["t"]:
            assert log._require_writer().state.watchers._watches == ()


def test_a_seek_of_another_thread_ends_the_wait(
    store: kstore.Store, other: ThreadPoolExecutor
) -> None:
    store["t"][0].append(b"v")
    with store.consumer("t") as consumer:
        consumer.seek_to_end()
        polled = begin(other, consumer)
        consumer.seek("t", 0, 0)
        assert list(polled.result(WAIT)) == [("t", 0)]


def test_resumed_and_assigned_partitions_are_read(
    store: kstore.Store, other: ThreadPoolExecutor
) -> None:
    store["t"][0].append(b"v")
    with store.consumer(assignment=[("t", 0), ("t", 1)]) as consumer:
        consumer.pause(("t", 0))
        polled = begin(other, consumer)
        consumer.resume(("t", 0))
        assert list(polled.result(WAIT)) == [("t", 0)]
        store["t"][2].append(b"w")
        polled = begin(other, consumer)
        consumer.assign([("t", 2)])
        assert list(polled.result(WAIT)) == [("t", 2)]


def test_closing_ends_the_wait(store: kstore.Store, other: ThreadPoolExecutor) -> None:
    consumer = store.consumer("t")
    polled = begin(other, consumer)
    consumer.close()
    with pytest.raises(ClosedError):
        polled.result(WAIT)


def test_a_deleted_topic_ends_the_wait(store: kstore.Store, other: ThreadPoolExecutor) -> None:
    with store.consumer("t") as consumer:
        polled = begin(other, consumer)
        store.delete_topic("t")
        with pytest.raises((UnknownTopicOrPartitionError, ClosedError)):
            polled.result(WAIT)


def test_a_new_partition_is_read(store: kstore.Store, other: ThreadPoolExecutor) -> None:
    with store.consumer("t") as consumer:
        polled = begin(other, consumer)
        store.add_partitions("t", 4)
        until(lambda: len(consumer.assignment) == 4)
        store["t"][3].append(b"v")
        assert list(polled.result(WAIT)) == [("t", 3)]


def test_a_log_whose_lock_is_taken_is_read(store: kstore.Store, other: ThreadPoolExecutor) -> None:
    """A poll does not wait for the lock: it looks again until it can watch the log."""
    log = store["t"][0]
    lock = log._require_writer().state.lock
    with store.consumer("t") as consumer:
        with lock:
            assert other.submit(consumer.poll, timeout=0.05).result(WAIT) == {}
            polled = other.submit(consumer.poll, timeout=WAIT)
            until(lambda: consumer._waits._waits)
            log.append(b"v")
        assert list(polled.result(WAIT)) == [("t", 0)]


def test_a_watch_that_cannot_be_removed_goes_with_the_next_event(
    store: kstore.Store, other: ThreadPoolExecutor
) -> None:
    log = store["t"][0]
    state = log._require_writer().state
    with store.consumer("t") as consumer:
        polled = begin(other, consumer)
        with state.lock:
            store["t"][1].append(b"v")
            polled.result(WAIT)  # returns, though this thread has the lock
            assert len(state.watchers._watches) == 1
        log.append(b"w")
        assert state.watchers._watches == ()
        assert state.appender.waiters == 0


def test_members_of_a_group_share_partitions_while_they_wait(
    store: kstore.Store, other: ThreadPoolExecutor
) -> None:
    with store.consumer("t", group="g", enable_auto_commit=False) as first:
        polled = begin(other, first)
        with store.consumer("t", group="g", enable_auto_commit=False) as second:
            second_polled = other.submit(second.poll, timeout=WAIT)
            until(lambda: first.assignment and second.assignment)
            assert len(first.assignment) + len(second.assignment) == 3
            for log in store["t"]:
                log.append(b"v")
            assert polled.result(WAIT)
            assert second_polled.result(WAIT)


def test_a_waiting_member_follows_a_broker_that_starts_and_stops(
    store: kstore.Store, other: ThreadPoolExecutor
) -> None:
    with store.consumer("t", group="g", enable_auto_commit=False) as consumer:
        polled = begin(other, consumer)
        local = consumer._partitions._member.owner
        with kstore.Broker(store, port=0):
            until(lambda: consumer._partitions._member.owner is not local)
            until(lambda: len(consumer.assignment) == 3)
        until(lambda: consumer._partitions._member.owner is local)
        store["t"][1].append(b"v")
        assert list(polled.result(WAIT)) == [("t", 1)]


def test_a_loop_reads_without_polling(
    store: kstore.Store, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []
    wait_for = asyncio.wait_for

    async def noted(waits_for: Any, seconds: float | None) -> Any:
        waited.append(seconds)
        return await wait_for(waits_for, seconds)

    monkeypatch.setattr(asyncio, "wait_for", noted)

    async def run(consumer: Consumer) -> list[bytes | None]:
        found: list[bytes | None] = []

        async def read() -> None:
            async for record in consumer.records():
                found.append(record.value)
                if len(found) == 2:
                    return

        reading = asyncio.create_task(read())
        await until_in_loop(lambda: is_watched(consumer) and waited[-1:] == [None])
        before = len(reads)
        store["t"][0].append(b"v")
        await asyncio.get_running_loop().run_in_executor(None, store["t"][1].append, b"w")
        await reading
        assert len(reads) <= before + 4
        return found

    with store.consumer("t") as consumer:
        assert sorted(asyncio.run(run(consumer))) == [b"v", b"w"]
        gc.collect()
        assert consumer._waits._waits == []


def test_a_cancelled_loop_leaves_no_watch(store: kstore.Store) -> None:
    async def run(consumer: Consumer) -> None:
        async def read() -> None:
            async for _ in consumer.records():
                pass

        reading = asyncio.create_task(read())
        await until_in_loop(lambda: is_watched(consumer))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    with store.consumer("t") as consumer:
        asyncio.run(run(consumer))
        assert consumer._waits._waits == []
        assert store["t"][0]._require_writer().state.watchers._watches == ()
