"""Fetch requests handled by their frames: the answers are those of the other handler."""

import random

import pytest

from kstore._native.broker import fetch_frame
from kstore.broker.fetch_frame_reader import FetchFrameReader, NoAnswer
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.protocol.messages.fetch import FetchRequest
from oracle.writer import batch
from support.client_batches import rows
from support.frame_pair import FramePair, damaged, request_frame, with_size

VERSIONS = range(7, 12)
Partition = FetchRequest.Topics.Partitions
# The partition, the error code, and the high watermark of a failed partition.
OFFSET_OUT_OF_RANGE = bytes(4) + b"\0\1" + b"\xff" * 8
UNKNOWN_TOPIC_OR_PARTITION = bytes(4) + b"\0\3" + b"\xff" * 8


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
    topics = [FetchRequest.Topics(topic=topic, partitions=[wanted])]
    return FetchRequest(**{"min_bytes": 1, "topics": topics, **fields})


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
        fetch(isolation_level=1),
        fetch(replica_id=0),
        fetch(replica_id=-2),
        fetch(session_id=5, session_epoch=3),
        fetch(session_epoch=0),
        fetch(session_id=5),
        fetch(max_bytes=-1, min_bytes=-1, topic="x"),
        FetchRequest(topics=[]),
        FetchRequest(topics=fetch().topics * 2, min_bytes=1),
        FetchRequest(
            topics=fetch().topics,
            forgotten_topics_data=[FetchRequest.ForgottenTopicsData(topic="t", partitions=[1])],
        ),
    ],
    ids=repr,
)
def test_other_requests_are_left_to_the_other_handler(brokers, version, message):
    if message.session_epoch == 0:
        for each in brokers.both:  # a session's number is random
            each.ask(request_frame(message, version))
    else:
        brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0


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
    assert OFFSET_OUT_OF_RANGE in answer(brokers)


def test_a_parked_request_for_a_deleted_topic_is_an_error(brokers):
    park(brokers, fetch(120, max_wait_ms=600_000))
    for each in brokers.both:
        each.store.delete_topic("t")
        each.tester.metadata.follow(each.store)
        each.tester.turn()
    assert UNKNOWN_TOPIC_OR_PARTITION in answer(brokers)


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
    request = request_frame(fetch(), version)[4:]
    assert fetch_frame.parse(request) == ("t", 0, -1, 0, 1 << 20, 2147483647, 1, 0)
    for end in range(len(request)):
        assert fetch_frame.parse(request[:end]) is None
        brokers.ask(with_size(request[:end]))
    brokers.ask(with_size(request + b"\0"))


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
    assert brokers.quick.by_frame == 2


def test_an_answer_with_a_wrong_version_or_name_is_a_valueerror():
    with pytest.raises(ValueError):
        fetch_frame.answer_head(6, 1, "t", 0, 0, 0, 0, 0)
    with pytest.raises(ValueError):
        fetch_frame.answer_head(11, 1, "t" * 250, 0, 0, 0, 0, 0)
