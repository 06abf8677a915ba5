"""``Log.watch`` calls after every change, without the log's lock; the high watermark bounds it."""

import asyncio
import threading
from pathlib import Path

import pytest

from kstore.errors import OffsetOutOfRangeError, ReadOnlyError
from kstore.log.log import Log
from kstore.log.watch import LogEvents
from kstore.log.writable_log import WritableLog
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.logs import open_log, read_log

NOW = 1_700_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> WritableLog:
    return open_log(tmp_path / "t-0", segment_bytes=500, file_delete_delay_ms=0)


def watched(log: Log) -> list[LogEvents]:
    found: list[LogEvents] = []
    log.watch(lambda log, events: found.append(events))
    return found


def test_each_kind_of_change_calls(log: WritableLog) -> None:
    found = watched(log)
    both = LogEvents.END | LogEvents.LAST_STABLE_OFFSET
    log.append(b"a")
    assert found == [both]
    found.clear()
    log.extend([b"b" * 100] * 6)
    assert len(found) == 1
    assert found[0] & both == both
    found.clear()
    log.roll()
    assert found == [LogEvents.ROLLED]
    log.delete_records(3)
    assert found.pop() == LogEvents.START
    log.truncate_to(6)
    assert any(LogEvents.TRUNCATED | LogEvents.END in events for events in found)
    assert log.set_high_watermark(5) == 5
    assert found[-1] == LogEvents.HIGH_WATERMARK | LogEvents.LAST_STABLE_OFFSET
    log.close()
    assert LogEvents.CLOSED in found[-1]


def test_a_marker_moves_the_last_stable_offset(log: WritableLog) -> None:
    found = watched(log)
    rows = [PlainRecord(0, NOW, b"k", b"v", ())]
    log.append_as_leader(
        batch(rows, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    )
    assert found == [LogEvents.END]
    log.append_end_marker(7, 0, commit=True)
    assert LogEvents.END | LogEvents.LAST_STABLE_OFFSET in found[1]


def test_the_callback_runs_without_the_lock_after_the_change(log: WritableLog) -> None:
    ends: list[int] = []

    def callback(log: Log, events: LogEvents) -> None:
        other = threading.Thread(target=lambda: ends.append(log.append(b"from another thread")))
        if len(ends) < 1:
            ends.append(log.end_offset)
            other.start()
            other.join(10)

    log.watch(callback)
    log.append(b"a")
    assert ends == [1, 1]


def test_a_closed_watch_is_not_called(log: WritableLog) -> None:
    found: list[LogEvents] = []
    watch = log.watch(lambda log, events: found.append(events))
    watch.close()
    watch.close()
    log.append(b"a")
    assert found == []
    assert log._appender.waiters == 0


def test_an_error_of_a_callback_is_logged(
    log: WritableLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.watch(lambda log, events: 1 // 0)
    found = watched(log)
    assert log.append(b"a") == 0
    assert len(found) == 1
    assert "a callback that watches the log failed" in caplog.text


def test_a_callback_is_a_function(log: WritableLog) -> None:
    with pytest.raises(TypeError, match="after each change, not 5"):
        log.watch(5)  # type: ignore[arg-type]
    log.append(b"no event has a callback")


def test_a_reader_of_another_process_is_not_watched(log: WritableLog) -> None:
    log.append(b"a")
    reader = read_log(Path(log.path))
    with pytest.raises(ReadOnlyError):
        reader.watch(lambda log, events: None)
    with pytest.raises(ReadOnlyError):
        reader.set_high_watermark(1)
    assert reader.high_watermark == 1


def test_an_asynchronous_follower_does_not_poll(
    log: WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow() -> list[bytes | None]:
        values: list[bytes | None] = []
        async for record in log.follow(start=0):
            values.append(record.value)
            if len(values) == 3:
                log.close()
            elif len(values) == 1:
                threading.Timer(0.05, log.extend, [[b"b", b"c"]]).start()
        return values

    monkeypatch.setattr(asyncio, "sleep", None)
    log.append(b"a")
    assert asyncio.run(asyncio.wait_for(follow(), 20)) == [b"a", b"b", b"c"]
    assert log._appender.waiters == 0


# --- the high watermark --------------------------------------------------------------------------


def test_the_high_watermark_is_the_end_until_it_is_set(log: WritableLog) -> None:
    log.extend([b"a"] * 5)
    assert log.high_watermark == 5
    assert log.set_high_watermark(2) == 2
    assert log.append(b"b") == 5
    assert (log.high_watermark, log.last_stable_offset) == (2, 2)
    assert log.set_high_watermark(1) == 2
    assert log.set_high_watermark(99) == log.high_watermark == 6
    log.truncate_to(3)
    log.extend([b"a"] * 5)
    assert log.high_watermark == 3
    with pytest.raises(ValueError, match="offset"):
        log.set_high_watermark(-1)


def test_the_high_watermark_bounds_deletion(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=200, retention_ms=1, file_delete_delay_ms=0)
    for n in range(8):
        log.append(b"v" * 80, timestamp=NOW + n)
    log.set_high_watermark(3)
    log.apply_retention()
    assert 0 < log.start_offset <= 3
    with pytest.raises(OffsetOutOfRangeError, match="not between 0 and the high watermark 3"):
        log.delete_records(4)
    assert log.delete_records(-1) == log.start_offset == 3
