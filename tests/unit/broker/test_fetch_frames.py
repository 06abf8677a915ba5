"""Fetch requests handled by their frames: the answers are those of the other handler."""

import random

import pytest

from kstore._native.broker import fetch_frame
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.protocol.messages.fetch import FetchRequest
from oracle.writer import batch
from support.frame_pair import FramePair, damaged, request_frame, with_size
from support.sent import rows

VERSIONS = range(7, 12)
Partition = FetchRequest.Topics.Partitions


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
        fetch(120),
        fetch(partition=1),
        fetch(partition=2),
        fetch(topic="unknown"),
        fetch(topic=""),
        fetch(topic="t\u00e4"),
        fetch(min_bytes=100_000),
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
def test_leader_epochs(brokers, version):
    for epoch in (-2, -1, 0, 1):
        brokers.ask(request_frame(fetch(epoch=epoch if version >= 9 else -1), version))


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_requests(brokers, version):
    chance = random.Random(version)
    for _ in range(200):
        good = request_frame(fetch(chance.randrange(100), rack_id=""), version)
        brokers.ask(damaged(good, chance), good)
    assert brokers.quick.by_frame > 20


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_ends_anywhere(brokers, version):
    request = request_frame(fetch(), version)[4:]
    assert fetch_frame.parse(request) == ("t", 0, -1, 0, 1 << 20, 2147483647, 1)
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


def test_zstd_for_old_clients(brokers):
    brokers.create("z", 1, compression_type="zstd")
    for each in brokers.both:
        each.store["z"][0].append_as_leader(batch(rows(3)))
        assert each.store["z"][0].read(0)
    for version in VERSIONS:
        brokers.ask(request_frame(fetch(topic="z"), version))
    assert brokers.quick.by_frame == 2


def test_answers_that_cannot_be():
    with pytest.raises(ValueError):
        fetch_frame.answer_head(6, 1, "t", 0, 0, 0, 0, 0)
    with pytest.raises(ValueError):
        fetch_frame.answer_head(11, 1, "t" * 250, 0, 0, 0, 0, 0)
