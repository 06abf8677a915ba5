"""``kstore bench verdict``: the measurements behind the verdict."""

import os

import numpy as np
import pytest

from kstore._native.bench import disk_loops
from kstore.bench import suite
from kstore.bench.machine import durable_stream, figures, log_figures
from kstore.bench.machine.durable_stream import BLOCK, is_steady, rates
from kstore.bench.measurement import Measurement
from kstore.bench.runner import environment
from kstore.bench.runner.rounds import NO_TIME
from kstore.bench.workload import Setting, Workload
from support.clock import Clock

MIB = 1 << 20


@pytest.fixture(name="clock")
def _clock(monkeypatch):
    clock = Clock(0.0)
    for module in (log_figures, suite):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


# --- a rate that is steady ------------------------------------------------------------------


def points(*speeds):
    """Syncs a tenth of a second apart, while a second of each of the speeds passes."""
    made = [(0.0, 0)]
    for speed in speeds:
        for _ in range(10):
            made.append((made[-1][0] + 0.1, made[-1][1] + speed // 10))
    return made


def test_rates_are_those_of_equal_windows():
    assert rates(points(100, 200, 400), 3) == pytest.approx([100, 200, 400])
    assert rates([(0.0, 0)]) == []
    assert len(rates([(0.0, 0), (1.0, 5), (2.0, 9)])) == 2  # no more than syncs


@pytest.mark.parametrize(
    ("speeds", "steady"),
    [
        ([100] * 8, True),
        ([900, 900, 100, 100, 100, 100, 100, 100], True),  # the buffers were full after 2 s
        ([900, 900, 900, 900, 900, 100, 100, 100], False),
        ([900, 800, 700, 600, 500, 400, 300, 200], False),
        ([100, 100, 100, 100, 200, 200, 200, 200], True),  # it rises
        ([100, 95, 100, 105, 95, 100, 105, 100], True),
    ],
)
def test_a_rate_that_still_falls_is_not_sustained(speeds, steady):
    made = log_figures.sustained_figure(figures.SUSTAINED_WRITE, points(*speeds), "")
    assert made.sustained is steady
    assert ("still falling" in made.note) is not steady


def test_the_sustained_rate_is_that_of_the_later_half():
    made = log_figures.sustained_figure(
        figures.SUSTAINED_WRITE, points(900, 900, 100, 100, 100, 100, 100, 100), ""
    )
    assert made.value == pytest.approx(100)
    assert made.interval == pytest.approx((100, 100))


def test_stalls_are_in_the_sustained_rate():
    """A disk that stands still for a third of the time takes two thirds of its rate."""
    made = log_figures.sustained_figure(
        figures.SUSTAINED_WRITE, points(*[300, 300, 300, 0] * 6), ""
    )
    assert made.value == pytest.approx(200)
    assert made.interval[0] < 200 < made.interval[1]
    assert made.interval[1] < 300


def test_few_syncs_cannot_show_that_a_rate_is_sustained():
    assert not is_steady([100.0] * 5)
    made = log_figures.sustained_figure(figures.SUSTAINED_WRITE, points(100)[:4], "")
    assert (made.sustained, made.interval) == (False, None)
    assert "too few syncs to say" in made.note


def test_only_synced_bytes_are_counted(tmp_path, monkeypatch):
    synced = []

    def fdatasync(fd):
        synced.append(os.fstat(fd).st_size)

    monkeypatch.setattr(durable_stream.os, "fdatasync", fdatasync)
    with durable_stream.durable_stream(tmp_path / "log", 20 * MIB) as stream:
        while stream.sync():
            assert len(synced) == len(stream.points) - 1
            assert stream.durable <= synced[-1]
            assert stream.written - stream.durable <= durable_stream.MOST_AHEAD + BLOCK
    assert stream.durable == 20 * MIB == (tmp_path / "log").stat().st_size
    assert [size for _, size in stream.points] == sorted(size for _, size in stream.points)


@pytest.mark.parametrize(
    ("busy", "alone", "is_limit"), [(0.9, 9, True), (0.9, 1, False), (0.4, 9, False)]
)
def test_the_writer_is_the_limit_if_it_is_busy_and_syncs_alone_are_faster(
    tmp_path, monkeypatch, busy, alone, is_limit
):
    """Both take part: a disk with a full cache syncs faster alone, and then the writer waits."""
    monkeypatch.setattr(log_figures, "in_memory", lambda directory: "")
    monkeypatch.setattr(log_figures, "share_of_later_half", lambda points, seconds: busy)
    monkeypatch.setattr(
        log_figures,
        "sustained_figure",
        lambda name, points, note: figures.Figure(name, 100.0),
    )
    monkeypatch.setattr(log_figures, "rate_of_sync", lambda path: alone * 100.0)
    written, disk = log_figures.take_sustained(tmp_path / "log", 4 * MIB, 1.0)
    assert written.value == 100.0
    assert disk.value == (alone * 100.0 if is_limit else None)
    assert ("calls took 90% of the time" in disk.note) is is_limit


def test_the_time_of_the_calls_of_a_writer_is_kept_beside_its_points(tmp_path, monkeypatch):
    clock = Clock(0.0)

    def pwrite(fd, block, position):
        clock.now += 0.25
        return BLOCK

    def fdatasync(fd):
        with stream._changed:
            stream._changed.wait_for(lambda: stream._ended)

    monkeypatch.setattr(durable_stream, "perf_counter", clock)
    monkeypatch.setattr(durable_stream.os, "pwrite", pwrite)
    monkeypatch.setattr(durable_stream.os, "fdatasync", fdatasync)
    stream = durable_stream.DurableStream(tmp_path / "log", 2 * MIB)
    while stream.sync():
        pass
    stream.close()
    assert stream.write_calls[-1] == 0.5
    assert len(stream.write_calls) == len(stream.points)


def test_the_share_of_work_is_that_of_the_later_half():
    made = [(float(n), n) for n in range(9)]
    assert durable_stream.share_of_later_half(made, [0, 1, 2, 3, 4, 4, 4, 5, 5]) == 0.25
    assert durable_stream.share_of_later_half([(0.0, 0)], [0.0]) == 0.0


def test_a_sync_alone_is_timed_without_its_writes(tmp_path, monkeypatch):
    clock = Clock(0.0)

    def write_at(fd, block, positions):
        clock.now += 50.0
        os.ftruncate(fd, int(positions[-1]) + BLOCK)

    def fdatasync(fd):
        clock.now += 2.0

    monkeypatch.setattr(log_figures, "perf_counter", clock)
    monkeypatch.setattr(log_figures.disk_loops, "write_at", write_at)
    monkeypatch.setattr(log_figures.os, "fdatasync", fdatasync)
    assert log_figures.rate_of_sync(tmp_path / "synced") == log_figures.SYNCED / 2.0
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_fails_ends_the_stream(tmp_path, monkeypatch):
    def full(fd, block, position):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(durable_stream.os, "pwrite", full)
    with (
        pytest.raises(OSError, match="no space"),
        durable_stream.durable_stream(tmp_path / "log", 20 * MIB) as stream,
    ):
        stream.sync()


# --- rounds and percentiles -------------------------------------------------------------------


def test_the_first_round_is_a_warm_up_and_the_last_one_ends_in_time(clock):
    speeds = iter([1.0, 7.0, 8.0, 9.0])

    def take():
        clock.now += 2.0
        return next(speeds)

    assert log_figures.rounds_within(7.0, take) == [7.0, 8.0]
    assert clock.now == 6.0


def test_a_measurement_has_no_more_rounds_than_planned(clock):
    assert len(log_figures.rounds_within(100.0, lambda: 1.0, most=4)) == 4


def test_fewer_than_five_rounds_have_no_interval():
    four = log_figures.figure_of(figures.CACHED_READ, [1.0, 2.0, 3.0, 4.0])
    five = log_figures.figure_of(figures.CACHED_READ, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert (four.value, four.rounds, four.interval) == (2.5, 4, None)
    assert five.interval is not None
    none = log_figures.figure_of(figures.CACHED_READ, [])
    assert (none.value, none.note) == (None, log_figures.TIME_UP)


def test_percentiles_of_commits_are_exact():
    samples = np.random.default_rng(1).permutation(np.arange(1, 10_001))
    p50, p99, mean, slowest = log_figures.commit_figures(samples, "")
    assert p99.share == 99.0
    assert mean.value == pytest.approx(5000.5e-9)
    assert p50.value == pytest.approx(5001e-9)
    assert p99.value == pytest.approx(9901e-9)
    assert slowest.value == pytest.approx(10_000e-9)
    assert slowest.interval is None
    for each in (p50, p99):
        assert each.interval is not None
        assert each.interval[0] <= each.value <= each.interval[1]


@pytest.mark.parametrize(
    ("count", "share"), [(1000, 99.0), (999, 98.0), (740, 98.0), (60, 83.0), (21, 52.0), (20, 50.0)]
)
def test_the_tail_of_few_commits_is_the_highest_percentile_with_ten_beyond(count, share):
    samples = np.arange(1, count + 1)
    _, tail, _, slowest = log_figures.commit_figures(samples, "")
    assert (tail.share, slowest.value) == (share, pytest.approx(count * 1e-9))
    assert (samples * 1e-9 > tail.value).sum() >= 9


def test_too_few_commits_have_only_their_mean():
    p50, tail, mean, _ = log_figures.commit_figures(np.arange(1, 20), "")
    assert (p50.value, tail.value, mean.value) == (None, None, 1e-8)
    assert "19 commits are too few" in tail.note
    assert [each.value for each in log_figures.commit_figures(np.arange(0), "")] == [None] * 4


def test_the_first_commits_are_a_warm_up(tmp_path, monkeypatch, clock):
    calls = []

    def write_at(fd, memory, positions, *, sync_every, each):
        calls.append(positions)
        clock.now += 1.0
        each[:] = 1000 if len(calls) > 1 else 9000
        assert sync_every == 1

    monkeypatch.setattr(log_figures.disk_loops, "write_at", write_at)
    p50, _, _, slowest = log_figures.take_commits(tmp_path, 4.5)
    assert (p50.value, slowest.value) == (1e-6, 1e-6)
    assert p50.rounds == 4 * log_figures.COMMITS_AT_ONCE
    assert len(set(np.concatenate(calls).tolist())) == 5 * log_figures.COMMITS_AT_ONCE


# --- reads ------------------------------------------------------------------------------------


def test_catch_up_reads_read_no_byte_twice(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(bytes(40 * MIB))
    asked = []

    def read_at(fd, buffer, positions):
        asked.extend(positions.tolist())
        return 0

    monkeypatch.setattr(log_figures, "in_memory", lambda directory: "")
    monkeypatch.setattr(log_figures, "kept_pages", lambda fd, size: "")
    monkeypatch.setattr(log_figures.disk_loops, "read_at", read_at)
    (made,) = log_figures.take_catch_up(path, 10.0)
    assert made.rounds == log_figures.ROUNDS
    assert len(set(asked)) == len(asked)
    assert max(asked) + BLOCK <= 40 * MIB


def test_files_in_memory_have_no_catch_up_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(log_figures, "in_memory", lambda directory: "tmpfs")
    (made,) = log_figures.take_catch_up(tmp_path / "log", 10.0)
    assert made.value is None
    assert "tmpfs has its files in memory" in made.note


def test_cached_reads_exceed_the_caches_or_say_that_they_do_not():
    gib = 1 << 30
    assert log_figures.cached_size(4 * gib, gib // 2, 16 * gib) == (gib, "1074 MB")
    size, note = log_figures.cached_size(gib // 4, gib // 2, 16 * gib)
    assert size == gib // 4
    assert "caches may hold" in note
    size, note = log_figures.cached_size(4 * gib, gib // 2, 2 * gib)
    assert size == gib // 2
    assert "caches may hold" in note


@pytest.mark.parametrize(
    ("text", "size"), [("491520K", 480 << 20), ("2M", 2 << 20), ("", 0), ("odd", 0), ("12", 12)]
)
def test_cache_sizes_of_sysfs_are_parsed(text, size):
    assert environment.cache_size(text) == size


def test_a_tail_reader_reads_what_was_just_written(tmp_path, monkeypatch):
    asked = []

    def read_at(fd, buffer, positions):
        found = disk_loops.read_at(fd, buffer, positions)
        asked.append((int(positions[0]), int(positions[-1]), stream.written))
        return found

    monkeypatch.setattr(
        log_figures, "disk_loops", type("Loops", (), {"read_at": staticmethod(read_at)})
    )
    with durable_stream.durable_stream(tmp_path / "log", 40 * MIB) as stream:
        reader = log_figures.TailReader(stream)
        reader.start()
        while stream.sync():
            pass
        while len(reader.points) < 3:
            reader._stopped.wait(0.001)
        reader.stop()
    assert all(last < now for _, last, now in asked)
    assert all(last - first < log_figures.TAIL for first, last, _ in asked)


# --- a run ------------------------------------------------------------------------------------


def workload(*made):
    return Workload(
        group="verdict",
        name="log",
        about="",
        ceiling="",
        sizes=(MIB,) * 3,
        measurements=lambda setting: iter(made),
        copies=0,
    )


def test_a_measurement_that_fails_has_a_reason_and_the_others_continue(tmp_path, clock):
    def fails(seconds):
        raise OSError("no")

    def works(seconds):
        return [figures.Figure(figures.NETWORK_SEND, 1.0)]

    tree = suite.Suite(
        [
            workload(
                Measurement("a", (figures.TAIL_READ, figures.TAIL_WRITE), fails, 0.5),
                Measurement("b", (figures.NETWORK_SEND,), works, 0.5),
            )
        ],
        tmp_path,
        "quick",
    ).run()
    found = figures.of_tree(tree)
    assert found[figures.TAIL_READ].note == found[figures.TAIL_WRITE].note == "OSError: no"
    assert found[figures.NETWORK_SEND].value == 1.0
    assert tree["failed"] == [{"workload": "verdict/log", "reason": "a: OSError: no"}]


def test_measurements_keep_to_the_time_of_the_run(tmp_path, clock):
    given = []

    def slow(seconds):
        given.append(seconds)
        clock.now += 70.0
        return [figures.Figure(figures.TAIL_READ, 1.0)]

    names = (figures.TAIL_READ, figures.NETWORK_SEND, figures.CACHED_READ)
    made = [Measurement(name, (name,), slow, 0.5) for name in names]
    tree = suite.Suite([workload(*made)], tmp_path, "quick").run()
    assert given == [50.0, 30.0]
    assert figures.of_tree(tree)[figures.CACHED_READ].note == NO_TIME


def test_every_measurement_reports_its_figures(tmp_path, monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.01")
    setting = Setting(tmp_path, 24 * MIB, "quick")
    made = list(log_figures.measurements(setting))
    assert sum(each.part for each in made) == pytest.approx(1.0)
    found = []
    for each in made:
        figures_of_it = each.take(0.5)
        assert tuple(one.name for one in figures_of_it) == each.figures
        found += figures_of_it
    assert [each.name for each in found if each.value is None and not each.note] == []
    assert sorted(each.name for each in found) == sorted(figures.UNITS)
    kept = figures.of_tree({"figures": figures.as_tree(found)})
    assert kept[figures.SUSTAINED_WRITE].value > 0
