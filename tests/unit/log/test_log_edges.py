"""A log at its edges: offsets that do not fit, files that were cut, settings that grow."""

import os
import struct
import time
from pathlib import Path

import pytest

from kstore import LogConfig, Record
from kstore._native.append.encode import BatchBuffer
from kstore._native.read.segment_view import SegmentList, SegmentView
from kstore.errors import CorruptRecordError, InvalidTimestampError, OffsetOutOfRangeError
from kstore.producer_state import snapshot as producer_snapshot
from support.damage import write_damaged
from support.logs import open_log, read_log

FIRST = "00000000000000000000"


def batch_at(offset: int, count: int = 1) -> bytes:
    """A complete batch as a leader stored it at this offset."""
    buffer = BatchBuffer()
    for _ in range(count):
        buffer.put(b"x" * 50, None, None, 1_700_000_000_000)
    raw = bytearray(buffer.to_bytes(attributes=0))
    struct.pack_into(">q", raw, 0, offset)
    return bytes(raw)


# --- offsets ----------------------------------------------------------------------------------


def test_a_follower_append_that_spans_more_than_a_segment_can_name_is_split(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=0)
    offsets = [0, 10, 2**33, 2**33 + 5]
    done = log.append_as_follower(b"".join(map(batch_at, offsets)))
    assert (done.first_offset, done.last_offset) == (0, 2**33 + 5)
    assert [view.base_offset for view in log.segments.views] == [0, 2**33]
    assert [record.offset for record in log] == offsets
    log.close()
    again = open_log(tmp_path, clean=False)
    assert [record.offset for record in again] == offsets
    again.close()


def test_no_offset_comes_after_the_last(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(CorruptRecordError):
        log.append_as_follower(batch_at(2**63 - 1))
    assert log.end_offset == 0
    log.append_as_follower(batch_at(2**63 - 5))
    for append in (log.append, lambda value: log.extend([value] * 10)):
        with pytest.raises(OffsetOutOfRangeError, match="last offsets"):
            append(b"one more")
    assert log.end_offset == 2**63 - 4
    assert [record.offset for record in log] == [2**63 - 5]
    log.close()


def test_records_of_an_extend_are_held_to_the_allowed_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_before_max_ms=1000)
    said = r"^timestamp 5 \(1970-01-01T00:00:00\+00:00\) is \d+ ms before now, more than "
    with pytest.raises(
        InvalidTimestampError, match=said + r"message.timestamp.before.max.ms allows"
    ):
        log.extend([Record(0, 5, None, b"old")])
    log.configure(LogConfig(message_timestamp_after_max_ms=1000))
    late = r"^timestamp \d+ \(2[\d:T+-]+\) is \d+ ms after now, more than message.timestamp.after"
    with pytest.raises(InvalidTimestampError, match=late):
        log.append(b"late", timestamp=int(time.time() * 1000) + 3_600_000)
    assert log.end_offset == 0
    log.close()


# --- damage and indexes that mislead ----------------------------------------------------------


def filled(directory: Path, count: int = 100) -> list[int]:
    """A log of several segments, one batch a record; positions of the first segment's batches."""
    log = open_log(directory, segment_bytes=20_000)
    for number in range(count):
        log.append(b"%03d" % number * 100)
    log.close()
    data = (directory / f"{FIRST}.log").read_bytes()
    positions = [0]
    while positions[-1] < len(data):
        (size,) = struct.unpack_from(">i", data, positions[-1] + 8)
        positions.append(positions[-1] + 12 + size)
    return positions


def test_a_batch_size_beyond_the_end_of_a_segment_is_damage(tmp_path: Path) -> None:
    positions = filled(tmp_path)
    path = tmp_path / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    data[positions[3] + 9] |= 0x40
    path.write_bytes(data)
    log = open_log(tmp_path, segment_bytes=20_000)
    for read in (
        lambda: list(log),
        lambda: list(log.view().scan()),
        lambda: log.read(5),
        lambda: log[5],
    ):
        with pytest.raises(CorruptRecordError) as raised:
            read()
        assert (raised.value.path, raised.value.position) == (str(path), positions[3])
    assert log[2].offset == 2
    skipped: list[tuple[object, ...]] = []
    kept = sum(len(each) for each in log.view().scan(on_damage="skip", skipped=skipped))
    assert kept < 100
    assert [note[:2] for note in skipped] == [(str(path), positions[3])]
    log.close()


@pytest.mark.parametrize("mode", ["writer", "own"])
def test_an_index_entry_into_the_middle_of_a_batch_does_not_mislead_reads(
    tmp_path: Path, mode: str
) -> None:
    filled(tmp_path)
    path = tmp_path / f"{FIRST}.index"
    entries = bytearray(path.read_bytes())
    middle = len(entries) // 16 * 8
    (relative,) = struct.unpack_from(">i", entries, middle)
    entries[middle + 7] ^= 0x15
    write_damaged(path, entries)
    log = open_log(tmp_path, segment_bytes=20_000) if mode == "writer" else read_log(tmp_path)
    assert log[relative + 1].offset == relative + 1
    log.close()


def test_a_file_cut_by_another_program_is_named(tmp_path: Path) -> None:
    filled(tmp_path)
    log = open_log(tmp_path, segment_bytes=20_000)
    sealed, active = log.segments.views[0].path, log.segments.views[-1].path
    os.truncate(sealed, 5000)
    os.truncate(active, 100)
    for call, path, position in (
        (lambda: log.read(0), sealed, 5000),
        (lambda: log.append(b"more"), active, 100),
    ):
        with pytest.raises(CorruptRecordError, match="cut") as raised:
            call()
        assert (raised.value.path, raised.value.position) == (path, position)


# --- maps and parked logs ---------------------------------------------------------------------


def test_a_segment_may_outgrow_its_map(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=10_000)
    log.append(b"x" * 3000)
    assert len(list(log)) == 1  # maps the active segment, with room for 10,000 bytes
    log.configure(LogConfig(segment_bytes=1 << 20))
    for _ in range(30):
        log.append(b"x" * 3000)
    assert len(list(log)) == 31
    log.close()


def test_a_view_may_be_unmapped_while_it_is_being_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"value")
    view = log.segments.views[0]
    map_log = view.opener
    opened = []

    def opener(own: SegmentView) -> None:
        map_log(own)
        opened.append(own)
        if len(opened) == 1:
            own.unmap()  # as another thread's map budget does

    view.opener = opener
    found = SegmentList((view,), 0).read(0)
    assert found is not None
    assert len(found) == view.size
    assert len(opened) == 2
    view.unmap()
    opened.clear()
    assert len(view.all_published()) == view.size
    log.close()


def test_a_log_that_is_parked_often_still_gets_its_index(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=1000)
    for _ in range(50):
        log.append(b"x" * 500)
        log.park()
    log.close()
    assert (tmp_path / f"{FIRST}.index").stat().st_size // 8 >= 15


# --- what a broker left ---------------------------------------------------------------------


def test_a_roll_writes_over_a_snapshot_of_the_same_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"value")
    snapshot = tmp_path / "00000000000000000001.snapshot"
    snapshot.write_bytes(b"left by a roll that failed")
    log.roll()
    assert producer_snapshot.parse(snapshot.read_bytes()) == []
    log.close()


def test_a_truncation_removes_producer_snapshots_beyond_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(10):
        log.append(b"value")
    log.close()
    log = open_log(tmp_path)
    (tmp_path / f"{3:020d}.snapshot").write_bytes(b"belongs to nothing")
    log.truncate_to(5)
    log.append(b"after")
    assert list(tmp_path.glob("*.snapshot")) == []
    log.close()
    assert [path.name for path in tmp_path.glob("*.snapshot")] == [f"{6:020d}.snapshot"]


def test_a_retention_that_overtakes_a_scan_is_reported(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=2000, file_delete_delay_ms=0)
    for _ in range(60):
        log.append(b"x" * 300)
    records = iter(log)
    assert next(records).offset == 0
    log.delete_records(40)
    with pytest.raises(OffsetOutOfRangeError):
        list(records)
    with pytest.raises(
        OffsetOutOfRangeError, match=r"start_offset is 40, .* take view\(40, \.\.\.\)"
    ):
        log.view(0)
    with pytest.raises(OffsetOutOfRangeError, match=r"tail\(3\) is a view of the last"):
        log.view(-3)
    assert list(log.view(7, 7)) == [] == list(log.view(99))  # empty, or still to come
    assert next(iter(log.view())).offset == 40
    log.close()
