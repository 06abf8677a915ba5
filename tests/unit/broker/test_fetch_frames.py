"""Fetch requests handled by their frames: the answers are those of the other handler."""

import itertools
import random

import pytest

from kstore._native.broker import fetch_frame
from kstore.broker import fetch_session
from kstore.broker.fetch_frame_reader import FetchFrameReader, NoAnswer
from kstore.broker.fetch_session import FetchedPartition
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.protocol.messages.fetch import FetchRequest, FetchResponse
from kstore.protocol.wire import ZERO_UUID, Reader, Writer
from oracle.writer import batch
from support.client_batches import NOW, rows
from support.frame_pair import (
    FramePair,
    damaged,
    request_frame,
    topic_id,
    topic_id_bytes,
    with_size,
)

VERSIONS = range(4, 18)
Partition = FetchRequest.Topics.Partitions
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER = 1, 3, 6
UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID = 100, 103


@pytest.fixture
def brokers(tmp_path):
    with FramePair(tmp_path, FetchHandlers, ProduceHandlers) as pair:
        pair.create("t", 2)
        for each in pair.both:
            for number in range(40):
                each.store["t"][0].append_as_leader(batch(rows(1 + number % 5)))
            assert each.store["t"][0].read(0)  # maps the segment: a disk worker's task
        yield pair


def fetch(offset=0, *, topic="t", partition=0, partition_max=1 << 20, epoch=-1, **fields):
    wanted = Partition(
        partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        partition_max_bytes=partition_max,
    )
    number = topic_id_bytes(topic) if topic else ZERO_UUID
    topics = [FetchRequest.Topics(topic=topic, topic_id=number, partitions=[wanted])]
    return FetchRequest(**{"min_bytes": 1, "topics": topics, **fields})


def add_transaction(log, *, producer_id, committed):
    """A transaction of one record; ``committed`` None leaves it open. Returns what commits it."""

    def end(log, committed=True):
        log.append_end_marker(producer_id, 0, commit=committed, timestamp=NOW)

    log.append_as_leader(
        batch(
            rows(1),
            transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
    )
    if committed is not None:
        end(log, committed)
    return end


def park(brokers, message, version=11):
    for each in brokers.both:
        each.park(request_frame(message, version))


def append(brokers, count):
    for each in brokers.both:
        each.store["t"][0].append_as_leader(batch(rows(count)))
        each.tester.turn()


def answer(brokers):
    """The response of both brokers to the parked request."""
    found, expected = (each.answer() for each in brokers.both)
    assert found == expected
    return found


def error_code(response, version):
    """The error of the partition in a response with its size prefix."""
    reader = Reader(response, 4 + 4 + (version >= 12))
    [topic] = FetchResponse.decode(reader, version).responses
    return topic.partitions[0].error_code


@pytest.mark.parametrize("version", VERSIONS)
def test_records_at_any_offset_within_any_limit(brokers, version):
    end = brokers.quick.store["t"][0].end_offset
    asked = [(offset, limit) for offset in range(0, end, 3) for limit in (0, 1, 300, 5000, 1 << 20)]
    for offset, limit in asked:
        brokers.ask(
            request_frame(fetch(offset, partition_max=limit), version),
            request_frame(fetch(offset, max_bytes=limit, min_bytes=100), version, client_id=None),
        )
    assert brokers.quick.by_frame == 2 * len(asked)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "message",
    [
        fetch(10_000),
        fetch(-1),
        fetch(partition=2),
        fetch(topic="unknown"),
        fetch(topic=""),
        fetch(topic="t\u00e4"),
        fetch(replica_id=0, replica_state=FetchRequest.ReplicaState(0)),
        fetch(replica_id=-2, replica_state=FetchRequest.ReplicaState(-2)),
        fetch(max_bytes=-1, min_bytes=-1, topic="x"),
        FetchRequest(topics=[]),
        FetchRequest(topics=fetch().topics * 2, min_bytes=1),
    ],
    ids=repr,
)
def test_other_requests_are_left_to_the_other_handler(brokers, version, message):
    brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0


@pytest.mark.parametrize("version", VERSIONS[3:])  # those with sessions
@pytest.mark.parametrize(
    "message",
    [
        fetch(session_id=5, session_epoch=3),
        fetch(session_epoch=0),
        fetch(session_id=5),
        FetchRequest(
            topics=fetch().topics,
            forgotten_topics_data=[FetchRequest.ForgottenTopicsData(topic="t", partitions=[1])],
        ),
    ],
    ids=repr,
)
def test_other_sessions_are_left_to_the_other_handler(brokers, version, message):
    if message.session_epoch == 0:
        for each in brokers.both:  # a session's number is random
            each.ask(request_frame(message, version))
    else:
        brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0


@pytest.fixture
def sessions(brokers, monkeypatch):
    """The brokers, which give their sessions the same numbers."""
    numbers = (number // 2 for number in itertools.count(2))
    monkeypatch.setattr(fetch_session, "randrange", lambda *_: next(numbers))
    return brokers


def open_session(brokers, version, *partitions):
    """A session of partitions of a topic; returns its id."""
    message = fetch(40, session_epoch=0)
    message.topics[0].partitions = [
        Partition(number, fetch_offset=0, partition_max_bytes=100) for number in partitions
    ]
    brokers.ask(request_frame(message, version))
    *_, session = brokers.quick.tester.handlers[0].sessions.cache
    return session.id


def state(broker):
    """The sessions of a broker, but for the times of their use."""
    return [
        (each.id, each.epoch, each.size, [vars_of(p) for p in each.partitions.values()])
        for each in broker.tester.handlers[0].sessions.cache
    ]


def vars_of(partition):
    return {name: getattr(partition, name) for name in FetchedPartition.__slots__}


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_the_next_request_of_a_session_of_one_partition(sessions, version):
    number = open_session(sessions, version, 0)
    for epoch, offset in enumerate((0, 17, 100, 0), start=1):
        wanted = fetch(
            offset, partition_max=500 + epoch, session_id=number, session_epoch=epoch, max_bytes=600
        )
        sessions.ask(request_frame(wanted, version))
        assert sessions.quick.by_frame == epoch
        assert state(sessions.quick) == state(sessions.plain)
    append(sessions, 3)
    later = fetch(120, session_id=number, session_epoch=5)
    later.topics = []  # from the offset that the session has, now with another high watermark
    sessions.ask(request_frame(later, version))
    assert sessions.quick.by_frame == 4
    assert state(sessions.quick) == state(sessions.plain)


def test_a_request_of_a_session_is_used_once(sessions):
    """The same epoch again, as of a client that has not received the answer."""
    number = open_session(sessions, 12, 0)
    frame = request_frame(fetch(3, session_id=number, session_epoch=1), 12)
    sessions.ask(frame)
    sessions.ask(frame)
    assert sessions.quick.by_frame == 1
    sessions.ask(request_frame(fetch(3, session_id=number, session_epoch=2), 13))
    sessions.ask(request_frame(fetch(3, session_id=number + 1, session_epoch=2), 12))
    sessions.ask(request_frame(fetch(3, partition=1, session_id=number, session_epoch=2), 12))
    assert sessions.quick.by_frame == 1
    assert state(sessions.quick) == state(sessions.plain)


def test_a_session_without_news_waits_in_the_other_handler(sessions):
    number = open_session(sessions, 12, 0)
    wanted = fetch(120, session_id=number, session_epoch=1, max_wait_ms=600_000)
    park(sessions, wanted, 12)
    append(sessions, 2)
    assert len(answer(sessions)) > 40
    assert sessions.quick.by_frame == 0
    assert state(sessions.quick) == state(sessions.plain)


def test_random_requests_of_sessions(sessions):
    """By sessions of one or two partitions, and requests of which some are wrong."""
    chance = random.Random(5)
    for each in sessions.both:
        each.store["t"][1].append_as_leader(batch(rows(30)))
    for _ in range(90):
        version = chance.randrange(7, 18)
        number = open_session(sessions, version, *chance.choice([(0,), (0,), (0, 1), (1, 0)]))
        for epoch in range(1, chance.randrange(2, 9)):
            wanted = fetch(
                chance.choice([0, 5, 60, 119, 120, 10_000]),
                partition=chance.choice([0, 0, 0, 0, 0, 0, 1]),
                partition_max=chance.choice([0, 60, 1000, 1 << 20]),
                session_id=number,
                session_epoch=epoch + chance.choice([0] * 20 + [1, -1]),
                isolation_level=chance.choice([0, 1]),
                min_bytes=chance.choice([0, 1, 1000]),
            )
            if chance.random() < 0.1:
                wanted.topics = []
            if chance.random() < 0.1:
                wanted.forgotten_topics_data = [
                    FetchRequest.ForgottenTopicsData("t", topic_id_bytes("t"), [1])
                ]
            sessions.ask(request_frame(wanted, version))
            assert state(sessions.quick) == state(sessions.plain)
        sessions.ask(request_frame(fetch(session_id=number, session_epoch=-1), version))
    assert sessions.quick.by_frame > 40


@pytest.mark.parametrize("version", VERSIONS[8:])  # those with tagged fields
@pytest.mark.parametrize("where", ["diverging epoch", "tag"])
def test_fields_of_followers_are_left_to_the_other_handler(brokers, version, where):
    message = fetch()
    if where == "tag":
        message.cluster_id = "c"
    else:
        message.topics[0].partitions[0].last_fetched_epoch = 0
    brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_committed_records_without_aborted_transactions(brokers, version):
    log = brokers.quick.store["t"][0]
    for offset in (0, 7, 119, log.end_offset):
        brokers.ask(request_frame(fetch(offset, isolation_level=1), version))
    assert brokers.quick.by_frame == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_committed_records_end_at_the_last_stable_offset(brokers, version):
    for each in brokers.both:
        for number, committed in enumerate((True, False, None)):
            add_transaction(each.store["t"][0], producer_id=number, committed=committed)
    log = brokers.quick.store["t"][0]
    assert log.last_stable_offset < log.end_offset
    for isolation in (0, 1):
        for offset in range(0, log.end_offset + 1, 3):
            brokers.ask(request_frame(fetch(offset, isolation_level=isolation), version))
    assert brokers.quick.by_frame > 40
    uncommitted = brokers.quick.by_frame
    brokers.ask(request_frame(fetch(110, isolation_level=1), version))
    assert brokers.quick.by_frame == uncommitted, "the other handler lists aborted transactions"


def test_the_end_of_a_transaction_completes_a_parked_request(brokers):
    logs = [each.store["t"][0] for each in brokers.both]
    ends = [add_transaction(log, producer_id=1, committed=None) for log in logs]
    park(brokers, fetch(120, max_wait_ms=600_000, isolation_level=1), 16)
    append(brokers, 1)
    for each, log, end in zip(brokers.both, logs, ends, strict=True):
        each.tester.turn()
        assert each.connection.is_waiting
        end(log)
    answer(brokers)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("message", [fetch(120), fetch(partition=1), fetch(min_bytes=100_000)])
def test_a_request_that_does_not_wait_may_get_too_few_records(brokers, version, message):
    brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_an_append_of_any_size_completes_a_parked_request(brokers, version):
    for count in (1, 5, 1000):  # the last one is longer than what is copied into the response
        end = brokers.quick.store["t"][0].end_offset
        park(brokers, fetch(end, max_wait_ms=600_000), version)
        append(brokers, count)
        assert len(answer(brokers)) > 17 * count
    assert brokers.quick.by_frame == 3


def test_a_parked_request_waits_for_its_min_bytes(brokers):
    park(brokers, fetch(120, max_wait_ms=600_000, min_bytes=1000))
    for size in (200, 200, 2000):
        assert all(each.connection.is_waiting for each in brokers.both)
        append(brokers, size // 50)
    assert len(answer(brokers)) > 1000


def test_a_parked_request_is_answered_when_its_wait_ends(brokers):
    park(brokers, fetch(119, max_wait_ms=30, min_bytes=100_000))
    answer(brokers)
    park(brokers, fetch(120, max_wait_ms=30))
    answer(brokers)
    assert brokers.quick.by_frame == 2


def test_a_stop_answers_a_parked_request(brokers):
    park(brokers, fetch(120, max_wait_ms=600_000))
    for each in brokers.both:
        each.connection.stop()
    answer(brokers)


def test_a_parked_request_ends_when_its_client_leaves(brokers):
    park(brokers, fetch(120, max_wait_ms=600_000))
    for each in brokers.both:
        each.client.close()
        each.tester.turn()
        each.tester.turn()
        assert each.connection.is_closed
        assert each.memory.used == 0
        assert each.tester.services.delayed_fetches.requests == 0


def test_the_high_watermark_completes_a_parked_request(brokers):
    for each in brokers.both:
        each.store["t"][0].set_high_watermark(50)
    park(brokers, fetch(60, max_wait_ms=600_000))
    append(brokers, 1)
    for each in brokers.both:
        each.tester.turn()
        assert each.connection.is_waiting
        each.store["t"][0].set_high_watermark(61)
    answer(brokers)


def test_the_end_of_a_segment_completes_a_parked_request(brokers):
    size = len(brokers.quick.store["t"][0].read(0))
    park(brokers, fetch(0, max_wait_ms=600_000, min_bytes=size + 1))
    for each in brokers.both:
        each.store["t"][0].roll()
    append(brokers, 1)
    answer(brokers)


def test_a_truncation_below_a_parked_request_is_an_error(brokers):
    park(brokers, fetch(120, max_wait_ms=600_000))
    for each in brokers.both:
        each.store["t"][0].truncate_to(100)
    assert error_code(answer(brokers), 11) == OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [11, 16])
@pytest.mark.parametrize("is_created_again", [False, True])
def test_a_parked_request_for_a_deleted_topic_is_an_error(brokers, version, is_created_again):
    park(brokers, fetch(120, max_wait_ms=600_000), version)
    for each in brokers.both:
        each.store.delete_topic("t")
        if is_created_again:
            each.store.create_topic("t", topic_id=topic_id("another"))
        each.tester.metadata.follow(each.store)
        each.tester.turn()
    codes = [error_code(each.answer(), version) for each in brokers.both]
    # The second is the general handler's, and Kafka's where topics have ids: its DelayedFetch keeps
    # the names that the ids had, and reads those again. By frame the request's ids are looked up
    # again. After each of these errors but OFFSET_OUT_OF_RANGE clients ask for metadata.
    expected = {
        (11, False): [UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION],
        (11, True): [OFFSET_OUT_OF_RANGE, NOT_LEADER],
        (16, False): [UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION],
        (16, True): [UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID],
    }
    assert codes == expected[version, is_created_again]


def test_the_general_handler_waits_only_for_the_time_that_is_left(brokers, monkeypatch):
    park(brokers, fetch(120, max_wait_ms=200))
    unusual = NoAnswer.UNUSUAL
    monkeypatch.setattr(FetchFrameReader, "read", lambda *_, **__: unusual)
    for each in brokers.both:
        each.store["t"][0].set_high_watermark(120)  # an event without records
    answer(brokers)


@pytest.mark.parametrize("version", VERSIONS)
def test_leader_epochs_are_checked_as_in_the_handler(brokers, version):
    for epoch in (-2, -1, 0, 1):
        brokers.ask(request_frame(fetch(epoch=epoch if version >= 9 else -1), version))


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_fetches_are_answered_as_by_the_handler(brokers, version):
    chance = random.Random(version)
    for _ in range(200):
        good = request_frame(fetch(chance.randrange(100), rack_id=""), version)
        brokers.ask(damaged(good, chance), good)
    assert brokers.quick.by_frame > 20


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_frame_that_ends_anywhere_is_answered_alike(brokers, version):
    request = request_frame(fetch(3, max_wait_ms=5), version)[4:]
    found = fetch_frame.parse(request, 1 << 18)
    assert (found.version, found.correlation_id, found.partition) == (version, 7, 0)
    assert (found.topic, found.topic_id) == (
        ("t", None) if version < 13 else (None, topic_id_bytes("t"))
    )
    assert (found.leader_epoch, found.offset, found.is_committed) == (-1, 3, False)
    assert (found.max_bytes, found.min_bytes, found.max_wait_ms) == (1 << 18, 1, 5)
    for end in range(len(request)):
        assert fetch_frame.parse(request[:end], 1 << 18) is None
        brokers.ask(with_size(request[:end]))
    brokers.ask(with_size(request + b"\0"))


@pytest.mark.parametrize("version", VERSIONS[8:])  # the earlier ones have an int16 for the size
def test_a_rack_longer_than_a_string_may_be_is_refused(brokers, version):
    start = request_frame(fetch(3), version)[4:-2]  # without the empty rack and the tagged fields
    is_closed = {}
    for size in (5, 0x7FFF, 0x8000):
        writer = Writer()
        writer.unsigned_varint(size + 1)
        frame = with_size(start + writer.to_bytes() + b"r" * size + b"\0")
        _, is_closed[size] = brokers.ask(frame)
    assert is_closed == {5: False, 0x7FFF: False, 0x8000: True}
    assert brokers.quick.by_frame == 2


@pytest.mark.parametrize("limit", [0, 3, 50])
def test_nothing_beyond_the_high_watermark(brokers, limit):
    for each in brokers.both:
        each.store["t"][0].set_high_watermark(limit)
    for offset in (0, 2, 3, 49, 50, 60):
        brokers.ask(request_frame(fetch(offset), 11))


def test_zstd_is_answered_alike_in_every_version(brokers):
    brokers.create("z", 1, compression_type="zstd")
    for each in brokers.both:
        each.store["z"][0].append_as_leader(batch(rows(3)))
        assert each.store["z"][0].read(0)
    for version in VERSIONS:
        brokers.ask(request_frame(fetch(topic="z"), version))
    assert brokers.quick.by_frame == len(VERSIONS[6:])


def test_a_request_is_made_by_its_parser_only():
    with pytest.raises(TypeError, match="made by parse"):
        fetch_frame.WantedFrame()
