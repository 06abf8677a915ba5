"""The complete log: append, read, roll, truncate, reopen, judged by the plain oracle."""

import asyncio
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kstore.errors import (
    ClosedError,
    CorruptRecordError,
    ForkedError,
    InvalidTimestampError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    ReadOnlyError,
    RecordListTooLargeError,
)
from kstore.log.log import Log
from kstore.record import Record
from oracle.files import read_offset_index, read_time_index
from oracle.reader import read_log as oracle_read
from support.damage import write_damaged
from support.logs import log_bytes, open_log, read_log
from support.system import processes


def records_on_disk(directory: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    log = oracle_read(log_bytes(directory))
    return [(r.offset, r.key, r.value) for batch in log.batches for r in batch.records]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "t-0"


def test_appended_records_are_on_disk_in_kafkas_format(directory: Path) -> None:
    log = open_log(directory)
    assert log.append(b"one", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp=5) == 0
    assert log.append(None) == 1
    assert log.extend([b"a", b"b", None]) == range(2, 5)
    assert records_on_disk(directory) == [
        (0, b"k", b"one"),
        (1, None, None),
        (2, None, b"a"),
        (3, None, b"b"),
        (4, None, None),
    ]
    first = oracle_read(log_bytes(directory)).batches[0].records[0]
    assert list(first.headers) == [("h", b"1"), ("n", None)]
    assert first.timestamp == 5
    log.close()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_read_back(directory: Path, compression: str) -> None:
    log = open_log(directory, batch_compression=compression)
    values = [b"value %d " % n * 20 for n in range(500)]
    log.extend(values)
    assert [record.value for record in log] == values
    assert [value for _, _, value in records_on_disk(directory)] == values
    log.close()


def test_records_are_appended_as_they_are(directory: Path) -> None:
    log = open_log(directory)
    given = [Record(9, 77, b"k", b"v", [("h", b"x")]), b"plain"]
    assert log.extend(given, timestamp=1000) == range(2)
    assert [(r.key, r.value, r.timestamp, r.headers) for r in log] == [
        (b"k", b"v", 77, (("h", b"x"),)),
        (None, b"plain", 1000, ()),
    ]


def test_offsets_are_labels(directory: Path) -> None:
    log = open_log(directory)
    log.extend(b"%d" % n for n in range(100))
    assert log[3].value == b"3"
    assert log[-1].value == b"99"
    assert [r.offset for r in log[-3:]] == [97, 98, 99]
    assert [r.offset for r in log[10:20][12:-5]] == [12, 13, 14]
    assert list(log[50:50]) == []
    with pytest.raises(OffsetOutOfRangeError) as caught:
        log[100]
    assert caught.value.offset == 100
    with pytest.raises(TypeError):
        len(log)


def test_rolls_by_size_and_reads_across_segments(directory: Path) -> None:
    log = open_log(directory, segment_bytes=4096)
    log.extend([b"x" * 100] * 10)
    for n in range(200):
        log.append(b"%03d" % n * 30)
    assert len(log.segments) > 5
    assert all(view.size <= 4096 for view in log.segments.views)
    assert [r.offset for r in log] == list(range(210))
    log.close()
    again = open_log(directory, segment_bytes=4096)
    assert (again.start_offset, again.end_offset) == (0, 210)
    assert [r.offset for r in again] == list(range(210))


def test_rolls_by_time_of_the_records(directory: Path) -> None:
    log = open_log(directory, segment_ms=1000)
    for when in (10_000, 10_500, 11_000, 11_001, 12_002, 13_003):
        log.append(b"x", timestamp=when)
    # More than segment.ms after the first append of the segment, not of the previous record.
    assert [view.base_offset for view in log.segments.views] == [0, 3, 4, 5]


def test_rolls_when_the_index_is_full(directory: Path) -> None:
    log = open_log(directory, segment_index_bytes=80, index_interval_bytes=0)
    for n in range(30):
        log.append(b"%d" % n)
    assert len(log.segments) > 2
    for view in log.segments.views:
        assert view.index_count <= 10
    log.close()


def test_index_entries_name_batches(directory: Path) -> None:
    log = open_log(directory, index_interval_bytes=500)
    for n in range(100):
        log.append(b"x" * 90, timestamp=1000 + n)
    assert log.close()
    data = log_bytes(directory)
    batches = {batch.position: batch for batch in oracle_read(data).batches}
    entries = read_offset_index((directory / f"{0:020d}.index").read_bytes())
    assert len(entries) > 15
    for offset, position in entries:
        assert batches[position].last_offset == offset
    times = read_time_index((directory / f"{0:020d}.timeindex").read_bytes())
    assert times[-1] == (1099, 99)
    assert [t - 1000 for t, _ in times] == [offset for _, offset in times]


def test_read_returns_a_slice_from_the_batch_with_the_offset(directory: Path) -> None:
    log = open_log(directory, index_interval_bytes=100)
    for n in range(50):
        log.extend([b"%d-%d" % (n, i) for i in range(3)])
    for offset in range(150):
        read_slice = log.read(offset, 1)
        assert read_slice is not None
        batch = oracle_read(bytes(read_slice)).batches[0]
        assert batch.base_offset <= offset <= batch.last_offset
        assert len(read_slice) == len(bytes(read_slice)) == read_slice.size
    assert log.read(150) is None
    for outside in (-1, 151):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(outside)


def test_a_view_outlives_its_segment(directory: Path) -> None:
    log = open_log(directory, segment_bytes=2048, file_delete_delay_ms=0)
    log.extend([b"x" * 500] * 3)
    log.extend([b"y" * 500] * 3)
    read_slice = log.read(0)
    assert read_slice is not None
    memory = read_slice.memory()
    before = bytes(memory)
    log.delete_records(3)
    assert not (directory / f"{0:020d}.log").exists()
    assert bytes(memory) == before


def test_offset_at_is_the_first_record_at_or_after_a_time(directory: Path) -> None:
    log = open_log(directory, segment_bytes=300, index_interval_bytes=0)
    stamps = [100, 105, 103, 110, 110, 120, 90, 130]
    for stamp in stamps:
        log.append(b"x" * 50, timestamp=stamp)
    for asked in range(80, 140):
        expected = next((n for n, stamp in enumerate(stamps) if stamp >= asked), len(stamps))
        assert log.offset_at(asked) == expected, asked
    when = datetime.fromtimestamp(0.110, UTC)
    assert [r.offset for r in log.since(when)] == [3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="time zone"):
        log.offset_at(datetime(2024, 1, 1))


def test_truncating_removes_complete_batches_and_leaves_a_gap(directory: Path) -> None:
    log = open_log(directory, segment_bytes=1000, index_interval_bytes=0)
    for n in range(20):
        log.extend([b"%d" % n * 50] * 5)
    kept = log.read(60)
    assert kept is not None
    before = bytes(kept)
    assert log.truncate_to(63) == 63  # inside the batch 60..64
    assert log.end_offset == 63
    assert [r.offset for r in log][-1] == 59
    assert bytes(kept) == before  # what was handed out stays readable
    assert log.append(b"next") == 63
    assert log.close()
    assert [offset for offset, _, _ in records_on_disk(directory)] == [*range(60), 63]
    again = open_log(directory, segment_bytes=1000)
    assert again.end_offset == 64
    assert again.truncate_to(99) == 64  # beyond the end
    assert again.truncate_to(0) == 0
    assert (again.start_offset, again.end_offset) == (0, 0)
    assert again.append(b"first") == 0


def test_deleting_records_raises_the_start(directory: Path) -> None:
    log = open_log(directory, segment_bytes=1000, file_delete_delay_ms=0)
    for n in range(30):
        log.append(b"%d" % n * 60)
    assert log.delete_records(17) == 17
    assert log.segments.views[0].base_offset <= 17
    assert [r.offset for r in log] == list(range(17, 30))
    with pytest.raises(OffsetOutOfRangeError):
        log.read(16)
    assert log.delete_records(-1) == 30
    assert list(log) == []
    assert log.append(b"x") == 30
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records(32)


def test_an_append_that_does_not_fit_leaves_the_log_unchanged(directory: Path) -> None:
    log = open_log(directory, max_message_bytes=200, segment_bytes=10_000)
    log.append(b"ok")
    with pytest.raises(MessageTooLargeError):
        log.append(b"x" * 500)
    with pytest.raises(InvalidTimestampError):
        log.append(b"x", timestamp=-5)
    for ms in (-2, -(10**12)):  # -1: none
        with pytest.raises(InvalidTimestampError):
            log.extend([Record(value=b"x", timestamp=ms)])
    with pytest.raises(TypeError):
        log.append("text")
    assert log.append(b"next") == 1
    small = open_log(directory.parent / "t-1", segment_bytes=100)
    with pytest.raises(RecordListTooLargeError):
        small.append(b"x" * 200)
    assert small.end_offset == 0


def test_an_extend_keeps_its_turn(directory: Path) -> None:
    log = open_log(directory)

    def greedy() -> object:
        yield b"a"
        log.extend([b"b"])

    with pytest.raises(RuntimeError, match="same log"):
        log.extend(greedy())
    assert log.append(b"after") == log.end_offset - 1


def test_threads_append_and_read_together(directory: Path) -> None:
    log = open_log(directory, segment_bytes=20_000)
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not done.is_set():
            offsets = [r.offset for r in log]
            if offsets != list(range(len(offsets))):
                wrong.append(offsets)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [
        threading.Thread(target=lambda: [log.append(b"x" * 100) for _ in range(300)])
        for _ in range(3)
    ]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not wrong
    assert [r.offset for r in log] == list(range(900))


def test_following_in_a_thread_and_as_a_coroutine(directory: Path) -> None:
    log = open_log(directory)
    log.append(b"old")
    seen: list[bytes | None] = []

    def follow() -> None:
        for record in log.follow(start=0, timeout=5):
            seen.append(record.value)
            if len(seen) == 3:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    log.append(b"new")
    log.append(b"newer")
    thread.join(10)
    assert seen == [b"old", b"new", b"newer"]

    async def collect() -> list[bytes | None]:
        return [record.value async for record in log.follow(start=1, timeout=0.05)]

    assert asyncio.run(collect()) == [b"new", b"newer"]


def test_a_closed_log_says_so(directory: Path) -> None:
    log = open_log(directory)
    log.append(b"x")
    assert log.close()
    assert log.close()
    for call in (lambda: log.append(b"y"), log.flush, lambda: log.extend([b"y"])):
        with pytest.raises(ClosedError):
            call()


def test_parked_logs_come_back(directory: Path) -> None:
    log = open_log(directory, segment_bytes=1000)
    for _ in range(3):
        log.extend([b"x" * 50] * 20)
        before = len(os.listdir("/proc/self/fd"))
        log.park()
        assert len(os.listdir("/proc/self/fd")) < before
    assert [r.offset for r in log] == list(range(60))
    assert log.close()


def _append_in_child(log: object, queue: "multiprocessing.Queue[str]") -> None:
    try:
        log.append(b"child")
        queue.put("appended")
    except ForkedError as error:
        queue.put(type(error).__name__)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork beside threads: the point here
def test_a_forked_child_is_refused(directory: Path) -> None:
    log = open_log(directory)
    log.append(b"parent")
    context = processes("fork")
    queue = context.Queue()
    child = context.Process(target=_append_in_child, args=(log, queue))
    child.start()
    assert queue.get(timeout=20) == "ForkedError"
    child.join()
    assert log.append(b"parent again") == 1


@pytest.mark.parametrize("own", [True, False])
def test_another_process_sees_what_was_appended(directory: Path, own: bool) -> None:
    writer = open_log(directory, segment_bytes=5000)
    reader = read_log(directory, own=own)
    for n in range(100):
        writer.extend([b"%d" % n * 20] * 3)
        assert reader.end_offset == writer.end_offset
    assert [r.offset for r in reader] == list(range(300))
    assert [r.value for r in reader] == [r.value for r in writer]
    for offset in range(0, 300, 7):
        assert reader[offset] == writer[offset]
    writer.truncate_to(150)
    assert reader.end_offset == 150
    assert [r.offset for r in reader] == list(range(150))
    writer.append(b"x" * 2000)
    assert reader[150].value == b"x" * 2000
    writer.delete_records(100)
    with pytest.raises(ReadOnlyError):
        reader.append(b"x")
    with pytest.raises(ReadOnlyError):
        reader.flush()


def test_a_reader_does_not_see_a_torn_tail(directory: Path) -> None:
    writer = open_log(directory)
    writer.extend([b"x" * 100] * 10)
    reader = read_log(directory)
    assert reader.end_offset == 10
    path = directory / f"{0:020d}.log"
    intact = path.read_bytes()
    batch = bytearray(intact)
    batch[7] = 10  # the same batch again, at offset 10
    for cut in range(1, len(batch)):
        path.write_bytes(intact + bytes(batch[:cut]))
        assert reader.end_offset == 10
        assert len(list(reader)) == 10
    path.write_bytes(intact + bytes(batch))
    assert reader.end_offset == 20


def test_retention_is_off_unless_set(directory: Path) -> None:
    old = 1_000_000_000_000  # 2001
    log = open_log(directory, segment_bytes=1000)
    for n in range(30):
        log.append(b"x" * 90, timestamp=old + n)
    assert log.apply_retention() == 0
    assert log.close()
    before = sorted(path.name for path in directory.iterdir())
    log = open_log(directory, segment_bytes=1000, retention_ms=1000, clock=lambda: old + 1015)
    assert log.apply_retention() > 0
    survivors = [record.offset for record in log]
    assert survivors[0] == log.start_offset > 0
    assert survivors[-1] == 29
    # The oldest survivor's segment holds a record that is young enough.
    assert log.segments.views[0].max_timestamp >= old + 15
    assert log.close()
    assert len(before) > len([p for p in directory.iterdir() if p.suffix != ".deleted"])
    log = open_log(directory, segment_bytes=1000, retention_bytes=2500)
    log.apply_retention()
    assert 2500 <= log.size < 2500 + 1000


def test_a_scan_gives_columns_in_order_whatever_the_threads(directory: Path) -> None:
    log = open_log(directory, segment_bytes=20_000, batch_size=2000)
    values = [b"%d" % n * 7 for n in range(5000)]
    log.extend(values, timestamp=7)
    for threads in (1, 2):
        parts = list(log.view(10, 4990).scan(threads=threads))
        assert [int(o) for part in parts for o in part.offsets] == list(range(10, 4990))
        assert [v for part in parts for v in part.values] == values[10:4990]
    assert log.view(0, 3).to_arrow().column("value").to_pylist() == values[:3]
    chosen = log.view().scan(where=lambda row: row.offset % 1000 == 1)
    assert [int(o) for part in chosen for o in part.offsets] == [1, 1001, 2001, 3001, 4001]


def test_damage_is_raised_with_its_position_or_skipped_and_reported(directory: Path) -> None:
    log = open_log(directory, segment_bytes=4000)
    for n in range(40):
        log.extend([b"%d" % n * 50] * 4)
    read_slice = log.read(60, 1)
    assert read_slice is not None
    data = bytearray(Path(read_slice.path).read_bytes())
    data[read_slice.position + 80] ^= 1
    write_damaged(read_slice.path, data)
    for read in (lambda: list(log), lambda: list(log.view().scan())):
        with pytest.raises(CorruptRecordError) as caught:
            read()
        assert caught.value.path == read_slice.path
        assert caught.value.position == read_slice.position
        assert caught.value.offset == 60
    skipped: list[tuple[object, ...]] = []
    parts = list(log.view().scan(on_damage="skip", skipped=skipped))
    offsets = [int(o) for part in parts for o in part.offsets]
    assert offsets == [n for n in range(160) if not 60 <= n < 64]
    assert [(note[0], note[1], note[3]) for note in skipped] == [
        (read_slice.path, read_slice.position, 60)
    ]
    again: list[tuple[object, ...]] = []
    left = [r.offset for r in log.view().records(on_damage="skip", skipped=again)]
    assert left == offsets
    assert again == skipped


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("read_first", [0, 1, 5])
@pytest.mark.parametrize("opener", [open_log, read_log])
def test_following_raises_for_records_that_were_deleted_before_they_were_read(
    directory: Path, opener: Callable[..., Log], read_first: int, is_async: bool
) -> None:
    with closing(open_log(directory, segment_bytes=300)) as writer:
        writer.extend([b"value"] * 10)
        start = [0]
        log = (
            writer if opener is open_log else read_log(directory, log_start_offset=lambda: start[0])
        )
        follower = log.follow(start=0, timeout=0)

        async def read_async() -> None:
            async for record in follower:
                offsets.append(record.offset)

        def read_rest() -> None:
            if is_async:
                asyncio.run(read_async())
            for record in follower:
                offsets.append(record.offset)

        offsets = [record.offset for record in itertools.islice(follower, read_first)]
        writer.extend([b"value"] * 2000)
        writer.delete_records(1500)
        start[0] = 1500
        with pytest.raises(OffsetOutOfRangeError, match="log starts at offset 1500") as caught:
            read_rest()
        assert offsets == list(range(len(offsets)))
        assert caught.value.offset == len(offsets) < 1500
