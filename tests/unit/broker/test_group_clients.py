"""Unmodified clients with a group: they subscribe, rebalance, commit and continue."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest

import kstore
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from support.raw_client import RawClient

# kafka-python leaves the socket of a refused connection to the garbage collector, whose warning may
# appear in any later test.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:unclosed <socket.*laddr=\('0\.0\.0\.0':ResourceWarning"
)
SETTINGS = {"group.initial.rebalance.delay.ms": 0}
PARTITIONS, RECORDS = 4, 40
WAIT = 60.0


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Nothing is left to the collector of a later test, which does not expect that warning."""
    yield
    gc.collect()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        topic = store.create_topic("orders", PARTITIONS)
        for number in range(RECORDS):
            topic[number % PARTITIONS].append(str(number).encode())
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def readers() -> Iterator["list[Reader]"]:
    """Readers that end with the test, however it ends: their sockets would fail later tests."""
    readers: list[Reader] = []
    yield readers
    for reader in readers:
        reader.end()


class Reader(threading.Thread):
    """A kafka-python consumer that polls until it is stopped; then it commits and closes."""

    def __init__(self, readers: "list[Reader]", broker: kstore.Broker, **settings: Any) -> None:
        super().__init__(daemon=True)
        readers.append(self)
        self.settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "group_id": "readers",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
            **settings,
        }
        self.values: list[bytes] = []
        self.assignment: set[Any] = set()
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        self.commits = True
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        consumer = None
        try:
            consumer = kafka.KafkaConsumer("orders", **self.settings)
            # It joins before it knows the topic's partitions, and assigns none of them, for good.
            assert consumer.partitions_for_topic("orders") == set(range(PARTITIONS))
            while not self.stopping.is_set():
                found = consumer.poll(100)
                with self.changed:
                    self.assignment = consumer.assignment()
                    self.values += [each.value for some in found.values() for each in some]
                    self.changed.notify_all()
            if self.commits:
                consumer.commit()
        except BaseException as error:
            self.error = error
        finally:
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=1_000)

    def wait_for(self, condition: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT), (self.values, self.assignment)

    def stop(self) -> None:
        self.stopping.set()
        self.join(WAIT)
        assert self.error is None
        assert not self.is_alive()

    def end(self) -> None:
        self.commits = False
        self.stopping.set()
        self.join(WAIT)


def test_kafka_python_consumers_share_a_topic(broker: kstore.Broker, readers: list[Reader]) -> None:
    first = Reader(readers, broker)
    first.wait_for(lambda: len(first.values) == RECORDS)
    assert len(first.assignment) == PARTITIONS
    second = Reader(readers, broker)
    second.wait_for(lambda: len(second.assignment) == PARTITIONS // 2)
    first.wait_for(lambda: len(first.assignment) == PARTITIONS // 2)
    assert not first.assignment & second.assignment
    first.stop()
    second.wait_for(lambda: len(second.assignment) == PARTITIONS)
    second.stop()


def test_embedded_consumer_reads_the_offsets_of_a_client(
    store: kstore.Store, broker: kstore.Broker, readers: list[Reader]
) -> None:
    reader = Reader(readers, broker)
    reader.wait_for(lambda: len(reader.values) == RECORDS)
    reader.stop()
    offsets = store.group("readers").offsets
    assert {each.offset for each in offsets.values()} == {RECORDS // PARTITIONS}
    store["orders"][0].append(b"later")
    with store.consumer("orders", group="readers") as consumer:
        found = consumer.poll()
        assert [each.value for some in found.values() for each in some] == [b"later"]
        consumer.commit()
    again = Reader(readers, broker)
    store["orders"][1].append(b"last")
    again.wait_for(lambda: again.values)
    assert again.values == [b"last"]
    again.stop()


def test_offsets_and_members_outlive_a_broker(store: kstore.Store, readers: list[Reader]) -> None:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        port = broker.port
        reader = Reader(readers, broker)
        reader.wait_for(lambda: len(reader.values) == RECORDS)
    with kstore.Broker(store, port=port, settings=SETTINGS):
        store["orders"][2].append(b"after")
        reader.wait_for(lambda: reader.values[-1] == b"after")
        reader.stop()
        assert len(reader.values) == RECORDS + 1


def test_aiokafka_consumers_share_a_topic(broker: kstore.Broker) -> None:
    async def consume() -> list[int]:
        settings = {
            "bootstrap_servers": broker.bootstrap_servers,
            "group_id": "readers",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
        }
        one = aiokafka.AIOKafkaConsumer("orders", **settings)
        two = aiokafka.AIOKafkaConsumer("orders", **settings)
        await asyncio.gather(one.start(), two.start())
        values: list[bytes] = []
        sizes = [0, 0]
        while len(values) < RECORDS or sizes != [2, 2]:
            for consumer in (one, two):
                found = await consumer.getmany(timeout_ms=100)
                values += [each.value for some in found.values() for each in some]
            sizes = [len(one.assignment()), len(two.assignment())]
        assert len(set(values)) == RECORDS
        await one.commit()
        await asyncio.gather(one.stop(), two.stop())
        return sizes

    assert asyncio.run(asyncio.wait_for(consume(), WAIT)) == [2, 2]


def test_a_client_and_an_embedded_consumer_share_a_topic(
    store: kstore.Store, broker: kstore.Broker, readers: list[Reader]
) -> None:
    with store.consumer("orders", group="readers") as embedded:
        assert len(embedded.assignment) == PARTITIONS
        reader = Reader(readers, broker)
        values = [record.value for record in poll_until(embedded, PARTITIONS // 2)]
        reader.wait_for(lambda: len(reader.assignment) == PARTITIONS // 2)
        assert not {tuple(tp) for tp in reader.assignment} & embedded.assignment
        for partition in range(PARTITIONS):
            store["orders"][partition].append(b"later %d" % partition)
        reader.wait_for(lambda: sum(b"later" in each for each in reader.values) == 2)
        values += [record.value for record in poll_all(embedded)]
        later = [each for each in [*values, *reader.values] if b"later" in each]
        assert sorted(later) == [b"later %d" % n for n in range(PARTITIONS)]
        assert {b"%d" % n for n in range(RECORDS)} <= {*values, *reader.values}
        with pytest.raises(kstore.errors.NonEmptyGroupError, match="members"):
            store.alter_group_offsets("readers", {("orders", 0): 0})
        reader.stop()
        poll_until(embedded, PARTITIONS)
        embedded.commit()
    assert {each.offset for each in store.group("readers").offsets.values()} == {11}


def test_a_client_takes_over_when_an_embedded_consumer_is_closed(
    store: kstore.Store, broker: kstore.Broker, readers: list[Reader]
) -> None:
    with store.consumer("orders", group="readers") as embedded:
        found = embedded.poll(max_records=RECORDS)
        embedded.commit()
        assert sum(map(len, found.values())) == RECORDS
    reader = Reader(readers, broker)
    reader.wait_for(lambda: len(reader.assignment) == PARTITIONS)
    store["orders"][0].append(b"later")
    reader.wait_for(lambda: reader.values == [b"later"])


def poll_until(consumer: kstore.Consumer, partitions: int) -> list[kstore.Record]:
    """Poll until the group has assigned this many partitions; the records that were read."""
    end, records = time.monotonic() + WAIT, []
    while len(consumer.assignment) != partitions:
        assert time.monotonic() < end, consumer
        for some in consumer.poll(timeout=0.05).values():
            records += some
        consumer.commit()
    return records


def poll_all(consumer: kstore.Consumer) -> list[kstore.Record]:
    return [record for some in consumer.poll(max_records=RECORDS).values() for record in some]


def test_group_with_members_refuses_consumers_with_partitions_of_their_own(
    store: kstore.Store, broker: kstore.Broker, readers: list[Reader]
) -> None:
    assignment = [("orders", n) for n in range(PARTITIONS)]
    with store.consumer(group="readers", assignment=assignment) as embedded:
        assert embedded.poll()  # the group has no members
        embedded.commit()
        committed = store.group("readers").offsets
        reader = Reader(readers, broker)
        reader.wait_for(lambda: len(reader.assignment) == PARTITIONS)
        for use in (embedded.poll, embedded.commit):
            with pytest.raises(kstore.errors.GroupConflictError, match="members"):
                use()
        assert store.group("readers").offsets == committed
    with pytest.raises(kstore.errors.GroupConflictError):
        store.consumer(group="readers", assignment=assignment)
    with pytest.raises(kstore.errors.NonEmptyGroupError, match="members"):
        store.alter_group_offsets("readers", {("orders", 0): 0})
    with (
        store.transactional_producer("t") as producer,
        pytest.raises(kstore.errors.GroupConflictError),
        producer.transaction(),
    ):
        producer.send_offsets_to_transaction({("orders", 0): 1}, "readers")
    reader.commits = False
    reader.end()
    with store.consumer("orders", group="readers") as embedded:
        poll_until(embedded, PARTITIONS)
        embedded.commit({("orders", 0): 1})
    assert store.group("readers").offsets["orders", 0].offset == 1


def test_file_of_another_process_never_replaces_a_commit_of_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with kstore.open(path) as store:
        store.create_topic("orders", 2)
        for partition in (0, 1):
            store["orders"][partition].append(b"x")
        with (
            kstore.open(path, mode="r") as other,
            other.consumer("orders", group="readers") as beside,
        ):
            beside.commit({("orders", 0): 1, ("orders", 1): 1})
            assert list(path.glob("kstore.offsets.readers"))
        with (
            kstore.Broker(store, port=0, settings=SETTINGS) as broker,
            RawClient(broker.port) as client,
        ):
            client.ask(FindCoordinatorRequest(key="readers"), 3)
            partition = OffsetCommitRequest.Topics.Partitions(0, 0)
            request = OffsetCommitRequest(
                "readers", topics=[OffsetCommitRequest.Topics("orders", [partition])]
            )
            while (answer := client.ask(request, 8)).topics[0].partitions[0].error_code == 14:
                pass
            assert answer.topics[0].partitions[0].error_code == 0
    with kstore.open(path) as store:
        assert not list(path.glob("kstore.offsets.readers"))
        found = {tp: each.offset for tp, each in store.group("readers").offsets.items()}
        assert found == {("orders", 0): 0, ("orders", 1): 1}
