"""ListOffsets: ends of logs, and offsets by time, in every version."""

import os

import pytest

from kstore.broker.handlers.list_offsets import ListOffsetsHandlers
from kstore.protocol.messages.list_offsets import ListOffsetsRequest
from kstore.store.store import Store
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.handler_tester import HandlerTester

VERSIONS = (1, 2, 4, 5, 6, 7, 8, 9, 10)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
NOW = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path):
    with Store(tmp_path) as store, HandlerTester(store, ListOffsetsHandlers) as tester:
        log = tester.create("t", 2)[0]
        for time in (NOW, NOW + 20, NOW + 10):
            log.append(b"x", timestamp=time)
        yield tester


def ask(broker, version, timestamp, *, partitions=(0,), topic="t", epoch=-1, count=1, **fields):
    wanted = [
        ListOffsetsRequest.Topics.Partitions(partition, epoch, timestamp, count)
        for partition in partitions
    ]
    message = ListOffsetsRequest(
        topics=[ListOffsetsRequest.Topics(topic, wanted)], **{"replica_id": -1, **fields}
    )
    return broker.ask(message, version).topics[0].partitions


def found(broker, version, timestamp, **fields):
    [answer] = ask(broker, version, timestamp, **fields)
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", VERSIONS)
def test_earliest_is_the_log_start_and_latest_the_high_watermark(broker, version):
    broker.store["t"][0].delete_records(1)
    assert found(broker, version, LATEST) == (0, 3, -1)
    assert found(broker, version, EARLIEST) == (0, 1, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (0, 0, NOW)),
        (NOW, (0, 0, NOW)),
        (NOW + 1, (0, 1, NOW + 20)),
        (NOW + 20, (0, 1, NOW + 20)),
        (NOW + 21, (0, -1, -1)),
    ],
)
def test_a_timestamp_finds_the_first_record_at_or_after_it(broker, version, timestamp, expected):
    assert found(broker, version, timestamp) == expected


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (MAX_TIMESTAMP, 7, (0, 1, NOW + 20)),
        (EARLIEST_LOCAL, 8, (0, 0, -1)),
        (LATEST_TIERED, 9, (0, -1, -1)),
        (-6, 99, None),
        (-(1 << 63), 99, None),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_special_timestamps_have_a_first_version(broker, version, timestamp, since, expected):
    assert found(broker, version, timestamp) == (expected if version >= since else (35, -1, -1))


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_and_repeated_partitions(broker, version):
    assert [each.error_code for each in ask(broker, version, LATEST, partitions=(0, 0, 1, 7))] == [
        42, 42, 0, 3,
    ]  # fmt: skip
    assert found(broker, version, LATEST, topic="missing") == (3, -1, -1)


@pytest.mark.parametrize("version", [4, 10])
def test_offsets_are_listed_for_the_current_leader_epoch_only(broker, version):
    log = broker.store["t"][0]
    log.begin_epoch(4)
    log.append(b"x", timestamp=NOW + 50)
    broker.metadata.follow(broker.store, leader_epoch=4)
    for epoch, code in ((3, 74), (4, 0), (5, 75)):
        assert found(broker, version, LATEST, epoch=epoch)[0] == code
    [answer] = ask(broker, version, NOW + 50)
    assert (answer.offset, answer.leader_epoch) == (3, 4)
    [answer] = ask(broker, version, NOW)
    assert (answer.offset, answer.leader_epoch) == (0, 0)
    [answer] = ask(broker, version, LATEST)
    assert (answer.offset, answer.leader_epoch) == (4, 4)


@pytest.mark.parametrize("version", [2, 10])
def test_the_latest_offset_depends_on_isolation_and_replica(broker, version):
    log = broker.store["t"][0]
    log.set_high_watermark(2)
    assert found(broker, version, LATEST) == (0, 2, -1)
    assert found(broker, version, LATEST, replica_id=-2) == (0, 3, -1)
    log.set_high_watermark(3)
    record = PlainRecord(0, NOW + 90, None, b"open")
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch([record], transactional=True, **fields))
    log.set_high_watermark(4)
    assert found(broker, version, LATEST, isolation_level=1) == (0, 3, -1)
    assert found(broker, version, LATEST) == (0, 4, -1)
    assert found(broker, version, NOW + 90, isolation_level=1) == (0, -1, -1)
    assert found(broker, version, NOW + 90) == (0, 3, NOW + 90)


@pytest.mark.parametrize("version", [4, 5, 10])
def test_a_new_leader_whose_high_watermark_is_behind(broker, version):
    log = broker.store["t"][0]
    log.set_high_watermark(1)
    log.begin_epoch(4)
    log.append(b"x", timestamp=NOW + 50)
    broker.metadata.follow(broker.store, leader_epoch=4)
    code = 78 if version >= 5 else 5
    assert found(broker, version, LATEST) == (code, -1, -1)
    assert found(broker, version, NOW + 1) == (code, -1, -1)
    assert found(broker, version, NOW) == (0, 0, NOW)
    assert found(broker, version, EARLIEST) == (0, 0, -1)
    log.set_high_watermark(4)
    assert found(broker, version, LATEST) == (0, 4, -1)


def test_version_0_lists_the_beginnings_of_segments(broker):
    log = broker.store["t"][0]
    log.roll()
    log.append(b"x")
    log.roll()
    log.append(b"x")
    for seconds, view in zip((1000, 2000, 3000), log.segments.views, strict=True):
        os.utime(view.path, (seconds, seconds))

    def offsets(timestamp, count):
        [answer] = ask(broker, 0, timestamp, count=count)
        assert answer.error_code == 0
        return answer.old_style_offsets

    assert offsets(LATEST, 10) == [5, 4, 3, 0]
    assert offsets(LATEST, 1) == [5]
    assert offsets(EARLIEST, 10) == [0]
    assert offsets(2_000_000, 10) == [3, 0]
    assert offsets(2_000_000, 1) == [3]
    assert offsets(999_999, 10) == []
    assert offsets(3_000_000, 10) == [4, 3, 0]
    log.set_high_watermark(4)
    assert offsets(LATEST, 10) == [4, 4, 3, 0]
    [answer] = ask(broker, 0, LATEST, topic="missing")
    assert answer.error_code == 3


@pytest.mark.parametrize("version", [4, 7, 10])
def test_only_minus_one_is_no_leader_epoch(broker, version):
    [answer] = ask(broker, version, LATEST, epoch=-2)
    assert (answer.error_code, answer.offset) == (74, -1)
    [answer] = ask(broker, version, LATEST, epoch=-1)
    assert answer.error_code == 0
