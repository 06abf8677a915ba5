"""A Fetch that waits for thousands of partitions costs nothing until one of them changes."""

import sys
from collections import Counter

import pytest

from kstore.broker.fetch_reader import FetchReader
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.broker.partitions import Partitions
from kstore.log.writable_log import WritableLog
from kstore.protocol.messages.fetch import FetchRequest
from kstore.store.store import Store
from support.client_batches import NOW
from support.handler_tester import HandlerTester
from support.stores import QUIET

FEW, MANY = 10, 5_000
WAIT_MS = 1_000_000
VALUE = bytes(100)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    with Store(path, config=QUIET) as store, HandlerTester(store, FetchHandlers) as tester:
        tester.create("t", MANY)
        yield tester


@pytest.fixture
def looks(monkeypatch):
    """How often each of the calls that look at a partition is made, by its number."""
    counted = Counter()

    def count(owner, name, number_of):
        method = getattr(owner, name)

        def counting(*args, **kwargs):
            counted[f"{owner.__name__}.{name}", number_of(*args)] += 1
            return method(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(Partitions, "get", lambda _, topic, number, *__: number)
    count(FetchReader, "read", lambda _, wanted, *__: wanted.number)
    count(WritableLog, "read", lambda log, *_: log.partition)
    count(WritableLog, "watch", lambda log, *_: log.partition)
    return counted


def looked_at(numbers):
    names = "Partitions.get", "FetchReader.read", "WritableLog.read"
    return Counter((name, number) for name in names for number in numbers)


def topics(broker, positions):
    topic_id = broker.metadata.image.topic("t").topic_id
    partitions = [
        FetchRequest.Topics.Partitions(number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in positions.items()
    ]
    return [FetchRequest.Topics("t", topic_id, partitions)]


def parked(broker, count, version, batches):
    """A request of a session of the first partitions, which waits for a number of batches."""
    logs = broker.store["t"]
    positions = {number: logs[number].end_offset for number in range(count)}
    opening = FetchRequest(session_epoch=0, topics=topics(broker, positions))
    number = broker.ask(opening, version).session_id
    logs[1].append(VALUE, timestamp=NOW)
    size = len(logs[1].read(positions[1]))
    request = FetchRequest(
        session_id=number,
        session_epoch=1,
        max_wait_ms=WAIT_MS,
        min_bytes=batches * size,
        topics=topics(broker, {1: positions[1] + 1}),
    )
    asked = broker.start(request, version)
    turns(broker)
    assert not asked.is_answered
    return asked


def turns(broker):
    for _ in range(20):
        broker.turn()


def python_calls(function):
    """The number of Python functions that a call runs: the least of ten, because finalizers of
    other objects may run at any time and add to it."""
    counts = []

    def profile(frame, event, argument):
        counts[-1] += event == "call"

    for _ in range(10):
        counts.append(0)
        sys.setprofile(profile)
        try:
            function()
        finally:
            sys.setprofile(None)
    return min(counts)


@pytest.mark.parametrize("version", [11, 17])
def test_an_append_reads_its_own_partition_only(broker, looks, version):
    asked = parked(broker, MANY, version, batches=3)
    timers = [entry for entry in broker.loop._timers if entry[2]._function is not None]
    assert len(timers) == 1  # the end of the wait: nothing looks before
    looks.clear()
    turns(broker)
    assert looks == {}
    for number in (4_321, 77):
        broker.store["t"][number].append(VALUE, timestamp=NOW)
        turns(broker)
        assert looks == looked_at([number])
        looks.clear()
    assert not asked.is_answered
    broker.store["t"][4_999].append(VALUE, timestamp=NOW)
    response = asked.answer()
    assert looks == looked_at([4_999])
    found = [
        each.partition_index
        for topic in response.responses
        for each in topic.partitions
        if each.records
    ]
    assert found == [77, 4_321, 4_999]


def test_the_work_of_an_append_does_not_grow_with_the_partitions(broker):
    def append():
        broker.store["t"][5].append(VALUE, timestamp=NOW)
        turns(broker)

    counts = []
    for partitions in (FEW, MANY):
        asked = parked(broker, partitions, 17, batches=20)
        append()  # what is done once for a partition
        counts.append([python_calls(append), python_calls(lambda: turns(broker))])
        assert not asked.is_answered
        assert asked.pending is not None
        asked.pending.cancel()
    assert counts[0] == counts[1]
