"""``find_time`` and ``max_timestamp``: what a broker's ListOffsets answers, or nothing."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kstore import Log, OffsetAndTimestamp
from oracle import writer as oracle
from oracle.plain import PlainRecord
from support.logs import open_log, read_log


def with_times(directory: Path) -> Log:
    """Offsets 0 to 4 with the times 100, 300, 200, 300, 50, the last two in epoch 6."""
    log = open_log(directory)
    for epoch, times in ((2, (100, 300, 200)), (6, (300, 50))):
        log.begin_epoch(epoch)
        for time in times:
            log.append(b"value", timestamp=time)
    return log


@pytest.fixture(params=["writer", "reader"])
def opened(request: pytest.FixtureRequest) -> Callable[[Log], Log]:
    return lambda log: log if request.param == "writer" else read_log(Path(log.path))


def test_the_first_record_at_or_after_a_time(tmp_path: Path, opened: Callable[[Log], Log]) -> None:
    log = opened(with_times(tmp_path))
    assert log.find_time(0) == OffsetAndTimestamp(0, 100, 2)
    assert log.find_time(101) == (1, 300, 2)
    assert log.find_time(300) == (1, 300, 2)
    assert log.find_time(301) is None


def test_the_epoch_is_that_of_the_batch(tmp_path: Path) -> None:
    log = with_times(tmp_path)
    log.append(b"value", timestamp=400)
    assert log.find_time(301) == (5, 400, 6)
    assert log.max_timestamp() == (5, 400, 6)
    assert log.max_timestamp().datetime == log[5].datetime == datetime.fromtimestamp(0.4, UTC)


def test_a_record_beyond_the_limit_is_not_replaced_by_another(tmp_path: Path) -> None:
    log = with_times(tmp_path)
    assert log.find_time(150, up_to=2) == (1, 300, 2)
    assert log.find_time(150, up_to=1) is None
    assert log.find_time(50, up_to=0) is None
    assert log.max_timestamp(up_to=2) == (1, 300, 2)
    assert log.max_timestamp(up_to=1) is None  # not the largest one below the limit
    assert log.find_time(150, up_to=99) == (1, 300, 2)


def test_the_largest_timestamp_is_that_of_its_first_record(
    tmp_path: Path, opened: Callable[[Log], Log]
) -> None:
    """Also inside a batch: Kafka's RecordBatch.offsetOfMaxTimestamp."""
    log = open_log(tmp_path)
    rows = [PlainRecord(n, time, None, b"value") for n, time in enumerate((5, 9, 7, 9))]
    log.append_as_leader(oracle.batch(rows))
    log.roll()
    log.append(b"later", timestamp=9)
    assert opened(log).max_timestamp() == (1, 9, 0)


def test_read_committed_ends_at_the_last_stable_offset(
    tmp_path: Path, opened: Callable[[Log], Log]
) -> None:
    log = with_times(tmp_path)
    row = PlainRecord(0, 500, None, b"open")
    log.append_as_leader(
        oracle.batch([row], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    )
    seen = opened(log)
    assert seen.find_time(400) == seen.max_timestamp() == (5, 500, 6)
    assert seen.find_time(400, isolation="read_committed") is None
    assert seen.max_timestamp(isolation_level="read_committed") is None
    log.append_end_marker(7, 0, commit=True, timestamp=450)
    assert seen.find_time(400, isolation="read_committed") == (5, 500, 6)


def test_nothing_has_a_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "empty")
    assert log.find_time(0) is log.max_timestamp() is None
    log = open_log(tmp_path / "v0", message_format_version="0.8.2")
    log.append(b"value", timestamp=77)
    assert log.find_time(0) is log.max_timestamp() is None


def test_messages_v1_have_no_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_format_version="0.10.0")
    log.append(b"value", timestamp=77)
    assert log.find_time(0) == log.max_timestamp() == (0, 77, -1)
