"""Produce requests handled by their frames: answers and logs are those of the other handler."""

import random
import struct
from dataclasses import replace

import pytest

from kstore._native.broker import produce_frame
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.protocol.messages.produce import ProduceRequest
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.frame_pair import FramePair, damaged, request_frame, with_size
from support.sent import NOW, rows, sent

VERSIONS = range(3, 12)
GZIP, SNAPPY = 1, 2
PartitionData = ProduceRequest.TopicData.PartitionData


@pytest.fixture
def brokers(tmp_path):
    with FramePair(tmp_path, ProduceHandlers) as pair:
        pair.create("t", 2)
        yield pair


def produce(*records, topic="t", partition=0, acks=1, transactional_id=None):
    data = [PartitionData(partition, each) for each in records]
    topics = [ProduceRequest.TopicData(topic, data)]
    return ProduceRequest(transactional_id, acks, 5000, topics)


ONE_BATCH = batch(rows(3))


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_usual_requests_are_answered_by_their_frames(brokers, version, acks):
    frames = [
        request_frame(produce(ONE_BATCH, acks=acks), version, number=number, client_id=name)
        for number, name in enumerate(["", "me", None, "x" * 300])
    ]
    answers, is_closed = brokers.ask(*frames)
    assert bool(answers) == (acks != 0)
    assert not is_closed
    assert brokers.quick.by_frame == 4
    assert brokers.quick.store["t"][0].end_offset == 12
    brokers.log_bytes("t")


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize(
    "message",
    [
        produce(ONE_BATCH, ONE_BATCH),
        produce(),
        ProduceRequest(None, 1, 5000, []),
        produce(None),
        produce(b""),
        produce(ONE_BATCH[:-1]),
        produce(ONE_BATCH + b"\0"),
        produce(ONE_BATCH + ONE_BATCH),
        produce(ONE_BATCH, partition=2),
        produce(ONE_BATCH, partition=-1),
        produce(ONE_BATCH, topic=""),
        produce(ONE_BATCH, topic="t\u00e4"),
        produce(ONE_BATCH, topic="unknown"),
        produce(ONE_BATCH, topic="n" * 249),
        produce(ONE_BATCH, topic="n" * 250),
        produce(ONE_BATCH, acks=2),
        produce(ONE_BATCH, acks=-2),
        produce(ONE_BATCH, transactional_id="tx"),
        produce(ONE_BATCH, transactional_id=""),
        produce(sent(2, GZIP, rows(2))),
        produce(sent(1, 0, rows(2))),
        produce(batch(rows(1), control=True)),
        produce(batch(rows(1), transactional=True, producer_id=5, producer_epoch=0)),
    ],
    ids=repr,
)
def test_unusual_requests_are_left_to_the_generated_module(brokers, version, message):
    brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0
    brokers.log_bytes("t")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_refusals_of_the_log(brokers, version, acks):
    for records in (
        ONE_BATCH[:-1] + bytes([ONE_BATCH[-1] ^ 1]),
        batch(rows(1), producer_id=9, producer_epoch=0, base_sequence=0),
        batch(rows(1), producer_id=9, producer_epoch=0, base_sequence=5),
        batch(rows(1), producer_id=9, producer_epoch=0, base_sequence=0),
        batch(rows(2), last_offset=7),
    ):
        brokers.ask(request_frame(produce(records, acks=acks), version))
    assert brokers.quick.store["t"][0].end_offset == 1
    brokers.log_bytes("t")


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_requests(brokers, version):
    chance = random.Random(version)
    frames = [
        request_frame(produce(ONE_BATCH), version),
        request_frame(produce(batch(rows(1)), acks=-1, partition=1), version, client_id=None),
        request_frame(produce(batch(rows(2)), acks=0), version),
    ]
    for _ in range(200):
        frame = damaged(chance.choice(frames), chance)
        brokers.ask(frame, chance.choice(frames))
    brokers.log_bytes("t")
    brokers.log_bytes("t", 1)
    assert brokers.quick.by_frame > 30


@pytest.mark.parametrize("version", [8, 11])
def test_a_frame_that_ends_anywhere(brokers, version):
    request = request_frame(produce(ONE_BATCH), version)[4:]
    for end in range(len(request)):
        brokers.ask(with_size(request[:end]))
        assert produce_frame.parse(request[:end]) is None
    assert produce_frame.parse(request) == ("t", 0, 1, len(request) - len(ONE_BATCH) - (
        3 if version > 8 else 0), len(request) - (3 if version > 8 else 0))  # fmt: skip
    for end in (b"\0", b"\1", bytes(9)):
        brokers.ask(with_size(request + end))


def test_large_batches_leave_the_loop(brokers):
    big = batch([PlainRecord(0, NOW, b"k", bytes(70_000))])
    brokers.ask(request_frame(produce(big), 8))
    assert brokers.quick.by_frame == 0
    brokers.ask(request_frame(produce(ONE_BATCH), 8))
    assert brokers.quick.by_frame == 1
    brokers.log_bytes("t")


def test_pipelined_requests_of_all_kinds_are_answered_in_order(brokers):
    chance = random.Random(5)
    kinds = [produce(ONE_BATCH), produce(sent(2, GZIP, rows(2))), produce(ONE_BATCH, topic="x")]
    frames = [
        request_frame(chance.choice(kinds), chance.choice([8, 11]), number=number)
        for number in range(200)
    ]
    for first in range(0, len(frames), 5):
        brokers.ask(*frames[first : first + 5])
    brokers.log_bytes("t")
    assert 0 < brokers.quick.by_frame < 200


@pytest.mark.parametrize("config", [{"compression_type": "gzip"}, {"flush_messages": 1}])
def test_topics_whose_batches_change_or_are_synced_are_left_to_the_workers(brokers, config):
    brokers.create("other", 1, **config)
    brokers.ask(request_frame(produce(ONE_BATCH, topic="other"), 8))
    assert brokers.quick.by_frame == 0
    brokers.log_bytes("other")


def test_log_append_time_is_in_the_answer(brokers):
    brokers.create("now", 1, message_timestamp_type="LogAppendTime")
    answer, _ = brokers.quick.ask(request_frame(produce(ONE_BATCH, topic="now"), 8))
    assert brokers.quick.by_frame == 1
    [record, *_] = brokers.quick.store["now"][0]
    assert struct.pack(">q", record.timestamp) in answer


def test_durable_acknowledgements_wait(brokers):
    for each in brokers.both:
        metadata = each.tester.metadata
        topics = dict(metadata.image.topics)
        topics["t"] = replace(topics["t"], config={"kstore.acks.durable": "true"})
        metadata.publish(topics)
    brokers.ask(request_frame(produce(ONE_BATCH), 8), request_frame(produce(ONE_BATCH), 11))
    assert brokers.quick.by_frame == 0
    assert all(each.store["t"][0].recovery_point == 6 for each in brokers.both)


def test_acks_all_waits_for_the_high_watermark(brokers):
    for each in brokers.both:
        each.store["t"][0].set_high_watermark(0)
    expired = produce(ONE_BATCH, acks=-1)
    expired.timeout_ms = 10
    brokers.ask(request_frame(expired, 8))
    assert brokers.quick.by_frame == 0
    brokers.log_bytes("t")


def test_internal_and_deleted_topics(brokers):
    brokers.create("__internal")
    brokers.ask(request_frame(produce(ONE_BATCH, topic="__internal"), 8))
    for each in brokers.both:
        each.ask(request_frame(produce(ONE_BATCH), 8))
        each.store.delete_topic("t")
        each.tester.metadata.follow(each.store)
    brokers.ask(request_frame(produce(ONE_BATCH), 8))
    assert brokers.quick.by_frame == 1


def test_closed_log_is_refused(brokers):
    for each in brokers.both:
        each.ask(request_frame(produce(ONE_BATCH), 8))
        each.store["t"][0].close()
    brokers.ask(request_frame(produce(ONE_BATCH), 8))


@pytest.mark.parametrize("name", ["n" * 126, "n" * 127, "n" * 249])
@pytest.mark.parametrize("version", VERSIONS)
def test_names_of_any_length(brokers, name, version):
    brokers.create(name)
    brokers.ask(request_frame(produce(ONE_BATCH, topic=name), version))
    assert brokers.quick.by_frame == 1


def test_answers_that_cannot_be():
    with pytest.raises(ValueError):
        produce_frame.answer(2, 1, "t", 0, 0, -1, 0)
    with pytest.raises(ValueError):
        produce_frame.answer(8, 1, "t" * 250, 0, 0, -1, 0)
