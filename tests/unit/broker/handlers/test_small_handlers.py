"""InitProducerId, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

import pytest

from kstore.broker.handlers.delete_records import DeleteRecordsHandlers
from kstore.broker.handlers.describe_producers import DescribeProducersHandlers
from kstore.broker.handlers.leader_epochs import LeaderEpochHandlers
from kstore.broker.handlers.producer_ids import ProducerIdHandlers
from kstore.protocol.messages.delete_records import DeleteRecordsRequest
from kstore.protocol.messages.describe_producers import DescribeProducersRequest
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest
from kstore.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kstore.store.store import Store
from oracle.writer import batch
from support.client_batches import rows
from support.handler_tester import HandlerTester

HANDLERS = (
    DeleteRecordsHandlers,
    DescribeProducersHandlers,
    LeaderEpochHandlers,
    ProducerIdHandlers,
)


@pytest.fixture
def broker(tmp_path):
    with Store(tmp_path) as store, HandlerTester(store, *HANDLERS) as tester:
        tester.create("t", 2)
        yield tester


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_another_id(broker, version):
    answers = [
        broker.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(100)
    ]
    assert {(each.error_code, each.producer_epoch) for each in answers} == {(0, 0)}
    assert len({each.producer_id for each in answers}) == 100
    assert min(each.producer_id for each in answers) >= 1 << 62


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": "id"}, 16),
        ({"transactional_id": ""}, 42),
        ({"producer_id": 5}, 42),
        ({"producer_epoch": 5}, 42),
        ({"producer_id": 5, "producer_epoch": 1}, 0),
    ],
)
def test_an_invalid_init_producer_id_is_refused(broker, fields, code):
    answer = broker.ask(InitProducerIdRequest(**{"transactional_id": None, **fields}), 4)
    assert answer.error_code == code
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1) or code == 0


@pytest.mark.parametrize("version", range(5))
def test_offset_for_leader_epoch_answers_where_an_epoch_ends(broker, version):
    log = broker.store["t"][0]
    for epoch, count in ((2, 3), (5, 2)):
        log.begin_epoch(epoch)
        log.extend([b"x"] * count)
    broker.metadata.follow(broker.store, leader_epoch=5)

    def ask(epoch, *, current=-1, partition=0):
        data = OffsetForLeaderEpochRequest.Topics.Partitions(partition, current, epoch)
        topics = [OffsetForLeaderEpochRequest.Topics("t", [data])]
        [topic] = broker.ask(OffsetForLeaderEpochRequest(topics=topics), version).topics
        [answer] = topic.partitions
        return answer.error_code, answer.leader_epoch if version else None, answer.end_offset

    def expected(epoch, end_offset, code=0):
        return code, epoch if version else None, end_offset

    assert ask(5) == expected(5, 5)
    assert ask(2) == expected(2, 3)
    assert ask(4) == expected(2, 3)
    assert ask(1) == expected(1, 0)
    assert ask(6) == expected(-1, -1)
    assert ask(5, partition=9) == expected(-1, -1, code=3)
    if version >= 2:
        assert ask(2, current=4) == expected(-1, -1, code=74)
        assert ask(2, current=6) == expected(-1, -1, code=75)
        assert ask(2, current=5) == expected(2, 3)


@pytest.mark.parametrize("version", range(3))
def test_delete_records_raises_the_low_watermark(broker, version):
    def ask(offset, *, topic="t", partition=0):
        data = DeleteRecordsRequest.Topics.Partitions(partition, offset)
        message = DeleteRecordsRequest([DeleteRecordsRequest.Topics(topic, [data])], 1000)
        [answer] = broker.ask(message, version).topics[0].partitions
        return answer.error_code, answer.low_watermark

    broker.store["t"][0].extend([b"x"] * 5)
    assert ask(2) == (0, 2)
    assert ask(1) == (0, 2)
    assert ask(6) == (1, -1)
    assert ask(-2) == (1, -1)
    broker.store["t"][0].set_high_watermark(4)
    assert ask(5) == (1, -1)
    assert ask(-1) == (0, 4)
    assert broker.store["t"][0].start_offset == 4
    assert ask(0, partition=7) == (3, -1)
    assert ask(0, topic="missing") == (3, -1)
    broker.create("compacted", cleanup_policy="compact")
    assert ask(0, topic="compacted") == (44, -1)
    broker.create("__consumer_offsets")
    assert ask(0, topic="__consumer_offsets") == (17, -1)


@pytest.mark.parametrize(("offset", "code"), [(10, 1), (-2, 1), (0, 44)])
def test_a_refused_deletion_is_no_partition_that_cannot_be_served(broker, caplog, offset, code):
    broker.create("fresh", cleanup_policy="compact" if code == 44 else "delete")
    data = DeleteRecordsRequest.Topics.Partitions(0, offset)
    message = DeleteRecordsRequest([DeleteRecordsRequest.Topics("fresh", [data])], 1000)
    assert broker.partitions.get("fresh", 0).needs_opening
    [answer] = broker.ask(message, 2).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (code, -1)
    assert caplog.text == ""
    assert not broker.partitions.get("fresh", 0).needs_opening


def test_active_producers_of_partitions_are_described(broker):
    log = broker.store["t"][0]
    fields = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 4}
    log.append_as_leader(batch(rows(2), **fields))
    topics = [DescribeProducersRequest.Topics("t", [0, 1, 5])]
    first, second, third = broker.ask(DescribeProducersRequest(topics), 0).topics[0].partitions
    [producer] = first.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 5)
    assert (producer.current_txn_start_offset, first.error_code) == (-1, 0)
    assert (second.active_producers, second.error_code) == ([], 0)
    assert (third.active_producers, third.error_code) == ([], 3)
