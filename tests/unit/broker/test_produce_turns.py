"""Produce requests on the fast path, alone and several at once: answers, logs and counters are
those of the general handler."""

import random
import resource
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from kstore._native.broker import produce_frame
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.produce import ProduceRequest
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.client_batches import NOW, rows, sent
from support.frame_pair import (
    FramePair,
    damaged,
    request_frame,
    topic_id,
    topic_id_bytes,
    with_size,
)

VERSIONS = range(3, 14)
GZIP, SNAPPY = 1, 2
PartitionData = ProduceRequest.TopicData.PartitionData


@pytest.fixture
def brokers(tmp_path):
    with FramePair(tmp_path, ProduceHandlers) as pair:
        pair.create("t", 2)
        yield pair


def produce(*records, topic="t", partition=0, acks=1, transactional_id=None):
    data = [PartitionData(partition, each) for each in records]
    topics = [ProduceRequest.TopicData(topic, topic_id_bytes(topic), data)]
    return ProduceRequest(transactional_id, acks, 5000, topics)


ONE_BATCH = batch(rows(3))


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_plain_requests_are_handled_by_the_fast_path(brokers, version, acks):
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


@pytest.mark.parametrize("version", [3, 8, 9, 11, 13])
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
def test_requests_that_are_not_plain_are_left_to_the_general_handler(brokers, version, message):
    brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0
    brokers.log_bytes("t")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_refusals_of_the_log_are_answered_alike(brokers, version, acks):
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
def test_damaged_produces_are_answered_as_by_the_handler(brokers, version):
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


@pytest.mark.parametrize("version", [8, 11, 13])
def test_a_produce_frame_that_ends_anywhere_is_answered_alike(brokers, version):
    request = request_frame(produce(ONE_BATCH), version)[4:]
    for end in range(len(request)):
        brokers.ask(with_size(request[:end]))
        assert produce_frame.parse(request[:end]) is None
    topic = "t" if version < 13 else topic_id_bytes("t")
    assert produce_frame.parse(request) == (topic, 0, 1, len(request) - len(ONE_BATCH) - (
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
        request_frame(chance.choice(kinds), chance.choice([8, 11, 13]), number=number)
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


@pytest.mark.parametrize("settings", [{}, {"kstore_acks_durable": True}], ids=["", "durable"])
def test_log_append_time_is_in_the_answer(tmp_path, settings):
    with FramePair(tmp_path, ProduceHandlers, **settings) as brokers:
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
    assert brokers.quick.by_frame == 1  # the second comes while the first waits
    assert all(each.store["t"][0].recovery_point == 6 for each in brokers.both)


def test_acks_all_waits_for_the_high_watermark(brokers):
    for each in brokers.both:
        each.store["t"][0].set_high_watermark(0)
    expired = produce(ONE_BATCH, acks=-1)
    expired.timeout_ms = 10
    brokers.ask(request_frame(expired, 8))
    assert brokers.quick.by_frame == 0
    brokers.log_bytes("t")


@pytest.mark.parametrize("version", [8, 13])
def test_internal_and_deleted_topics_are_answered_alike(brokers, version):
    brokers.create("__internal")
    brokers.ask(request_frame(produce(ONE_BATCH, topic="__internal"), version))
    for each in brokers.both:
        each.ask(request_frame(produce(ONE_BATCH), version))
        each.store.delete_topic("t")
        each.tester.metadata.follow(each.store)
    brokers.ask(request_frame(produce(ONE_BATCH), version))
    assert brokers.quick.by_frame == 1


def test_the_id_of_a_topic_is_not_taken_for_a_name_of_as_many_bytes(brokers):
    """Not even within requests that arrive together."""
    name = "n" * 16
    brokers.create(name)
    by_name, by_id = produce(ONE_BATCH, topic=name), produce(ONE_BATCH)
    by_id.topic_data[0].topic_id = name.encode()  # of no topic
    frames = [request_frame(each, v) for each, v in ((by_name, 12), (by_id, 13), (by_name, 12))]
    brokers.ask(*frames)
    assert brokers.quick.by_frame == 2
    assert brokers.quick.store[name][0].end_offset == 6
    brokers.log_bytes(name)


def test_a_topic_that_is_created_again_is_not_found_by_its_old_id(brokers):
    frames = numbered([ONE_BATCH] * 2, (13,))
    brokers.ask(*frames)
    for each in brokers.both:
        each.store.delete_topic("t")
        each.store.create_topic("t", topic_id=topic_id("new"))
        each.tester.metadata.follow(each.store)
    brokers.ask(request_frame(produce(ONE_BATCH), 12))  # opens its log
    brokers.ask(*frames)
    assert brokers.quick.by_frame == 2
    assert brokers.quick.store["t"][0].end_offset == 3


def test_closed_log_is_refused(brokers):
    for each in brokers.both:
        each.ask(request_frame(produce(ONE_BATCH), 8))
        each.store["t"][0].close()
    brokers.ask(request_frame(produce(ONE_BATCH), 8))


@pytest.mark.parametrize("name", ["n" * 126, "n" * 127, "n" * 249])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_name_of_any_length_is_answered_alike(brokers, name, version):
    brokers.create(name)
    brokers.ask(request_frame(produce(ONE_BATCH, topic=name), version))
    assert brokers.quick.by_frame == 1


# --- several requests that arrive together ----------------------------------------------------


def numbered(batches, versions=(8, 11, 13), **changed):
    return [
        request_frame(produce(each, **changed), versions[number % len(versions)], number=number)
        for number, each in enumerate(batches)
    ]


@pytest.mark.parametrize("count", [2, 63, 64, 65, 130])
def test_batches_that_arrive_together_are_appended_in_order(brokers, count):
    brokers.ask(*numbered(batch(rows(1 + n % 3)) for n in range(count)))
    assert brokers.quick.by_frame == count
    assert brokers.quick.store["t"][0].end_offset == sum(1 + n % 3 for n in range(count))
    brokers.log_bytes("t")


def test_partitions_may_alternate(brokers):
    frames = [
        request_frame(produce(batch(rows(1 + n % 2)), partition=n // 2 % 2), 8, number=n)
        for n in range(20)
    ]
    brokers.ask(*frames)
    assert brokers.quick.by_frame == 20
    brokers.log_bytes("t", 0)
    brokers.log_bytes("t", 1)


def of_producer(sequence, count=1, producer=9, epoch=0):
    return batch(rows(count), producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.parametrize(
    ("batches", "by_frame"),
    [
        ([of_producer(0, 2), of_producer(2), of_producer(3, 3), of_producer(6)], 4),
        ([of_producer(2**31 - 2, 2), of_producer(0), of_producer(1)], 3),
        ([of_producer(0), of_producer(0), of_producer(1)], 2),  # a duplicate
        ([of_producer(0), of_producer(2), of_producer(1)], 2),  # out of order
        ([of_producer(0), of_producer(1), of_producer(0), of_producer(2)], 3),
        ([of_producer(0), of_producer(1, producer=8), of_producer(1), of_producer(2)], 4),
        ([of_producer(0), of_producer(0, producer=8), of_producer(0)], 2),
        ([of_producer(0), of_producer(0, epoch=1), of_producer(1, epoch=1)], 3),
        ([of_producer(0, epoch=1), of_producer(1, epoch=0), of_producer(1, epoch=1)], 2),
        ([of_producer(0), of_producer(0, epoch=-1)], 1),
    ],
)
def test_sequences_of_idempotent_producers(brokers, batches, by_frame):
    brokers.ask(*numbered(batches))
    assert brokers.quick.by_frame == by_frame
    brokers.log_bytes("t")
    for each in brokers.both:  # what the producers' state became
        each.ask(request_frame(produce(of_producer(9)), 8))
    brokers.ask(*numbered(batches))
    brokers.log_bytes("t")


def test_a_rejected_batch_does_not_affect_its_neighbours(brokers):
    good, bad = ONE_BATCH, ONE_BATCH[:-1] + bytes([ONE_BATCH[-1] ^ 1])
    brokers.ask(*numbered([good, bad, good, good, bad]))
    assert brokers.quick.by_frame == 3
    brokers.log_bytes("t")


def test_segments_roll_between_batches_that_arrive_together(brokers):
    brokers.create("small", 1, segment_bytes=4096)
    brokers.ask(*numbered((batch(rows(4)) for _ in range(100)), topic="small"))
    for each in brokers.both:
        assert len(each.store["small"][0].segments.views) > 3
    names = [[view.base_offset for view in each.store["small"][0].segments.views]
             for each in brokers.both]  # fmt: skip
    assert names[0] == names[1]
    brokers.log_bytes("small")


def test_a_segment_whose_index_is_full_rolls(brokers):
    brokers.create("indexed", 1, segment_index_bytes=48, index_interval_bytes=1)
    brokers.ask(*numbered((batch(rows(4)) for _ in range(40)), topic="indexed"))
    names = [[view.base_offset for view in each.store["indexed"][0].segments.views]
             for each in brokers.both]  # fmt: skip
    assert names[0] == names[1]
    assert len(names[0]) > 3
    brokers.log_bytes("indexed")


def test_a_frame_arrives_in_parts(brokers):
    frames = b"".join(numbered(batch(rows(3)) for _ in range(8)))
    alone = b"".join(brokers.plain.ask(frames[at : at + 50])[0] for at in range(0, len(frames), 50))
    parts = [brokers.quick.ask(frames[at : at + 50])[0] for at in range(0, len(frames), 50)]
    assert b"".join(parts) == alone
    assert brokers.quick.by_frame == 8
    brokers.log_bytes("t")


def test_more_than_one_read_arrives(brokers):
    big = batch([PlainRecord(0, NOW, b"k", bytes(30_000))])
    brokers.ask(*numbered([ONE_BATCH]))
    brokers.ask(*numbered([big] * 9))
    assert brokers.quick.by_frame == 10
    brokers.log_bytes("t")


@pytest.mark.parametrize("acks", [1, 0])
def test_a_write_that_fails_is_reported_and_leaves_nothing_in_the_log(brokers, acks):
    """The limit of the file size is reached amongst batches that are written together."""
    frames = numbered([batch(rows(1)), batch([PlainRecord(0, NOW, b"k", bytes(3000))])] * 2, acks=1)
    brokers.ask(frames[0])
    size = brokers.quick.store["t"][0].segments.views[-1].size
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, limit[1]))
    try:
        brokers.ask(*(frames if acks else numbered([ONE_BATCH] * 20, acks=0)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    brokers.log_bytes("t")
    by_frame = brokers.quick.by_frame
    brokers.ask(*frames)
    assert brokers.quick.by_frame == by_frame + 4
    brokers.log_bytes("t")


def test_an_answer_that_the_socket_does_not_accept_is_sent_later(brokers):
    """A slow reader: the connection is not read until its answers have left."""
    quick = brokers.quick
    quick.connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    quick.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    frames = b"".join(numbered(batch(rows(1)) for _ in range(800)))
    sent = got = 0
    for _ in range(2000):
        if sent < len(frames):
            with suppress(BlockingIOError):
                sent += quick.client.send(frames[sent:])
        quick.tester.turn()
    assert quick.connection._is_blocked
    answers = b""
    while len(answers) < 800 * 59 and got < 10_000:
        got += 1
        with suppress(BlockingIOError):
            answers += quick.client.recv(512)
        if sent < len(frames):
            with suppress(BlockingIOError):
                sent += quick.client.send(frames[sent:])
        quick.tester.turn()
    numbers = []
    while answers:
        size = struct.unpack_from(">i", answers)[0]
        numbers.append(struct.unpack_from(">i", answers, 4)[0])
        answers = answers[4 + size :]
    assert numbers == list(range(800))
    assert quick.store["t"][0].end_offset == 800
    assert quick.memory.used == 0


def test_a_turn_that_fails_closes_its_connection_and_releases_its_memory(brokers, monkeypatch):
    quick = brokers.quick
    frames = b"".join(numbered([ONE_BATCH] * 3))
    quick.ask(frames, frames[:20])
    monkeypatch.setattr(quick.store["t"][0]._require_writer().state, "segments", None)
    answers, is_closed = quick.ask(frames[20:])
    assert (answers, is_closed) == (b"", True)
    assert quick.memory.used == 0
    monkeypatch.undo()
    assert quick.ask(frames)[1] is False
    assert quick.store["t"][0].end_offset == 18


def test_a_log_whose_lock_is_held_is_left_to_a_worker(brokers):
    quick = brokers.quick
    lock = quick.store["t"][0]._require_writer().state.lock
    taken, go = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    threading.Timer(0.1, go.set).start()
    answers, _ = quick.ask(*numbered([ONE_BATCH] * 3))
    thread.join()
    assert quick.by_frame == 0
    assert answers == brokers.plain.ask(*numbered([ONE_BATCH] * 3))[0]


@pytest.mark.parametrize("versions", [(8, 11), (13,)])
def test_readers_are_woken_once_for_batches_that_arrive_together(brokers, versions):
    calls = []
    log = brokers.quick.store["t"][0]
    watch = log.watch(lambda log, events: calls.append(log.end_offset))
    brokers.quick.ask(*numbered([ONE_BATCH] * 5, versions))
    watch.close()
    assert calls == [15]


@pytest.fixture
def counting(tmp_path):
    with FramePair(tmp_path, ProduceHandlers) as pair:
        for each in pair.both:
            each.count()
        pair.create("t", 2)
        yield pair


def test_the_fast_path_counts_requests_as_the_general_handler_does(counting):
    refused = batch(rows(2), last_offset=7)
    batches = [ONE_BATCH, of_producer(0), of_producer(0), refused, ONE_BATCH]
    counting.ask(*numbered(batches, versions=(8, 8, 11, 13, 13)))
    counting.ask(*numbered(batches[:2], partition=1))
    counting.ask(*numbered(batches[:2], acks=0))
    found = [each.tester.services.counters for each in counting.both]
    assert found[0].requests == found[1].requests
    names = found[0].topics["t"].__slots__
    topics = [{name: getattr(each.topics["t"], name) for name in names} for each in found]
    assert topics[0] == topics[1]
    assert topics[0]["produces"] == 9
    assert [each.times[0].count for each in found] == [9, 9]


def test_a_connection_that_fetches_is_read_natively_from_its_next_produce_on(tmp_path):
    with FramePair(tmp_path, FetchHandlers, ProduceHandlers) as pair:
        pair.create("t")
        produces = request_frame(produce(ONE_BATCH), 8)
        wanted = FetchRequest.Topics.Partitions(0, partition_max_bytes=1 << 20)
        topics = [FetchRequest.Topics(topic="t", partitions=[wanted])]
        fetches = request_frame(FetchRequest(max_wait_ms=0, topics=topics), 11)
        pair.ask(produces)
        turn = pair.quick.tester.services.produce_turns._turn
        handled = []
        for frame in (fetches, fetches, produces, produces, fetches, produces + produces):
            before = turn.reads
            pair.ask(frame)
            handled.append(turn.reads > before)
        assert handled == [True, False, False, True, True, False]
        assert pair.quick.store["t"][0].end_offset == 15
        pair.log_bytes("t")
