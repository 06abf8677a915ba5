"""Walks over headers that are long, or over pages that may not be in memory, do not hold the GIL.

Others do, which is cheaper. The kernels count walks in which the thread did not have the GIL, as
Python itself says there, and loads of pages, which are without it.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstore._native.files import file_map
from kstore._native.read import segment_end, segment_view
from kstore._native.read.segment_view import Slice
from kstore.log.writable_log import WritableLog
from support.cold_pages import drop_pages, require_dropped
from support.logs import open_log

SHORT_WALK = 65536  # bytes, as in header_walk.pxd
NOW = 1_700_000_000_000
VALUE = b"v" * 100
COUNT = 2000  # batches of 170 bytes


def sparse(folder: Path, interval: int) -> WritableLog:
    """A log whose active segment has an index entry after each ``interval`` bytes."""
    log = open_log(folder, index_interval_bytes=interval)
    for number in range(COUNT):
        log.append(VALUE, timestamp=NOW + number)
    return log


@pytest.fixture
def log(tmp_path: Path) -> WritableLog:
    return sparse(tmp_path / "t-0", 1 << 30)


@pytest.fixture
def indexed(tmp_path: Path) -> WritableLog:
    return sparse(tmp_path / "t-1", 4096)


def walks(read: Callable[[], object]) -> int:
    """How many walks of a call did not hold the GIL."""
    before = segment_view.walks_without_gil() + segment_end.walks_without_gil()
    read()
    return segment_view.walks_without_gil() + segment_end.walks_without_gil() - before


def first(log: WritableLog, offset: int) -> int:
    found = log.read(offset, 1)
    assert found is not None
    return segment_end.find_end(found, 0, offset, True)[1] - 1


def test_the_way_to_an_offset(log: WritableLog) -> None:
    assert log.size > 4 * SHORT_WALK
    assert walks(lambda: log.read(COUNT - 1, 1)) == 1
    assert first(log, COUNT - 1) == COUNT - 1


def test_a_short_way_holds_the_gil(indexed: WritableLog) -> None:
    for offset in (0, 1, COUNT // 2, COUNT - 1):
        assert walks(partial(indexed.read, offset, 1)) == 0
        assert first(indexed, offset) == offset


@pytest.mark.parametrize("up_to", [COUNT // 2, COUNT - 1])
def test_the_end_of_a_slice(log: WritableLog, up_to: int) -> None:
    sizes: list[int] = []

    def read() -> None:
        found = log.read(0, 1 << 20, up_to=up_to)
        assert found is not None
        sizes.append(len(found))

    complete = log.read(0, 1 << 20)
    assert complete is not None
    assert walks(read) >= 1
    assert sizes == [len(complete) * up_to // COUNT]


def test_the_end_of_a_slice_near_an_index_entry(indexed: WritableLog) -> None:
    assert walks(lambda: indexed.read(0, 1 << 20, up_to=COUNT // 2)) == 0
    assert walks(lambda: indexed.read(0, 5 * SHORT_WALK // 2, up_to=COUNT - 1)) == 1


def test_lookups_by_time(log: WritableLog) -> None:
    assert walks(lambda: log.offset_at(NOW + COUNT - 2)) >= 1
    assert log.offset_at(NOW + COUNT - 2) == COUNT - 2


def test_walks_over_bytes() -> None:
    short, long = bytes(SHORT_WALK), bytes(SHORT_WALK + 1)
    assert walks(lambda: segment_end.find_end(short, 0, 0, True)) == 0
    assert walks(lambda: segment_end.find_end(long, 0, 0, True)) == 1
    assert walks(lambda: segment_end.find_end(long, 1, 0, True)) == 0
    assert walks(lambda: segment_end.find_largest_time(short, 0)) == 0
    assert walks(lambda: segment_end.find_largest_time(long, 0)) == 1


# --- pages that are not in memory -----------------------------------------------------------------


def forget_pages(log: WritableLog, number: int = -1) -> Slice:
    """Drop a segment's pages from memory; returns all of its bytes, which no walk has touched."""
    log.flush()
    view = log.segments[number]
    view.unmap()
    view.opener(view)  # reads the last bytes of a rolled segment
    drop_pages(view.path)
    data = view.all_published()
    require_dropped(data.is_resident(data.size // 2, 1))
    return data


def loads(read: Callable[[], object]) -> int:
    """How many times a call has loaded pages, without the GIL."""
    before = file_map.load_count()
    read()
    return file_map.load_count() - before


@pytest.mark.parametrize("is_rolled", [False, True])
def test_the_first_pages_of_a_walk_are_loaded(indexed: WritableLog, is_rolled: bool) -> None:
    if is_rolled:
        indexed.roll()
    data = forget_pages(indexed, 0)
    half = data.size // 2
    assert loads(partial(indexed.read, COUNT // 2, 1)) == 1
    assert data.is_resident(half, 4096)
    assert loads(partial(indexed.read, COUNT // 2, 1)) == 0
    assert first(indexed, COUNT // 2) == COUNT // 2


def test_an_active_segment_of_an_earlier_process(tmp_path: Path) -> None:
    sparse(tmp_path / "t-2", 4096).close()
    log = open_log(tmp_path / "t-2", index_interval_bytes=4096)
    forget_pages(log)
    assert loads(partial(log.read, COUNT // 2, 1)) == 1
    assert first(log, COUNT // 2) == COUNT // 2


def test_a_walk_beyond_the_loaded_pages(log: WritableLog) -> None:
    near = SHORT_WALK // 2 // (log.size // COUNT)
    assert walks(lambda: log.read(near, 1)) == 0
    forget_pages(log)
    assert walks(lambda: log.read(near, 1)) == 1
    assert first(log, near) == near
    log.segments[-1].all_published().load()
    assert walks(lambda: log.read(near, 1)) == 0


def test_an_index_entry_that_is_not_used(indexed: WritableLog) -> None:
    """The walk begins at another entry than the one whose pages were loaded first."""
    view = indexed.segments[-1]
    size = view.size // COUNT
    entries = b"".join(
        number.to_bytes(4, "big") + (at * size).to_bytes(4, "big")
        for number, at in ((10, 10), (1000, 1001))  # the second one is wrong
    )
    view.load_entries(entries, b"")
    data = forget_pages(indexed)
    assert loads(partial(indexed.read, 1000, 1)) == 2
    assert data.is_resident(10 * size, 4096)
    assert first(indexed, 1000) == 1000


def test_the_end_of_a_slice_that_is_not_in_memory(log: WritableLog) -> None:
    data = forget_pages(log)
    up_to = SHORT_WALK // 2 // (data.size // COUNT)

    def limit() -> None:
        found = data.limit(1 << 20, up_to, True)
        assert found is not None
        assert found.size == data.size // COUNT * up_to

    assert walks(limit) == 1
    data.load()
    assert walks(limit) == 0


@pytest.mark.parametrize("first_byte", [None, 0, 1])
@pytest.mark.parametrize("does_time", [False, True])
def test_walks_over_mapped_bytes(log: WritableLog, first_byte: int | None, does_time: bool) -> None:
    """Of a slice, and of a memoryview, which need not begin with a page."""
    data = forget_pages(log)
    size = data.size // COUNT
    number = COUNT - SHORT_WALK // 2 // size
    mapped: Any = data if first_byte is None else memoryview(data)[first_byte:]
    start = number * size - (first_byte or 0)

    def walk() -> None:
        if does_time:
            assert segment_end.find_largest_time(mapped, start)[3] == COUNT - 1
        else:
            assert segment_end.find_end(mapped, start, number, False)[1] == COUNT

    assert walks(walk) == 1
    data.load()
    assert walks(walk) == 0


def questions(read: Callable[[], object]) -> int:
    before = file_map.question_count()
    read()
    return file_map.question_count() - before


@pytest.mark.parametrize("is_rolled", [False, True])
def test_hot_reads_ask_once_a_second_for_a_block(indexed: WritableLog, is_rolled: bool) -> None:
    def read() -> None:
        for offset in range(0, COUNT, 3):
            assert indexed.read(offset, 1, up_to=COUNT - 1) is not None

    if is_rolled:
        indexed.roll()
    assert 1 <= questions(read) < COUNT // 3 // 4


def test_reads_of_new_records_do_not_ask(indexed: WritableLog) -> None:
    def follow() -> None:
        for number in range(COUNT, COUNT + 200):
            indexed.append(VALUE, timestamp=NOW + number)
            assert indexed.read(number, 1) is not None

    indexed.read(COUNT - 1, 1)
    started = time.monotonic()
    assert questions(follow) <= 2 * (time.monotonic() - started + 1)
