"""``kstore bench page-cache`` and ``memory``: what is timed, and how large the memory is."""

import os

import pytest

from kstore.bench.machine import memory, page_cache
from kstore.bench.workload import Setting


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, 1 << 20, "quick")


def test_buffers_are_made_outside_the_timed_section(setting, monkeypatch):
    for contest in page_cache.warm_reads(setting):
        contest.check()
        with monkeypatch.context() as patch:
            patch.setattr(page_cache, "block_of", lambda size: pytest.fail("made a buffer"))
            contest.check()


def opened_in(call, monkeypatch):
    """How many files a contestant opens and maps within its call."""
    found = {"open": 0, "mmap": 0}
    real_open, real_mmap = os.open, page_cache.mmap.mmap

    def open_file(*given, **options):
        found["open"] += 1
        return real_open(*given, **options)

    def map_file(*given, **options):
        found["mmap"] += 1
        return real_mmap(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_file)
        patch.setattr(page_cache.mmap, "mmap", map_file)
        call()
    return found


def test_all_contestants_of_warm_reads_open_the_file_in_their_time_or_none_does(
    setting, monkeypatch
):
    seen = set()
    for contest in page_cache.warm_reads(setting):
        if contest.unit != "B":
            continue  # times itself
        contest.check()  # makes the buffers
        counts = {name: opened_in(call, monkeypatch) for name, call in contest.calls.items()}
        opens = {found["open"] for found in counts.values()}
        assert opens == ({1} if "opened and closed" in contest.name else {0})
        for name, found in counts.items():
            is_mapped = opens == {1} and name.startswith("mmap")
            assert found["mmap"] == is_mapped, (name, found)
        seen |= opens
    assert seen == {0, 1}


def test_random_warm_reads_are_timed_without_opening(setting, monkeypatch):
    times = []

    def clock():
        times.append(len(opens))
        return float(len(times))

    opens = []
    real = os.open
    contest = next(each for each in page_cache.warm_reads(setting) if each.unit == "reads")
    monkeypatch.setattr(page_cache, "perf_counter", clock)
    monkeypatch.setattr(os, "open", lambda *given: opens.append(1) or real(*given))
    contest.calls["pread"]()
    assert times == [1, 1]  # the file was open when the clock started


def test_no_warm_read_names_a_ceiling_that_could_be_passed(setting):
    for contest in page_cache.warm_reads(setting):
        assert contest.ceiling == ""
        assert contest.unchecked == frozenset()


@pytest.mark.parametrize(("cache", "may_hold"), [(2 << 20, True), (1 << 19, False), (0, False)])
def test_warm_reads_that_fit_into_the_caches_are_labelled_so(setting, monkeypatch, cache, may_hold):
    monkeypatch.setattr(page_cache, "last_level_cache", lambda: cache)
    contest = next(page_cache.warm_reads(setting))
    assert contest.name.endswith("which caches may hold") == may_hold


GIB = 1 << 30


@pytest.mark.parametrize(
    ("size", "cache", "available", "expected"),
    [
        (GIB, GIB // 4, 8 * GIB, (GIB, "")),
        (GIB // 2, 480 << 20, 8 * GIB, (960 << 20, "")),
        (GIB // 2, 480 << 20, 2 * GIB, (GIB // 2, " that the cache of 480 MiB may hold")),
        (GIB // 2, 0, 8 * GIB, (GIB // 2, " beside caches of unknown size")),
    ],
)
def test_memory_is_larger_than_the_caches_or_the_name_says_so(size, cache, available, expected):
    assert memory.memory_size(size, cache, available) == expected


def test_items_are_in_memory_larger_than_the_cache(setting, monkeypatch):
    monkeypatch.setattr(memory, "last_level_cache", lambda: 2 << 20)
    monkeypatch.setattr(memory, "available_memory", lambda: GIB)
    contest = next(memory.items(setting))
    assert "in 4 MiB of memory, and" in contest.name
    monkeypatch.setattr(memory, "available_memory", lambda: 8 << 20)
    contest = next(memory.items(setting))
    assert "in 1 MiB of memory that the cache of 2 MiB may hold, and" in contest.name
