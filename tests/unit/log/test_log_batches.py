"""Complete batches into a log: of a client through the leader's checks, of a leader as they are."""

from pathlib import Path

import pytest

from kstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KStoreError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
)
from oracle.crc import crc32c
from oracle.plain import LOG_APPEND_TIME, PlainRecord
from oracle.reader import read_log as oracle_read
from oracle.writer import batch, marker, message, wrapper
from support.logs import log_bytes, open_log

NOW = 1_700_000_000_000


def rows(count: int, first: int = 0, size: int = 20) -> list[PlainRecord]:
    return [
        PlainRecord(first + n, NOW + n, b"k%d" % n, b"%d" % n * size, (("h", b"v"),))
        for n in range(count)
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


@pytest.mark.parametrize("codec", range(5))
def test_a_client_batch_is_stored_unchanged_except_for_its_offset(
    directory: Path, codec: int
) -> None:
    log = open_log(directory)
    log.append(b"before")
    data = batch(rows(10), codec=codec, leader_epoch=-1)
    before = bytes(data)
    info = log.append_as_leader(memoryview(data))
    assert tuple(info) == (1, 10, NOW + 9, len(data))
    assert data == before
    stored = oracle_read(log_bytes(directory)).batches[1]
    assert stored.crc_ok
    assert (stored.base_offset, stored.last_offset, stored.leader_epoch) == (1, 10, 0)
    raw = log_bytes(directory)[stored.position :]
    assert raw[16:] == data[16:]
    assert [(r.key, r.value) for r in log[1:]] == [(r.key, r.value) for r in rows(10)]


def test_a_wrong_largest_timestamp_is_corrected(directory: Path) -> None:
    log = open_log(directory)
    log.append_as_leader(batch(rows(3), max_timestamp=NOW + 77))
    assert log_bytes(directory)[16:] == batch(rows(3))[16:]


def test_unknown_attribute_bits_are_lost_with_a_wrong_timestamp(directory: Path) -> None:
    data = bytearray(batch(rows(3), max_timestamp=NOW + 77))
    data[21] = 0x7F
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    open_log(directory).append_as_leader(data)
    assert log_bytes(directory)[16:] == batch(rows(3))[16:]


@pytest.mark.parametrize("codec", [0, 2])
def test_log_append_time_is_the_brokers(directory: Path, codec: int) -> None:
    log = open_log(directory, message_timestamp_type="LogAppendTime", clock=lambda: 555)
    info = log.append_as_leader(batch(rows(3), codec=codec))
    assert info.max_timestamp == 555
    log.append(b"own", timestamp=9)
    (first, second) = oracle_read(log_bytes(directory)).batches
    assert first.crc_ok
    assert second.crc_ok
    assert {r.timestamp for r in first.records + second.records} == {555}
    assert {r.timestamp_type for r in first.records} == {LOG_APPEND_TIME}
    assert next((r.timestamp, r.timestamp_type) for r in log) == (555, "LogAppendTime")


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "zstd"])
@pytest.mark.parametrize("codec", [0, 1, 3])
def test_the_topic_may_want_another_codec(directory: Path, codec: int, wanted: str) -> None:
    log = open_log(directory, compression_type=wanted)
    log.append_as_leader(batch(rows(20), codec=codec))
    (stored,) = oracle_read(log_bytes(directory)).batches
    assert stored.crc_ok
    assert stored.codec == {"uncompressed": 0, "gzip": 1, "zstd": 4}[wanted]
    assert [(r.offset, r.key, r.value, r.timestamp) for r in stored.records] == [
        (r.offset, r.key, r.value, r.timestamp) for r in rows(20)
    ]


def damaged(position: int, value: int) -> bytes:
    data = bytearray(batch(rows(2)))
    data[position] = value
    return bytes(data)


REFUSED = {
    "crc": (damaged(70, 1), {}, CorruptRecordError, 2),
    "cut": (batch(rows(2))[:-1], {}, CorruptRecordError, 2),
    "two batches": (batch(rows(2)) * 2, {}, InvalidRecordError, 87),
    "base offset": (batch(rows(2, first=5)), {}, InvalidRecordError, 87),
    "too large": (batch(rows(2)), {"max_message_bytes": 100}, MessageTooLargeError, 10),
    "too long": (batch(rows(2)), {"segment_bytes": 100}, RecordListTooLargeError, 18),
    "old": (
        batch(rows(2)),
        {"message_timestamp_before_max_ms": 1000},
        InvalidTimestampError,
        32,
    ),
    "no key": (
        batch([PlainRecord(0, NOW, None, b"v")]),
        {"cleanup_policy": "compact"},
        InvalidRecordError,
        87,
    ),
    "control": (
        marker(0, 1, timestamp=NOW, producer_id=7, producer_epoch=0),
        {},
        InvalidRecordError,
        87,
    ),
    "codec": (damaged(22, 5), {}, KStoreError, None),
    "no sequence": (batch(rows(2), producer_id=9, producer_epoch=0), {}, InvalidRecordError, 87),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_leader_refuses(directory: Path, name: str) -> None:
    data, settings, kind, code = REFUSED[name]
    log = open_log(directory, **settings)
    with pytest.raises(kind) as caught:
        log.append_as_leader(data)
    assert code is None or caught.value.code == code
    assert log.end_offset == 0
    assert log_bytes(directory) == b""


def test_an_unknown_codec_is_refused_by_its_own_error(directory: Path) -> None:
    data = bytearray(batch(rows(2)))
    data[22] = 6
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    with pytest.raises(UnsupportedCompressionTypeError):
        open_log(directory).append_as_leader(bytes(data))


def test_a_follower_keeps_offsets_epochs_and_formats(directory: Path) -> None:
    log = open_log(directory)
    data = (
        message(3, b"k", b"v0", magic=0)
        + wrapper(rows(4, first=10), magic=1, codec=1)
        + batch(rows(5, first=20), codec=4, leader_epoch=2)
        + batch(rows(5, first=30), leader_epoch=5, producer_id=7, producer_epoch=1, base_sequence=0)
    )
    cut = batch(rows(1, first=40))[:-3]
    info = log.append_as_follower(data + cut)
    assert (info.first_offset, info.last_offset, info.size) == (3, 34, len(data))
    assert log_bytes(directory) == data
    assert log.end_offset == 35
    assert [r.offset for r in log] == [3, *range(10, 14), *range(20, 25), *range(30, 35)]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 20\n5 30\n"
    assert log.append(b"next") == 35
    assert log[35].leader_epoch == 5


def test_a_follower_refuses_offsets_that_go_back(directory: Path) -> None:
    log = open_log(directory)
    log.append_as_follower(batch(rows(5, first=10)))
    before = log_bytes(directory)
    for data in (
        batch(rows(5, first=14)),
        batch(rows(2, first=20)) + batch(rows(2, first=21)),
        batch(rows(2, first=20)) + damaged(70, 1),
    ):
        with pytest.raises(CorruptRecordError) as caught:
            log.append_as_follower(data)
        assert caught.value.position is not None
        assert log_bytes(directory) == before
    assert log.end_offset == 15
