"""``kstore bench disk/random``: which blocks are written, and what the kernel reads for it."""

from pathlib import Path

import numpy as np
import pytest

from kstore._native.bench import disk_loops
from kstore.bench.machine import disk, overwrites, sizes
from kstore.bench.machine.overwrites import CACHED, FRESH, ORDERS, UNCACHED, WAYS, Overwriting, Way
from kstore.bench.runner.environment import in_memory
from kstore.bench.workload import Setting

MIB = 1 << 20
PAGE = 4096


def io_counters():
    """Bytes that this process had read from disks and will write to them."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    found = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
    return found["read_bytes"], found["write_bytes"]


@pytest.fixture(name="counted")
def _counted(monkeypatch):
    """The bytes read and written by the timed loops, one pair a loop, and their positions."""
    loops, asked = [], []

    def write_at(fd, block, positions, **options):
        before = io_counters()
        disk_loops.write_at(fd, block, positions, **options)
        after = io_counters()
        loops.append((after[0] - before[0], after[1] - before[1]))
        asked.append(positions)

    loops_of = type("Loops", (), {"write_at": staticmethod(write_at)})
    for module in (overwrites, disk):
        monkeypatch.setattr(module, "disk_loops", loops_of)
    return loops, asked


@pytest.fixture(name="on_disk")
def _on_disk(tmp_path):
    if in_memory(tmp_path):
        pytest.skip("files in memory are not read from a disk")
    return tmp_path


@pytest.mark.parametrize(("state", "is_read"), [(CACHED, False), (UNCACHED, True), (FRESH, False)])
@pytest.mark.parametrize("order", ORDERS)
def test_only_uncached_blocks_smaller_than_a_page_are_read(on_disk, counted, state, is_read, order):
    loops, asked = counted
    work = Overwriting(Setting(on_disk, 8 * MIB), 512)
    loops.clear()
    for _ in range(2):
        work.write(Way(state), order)
    pages = len(np.unique(asked[-1] // PAGE))
    for read, written in loops:
        assert written >= pages * PAGE
        assert read >= pages * PAGE if is_read else read < pages * PAGE / 10


@pytest.mark.parametrize("state", [CACHED, UNCACHED, FRESH])
def test_blocks_of_a_page_are_never_read(on_disk, counted, state):
    loops, asked = counted
    work = Overwriting(Setting(on_disk, 8 * MIB), PAGE)
    loops.clear()
    work.write(Way(state), ORDERS[1])
    ((read, written),) = loops
    assert written >= len(asked[-1]) * PAGE
    assert read < written / 10


def test_sequential_writes_over_zeros_read_nothing(on_disk, counted):
    loops, _ = counted
    work = disk.Writing(Setting(on_disk, 8 * MIB), 512)
    method = next(each for each in disk.SEQUENTIAL if each.name == "write over zeros")
    loops.clear()
    work.write(method, work.positions(method))
    ((read, written),) = loops
    assert written >= 8 * MIB
    assert read < written / 10


def test_both_orders_have_the_same_blocks(tmp_path, counted):
    loops, asked = counted
    for contest in overwrites.overwrites(Setting(tmp_path, 4 * MIB, "default")):
        for ordered, unordered, _ in contest.bars:
            asked.clear()
            contest.calls[ordered]()
            contest.calls[unordered]()
            one, other = (positions.tolist() for positions in asked)
            assert one == sorted(one)
            assert set(one) == set(other)
            assert len(set(one)) == len(one)
            assert one != other or len(one) == 1
    assert loops


def test_the_blocks_are_scattered_over_the_file(tmp_path):
    work = Overwriting(Setting(tmp_path, 4 * MIB), 4096)
    ordered = work.orders[ORDERS[0]]
    assert len(ordered) <= 4 * MIB // 4096 // overwrites.PART
    assert ordered[-1] - ordered[0] > 2 * MIB


def test_every_way_has_another_name():
    names = [way.name for way in WAYS]
    assert len(set(names)) == len(names)
    assert "O_DIRECT over uncached blocks" in names


@pytest.mark.parametrize(
    ("speed", "size"),
    [(100 * MIB, 25 * MIB), (10_000 * MIB, 256 * MIB), (1, 4 * MIB)],
)
def test_a_contest_has_as_many_bytes_as_its_time_allows(tmp_path, monkeypatch, speed, size):
    monkeypatch.setattr(sizes, "_written_per_second", lambda setting: speed)
    setting = Setting(tmp_path, 256 * MIB, seconds=22.5)
    assert sizes.fitted(setting, 10, 5).size == size  # 60 calls, a third of their time untimed
    assert sizes.fitted(Setting(tmp_path, 256 * MIB), 10, 5).size == 256 * MIB


def test_the_speed_of_the_disk_is_measured(tmp_path):
    assert sizes._written_per_second(Setting(tmp_path, 4 * MIB)) > 0
    assert list(tmp_path.iterdir()) == []
