"""A producer: batches, acknowledgements, backpressure, errors; and the group commit of a log."""

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Committer, Delivery, MultiTopicProducer, Position, Store, StoreConfig
from kstore.errors import (
    BufferExhaustedError,
    ClosedError,
    InvalidConfigError,
    InvalidTimestampError,
    LogDirOfflineError,
    MessageTooLargeError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.files.files import Files

QUIET = StoreConfig(background=False)


class Slow(Files):
    """A disk whose syncs wait for a gate, are counted, and may fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncs = 0
        self.failing = False

    def fdatasync(self, fd: int) -> None:
        self.gate.wait(30)
        self.syncs += 1
        if self.failing:
            raise StorageError("cannot sync", errno=5)
        super().fdatasync(fd)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("t", 4)
        yield opened


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_complete_and_in_order(
    store: Store, acks: int | str, compression: str
) -> None:
    with store.producer("t", acks=acks, compression=compression, batch_size=700) as producer:
        sent = [
            producer.send(
                b"value %d" % number,
                key=b"key %d" % (number % 7),
                headers=[("n", b"%d" % number)],
                timestamp=1000 + number,
            )
            for number in range(500)
        ]
    positions = [delivery.result(0) for delivery in sent]
    if acks == 0:
        assert {each.offset for each in positions} == {-1}
    found = {}
    for log in store["t"]:
        last = -1
        for record in log:
            number = int(record.value[6:])
            assert number > last  # the order of a partition is the order of sending
            last = number
            found[number] = Position(log.partition, record.offset)
            assert (record.key, record.timestamp) == (b"key %d" % (number % 7), 1000 + number)
            assert [tuple(header) for header in record.headers] == [("n", b"%d" % number)]
    assert sorted(found) == list(range(500))
    if acks != 0:
        assert positions == [found[number] for number in range(500)]


def test_a_full_batch_is_sent_at_once(store: Store) -> None:
    with store.producer("t", linger_ms=60_000, batch_size=1000) as producer:
        sent = [producer.send(b"x" * 300, partition=0) for _ in range(6)]
        assert sent[2].result(30) == Position(0, 2)
        assert not sent[5].done()
    assert store["t"][0].end_offset == 6


def test_a_lingering_batch_is_sent_after_linger_ms(store: Store) -> None:
    with store.producer("t", linger_ms=20) as producer:
        first = producer.send(b"a", partition=1)
        second = producer.send(b"b", partition=1)
        assert (first.result(30).offset, second.result(30).offset) == (0, 1)
        producer.send(b"c", partition=1).result(30)
    log = store["t"][1]
    assert log.size == log.read(0).size
    assert log.end_offset == 3


def test_flush_delivers_what_was_sent(store: Store) -> None:
    with store.producer("t", linger_ms=60_000) as producer:
        sent = [producer.send(b"%d" % number) for number in range(10)]
        assert not any(delivery.done() for delivery in sent)
        assert producer.flush() == 0
        assert all(delivery.done() for delivery in sent)
        assert producer.flush(10) == 0


@pytest.mark.parametrize("topic", ["t", None])
def test_a_flush_with_a_timeout_counts_what_is_in_flight(tmp_path: Path, topic: str | None) -> None:
    files = Slow()
    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t", 2)
        with store.producer(topic, linger_ms=60_000, acks="all") as producer:
            send: Any = producer.send if topic else partial(producer.send, "t")
            files.gate.clear()
            sent = [send(b"%d" % n, partition=n % 2) for n in range(5)]
            assert producer.flush(timeout=0.01) == 5
            later = send(b"later")  # whose batch the thread does not have yet
            assert producer.flush(0) == 6
            files.gate.set()
            assert producer.flush(timeout=30) == 0
            assert all(delivery.done() for delivery in [*sent, later])
            assert producer.flush(float("inf")) == 0
            for wrong in (-1, float("nan")):
                with pytest.raises(InvalidConfigError, match="timeout is in seconds"):
                    producer.flush(wrong)


def test_all_is_on_disk_and_one_sync_serves_many(tmp_path: Path) -> None:
    files = Slow()
    with Store(tmp_path, config=QUIET, files=files) as store:
        log = store.create_topic("t")[0]
        with store.producer("t", linger_ms=0, acks="all") as producer:
            files.gate.clear()
            first = producer.send(b"x")
            wait_until(lambda: log.end_offset == 1)
            assert not first.done()  # written, but not on disk
            rest = []
            for _ in range(50):
                rest.append(producer.send(b"y"))
                time.sleep(0.0002)
            files.gate.set()
            assert rest[-1].result(30).offset == 50
            assert first.result(30).offset == 0
            assert files.syncs <= 3
            assert log.recovery_point == 51


def test_callbacks_are_called_once_with_their_delivery(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[Delivery, Position]] = []
    with store.producer("t", linger_ms=60_000) as producer:
        delivery = producer.send(b"x", partition=2)
        delivery.add_done_callback(lambda done: seen.append((done, done.result(0))))
        delivery.add_done_callback(lambda done: 1 / 0)
        producer.flush()
        delivery.add_done_callback(lambda done: seen.append((done, done.result(0))))
    assert seen == [(delivery, Position(2, 0))] * 2
    assert "ZeroDivisionError" in caplog.text


def test_waiting_has_an_end(store: Store) -> None:
    with store.producer("t", linger_ms=60_000) as producer, pytest.raises(TimeoutError):
        producer.send(b"x").result(0.01)


def test_a_full_buffer_blocks_send(tmp_path: Path) -> None:
    files = Slow()
    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t")
        with store.producer(
            "t", linger_ms=0, acks="all", buffer_memory=5000, max_block_ms=50
        ) as producer:
            files.gate.clear()
            sent = [producer.send(b"x" * 1000) for _ in range(4)]
            with pytest.raises(BufferExhaustedError) as caught:
                producer.send(b"x" * 1000)
            assert isinstance(caught.value, TimeoutError)
            files.gate.set()
            producer.flush()
            sent.append(producer.send(b"x" * 100_000))  # alone it may be larger than the buffer
            assert [delivery.result(30).offset for delivery in sent] == [0, 1, 2, 3, 4]


def test_a_refused_record_leaves_the_others(store: Store) -> None:
    with store.producer("t", linger_ms=60_000) as producer:
        for wrong in (
            lambda: producer.send("text", partition=0),
            lambda: producer.send(b"x", key="text", partition=0),
        ):
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(InvalidTimestampError):
            producer.send(b"x", timestamp=-5, partition=0)
        with pytest.raises(UnknownTopicOrPartitionError):
            producer.send(b"x", partition=9)
        delivery = producer.send(b"good", partition=0)
        producer.flush()
        assert delivery.result(0) == Position(0, 0)
    assert [record.value for record in store["t"][0]] == [b"good"]


def test_errors_of_the_log_surface(store: Store) -> None:
    store.alter_topic("t", config={"max_message_bytes": 500})
    with store.producer("t", linger_ms=60_000, batch_size=400) as producer:
        bad = producer.send(b"x" * 600, partition=0)
        good = producer.send(b"y", partition=1)
        with pytest.raises(MessageTooLargeError):
            producer.flush()
        assert good.result(0) == Position(1, 0)
        with pytest.raises(MessageTooLargeError):
            bad.result(0)
        assert isinstance(bad.exception(0), MessageTooLargeError)
        producer.flush()  # reported once
        producer.send(b"x" * 600, partition=0).exception(30)
    # an error that was read is not raised again by close


def test_a_failed_sync_fails_what_waits_for_it(tmp_path: Path) -> None:
    files = Slow()
    store = Store(tmp_path, config=QUIET, files=files)
    store.create_topic("t")
    producer = store.producer("t", linger_ms=0)
    producer.send(b"x").result(30)
    files.failing = True
    with pytest.raises(StorageError):
        producer.send(b"y").result(30)
    producer.send(b"z")
    with pytest.raises(StorageError):
        producer.close()
    with pytest.raises(ClosedError):
        producer.send(b"y")
    with pytest.raises(LogDirOfflineError, match="t-0 from offset"):
        store.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_closing_the_store_closes_its_producers_first(tmp_path: Path) -> None:
    store = kstore.open(tmp_path, config=QUIET)
    store.create_topic("t")
    producer = store.producer("t", linger_ms=60_000)
    delivery = producer.send(b"x")
    store.close()
    assert delivery.result(0) == Position(0, 0)
    producer.close()
    with pytest.raises(ClosedError):
        producer.send(b"y")
    assert not [each for each in threading.enumerate() if each.name == "kstore-producer-t"]


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"compression": "rar"},
        {"linger_ms": -1},
        {"buffer_memory": 0},
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"max_block_ms": -1},
    ],
)
def test_wrong_options_are_refused(store: Store, options: dict[str, int]) -> None:
    with pytest.raises(InvalidConfigError):
        store.producer("t", **options)


def test_the_callers_partitioner_chooses_the_partition(store: Store) -> None:
    with store.producer("t", partitioner=lambda key, value, count: count - 1) as producer:
        assert producer.send(b"x", key=b"k").result(30) == Position(3, 0)
    with (
        store.producer("t", partitioner=lambda key, value, count: count) as producer,
        pytest.raises(UnknownTopicOrPartitionError),
    ):
        producer.send(b"x")


def test_many_threads_send_at_once(store: Store) -> None:
    with store.producer("t", linger_ms=1, batch_size=2000, acks=1) as producer:

        def work(start: int) -> None:
            for number in range(start, start + 500):
                producer.send(b"%d" % number, key=b"%d" % (number % 10))

        threads = [threading.Thread(target=work, args=(n * 500,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    found = sorted(int(record.value) for log in store["t"] for record in log)
    assert found == list(range(2000))


# --- several topics ---------------------------------------------------------------------------


def test_a_producer_without_a_topic_sends_to_any(store: Store) -> None:
    store.create_topic("u")
    with store.producer(compression="zstd") as producer:
        sent = [producer.send("tu"[n % 2], b"%d" % n, key=b"k", partition=0) for n in range(10)]
        assert isinstance(producer, MultiTopicProducer)
        assert repr(producer) == "<kstore.MultiTopicProducer to t, u>"
    assert [delivery.result(0) for delivery in sent] == [Position(0, n // 2) for n in range(10)]
    assert [record.value for record in store["t"][0]] == [b"0", b"2", b"4", b"6", b"8"]
    assert [record.value for record in store["u"][0]] == [b"1", b"3", b"5", b"7", b"9"]
    with pytest.raises(ClosedError):
        producer.send("t", b"x")


def test_topics_of_a_producer_share_thread_memory_and_linger(store: Store) -> None:
    store.create_topic("u")
    before = threading.active_count()
    with store.producer(linger_ms=60_000, buffer_memory=3000, acks=1) as producer:
        first = producer.send("t", b"x" * 1000)
        second = producer.send("u", b"x" * 1000)
        assert threading.active_count() == before + 1
        assert not first.done()
        third = producer.send("u", b"x" * 1000)  # beyond the memory of both
        assert first.result(30).offset == second.result(30).offset == 0
        assert not third.done()
        producer.flush()
        assert third.done()


def test_errors_of_a_producer_of_several_topics(store: Store) -> None:
    store.create_topic("u", config=kstore.LogConfig(max_message_bytes=500))
    with store.producer(linger_ms=60_000) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match="'nope'"):
            producer.send("nope", b"x")
        good = producer.send("t", b"x" * 600, partition=1)
        producer.send("u", b"x" * 600)
        with pytest.raises(MessageTooLargeError):
            producer.flush()
        assert good.result(0) == Position(1, 0)
    with pytest.raises(InvalidConfigError):
        store.producer(compression="rar")
    with pytest.raises(InvalidConfigError):
        store.producer(batch_size=0)


def test_closing_the_store_delivers_what_a_dropped_producer_sent(tmp_path: Path) -> None:
    for names in (("t",), ()):
        store = kstore.open(tmp_path, config=QUIET)
        store.create_topic("t", exist_ok=True)
        producer = store.producer(*names, linger_ms=60_000)
        delivery = producer.send(*("t", b"x")[len(names) :])
        del producer
        store.close()
        assert delivery.result(0).partition == 0


def test_a_topic_for_a_producer_that_has_one(store: Store) -> None:
    with (
        store.producer("t") as producer,
        pytest.raises(TypeError, match=r"sends to topic 't'; .* named: send\(value, key=...\)"),
    ):
        producer.send("t", b"x")


# --- deliveries -------------------------------------------------------------------------------


def test_a_delivery_is_reported_by_error_or_position(tmp_path: Path) -> None:
    files = Slow()
    seen: list[tuple[BaseException | None, Position | None]] = []
    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t", config=kstore.LogConfig(max_message_bytes=500))
        with store.producer("t", linger_ms=60_000) as producer:
            producer.send(b"x", on_delivery=lambda *result: seen.append(result))
            assert seen == []
            producer.flush()
            assert seen.pop() == (None, Position(0, 0))
            producer.send(b"x" * 600, on_delivery=lambda *result: seen.append(result))
            producer.flush()  # the error was given to the callback
            ((error, position),) = seen
            assert isinstance(error, MessageTooLargeError)
            assert position is None
        seen.clear()
        with store.producer(acks=0) as any_topic:
            any_topic.send("t", b"x", on_delivery=lambda *result: seen.append(result))
            assert seen == [(None, Position(0, -1))]


def test_a_delivery_is_awaited_without_blocking_the_loop(tmp_path: Path) -> None:
    files = Slow()

    async def send(producer: kstore.Producer) -> list[object]:
        order: list[object] = []
        files.gate.clear()
        delivery = producer.send(b"x")

        async def wait() -> None:
            order.append(await delivery)

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        order.append("the loop runs")
        files.gate.set()
        await asyncio.wait_for(waiting, 30)
        order.append(await delivery)  # known already
        order += await asyncio.gather(*(producer.send(b"%d" % n) for n in range(3)))
        return order

    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t")
        with store.producer("t", linger_ms=0) as producer:
            first = Position(0, 0)
            rest = [Position(0, offset) for offset in (1, 2, 3)]
            assert asyncio.run(send(producer)) == ["the loop runs", first, first, *rest]


def test_an_awaited_delivery_raises_its_error(store: Store) -> None:
    store.alter_topic("t", config={"max_message_bytes": 500})

    async def send(producer: kstore.Producer) -> None:
        await producer.send(b"x" * 600, partition=0)

    with store.producer("t") as producer, pytest.raises(MessageTooLargeError):
        asyncio.run(send(producer))


def test_a_cancelled_wait_cancels_no_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Slow()
    sent: list[Delivery] = []

    async def send(producer: kstore.Producer) -> None:
        files.gate.clear()
        sent.append(producer.send(b"x"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sent[0], 0.01)

    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t")
        with store.producer("t", linger_ms=0) as producer:
            asyncio.run(send(producer))  # the loop is closed before the record is delivered
            files.gate.set()
            assert sent[0].result(30) == Position(0, 0)
    assert caplog.text == ""


@pytest.mark.parametrize("topic", ["t", None])
def test_a_producer_is_closed_without_blocking_the_loop(tmp_path: Path, topic: str | None) -> None:
    files = Slow()

    async def use(producer: kstore.Producer | MultiTopicProducer) -> Delivery:
        async def open_gate() -> None:
            files.gate.set()

        async with producer as entered:
            assert entered is producer
            send: Any = producer.send if topic else partial(producer.send, "t")
            files.gate.clear()
            delivery: Delivery = send(b"x")
            opening = asyncio.create_task(open_gate())  # runs when the loop has its next turn
        assert opening.done()
        return delivery

    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t")
        producer = store.producer(topic, linger_ms=0)
        assert asyncio.run(use(producer)).result(0) == Position(0, 0)
        with pytest.raises(ClosedError):
            asyncio.run(use(producer))
        files.gate.set()


# --- group commit -------------------------------------------------------------------------------


def test_a_committer_syncs_behind_the_appends(tmp_path: Path) -> None:
    files = Slow()
    with Store(tmp_path, config=QUIET, files=files) as store:
        log = store.create_topic("t")[0]
        with Committer(log) as committer:
            log.extend([b"x"] * 10)
            assert committer.wait()
            assert committer.durable_offset == 10 == log.recovery_point
            files.gate.clear()
            before = files.syncs
            log.append(b"y")
            committer.request()
            assert not committer.wait(timeout=0.01)
            for _ in range(20):  # appends continue while the sync hangs
                log.append(b"z")
            assert committer.durable_offset == 10
            files.gate.set()
            assert committer.wait(31, timeout=30)
            assert log.recovery_point == 31
            assert files.syncs - before <= 3
        log.append(b"more")
        with pytest.raises(ClosedError):
            committer.wait()


def sequences(log: kstore.Log) -> list[tuple[int, int, int, int]]:
    """Producer id, epoch, first sequence and number of records of each batch."""
    data = bytes(log.read(0, 1 << 20))
    found, position = [], 0
    while position < len(data):
        found.append(struct.unpack_from(">qhii", data, position + 43))
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def test_an_idempotent_producer_numbers_its_batches(store: Store) -> None:
    with store.producer("t", enable_idempotence=True, batch_size=200) as producer:
        for number in range(60):
            producer.send(b"value %d" % number, partition=number % 2)
    with store.producer("t", enable_idempotence=True) as other:
        other.send(b"x", partition=0)
    ids = set()
    for partition in (0, 1):
        batches = sequences(store["t"][partition])
        mine = batches[:-1] if partition == 0 else batches
        assert len(mine) > 2
        expected = 0
        for producer_id, epoch, sequence, count in mine:
            ids.add(producer_id)
            assert (epoch, sequence) == (0, expected)
            expected += count
        assert expected == 30
    assert len(ids) == 1
    assert min(ids) >= 2**62
    assert sequences(store["t"][0])[-1][0] not in ids


def test_a_refused_batch_uses_no_sequence_numbers(store: Store) -> None:
    store.alter_topic("t", config={"max_message_bytes": 1000})
    with store.producer("t", enable_idempotence=True, linger_ms=0) as producer:
        producer.send(b"1", partition=0).result(30)
        with pytest.raises(MessageTooLargeError):
            producer.send(b"x" * 2000, partition=0).result(30)
        producer.send(b"2", partition=0).result(30)
    assert [sequence for _, _, sequence, _ in sequences(store["t"][0])] == [0, 1]


def test_sequence_numbers_of_an_append_that_failed_later_are_not_reused(store: Store) -> None:
    """Else the next batch of as many records is taken for a repetition, and not written."""
    log = store["t"][0]
    append = log.append_as_leader

    def append_and_fail(batch: bytes) -> None:
        append(batch)
        raise StorageError("no descriptor left", errno=24)

    with store.producer("t", enable_idempotence=True, linger_ms=0) as producer:
        log.append_as_leader = append_and_fail
        with pytest.raises(StorageError):
            producer.send(b"1", partition=0).result(30)
        log.append_as_leader = append
        assert producer.send(b"2", partition=0).result(30).offset == 1
    assert [record.value for record in log] == [b"1", b"2"]
    assert [sequence for _, _, sequence, _ in sequences(log)] == [0, 1]


def test_a_plain_producer_has_no_id(store: Store) -> None:
    with store.producer("t") as producer:
        producer.send(b"1", partition=0)
    assert sequences(store["t"][0]) == [(-1, -1, -1, 1)]


def test_a_failed_sync_is_an_error_of_all_waiting_callers(tmp_path: Path) -> None:
    files = Slow()
    store = Store(tmp_path, config=QUIET, files=files)
    log = store.create_topic("t")[0]
    committer = Committer(log)
    files.failing = True
    log.append(b"x")
    for _ in range(2):
        with pytest.raises(StorageError):
            committer.wait()
    with pytest.raises(StorageError):
        committer.close()
    with pytest.raises(LogDirOfflineError, match="t-0 from offset"):
        store.close()
