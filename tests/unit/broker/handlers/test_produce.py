"""Produce: every check with its code, in every version."""

import struct
import threading

import pytest

from kstore.broker import durable_commits
from kstore.broker.handlers.produce import ProduceHandlers
from kstore.broker.request import CloseConnection
from kstore.errors import KStoreError, RecoveryNeededError
from kstore.log.flush_together import flush_together
from kstore.protocol.messages.produce import ProduceRequest
from kstore.store.store import Store
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.client_batches import NOW, ODD, ONE, WRONG, flipped, rows, sent
from support.frame_pair import topic_id, topic_id_bytes
from support.handler_tester import HandlerTester

VERSIONS = (0, 1, 2, 3, 5, 8, 11, 12, 13)
V2 = (3, 6, 7, 8, 9, 11, 12, 13)
GZIP, ZSTD = 1, 4


@pytest.fixture
def broker(tmp_path):
    with Store(tmp_path) as store, HandlerTester(store, ProduceHandlers) as tester:
        tester.create("t", 2, topic_id("t"))
        yield tester


def create(broker, topic, **config):
    """Create a topic with the id that ``produce`` names."""
    return broker.create(topic, topic_id=topic_id(topic), **config)


def produce(records, *, topic="t", partition=0, acks=1, timeout_ms=5000, transactional_id=None):
    data = ProduceRequest.TopicData.PartitionData(partition, records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.TopicData(topic, topic_id_bytes(topic), [data])],
    )


def only(response):
    [topic] = response.responses
    [partition] = topic.partition_responses
    return partition


def records_for(version, count=3):
    return sent(2 if version >= 3 else int(version >= 2), 0, rows(count))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_gets_offsets_and_is_in_the_log(broker, version, acks):
    first = only(broker.ask(produce(records_for(version), acks=acks), version))
    second = only(broker.ask(produce(records_for(version), acks=acks), version))
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 3)
    assert second.log_append_time_ms == -1
    assert second.log_start_offset == (0 if version >= 5 else -1)
    assert [record.value for record in broker.store["t"][0]] == [r.value for r in rows(3)] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_compressed_and_large_batches_are_appended_on_workers_in_order(broker, version):
    magic = 2 if version >= 3 else int(version >= 2)
    big = [PlainRecord(0, NOW, b"k", bytes(100_000))]
    sizes = [sent(magic, GZIP, rows(2)), sent(magic, 0, big), sent(magic, 0, rows(1))]
    asked = [broker.start(produce(each), version) for each in sizes]
    assert [only(each.answer()).base_offset for each in asked] == [0, 2, 3]


def test_small_batch_is_appended_by_the_loop_thread_at_once(broker):
    broker.ask(produce(records_for(8)), 8)
    assert broker.start(produce(records_for(8)), 8).pending is None


def test_small_batch_waits_behind_work_of_its_partition(broker):
    broker.ask(produce(records_for(8)), 8)
    first = broker.start(produce(sent(2, GZIP, rows(4))), 8)
    second = broker.start(produce(sent(2, 0, rows(1))), 8)
    assert first.pending is not None
    assert second.pending is not None
    other = broker.start(produce(sent(2, 0, rows(1)), partition=1), 8)
    assert [only(each.answer()).base_offset for each in (first, second, other)] == [3, 7, 0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("topic", "partition"), [("missing", 0), ("t", 2), ("t", -1)])
def test_an_unknown_partition_is_refused(broker, version, topic, partition):
    answer = only(
        broker.ask(produce(records_for(version), topic=topic, partition=partition), version)
    )
    error = 100 if version >= 13 and topic == "missing" else 3
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (error, -1, -1)


def test_a_topic_id_that_names_no_topic_is_refused(broker):
    """The zero id, too, which is that of a topic without an id."""
    wanted = produce(records_for(13))
    for unknown in (bytes(16), topic_id_bytes("other")):
        wanted.topic_data[0].topic_id = unknown
        [topic] = broker.ask(wanted, 13).responses
        [answer] = topic.partition_responses
        assert (topic.name, topic.topic_id, answer.index) == ("", unknown, 0)
        assert (answer.error_code, answer.base_offset, answer.error_message) == (100, -1, None)
    assert broker.store["t"][0].end_offset == 0


def test_the_topic_id_of_a_deleted_topic_is_unknown_though_its_name_is_used_again(broker):
    image, wanted = broker.metadata.image, produce(records_for(13))
    broker.store.delete_topic("t")
    broker.create("t")
    assert only(broker.ask(wanted, 13)).error_code == 100
    broker.ask(produce(records_for(8)), 8)  # the new topic is in use
    broker.metadata.image = image  # that of a request that was parked since
    assert only(broker.ask(wanted, 13)).error_code == 100
    assert broker.store["t"][0].end_offset == 3


def test_errors_other_than_that_of_the_topic_id_are_those_of_its_topic(broker):
    wanted = produce(records_for(13))
    wanted.topic_data.append(produce(records_for(13), topic="missing").topic_data[0])
    wanted.topic_data[0].partition_data.append(produce(None, partition=1).topic_data[0]
                                               .partition_data[0])  # fmt: skip
    found = {
        (topic.topic_id, each.index): each.error_code
        for topic in broker.ask(wanted, 13).responses
        for each in topic.partition_responses
    }
    ids = [topic_id_bytes(name) for name in ("t", "missing")]
    assert found == {(ids[0], 0): 0, (ids[0], 1): 87, (ids[1], 0): 100}


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_other_than_minus_one_to_one(broker, version):
    answer = only(broker.ask(produce(records_for(version), acks=2), version))
    assert (answer.error_code, answer.base_offset) == (21, -1)
    assert broker.store["t"][0].end_offset == 0


def test_other_errors_take_precedence_over_that_of_acks(broker):
    assert only(broker.ask(produce(records_for(8), topic="x", acks=7), 8)).error_code == 3
    assert only(broker.ask(produce(ONE, acks=7), 8)).error_code == 87


@pytest.mark.parametrize("version", V2)
@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", 87),
        (None, 87),
        (ONE, 87),
        (batch(rows(1)) * 2, 87),
        (batch(rows(1))[:-1], 87),
        (batch(rows(1)) + b"\0\0\0", 0),
        (batch(rows(1)) + batch(rows(1))[:-1], 0),
        (batch(rows(1)) + bytes(20), 2),
        (bytes(40), 2),
        (batch(rows(1))[:16] + b"\x03" + batch(rows(1))[17:], 2),
        (flipped(batch(rows(2)), 70), 2),
        (struct.pack(">qiib", 0, 30, 0, 2) + bytes(25), 2),
        (batch([], base_offset=0, last_offset=0, max_timestamp=NOW), 87),
        (batch(rows(2, first=5)), 87),
        (batch(rows(2), last_offset=4), 87),
        (batch(rows(1), control=True), 87),
        (batch(rows(1), producer_id=9, producer_epoch=0, base_sequence=-1), 87),
    ],
)
def test_each_partition_of_a_request_takes_exactly_one_valid_batch(broker, version, records, code):
    assert only(broker.ask(produce(records), version)).error_code == code
    assert broker.store["t"][0].end_offset == (1 if code == 0 else 0)


@pytest.mark.parametrize("name", sorted(ODD | WRONG))
def test_old_message_sets_are_validated_by_the_log(broker, name):
    records = (ODD | WRONG)[name]
    log = broker.store.create_topic("same")[0]
    try:
        expected = (0, log.append_as_leader(records).first_offset)
    except KStoreError as error:
        expected = (error.code, -1)
    answer = only(broker.ask(produce(records), 2))
    assert (answer.error_code, answer.base_offset) == expected


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("records", [b"", None, ONE[:-1], ONE[:10]])
def test_old_message_sets_without_a_complete_message_append_nothing(broker, version, records):
    answer = only(broker.ask(produce(records), version))
    assert (answer.error_code, answer.base_offset) == (0, -1)


@pytest.mark.parametrize("version", V2)
def test_zstd_needs_version_7(broker, version):
    answer = only(broker.ask(produce(batch(rows(2), codec=ZSTD)), version))
    assert answer.error_code == (0 if version >= 7 else 76)


@pytest.mark.parametrize("version", V2)
def test_batches_of_no_transaction_are_refused(broker, version):
    records = batch(rows(1), transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
    answer = only(broker.ask(produce(records, transactional_id="id"), version))
    assert answer.error_code == (48 if version < 11 else 120)
    answer = only(broker.ask(produce(records), version))
    assert answer.error_code == 53
    assert broker.store["t"][0].last_stable_offset == broker.store["t"][0].end_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_internal_topics_are_refused(broker, version):
    create(broker, "__consumer_offsets")
    answer = only(broker.ask(produce(records_for(version), topic="__consumer_offsets"), version))
    assert answer.error_code == 17


@pytest.mark.parametrize("version", V2)
def test_repeated_batch_is_answered_with_the_offset_of_the_first(broker, version):
    def batch_of(sequence, epoch=0):
        return batch(rows(2), producer_id=9, producer_epoch=epoch, base_sequence=sequence)

    answers = [only(broker.ask(produce(batch_of(sequence)), version)) for sequence in (0, 2, 4, 2)]
    assert [each.base_offset for each in answers] == [0, 2, 4, 2]
    assert broker.store["t"][0].end_offset == 6
    assert only(broker.ask(produce(batch_of(9)), version)).error_code == 45
    assert only(broker.ask(produce(batch_of(0, epoch=1)), version)).error_code == 0
    assert only(broker.ask(produce(batch_of(6)), version)).error_code == 47


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_above_the_limits_of_its_topic_is_refused(broker, version):
    create(broker, "small", max_message_bytes=100)
    create(broker, "tiny", segment_bytes=100)
    magic = 2 if version >= 3 else 1
    large = sent(magic, 0, [PlainRecord(0, NOW, b"k", bytes(200))])
    answer = only(broker.ask(produce(large, topic="small"), version))
    assert (answer.error_code, answer.log_start_offset) == (10, -1)
    assert only(broker.ask(produce(large, topic="tiny"), version)).error_code == 18


@pytest.mark.parametrize("version", V2)
def test_invalid_records_are_named(broker, version):
    create(broker, "compacted", cleanup_policy="compact")
    create(broker, "recent", message_timestamp_after_max_ms=1000)
    answer = only(broker.ask(produce(batch(rows(2, key=None)), topic="compacted"), version))
    assert answer.error_code == 87
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert (answer.error_message is not None) == (version >= 8)
    future = batch(rows(2, timestamp=NOW * 2))
    assert only(broker.ask(produce(future, topic="recent"), version)).error_code == 32


def test_log_append_time_is_answered(broker):
    broker.create("stamped", message_timestamp_type="LogAppendTime")
    answer = only(broker.ask(produce(records_for(8), topic="stamped"), 8))
    assert answer.log_append_time_ms > NOW


@pytest.mark.parametrize("version", VERSIONS)
def test_without_acks_nothing_is_sent_and_an_error_closes(broker, version):
    assert broker.ask(produce(records_for(version), acks=0), version) is None
    assert broker.store["t"][0].end_offset == 3
    with pytest.raises(CloseConnection):
        broker.ask(produce(records_for(version), topic="missing", acks=0), version)


def test_without_acks_an_error_on_a_worker_closes_too(broker):
    bad = flipped(batch(rows(2), codec=GZIP), 70)
    with pytest.raises(CloseConnection):
        broker.ask(produce(bad, acks=0), 8)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_request_is_answered_unless_acks_is_0(broker, version):
    assert broker.ask(ProduceRequest(acks=1), version).responses == []
    assert broker.ask(ProduceRequest(acks=0), version) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_follower_answers_with_the_leader(broker, version):
    broker.metadata.follow(broker.store, leader=4, leader_epoch=7)
    answer = only(broker.ask(produce(records_for(version)), version))
    assert answer.error_code == 6
    if version >= 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (4, 7)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offline_partition_answers_a_storage_error(broker, version):
    broker.metadata.follow(broker.store, leader=-1, offline_replicas=(0,))
    answer = only(broker.ask(produce(records_for(version)), version))
    assert answer.error_code == (56 if version > 3 else 6)


def test_too_few_replicas_in_sync(broker):
    broker.metadata.follow(
        broker.store, replicas=(0, 1, 2), isr=(0,), config={"min.insync.replicas": "2"}
    )
    assert only(broker.ask(produce(records_for(8), acks=-1), 8)).error_code == 19
    assert broker.store["t"][0].end_offset == 0
    assert only(broker.ask(produce(records_for(8), acks=1), 8)).error_code == 0
    broker.metadata.follow(broker.store, config={"min.insync.replicas": "2"})  # of one replica
    assert only(broker.ask(produce(records_for(8), acks=-1), 8)).error_code == 0


def test_acks_all_waits_for_the_high_watermark(broker):
    log = broker.store["t"][0]
    log.set_high_watermark(0)
    asked = broker.start(produce(records_for(8), acks=-1), 8)
    for _ in range(3):
        broker.turn()
    assert not asked.is_answered
    log.set_high_watermark(2)
    broker.turn()
    assert not asked.is_answered
    log.set_high_watermark(3)
    assert only(asked.answer()).error_code == 0


def test_acks_all_gives_up_after_the_timeout(broker):
    broker.store["t"][0].set_high_watermark(0)
    answer = only(broker.ask(produce(records_for(8), acks=-1, timeout_ms=20), 8))
    assert (answer.error_code, answer.base_offset) == (7, 0)
    assert broker.store["t"][0].end_offset == 3


def test_acks_all_answers_when_the_leader_changes(broker):
    broker.store["t"][0].set_high_watermark(0)
    asked = broker.start(produce(records_for(8), acks=-1), 8)
    broker.metadata.follow(broker.store, leader=2)
    assert only(asked.answer()).error_code == 6


@pytest.mark.parametrize(("acks", "version", "code"), [(1, 8, 56), (-1, 8, 56), (-1, 3, 6)])
def test_durable_records_of_a_directory_that_fails_are_a_storage_error(
    tmp_path, monkeypatch, acks, version, code
):
    """At once, although a sync hangs."""
    ends = threading.Event()

    def hang(logs):
        ends.wait(60)
        return flush_together(logs)

    monkeypatch.setattr(durable_commits, "flush_together", hang)
    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        broker.create("t")
        asked = broker.start(produce(records_for(8), acks=acks, timeout_ms=10**6), version)
        broker.run_until(lambda: store["t"][0].end_offset == 3)
        broker.turn()
        was_answered = asked.is_answered
        broker.metadata.follow(store, leader=-1, offline_replicas=(0,))
        for _ in range(3):
            broker.turn()
        is_answered = asked.is_answered
        ends.set()
        assert (was_answered, is_answered) == (False, True)
        assert only(asked.answer()).error_code == code


def test_no_partition_keeps_a_request_that_was_answered(broker):
    """One of whose partitions was acknowledged before the others."""
    logs = broker.store["t"]
    request = produce(records_for(8), acks=-1)
    request.topic_data[0].partition_data.append(
        ProduceRequest.TopicData.PartitionData(1, records_for(8))
    )
    for log in logs:
        log.set_high_watermark(0)
    asked = broker.start(request, 8)
    hosted = [broker.partitions.get("t", number) for number in (0, 1)]
    broker.run_until(lambda: all(each._waiters for each in hosted))
    for log in logs:
        assert not asked.is_answered
        log.set_high_watermark(3)
        for _ in range(3):
            broker.turn()
    assert [each.error_code for each in asked.answer().responses[0].partition_responses] == [0, 0]
    assert not any(each._waiters for each in hosted)


def test_topic_deleted_and_created_again_is_another_log(broker):
    broker.ask(produce(records_for(8)), 8)
    broker.store.delete_topic("t")
    assert only(broker.ask(produce(records_for(8)), 8)).error_code in (3, 6)  # the image is old
    broker.metadata.follow(broker.store)
    assert only(broker.ask(produce(records_for(8)), 8)).error_code == 3
    broker.create("t")
    assert only(broker.ask(produce(records_for(8)), 8)).base_offset == 0


def test_several_partitions_of_several_topics_are_answered_in_order(broker):
    broker.create("u")
    message = ProduceRequest(
        acks=1,
        topic_data=[
            ProduceRequest.TopicData(
                name,
                partition_data=[
                    ProduceRequest.TopicData.PartitionData(n, sent(2, codec, rows(n + 1)))
                    for n, codec in ((1, GZIP), (0, 0), (5, 0))
                ],
            )
            for name in ("u", "t", "x")
        ],
    )
    response = broker.ask(message, 9)
    assert [
        (topic.name, each.index, each.error_code)
        for topic in response.responses
        for each in topic.partition_responses
    ] == [
        ("u", 1, 3), ("u", 0, 0), ("u", 5, 3),
        ("t", 1, 0), ("t", 0, 0), ("t", 5, 3),
        ("x", 1, 3), ("x", 0, 3), ("x", 5, 3),
    ]  # fmt: skip


def test_a_log_that_cannot_be_opened_is_a_storage_error(broker, monkeypatch):
    def fail(topic, partition):
        raise RecoveryNeededError("corrupt below the recovery point")

    monkeypatch.setattr(broker.store, "_log", fail)
    answer = only(broker.ask(produce(records_for(8)), 8))
    assert (answer.error_code, answer.error_message) == (56, None)
    assert only(broker.ask(produce(records_for(8)), 8)).error_code == 56


def test_durable_acknowledgements_wait_for_the_disk(tmp_path):
    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        broker.create("t")
        asked = [broker.start(produce(records_for(8)), 8) for _ in range(20)]
        for number, each in enumerate(asked):
            assert only(each.answer()).base_offset == 3 * number
            assert store["t"][0].recovery_point >= 3 * number + 3


@pytest.mark.parametrize("acks", [1, -1])
def test_durable_partitions_that_flush_messages_share_a_sync(tmp_path, monkeypatch, acks):
    """None syncs alone in its append: the committer finds all of them behind."""
    found = []

    def sync(logs):
        found.extend((log.end_offset, log.recovery_point) for log in logs)
        return flush_together(logs)

    monkeypatch.setattr(durable_commits, "flush_together", sync)
    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        store.create_topic("t", 3, config={"flush.messages": 1})
        broker.metadata.follow(store)
        wanted = produce(records_for(8), acks=acks)
        for number in (1, 2):
            wanted.topic_data[0].partition_data.append(
                ProduceRequest.TopicData.PartitionData(number, records_for(8))
            )
        [topic] = broker.ask(wanted, 8).responses
        assert [each.error_code for each in topic.partition_responses] == [0, 0, 0]
        assert found == [(3, 0)] * 3
        assert [log.recovery_point for log in store["t"]] == [3, 3, 3]


def test_the_source_of_an_extend_may_wait_for_another_partition(tmp_path, monkeypatch):
    """Though its own partition, whose lock it holds, is of the same round of syncs."""
    holds, is_acknowledged, answers = threading.Event(), threading.Event(), {}

    def source():
        holds.set()
        assert is_acknowledged.wait(60)
        yield b"extended"

    def sync(logs):
        if extending.ident is None:
            extending.start()
            assert holds.wait(60)
        return flush_together(logs)

    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        broker.create("t", 2)
        for number in (0, 1):
            broker.ask(produce(records_for(8), partition=number), 8)
        monkeypatch.setattr(durable_commits, "flush_together", sync)
        extending = threading.Thread(target=lambda: store["t"][0].extend(source()), daemon=True)
        asked = [broker.start(produce(records_for(8), partition=number), 8) for number in (0, 1)]
        answers[1] = only(asked[1].answer())
        assert not asked[0].is_answered
        is_acknowledged.set()
        answers[0] = only(asked[0].answer())
        assert [answers[number].base_offset for number in (0, 1)] == [3, 3]
        extending.join()


def test_flush_messages_counts_for_durable_partitions_of_a_lost_connection(tmp_path):
    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        store.create_topic("t", 1, config={"flush.messages": 1})
        broker.metadata.follow(store)
        asked = broker.start(produce(records_for(8)), 8)
        asked.pending.cancel()
        broker.run_until(lambda: store["t"][0].recovery_point == 3)
        assert not asked.is_answered


def test_flush_messages_counts_for_durable_partitions_without_acks(tmp_path):
    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        store.create_topic("t", 1, config={"flush.messages": 1})
        broker.metadata.follow(store)
        assert broker.ask(produce(records_for(8), acks=0), 8) is None
        assert store["t"][0].recovery_point == 3


def test_a_failed_sync_is_no_acknowledgement(tmp_path, monkeypatch):
    with (
        Store(tmp_path) as store,
        HandlerTester(store, ProduceHandlers, kstore_acks_durable=True) as broker,
    ):
        broker.create("t")
        log = store["t"][0]
        monkeypatch.setattr(log, "flush", lambda: (_ for _ in ()).throw(OSError(5, "I/O error")))
        assert only(broker.ask(produce(records_for(8)), 8)).error_code == 56


def test_a_topic_may_ask_for_durable_acknowledgements(broker):
    broker.metadata.follow(broker.store, config={"kstore.acks.durable": "true"})
    broker.ask(produce(records_for(8)), 8)
    assert broker.store["t"][0].recovery_point == 3


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_topic_repeated", [False, True])
def test_of_a_partition_named_twice_the_last_batch_is_appended(broker, version, is_topic_repeated):
    first, last = (
        ProduceRequest.TopicData.PartitionData(0, records_for(version, count)) for count in (3, 2)
    )
    groups = [[first], [last]] if is_topic_repeated else [[first, last]]
    topics = [ProduceRequest.TopicData("t", topic_id_bytes("t"), each) for each in groups]
    answer = only(broker.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics), version))
    assert (answer.index, answer.error_code, answer.base_offset) == (0, 0, 0)
    assert broker.store["t"][0].end_offset == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_without_partitions_is_omitted(broker, version):
    request = produce(records_for(version))
    request.topic_data.append(ProduceRequest.TopicData("empty", topic_id_bytes("empty"), []))
    assert only(broker.ask(request, version)).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("size", "code"), [(0, 2), (13, 2), (14, 0)])
def test_a_first_message_of_an_impossible_size_is_corrupt(broker, version, size, code):
    answer = only(broker.ask(produce(struct.pack(">qi", 0, size)), version))
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert broker.store["t"][0].end_offset == 0
