"""Long walks over headers do not hold the GIL; short ones do, which is cheaper.

The kernels count walks in which the thread did not have the GIL, as Python itself says there.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kstore._native.read import segment_end, segment_view
from kstore.log.writable_log import WritableLog
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
