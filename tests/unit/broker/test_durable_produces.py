"""Produce requests whose answer waits for the disk, on the fast path: answers and logs are those of
the general handler."""

import random
from dataclasses import replace

import pytest

import kstore
from kstore._native.broker import produce_frame
from kstore.broker.durable_commits import DurableCommits
from kstore.broker.durable_produces import DurableProduces
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.errors import StorageError
from kstore.protocol.headers import RequestHeader
from kstore.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kstore.protocol.messages.produce import ProduceRequest
from kstore.protocol.wire import Reader
from oracle.writer import batch
from support.client_batches import rows
from support.frame_pair import FramePair, damaged, request_frame, topic_id, topic_id_bytes
from support.raw_client import RawClient

VERSIONS = range(3, 14)
PartitionData = ProduceRequest.TopicData.PartitionData
ONE_BATCH = batch(rows(3))


@pytest.fixture
def brokers(tmp_path):
    with FramePair(tmp_path, ProduceHandlers, kstore_acks_durable=True) as pair:
        pair.create("t", 2)
        yield pair


def produce(records, topic="t", partition=0, acks=-1, transactional_id=None, timeout_ms=5000):
    topics = [
        ProduceRequest.TopicData(topic, topic_id_bytes(topic), [PartitionData(partition, records)])
    ]
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def of_producer(sequence, **fields):
    return batch(rows(1), producer_id=9, producer_epoch=0, base_sequence=sequence, **fields)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_is_on_disk_before_its_answer(brokers, version, acks):
    for number, transactional_id in enumerate([None, "tx"]):
        message = produce(ONE_BATCH, acks=acks, transactional_id=transactional_id)
        answer, _ = brokers.ask(request_frame(message, version, number=number))
        assert answer
        assert brokers.quick.store["t"][0].recovery_point == 3 * (number + 1)
    assert brokers.quick.by_frame == 2
    brokers.log_bytes("t")


@pytest.mark.parametrize("version", [3, 8, 9, 11, 13])
@pytest.mark.parametrize(
    "message",
    [
        produce(ONE_BATCH, acks=0),
        produce(ONE_BATCH, acks=2),
        produce(ONE_BATCH[:-1] + bytes([ONE_BATCH[-1] ^ 1])),
        produce(ONE_BATCH[:-1]),
        produce(ONE_BATCH, partition=2),
        produce(ONE_BATCH, topic="unknown"),
        produce(ONE_BATCH, topic="__internal"),
        produce(batch(rows(2), last_offset=7)),
        produce(batch(rows(1), control=True)),
        produce(of_producer(0, transactional=True)),
        produce(of_producer(0, transactional=True), transactional_id="tx"),
        produce(ONE_BATCH, transactional_id=""),
        produce(ONE_BATCH, transactional_id="\u00e4"),
    ],
)
def test_refusals_are_those_of_the_general_handler(brokers, version, message):
    brokers.create("__internal")
    brokers.ask(request_frame(message, version))
    assert brokers.quick.by_frame == 0
    brokers.log_bytes("t")


def test_a_duplicate_is_left_to_the_general_handler(brokers):
    for _ in range(2):
        brokers.ask(request_frame(produce(of_producer(0)), 8))
    assert brokers.quick.by_frame == 1
    brokers.log_bytes("t")


def test_a_topic_may_be_durable_or_not(brokers):
    for each in brokers.both:
        metadata = each.tester.metadata
        topics = dict(metadata.image.topics)
        topics["t"] = replace(topics["t"], config={"kstore.acks.durable": "false"})
        metadata.publish(topics)
    brokers.ask(request_frame(produce(ONE_BATCH, transactional_id="tx"), 8))
    assert brokers.quick.by_frame == 0
    assert brokers.quick.store["t"][0].recovery_point == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_sync_and_a_timeout_are_answered_alike(brokers, version, monkeypatch):
    def fails(self, log, offset, done):
        self._loop.call_soon(done, StorageError("the disk is broken"))

    monkeypatch.setattr(DurableCommits, "wait", fails)
    brokers.ask(request_frame(produce(ONE_BATCH), version))
    monkeypatch.setattr(DurableCommits, "wait", lambda *_: None)
    brokers.ask(request_frame(produce(ONE_BATCH, timeout_ms=5), version))
    assert brokers.quick.by_frame == 2
    assert all(each.tester.services.delayed_produces.requests == 0 for each in brokers.both)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_is_parsed_as_by_the_generated_modules(version):
    chance = random.Random(version)
    transactional = of_producer(7, transactional=True)
    messages = [
        produce(ONE_BATCH, timeout_ms=-1),
        produce(transactional, transactional_id="tx", acks=1, partition=3),
        produce(transactional, transactional_id="x" * 200, topic="n" * 249),
    ]
    frames = [request_frame(each, version) for each in messages]
    assert all(parsed(frame[4:]) for frame in frames)
    for _ in range(2000):
        parsed(damaged(chance.choice(frames), chance)[4:])


def parsed(request):
    """Whether a request is parsed; its fields are those that the generated modules find."""
    found = produce_frame.parse_request(memoryview(request))
    if found is None:
        return False
    reader = Reader(request)
    header = RequestHeader.decode(reader)
    message = ProduceRequest.decode(reader, header.api_version)
    assert reader.remaining == 0
    [topic] = message.topic_data
    [data] = topic.partition_data
    assert (found.version, found.transactional_id) == (header.api_version, message.transactional_id)
    assert (found.acks, found.timeout_ms) == (message.acks, message.timeout_ms)
    if header.api_version >= 13:
        assert (found.topic, found.topic_id) == (None, topic.topic_id)
    else:
        assert (found.topic, found.topic_id) == (topic.name, None)
    assert found.partition == data.index
    assert found.batch == data.records
    return True


@pytest.mark.parametrize("version", [8, 12, 13])
def test_transactional_batches_take_the_fast_path(tmp_path, monkeypatch, version):
    handled = []
    handle = DurableProduces.handle_frame
    monkeypatch.setattr(
        DurableProduces,
        "handle_frame",
        lambda self, frame: handled.append(handle(self, frame)) or handled[-1],
    )
    settings = {"transaction.state.log.num.partitions": 1, "kstore.acks.durable": True}
    with kstore.open(tmp_path / "data") as store:
        [log] = store.create_topic("t", topic_id=topic_id("t"))
        with (
            kstore.Broker(store, port=0, settings=settings) as broker,
            RawClient(broker.port) as client,
        ):
            client.find_coordinators("x")
            producer_id, epoch = client.begin_producer("x")
            records = batch(
                rows(1),
                transactional=True,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
            )
            message = produce(records, transactional_id="x")
            client.ask(message, version)
            assert handled == [None]  # its transaction is not ongoing
            topics = [AddPartitionsToTxnRequest.V3AndBelowTopics("t", [0])]
            client.ask(AddPartitionsToTxnRequest([], "x", producer_id, epoch, topics), 3)
            answer = client.ask(message, version)
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert handled[-1] is not None
            assert log.recovery_point == log.end_offset == 1
