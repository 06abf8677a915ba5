"""Clients of a broker, while the store's user changes what they ask for."""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import LogDirOfflineError, PolicyViolationError, StorageError
from kstore.log import active_segment
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader
from kstore.record.builder import BatchBuilder
from kstore.store.background_tasks import background_tasks
from support.wire_client import Connection, encode, frame

PRODUCE_VERSION, FETCH_VERSION = 8, 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0) as broker:
        yield broker


@pytest.fixture
def connection(broker: kstore.Broker) -> Iterator[Connection]:
    connection = Connection(broker.bootstrap_servers)
    yield connection
    connection.close()


def produce(batch: bytes, version: int = PRODUCE_VERSION) -> bytes:
    values = {
        "acks": 1,
        "timeout_ms": 5000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}],
    }
    return frame(ApiKey.PRODUCE, version, 1, encode(0, version, values))


def fetch(max_wait_ms: int, min_bytes: int) -> bytes:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    values = {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": 1 << 20,
        "topics": [{"topic": "t", "partitions": [partition]}],
    }
    return frame(ApiKey.FETCH, FETCH_VERSION, 1, encode(1, FETCH_VERSION, values))


def answer(key: int, version: int, received: bytes | None) -> Any:
    assert received is not None
    return message_types(key)[1].decode(Reader(received, 4), version)


def test_a_waiting_produce_is_not_appended_to_a_recreated_topic(
    store: kstore.Store, broker: kstore.Broker, connection: Connection
) -> None:
    log = store.create_topic("t")[0]
    log.append(os.urandom(100_000))  # too large to be appended on the loop's thread
    batch = bytes(memoryview(log.read(0)))
    connection.send(produce(batch))  # the broker has the log open
    first = answer(ApiKey.PRODUCE, PRODUCE_VERSION, connection.receive())
    assert first.responses[0].partition_responses[0].error_code == 0
    is_busy, released = threading.Event(), threading.Event()

    def wait() -> None:
        is_busy.set()
        released.wait(30)

    workers = broker._workers
    broker._loop.call_soon_threadsafe(workers.submit, ("t", 0), wait, lambda *_: None)
    assert is_busy.wait(30)
    connection.send(produce(batch))
    while workers._unfinished.get(("t", 0), 0) < 2:
        pass
    store.delete_topic("t")
    later = store.create_topic("t")[0]
    released.set()
    found = answer(ApiKey.PRODUCE, PRODUCE_VERSION, connection.receive())
    assert found.responses[0].partition_responses[0].error_code in (3, 6)
    assert later.end_offset == 0


def test_an_append_reports_nothing_when_no_request_waits_any_more(
    store: kstore.Store, broker: kstore.Broker, connection: Connection
) -> None:
    log = store.create_topic("t")[0]
    connection.send(fetch(30_000, 1))
    hosted = wait_for_waiter(broker)
    log.append(b"a")
    assert answer(ApiKey.FETCH, FETCH_VERSION, connection.receive()).responses
    log.append(b"b")  # finds no waiter, and ends the watch
    done = threading.Event()
    broker._loop.call_soon_threadsafe(done.set)
    assert done.wait(30)
    assert hosted._watch is None
    connection.send(fetch(30_000, 1 << 19))  # and the next one is woken again
    wait_for_waiter(broker)
    log.append(os.urandom(1 << 19))
    assert answer(ApiKey.FETCH, FETCH_VERSION, connection.receive()).responses


def test_an_answer_whose_file_was_cut_closes_the_connection(
    store: kstore.Store, broker: kstore.Broker, connection: Connection
) -> None:
    log = store.create_topic("t")[0]
    log.append(os.urandom(200_000))
    connection.send(fetch(500, 1 << 19))
    wait_for_waiter(broker)
    os.truncate(log.segments.views[0].path, 0)
    assert connection.receive() is None


def test_clients_see_an_epoch_that_the_stores_user_begins(
    store: kstore.Store, broker: kstore.Broker, connection: Connection
) -> None:
    log = store.create_topic("t")[0]
    log.append(b"in epoch 0")

    def asked(current_leader_epoch: int) -> tuple[int, int]:
        """The leader epoch in Metadata, and the error of a request with that one."""
        [topic] = connection.ask(ApiKey.METADATA, 9, topics=[{"name": "t"}]).topics
        partition = {"current_leader_epoch": current_leader_epoch, "timestamp": -1}
        topics = [{"name": "t", "partitions": [{"partition_index": 0, **partition}]}]
        answer = connection.ask(ApiKey.LIST_OFFSETS, 4, replica_id=-1, topics=topics)
        return topic.partitions[0].leader_epoch, answer.topics[0].partitions[0].error_code

    assert asked(0) == (0, 0)
    log.begin_epoch(5)
    assert asked(0) == (5, 74)  # FENCED_LEADER_EPOCH
    assert asked(5) == (5, 0)
    log.begin_epoch(5)
    connection.send(fetch(60_000, 1 << 19))  # waits, and has no epoch
    wait_for_waiter(broker)
    log.begin_epoch(6)
    log.append(os.urandom(1 << 19))
    assert answer(ApiKey.FETCH, FETCH_VERSION, connection.receive()).responses
    assert asked(6) == (6, 0)


@pytest.mark.parametrize("is_offline", [False, True], ids=["failed sync", "failed disk"])
def test_a_failed_log_does_not_close_connections(
    store: kstore.Store, connection: Connection, is_offline: bool
) -> None:
    """A consumer waits for records of a log that failed: the others that it reads are served."""
    log = store.create_topic("t")[0]
    log.append(b"before")
    assert log.read(0)
    state = log._require_writer().state
    if is_offline:
        state.go_offline(LogDirOfflineError("no disk", errno=5))
    else:
        state.fail(StorageError("no sync", errno=5))
    connection.send(fetch(100, 1 << 19))
    [topic] = answer(ApiKey.FETCH, FETCH_VERSION, connection.receive()).responses
    [partition] = topic.partitions
    if is_offline:
        assert partition.error_code == 6  # KAFKA_STORAGE_ERROR for a client of this version
    else:
        assert partition.error_code == 0
        assert partition.records


def test_a_store_that_is_closed_closes_its_broker_and_keeps_what_it_acknowledged(
    tmp_path: Path,
) -> None:
    builder = BatchBuilder()
    builder.append(b"x", timestamp=0)
    batch = builder.build(0)
    store = kstore.open(tmp_path)
    store.create_topic("t")
    broker = kstore.Broker(store, port=0).start()
    connection = Connection(broker.bootstrap_servers)
    acknowledged, begun = [0], threading.Event()

    def append_until_closed() -> None:
        try:
            while connection.is_open:
                connection.send(produce(batch))
                body = connection.receive()
                if body is None:
                    return
                [topic] = answer(ApiKey.PRODUCE, PRODUCE_VERSION, body).responses
                assert topic.partition_responses[0].error_code == 0
                acknowledged[0] += 1
                begun.set()
        except ConnectionError:  # closed before the request was sent
            return

    thread = threading.Thread(target=append_until_closed)
    thread.start()
    assert begun.wait(30)
    store.close()
    thread.join(30)
    assert not thread.is_alive(), "its connection is closed"
    connection.close()
    assert broker.closed
    broker.close()
    with kstore.open(tmp_path) as store:
        assert not store.recovery.unclean
        assert acknowledged[0] <= store.topic("t")[0].end_offset <= acknowledged[0] + 1


@pytest.mark.parametrize("is_worker", [False, True], ids=["loop", "disk worker"])
@pytest.mark.parametrize("closes_store", [False, True], ids=["broker", "store"])
def test_a_broker_refuses_to_be_closed_on_its_own_threads(
    store: kstore.Store, broker: kstore.Broker, is_worker: bool, closes_store: bool
) -> None:
    closed = store.close if closes_store else broker.close
    errors: list[BaseException | None] = []
    asked = threading.Event()

    def done(_: object, error: BaseException | None) -> None:
        errors.append(error)
        asked.set()

    def close() -> None:
        try:
            closed()
        except PolicyViolationError as error:
            done(None, error)

    if is_worker:
        submit = broker._workers.submit
        broker._loop.call_soon_threadsafe(submit, "close", closed, done)
    else:
        broker._loop.call_soon_threadsafe(close)
    assert asked.wait(30)
    assert "own thread" in str(errors[0])
    assert not broker.closed
    assert not store.closed


def test_a_topic_is_deleted_after_a_broker_had_the_transactions(store: kstore.Store) -> None:
    """The store's coordinator had given them up to the broker, and refused to drop the topic."""
    store.create_topic("orders")
    with store.transaction("t") as transaction:
        transaction.send("orders", b"x")
    with kstore.Broker(store, port=0):
        pass
    store.delete_topic("orders")
    assert "orders" not in store
    assert store._catalog.being_deleted() == []
    store.create_topic("orders")
    with store.transaction("t") as transaction:
        transaction.send("orders", b"y")
    assert [each.value for each in store["orders"][0].records()] == [b"y"]


@pytest.mark.parametrize("change", ["remove", "rename"])
def test_appends_to_a_removed_directory_are_refused(
    store: kstore.Store, connection: Connection, tmp_path: Path, change: str
) -> None:
    """The descriptor still takes the bytes: no append fails by itself before the next roll."""
    store.create_topic("t", config={"index.interval.bytes": 1 << 30})
    builder = BatchBuilder()
    builder.append(b"x", timestamp=0)
    batch = builder.build(0)

    def append() -> int:
        connection.send(produce(batch))
        [topic] = answer(ApiKey.PRODUCE, PRODUCE_VERSION, connection.receive()).responses
        return int(topic.partition_responses[0].error_code)

    assert append() == 0
    store._manager.stop_background()  # the test decides when the task runs
    if change == "remove":
        shutil.rmtree(tmp_path / "data" / "t-0")
    else:
        (tmp_path / "data" / "t-0").rename(tmp_path / "elsewhere")
    assert append() == 0  # the limit of what is promised: a look at the name once a second
    [look] = [each for each in background_tasks(store._manager) if each.name == "removed logs"]
    assert look.period_ms == 1_000
    look.work()
    assert append() == 56  # KAFKA_STORAGE_ERROR
    [failure] = store.background_failures
    assert (failure.work, failure.topic, failure.partition) == ("append", "t", 0)
    assert "removed, moved or replaced" in str(failure.error)
    with pytest.raises(LogDirOfflineError, match="may be lost"):
        store.topic("t")[0].close()


@pytest.fixture
def locked_log(
    store: kstore.Store,
) -> Iterator[tuple[kstore.Log, threading.Event, threading.Event]]:
    """A log that another thread changes at length, until the event is set."""
    log = store.create_topic("t")[0]
    log.append(b"first")
    is_held, released = threading.Event(), threading.Event()

    def hold() -> None:
        with log._require_writer().state.lock:
            is_held.set()
            released.wait(30)
            is_held.clear()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(30)
    yield log, is_held, released
    released.set()
    thread.join(30)


@pytest.mark.parametrize("version", [3, PRODUCE_VERSION])  # by its frame, and by its fields
def test_a_log_that_the_stores_user_changes_stops_no_other_client(
    locked_log: tuple[kstore.Log, threading.Event, threading.Event],
    broker: kstore.Broker,
    version: int,
) -> None:
    log, is_held, released = locked_log
    batch = bytes(memoryview(log.read(0)))
    writing = Connection(broker.bootstrap_servers)
    waiting, other = (Connection(broker.bootstrap_servers) for _ in range(2))
    writing.send(produce(batch, version))
    waiting.send(fetch(30_000, 1 << 19))
    wait_for_waiter(broker)
    other.send(frame(ApiKey.API_VERSIONS, 0, 1, b""))
    assert other.receive() is not None
    assert is_held.is_set()
    released.set()
    found = answer(ApiKey.PRODUCE, version, writing.receive())
    assert found.responses[0].partition_responses[0].base_offset == 1
    log.append(os.urandom(1 << 19))
    assert answer(ApiKey.FETCH, FETCH_VERSION, waiting.receive()).responses
    for each in (writing, waiting, other):
        each.close()


def test_a_batch_that_rolls_the_segment_is_appended_by_a_disk_worker(
    store: kstore.Store,
    broker: kstore.Broker,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = store.create_topic("t", config={"segment.bytes": 300})[0]
    log.append(b"v" * 100)
    batch = bytes(memoryview(log.read(0)))
    threads = []
    create = active_segment.segments_on_disk.create

    def note(*values: Any) -> Any:
        threads.append(threading.current_thread().name)
        return create(*values)

    monkeypatch.setattr(active_segment.segments_on_disk, "create", note)
    for _ in range(6):
        connection.send(produce(batch))
        found = answer(ApiKey.PRODUCE, PRODUCE_VERSION, connection.receive())
        assert found.responses[0].partition_responses[0].error_code == 0
    assert threads
    assert "kstore-broker" not in threads


def test_requests_of_lost_clients_count_until_their_work_ends(
    locked_log: tuple[kstore.Log, threading.Event, threading.Event], broker: kstore.Broker
) -> None:
    _, _, released = locked_log
    builder = BatchBuilder()
    builder.append(os.urandom(100_000), timestamp=1)
    batch = builder.build()
    connection = Connection(broker.bootstrap_servers)
    connection.send(produce(batch))
    while broker._memory.used <= 100_000:  # the request came
        pass
    connection.close()
    while any(broker._listeners.connections()):
        pass
    assert broker._memory.used > 100_000
    released.set()
    while broker._workers.is_busy(("t", 0)):
        pass
    assert broker._memory.used == 0


def test_a_full_disk_is_reported_once(
    store: kstore.Store,
    broker: kstore.Broker,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = store.create_topic("t")[0]
    log.append(os.urandom(100_000))
    batch = bytes(memoryview(log.read(0)))

    def full(*_: object, **__: object) -> None:
        raise StorageError("no space left on device", path=log.path)

    monkeypatch.setattr(type(log), "append_as_leader", full)
    for _ in range(3):
        connection.send(produce(batch))
        found = answer(ApiKey.PRODUCE, PRODUCE_VERSION, connection.receive())
        assert found.responses[0].partition_responses[0].error_code == 56
    reports = [each for each in caplog.messages if "t-0: cannot append: no space left" in each]
    assert len(reports) == 1


def wait_for_waiter(broker: kstore.Broker) -> Any:
    """The partition, once a request is parked at it."""
    partitions = broker._services.partitions
    while True:
        hosted = partitions._hosted.get(("t", 0))
        if hosted is not None and hosted._waiters:
            return hosted
