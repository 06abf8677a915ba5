"""Fetch: limits, errors, isolation, long poll, in every version."""

import pytest

from kstore.broker.handlers.fetch import FetchHandlers
from kstore.cluster.image import ZERO_UUID
from kstore.protocol.messages.fetch import FetchRequest
from kstore.store.store import Store
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.client_batches import NOW, rows
from support.handler_tester import HandlerTester, topic_image, uuid_bytes

VERSIONS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 15, 16, 17)
RAW = tuple(version for version in VERSIONS if version >= 4)  # records as they are in the log


@pytest.fixture
def broker(tmp_path):
    with Store(tmp_path) as store, HandlerTester(store, FetchHandlers) as tester:
        tester.create("t", 3)
        assert [log.end_offset for log in store["t"]] == [0, 0, 0]  # open
        yield tester


def wanted(partition=0, offset=0, max_bytes=1 << 20, **fields):
    return FetchRequest.Topics.Partitions(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
    )


def fetch(broker, *partitions, topic="t", max_wait_ms=0, min_bytes=1, topic_id=None, **fields):
    if topic_id is None:
        found = broker.metadata.image.topic(topic)
        topic_id = ZERO_UUID if found is None else found.topic_id
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchRequest.Topics(topic, topic_id, list(partitions or [wanted()]))],
        **fields,
    )


def answers(response):
    return [each for topic in response.responses for each in topic.partitions]


def only(response):
    [answer] = answers(response)
    return answer


def data(answer):
    return bytes(answer.records or b"")


def fill(log, count=3, size=100):
    """Append batches of one record; returns the bytes of each as they are in the log."""
    for number in range(count):
        log.append(b"%d" % number + bytes(size), timestamp=NOW)
    out = bytes(log.read(0, 1 << 30))
    each = len(out) // count
    return [out[n * each : (n + 1) * each] for n in range(count)]


@pytest.mark.parametrize("version", RAW)
def test_records_are_the_bytes_of_the_log(broker, version):
    batches = fill(broker.store["t"][0])
    answer = only(broker.ask(fetch(broker), version))
    assert data(answer) == b"".join(batches)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 3, 3)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_of_an_empty_log_has_no_bytes(broker, version):
    answer = only(broker.ask(fetch(broker), version))
    assert (answer.error_code, answer.high_watermark, data(answer)) == (0, 0, b"")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [-1, 1, 4, 1 << 40])
def test_an_offset_outside_the_log_gets_its_error(broker, version, offset):
    log = broker.store["t"][0]
    fill(log)
    log.delete_records(2)
    answer = only(broker.ask(fetch(broker, wanted(offset=offset)), version))
    assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (1, -1, -1)
    assert data(answer) == b""
    assert only(broker.ask(fetch(broker, wanted(offset=3)), version)).error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_partition_or_topic_gets_its_error(broker, version):
    assert only(broker.ask(fetch(broker, wanted(partition=7)), version)).error_code == 3
    unknown = fetch(broker, topic="missing", topic_id=b"u" * 16)
    assert only(broker.ask(unknown, version)).error_code == (100 if version >= 13 else 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_leader_and_offline_partition(broker, version):
    broker.metadata.follow(broker.store, leader=4, leader_epoch=7)
    response = broker.ask(fetch(broker), version)
    assert only(response).error_code == 6
    if version >= 16:
        assert only(response).current_leader.leader_id == 4
    broker.metadata.follow(broker.store, leader=-1, offline_replicas=(0,))
    assert only(broker.ask(fetch(broker), version)).error_code == (56 if version > 5 else 6)


@pytest.mark.parametrize("version", [9, 12, 17])
@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (4, 74), (5, 0), (6, 75)])
def test_the_current_leader_epoch_is_checked(broker, version, epoch, code):
    broker.metadata.follow(broker.store, leader_epoch=5)
    request = fetch(broker, wanted(current_leader_epoch=epoch))
    assert only(broker.ask(request, version)).error_code == code


# --- limits ---------------------------------------------------------------------------------


def test_limit_of_a_partition_may_cut_the_last_batch(broker):
    batches = fill(broker.store["t"][0])
    size = len(batches[0])
    for limit in (size, size + 1, 2 * size - 1):
        answer = only(broker.ask(fetch(broker, wanted(max_bytes=limit)), 11))
        assert data(answer) == b"".join(batches)[:limit]


@pytest.mark.parametrize("version", [3, 4, 11, 17])
def test_first_batch_is_complete_whatever_the_limits(broker, version):
    batches = fill(broker.store["t"][0])
    for limits in ({"max_bytes": 1}, {"max_bytes": 0}):
        answer = only(broker.ask(fetch(broker, wanted(**limits)), version))
        assert len(data(answer)) > 0
        if version >= 4:
            assert data(answer) == batches[0]
    answer = only(broker.ask(fetch(broker, max_bytes=1), version))
    assert len(data(answer)) > 0


def test_only_the_first_partition_with_data_has_a_batch_beyond_the_limits(broker):
    first = fill(broker.store["t"][1])
    fill(broker.store["t"][2])
    response = broker.ask(
        fetch(broker, wanted(0, max_bytes=10), wanted(1, max_bytes=10), wanted(2, max_bytes=10)),
        11,
    )
    assert [data(each) for each in answers(response)] == [b"", first[0], b""]


def test_limit_of_the_request_is_shared(broker):
    parts = [fill(broker.store["t"][n]) for n in range(3)]
    size = len(parts[0][0])
    request = fetch(broker, *(wanted(n) for n in range(3)), max_bytes=4 * size)
    got = [len(data(each)) for each in answers(broker.ask(request, 11))]
    assert got == [3 * size, size, 0]


def test_fetch_max_bytes_limits_an_answer(tmp_path):
    with (
        Store(tmp_path) as store,
        HandlerTester(store, FetchHandlers, fetch_max_bytes=1024) as broker,
    ):
        broker.create("t")
        batches = fill(store["t"][0], 20)
        answer = only(broker.ask(fetch(broker), 11))
        assert data(answer) == b"".join(batches)[:1024]


# --- read limits ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", RAW)
def test_nothing_at_or_beyond_the_high_watermark(broker, version):
    log = broker.store["t"][0]
    log.set_high_watermark(0)
    batches = fill(log)
    log.set_high_watermark(2)
    answer = only(broker.ask(fetch(broker), version))
    assert (answer.high_watermark, data(answer)) == (2, b"".join(batches[:2]))
    for offset in (2, 3):  # between the read limit and the end: no error
        answer = only(broker.ask(fetch(broker, wanted(offset=offset)), version))
        assert (answer.error_code, data(answer)) == (0, b"")


def transaction(log, producer_id, values, sequence=0):
    records = [PlainRecord(n, NOW, None, value) for n, value in enumerate(values)]
    log.append_as_leader(
        batch(
            records,
            transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
    )


@pytest.mark.parametrize("version", RAW)
def test_read_committed_ends_at_the_last_stable_offset(broker, version):
    log = broker.store["t"][0]
    log.append(b"before")
    transaction(log, 7, [b"aborted"])
    log.append_end_marker(7, 0, commit=False)
    transaction(log, 8, [b"open"])
    log.append(b"behind")
    answer = only(broker.ask(fetch(broker, isolation_level=1), version))
    assert (answer.high_watermark, answer.last_stable_offset) == (5, 3)
    assert data(answer) == bytes(log.read(0, up_to=3))
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [
        (7, 1)
    ]
    answer = only(broker.ask(fetch(broker, wanted(offset=3), isolation_level=1), version))
    assert (data(answer), answer.aborted_transactions) == (b"", [])
    answer = only(broker.ask(fetch(broker), version))
    assert (data(answer), answer.aborted_transactions) == (bytes(log.read(0)), None)


def test_aborted_transactions_behind_the_records_are_not_sent(broker):
    log = broker.store["t"][0]
    log.append(bytes(100))
    transaction(log, 7, [b"aborted"])
    log.append_end_marker(7, 0, commit=False)
    first = len(log.read(0, 1))
    request = fetch(broker, wanted(max_bytes=first), isolation_level=1)
    assert only(broker.ask(request, 11)).aborted_transactions == []


@pytest.mark.parametrize("version", [11, 17])
def test_a_follower_that_has_no_replica(broker, version):
    fields = (
        {"replica_state": FetchRequest.ReplicaState(3, 1)} if version >= 15 else {"replica_id": 3}
    )
    assert only(broker.ask(fetch(broker, **fields), version)).error_code == 6
    request = fetch(broker, wanted(current_leader_epoch=0), **fields)
    assert only(broker.ask(request, version)).error_code == 75


def test_a_follower_reads_to_the_log_end(broker):
    log = broker.store["t"][0]
    log.set_high_watermark(0)
    batches = fill(log)
    broker.metadata.follow(broker.store, replicas=(0, 3))
    answer = only(broker.ask(fetch(broker, replica_id=3), 11))
    assert data(answer) == b"".join(batches)


# --- topic ids, diverging epochs, codecs ------------------------------------------------------


@pytest.mark.parametrize("version", [13, 17])
def test_a_fetch_by_topic_id_is_answered_by_topic_id(broker, version):
    response = broker.ask(fetch(broker), version)
    assert response.responses[0].topic_id == uuid_bytes(broker.store["t"].topic_id)
    assert only(response).error_code == 0


def recreate(broker, topic="t"):
    """Delete a topic and create it with another id, in one change of the metadata."""
    broker.store.delete_topic(topic)
    broker.create(topic, 3)


@pytest.mark.parametrize("version", [13, 17])
def test_a_session_with_the_id_of_an_earlier_topic_of_the_name_gets_its_error(broker, version):
    first = broker.ask(fetch(broker, wanted(0), wanted(1), session_epoch=0), version)
    recreate(broker)
    [batch_] = fill(broker.store["t"][0], 1)
    request = FetchRequest(session_id=first.session_id, session_epoch=1, min_bytes=1)
    response = broker.ask(request, version)
    assert [each.error_code for each in answers(response)] == [103, 103]
    assert [each.high_watermark for each in answers(response)] == [-1, -1]
    assert b"".join(data(each) for each in answers(response)) == b""
    answer = only(broker.ask(fetch(broker), version))  # by the id that it has now
    assert (answer.error_code, data(answer)) == (0, batch_)


@pytest.mark.parametrize("version", [13, 17])
def test_a_topic_with_another_id_answers_requests_that_wait(broker, version):
    asked = parked(broker, version=version)
    assert not asked.is_answered
    recreate(broker)
    assert only(asked.answer()).error_code == 103


@pytest.mark.parametrize("version", [12, 17])
def test_a_fetch_with_another_last_epoch_gets_the_diverging_offset(broker, version):
    log = broker.store["t"][0]
    fill(log, 3)
    log.begin_epoch(5)
    fill(log, 1)
    broker.metadata.follow(broker.store, leader_epoch=5)

    def ask(offset, epoch):
        return only(
            broker.ask(fetch(broker, wanted(offset=offset, last_fetched_epoch=epoch)), version)
        )

    assert ask(4, 5).diverging_epoch is None
    answer = ask(4, 0)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 3)
    assert (data(answer), answer.error_code, answer.high_watermark) == (b"", 0, 4)
    answer = ask(3, 4)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 3)
    assert ask(3, 9).error_code == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_zstd_topics_need_version_10(broker, version):
    broker.create("z", compression_type="zstd")
    answer = only(broker.ask(fetch(broker, topic="z"), version))
    assert answer.error_code == (0 if version >= 10 else 76)


# --- long poll ------------------------------------------------------------------------------


def parked(broker, *partitions, version=11, **fields):
    asked = broker.start(fetch(broker, *partitions, max_wait_ms=20_000, **fields), version)
    for _ in range(3):
        broker.turn()
    return asked


def test_an_append_wakes_a_parked_request(broker):
    asked = parked(broker, wanted(0), wanted(1), wanted(2))
    assert not asked.is_answered
    [expected] = fill(broker.store["t"][1], 1)
    assert [data(each) for each in answers(asked.answer())] == [b"", expected, b""]


def test_an_append_of_another_thread_wakes_a_parked_request(broker):
    from threading import Timer

    asked = parked(broker)
    thread = Timer(0.05, lambda: broker.store["t"][0].append(b"x"))
    thread.start()
    assert len(data(only(asked.answer()))) > 0
    thread.join()


def test_too_few_bytes_do_not_wake(broker):
    log = broker.store["t"][0]
    [batch_] = fill(log, 1)
    asked = parked(broker, min_bytes=2 * len(batch_) + 1)
    log.append(b"0" + bytes(100), timestamp=NOW)
    for _ in range(3):
        broker.turn()
    assert not asked.is_answered
    log.append(b"0" + bytes(100), timestamp=NOW)
    assert len(data(only(asked.answer()))) == 3 * len(batch_)


def test_bytes_of_all_partitions_count(broker):
    sizes = [len(fill(broker.store["t"][n], 1)[0]) for n in range(2)]
    asked = parked(broker, wanted(0), wanted(1), wanted(2), min_bytes=sum(sizes) + 1)
    assert not asked.is_answered
    fill(broker.store["t"][2], 1)
    assert [len(data(each)) > 0 for each in answers(asked.answer())] == [True] * 3


def test_the_time_ends_the_wait(broker):
    fill(broker.store["t"][0], 1)
    request = fetch(broker, max_wait_ms=30, min_bytes=10_000)
    answer = only(broker.ask(request, 11))
    assert len(data(answer)) > 0


@pytest.mark.parametrize("wait", [0, -1])
def test_without_a_wait_the_answer_is_at_once(broker, wait):
    assert broker.start(fetch(broker, max_wait_ms=wait, min_bytes=9), 11).pending is None


def test_errors_are_answered_at_once(broker):
    request = fetch(broker, wanted(0), wanted(1, offset=9), max_wait_ms=20_000)
    assert [each.error_code for each in answers(broker.ask(request, 11))] == [0, 1]


def test_an_unknown_partition_alone_is_answered_at_once(broker):
    request = fetch(broker, wanted(9), max_wait_ms=20_000)
    assert broker.start(request, 11).is_answered


def test_roll_below_the_fetch_offset_is_answered_at_once(broker):
    log = broker.store["t"][0]
    fill(log, 1)
    log.roll()
    log.append(b"x")
    asked = broker.start(fetch(broker, max_wait_ms=20_000, min_bytes=100_000), 11)
    assert asked.is_answered


def test_deletion_of_the_topic_wakes(broker):
    asked = parked(broker)
    broker.store.delete_topic("t")
    broker.metadata.follow(broker.store)
    assert only(asked.answer()).error_code == 3


def test_another_leader_wakes(broker):
    asked = parked(broker)
    broker.metadata.follow(broker.store, leader=3, leader_epoch=1)
    assert only(asked.answer()).error_code == 6


def test_the_high_watermark_wakes_consumers(broker):
    log = broker.store["t"][0]
    log.set_high_watermark(0)
    fill(log, 2)
    asked = parked(broker)
    assert not asked.is_answered
    log.set_high_watermark(1)
    assert len(data(only(asked.answer()))) > 0


def test_the_end_of_a_transaction_wakes_read_committed(broker):
    log = broker.store["t"][0]
    transaction(log, 7, [b"open"])
    asked = parked(broker, isolation_level=1)
    assert not asked.is_answered
    log.append_end_marker(7, 0, commit=True)
    assert len(data(only(asked.answer()))) > 0


def test_deleted_records_wake(broker):
    log = broker.store["t"][0]
    fill(log, 2)
    asked = parked(broker, wanted(offset=1), min_bytes=100_000)
    log.delete_records(2)
    assert only(asked.answer()).error_code == 1


def test_a_truncation_wakes(broker):
    log = broker.store["t"][0]
    fill(log, 2)
    asked = parked(broker, wanted(offset=2))
    log.truncate_to(1)
    assert only(asked.answer()).error_code == 1


def test_a_lost_connection_leaves_nothing_behind(broker):
    asked = parked(broker)
    asked.pending.cancel()
    hosted = broker.partitions.get("t", 0)
    assert not hosted._waiters
    broker.store["t"][0].append(b"x")
    broker.turn()
    assert not asked.is_answered


def test_a_stopping_broker_answers_what_it_has(broker):
    asked = parked(broker)
    asked.pending.stop()
    assert only(asked.answer()).error_code == 0


def test_logs_that_are_not_open_are_opened_first(tmp_path):
    with Store(tmp_path) as store:
        store.create_topic("t")[0].extend([b"x"] * 3)
    with Store(tmp_path) as store, HandlerTester(store, FetchHandlers) as broker:
        assert not list(store._logs)
        assert only(broker.ask(fetch(broker), 11)).high_watermark == 3


def test_a_corrupt_batch_is_an_error_of_its_partition(broker):
    from pathlib import Path

    log = broker.store["t"][0]
    fill(log, 3)
    path = Path(log.segments.views[0].path)
    content = bytearray(path.read_bytes())
    content[8:12] = b"\0\0\0\1"
    path.write_bytes(content)
    assert only(broker.ask(fetch(broker, wanted(offset=1)), 11)).error_code == 2


def test_the_image_of_a_topic_has_its_partitions(broker):
    assert topic_image(broker.store, "t").partitions.keys() == {0, 1, 2}
    assert rows(1)
