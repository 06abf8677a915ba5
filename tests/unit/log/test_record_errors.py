"""A refused batch names its bad records, with the messages of Kafka's LogValidator (3.9)."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from kstore import Log
from kstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KStoreError,
    RecordError,
)
from oracle.plain import LOG_APPEND_TIME, PlainRecord
from oracle.writer import batch, message, wrapper
from support.logs import open_log

NOW = 1_700_000_000_000
NO_KEY = "Compacted topic cannot accept message without key in topic partition orders-0"


def opened(tmp_path: Path, **settings: object) -> Log:
    return open_log(tmp_path / "orders-0", clock=lambda: NOW, **settings)


def rows(*of: tuple[int, bytes | None]) -> list[PlainRecord]:
    return [PlainRecord(n, time, key, b"value") for n, (time, key) in enumerate(of)]


def refused(log: Log, data: bytes) -> KStoreError:
    with pytest.raises(KStoreError) as caught:
        log.append_as_leader(data)
    assert log.end_offset == 0
    return caught.value


def out_of_range(timestamp: int, offset: int) -> str:
    return (
        f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp "
        f"should be within [{NOW - 1000}, {NOW + 500}]"
    )


BOUNDS = {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 500}


@pytest.mark.parametrize("codec", [0, 4])
def test_every_record_without_a_key_is_listed(tmp_path: Path, codec: int) -> None:
    log = opened(tmp_path, cleanup_policy="compact")
    data = batch(rows((NOW, b"k"), (NOW, None), (NOW, b"k"), (NOW, None)), codec=codec)
    error = refused(log, data)
    assert type(error) is InvalidRecordError
    assert error.record_errors == (RecordError(1, NO_KEY), RecordError(3, NO_KEY))


@pytest.mark.parametrize("codec", [0, 1])
def test_every_timestamp_out_of_bounds_is_listed(tmp_path: Path, codec: int) -> None:
    log = opened(tmp_path, **BOUNDS)
    times = (NOW - 1000, NOW - 1001, NOW + 500, -1, NOW + 501)
    error = refused(log, batch(rows(*((time, b"k") for time in times)), codec=codec))
    assert type(error) is InvalidTimestampError
    assert error.record_errors == (
        RecordError(1, out_of_range(NOW - 1001, 1)),
        RecordError(4, out_of_range(NOW + 501, 4)),
    )


def test_a_record_has_one_error_and_a_timestamp_decides_the_kind(tmp_path: Path) -> None:
    log = opened(tmp_path, cleanup_policy="compact", **BOUNDS)
    error = refused(log, batch(rows((NOW - 9999, None), (NOW, b"k"), (NOW + 9999, b"k"))))
    assert error.code == 32
    assert error.record_errors == (
        RecordError(0, NO_KEY),
        RecordError(2, out_of_range(NOW + 9999, 2)),
    )


def test_a_limit_that_is_not_set_is_named_as_in_java(tmp_path: Path) -> None:
    """now + Long.MAX_VALUE is negative there."""
    log = opened(tmp_path, message_timestamp_before_max_ms=1000)
    error = refused(log, batch(rows((5, b"k"))))
    assert error.record_errors[0].message.endswith(
        f"within [{NOW - 1000}, {NOW + 2**63 - 1 - 2**64}]"
    )


def test_a_producer_that_sets_log_append_time(tmp_path: Path) -> None:
    log = opened(tmp_path, message_timestamp_type="LogAppendTime")
    error = refused(log, batch(rows((NOW, b"key")), timestamp_type=LOG_APPEND_TIME))
    assert error.record_errors == (
        RecordError(
            0,
            f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW}, key=3 "
            "bytes, value=5 bytes). Producer should not set timestamp type to LogAppendTime.",
        ),
    )


def messages(magic: int, keys: Sequence[bytes | None]) -> bytes:
    return b"".join(
        message(n, key, b"value", magic=magic, timestamp=NOW) for n, key in enumerate(keys)
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_messages_are_batches_of_one_record(tmp_path: Path, magic: int) -> None:
    log = opened(tmp_path, cleanup_policy="compact")
    error = refused(log, messages(magic, (b"k", b"k", None, None)))
    assert error.record_errors == (RecordError(0, NO_KEY),)


def test_refused_records_of_a_wrapper_are_numbered(tmp_path: Path) -> None:
    log = opened(tmp_path, **BOUNDS)
    error = refused(log, wrapper(rows((NOW, b"k"), (5, b"k"), (6, b"k")), magic=1, codec=1))
    assert [each.batch_index for each in error.record_errors] == [1, 2]
    assert error.record_errors[0].message.startswith("Timestamp 5 of message")


def test_a_wrapper_with_offsets_that_no_reader_takes_names_the_first(tmp_path: Path) -> None:
    same = [row._replace(offset=0) for row in rows((NOW, b"k"), (5, b"k"))]
    error = refused(opened(tmp_path, **BOUNDS), wrapper(same, magic=1, codec=1))
    assert error.code == 32
    assert error.record_errors == (RecordError(1, "illegal timestamp"),)


def test_offsets_inside_a_batch_that_do_not_follow_each_other(tmp_path: Path) -> None:
    data = rows((NOW, b"k"), (NOW, b"k"), (NOW, b"k"))
    data[1] = data[1]._replace(offset=2)
    error = refused(opened(tmp_path), batch(data, base_offset=0, last_offset=2))
    assert type(error) is InvalidRecordError
    assert [each.batch_index for each in error.record_errors] == [1]
    assert error.record_errors[0].message == "record offsets are out of order or outside the batch"


def test_a_corrupt_batch_names_no_record(tmp_path: Path) -> None:
    data = bytearray(batch(rows((NOW, None))))
    data[-1] ^= 1
    error = refused(opened(tmp_path, cleanup_policy="compact"), bytes(data))
    assert type(error) is CorruptRecordError
    assert error.record_errors == ()


def test_the_list_survives_a_pickle(tmp_path: Path) -> None:
    error = refused(opened(tmp_path, cleanup_policy="compact"), batch(rows((NOW, None))))
    assert pickle.loads(pickle.dumps(error)).record_errors == (RecordError(0, NO_KEY),)
