"""Every check of a result can fail, ceilings are bare loops, and waits end."""

import fcntl
import itertools
import math
import mmap
import os
import sys
from contextlib import closing

import pytest

from engine.contests import (
    compaction,
    fetch,
    log_read,
    log_stream,
    producer,
    publish,
)
from engine.data import partitions
from kstore._native.bench import memory_loops
from kstore.bench.data import raw_files
from kstore.bench.machine import disk, overwrites, page_cache, sockets
from kstore.bench.peers import availability
from kstore.bench.runner import environment
from kstore.bench.workload import Setting
from kstore.cli import main
from kstore.errors import KStoreError

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")


# --- congestion control -----------------------------------------------------------------------


def refusing(monkeypatch, *names):
    """As for a process without privilege, which may only set what the system allows."""
    real = sockets._refused
    monkeypatch.setattr(
        sockets, "_refused", lambda name: "not permitted" if name in names else real(name)
    )


def test_reno_replaces_a_default_congestion_control_that_is_not_allowed(monkeypatch, tmp_path):
    monkeypatch.delenv("KSTORE_BENCH_CONGESTION", raising=False)
    refusing(monkeypatch, "cubic")
    missing: dict[str, str] = {}
    assert sockets.congestion(missing) == "reno"
    assert missing == {"congestion control cubic": "not permitted: reno instead"}
    availability.missing.clear()
    (tmp_path / "file").write_bytes(bytes(MIB))
    for contest in fetch.sending(None, tmp_path / "file", tmp_path, "copies"):
        assert ", reno, " in contest.name
    assert "congestion control cubic" in availability.missing


@pytest.mark.parametrize("name", ["no-such-control", ""])
def test_a_named_congestion_control_that_is_refused_is_an_error(monkeypatch, name):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", name)
    with pytest.raises(KStoreError, match=f"KSTORE_BENCH_CONGESTION={name}: .* allowed here: "):
        sockets.congestion()


def test_a_named_congestion_control_is_never_replaced(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", "cubic")
    refusing(monkeypatch, "cubic")
    with pytest.raises(KStoreError, match="not permitted"):
        sockets.congestion({})


def test_a_run_with_an_unknown_congestion_control_does_not_start(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", "cubik")
    assert main(["bench", "memory/bandwidth", "--dir", str(tmp_path)]) == 1
    assert "KSTORE_BENCH_CONGESTION=cubik" in capsys.readouterr().err


# --- syncs ------------------------------------------------------------------------------------


def test_batches_of_about_a_mebibyte_are_synced_one_by_one(monkeypatch, tmp_path):
    syncs = []
    records = 6 * log_stream.WIDE.records
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    log_stream.write_raw(tmp_path, records, MIB, log_stream.WIDE)
    assert len(syncs) == 6
    syncs.clear()
    log_stream.write_raw(tmp_path, records, math.inf, log_stream.WIDE)
    assert len(syncs) == 1


# --- results ----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["memory_loops.read_all", "disk_loops.read_at"])
def test_unread_bytes_are_detected(monkeypatch, function):
    monkeypatch.setattr(f"engine.contests.fetch.{function}", lambda *given, **named: 0)
    for contest in fetch.contests():
        if "reads" in contest.name:
            with pytest.raises(AssertionError, match="gave 0, not"):
                contest.check()


def test_the_sum_of_reads_is_the_sum_of_the_file(tmp_path):
    data = os.urandom(8 * 1000 + 3)
    path = tmp_path / "file"
    path.write_bytes(data)
    words = 0
    for at in range(0, len(data), 8):
        words ^= int.from_bytes(data[at : at + 8], "little")
    assert fetch.words_of(path) == words
    assert fetch.from_file(path, fetch.by_first_touch).result == words
    for cut in range(9):
        assert (
            fetch.rotate(0, memory_loops.read_all(data[:cut]))
            ^ fetch.rotate(cut, memory_loops.read_all(data[cut:]))
            == words
        )


def test_reads_of_a_log_agree_with_its_file():
    for contest in fetch.contests():
        contest.check()


# --- ceilings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "leaving"),
    [(producer, ()), (publish, ("confluent_kafka",)), (log_read, ())],
)
def test_kstore_is_never_its_own_ceiling(monkeypatch, made, leaving):
    monkeypatch.setattr("engine.peers.kafka._provider", None)
    monkeypatch.setattr("engine.peers.brokers.why_not", lambda name: "not now")
    monkeypatch.setattr("engine.peers.brokers.why_not_synced", lambda name: "not now")
    for module in leaving:
        monkeypatch.setitem(sys.modules, module, None)
    ceilings = set()
    for contest in made.contests():
        contest.check()
        assert contest.ceiling in contest.calls
        ceilings.add(contest.ceiling)
    bare = ("read", "write", "pwrite", "3 writes", "3 synced writes", "a mapped header")
    assert all(each.startswith(bare) and "_" not in each for each in ceilings), ceilings


def test_the_best_way_to_send_is_the_ceiling(tmp_path):
    for contest in sockets.sends(Setting(tmp_path, MIB, "quick")):
        assert contest.ceiling == ""  # the fastest in the run


def test_load_sums_few_bytes_and_checks_its_bounds(tmp_path):
    data = bytes(range(200))
    for position, size in ((0, 61), (139, 61), (7, 8), (200, 0)):
        expected = memory_loops.read_all(data[position : position + size])
        assert memory_loops.load(data, position, size) == expected
    for position, size in ((140, 61), (-1, 4), (0, -1), (201, 0), (1 << 62, 1 << 62)):
        with pytest.raises(ValueError, match="are outside the memory"):
            memory_loops.load(data, position, size)


# --- what a machine cannot do -----------------------------------------------------------------


def sectors_of(monkeypatch, size):
    """As on a disk with such sectors."""
    real = os.pwritev

    def pwritev(fd, parts, *given):
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT and len(parts[0]) % size:
            raise OSError(22, "Invalid argument")
        return real(fd, parts, *given)

    monkeypatch.setattr(os, "pwritev", pwritev)


def test_blocks_smaller_than_a_sector_are_reported_as_missing(monkeypatch, tmp_path):
    setting = Setting(tmp_path, MIB, "full")
    sectors_of(monkeypatch, 4096)
    direct = next(each for each in disk.SEQUENTIAL if each.name == "O_DIRECT")
    assert "Invalid argument" in disk.Writing(setting, 512).why_not(direct)
    assert list(setting.missing) == ["O_DIRECT, blocks of 512 B"]
    assert disk.Writing(setting, 4096).why_not(direct) == ""
    contest = next(disk.sequential_writes(setting))
    assert contest.name == "sequential writes of 512 B"
    assert not any("O_DIRECT" in name for name in contest.calls)
    contest = next(overwrites.overwrites(setting))
    assert "of 512 B" in contest.name
    assert not any("O_DIRECT" in name for name in contest.calls)
    assert "O_DIRECT over uncached blocks, blocks of 512 B" in setting.missing


def test_cold_reads_that_are_impossible_are_reported_as_missing(monkeypatch, tmp_path):
    setting = Setting(tmp_path, MIB)
    availability.missing.clear()
    monkeypatch.setattr(environment, "mount_of", lambda path: ("none", "/", "tmpfs", "rw"))
    assert list(page_cache.cold_reads(setting)) == []
    assert "tmpfs has its files in memory" in setting.missing["cold reads"]
    assert not any("cold" in contest.name for contest in fetch.contests())
    assert "tmpfs" in availability.missing["cold reads"]
    monkeypatch.setattr(environment, "mount_of", lambda path: ("sda", "/", "ext4", "rw"))
    monkeypatch.setattr(raw_files, "drop", lambda fd: None)  # the cache forgets nothing
    assert list(page_cache.cold_reads(setting)) == []
    assert setting.missing["cold reads"] == "256 of 256 pages stayed in the cache"


def test_huge_pages_that_the_system_does_not_provide_are_reported(monkeypatch, tmp_path):
    for huge in (0, 2 * MIB):
        setting = Setting(tmp_path, MIB)
        monkeypatch.setattr(page_cache, "huge_bytes", lambda mapping, huge=huge: huge)
        *_, contest = page_cache.warm_reads(setting)
        name = "mmap, MADV_HUGEPAGE"
        assert (name in contest.calls) == (huge > 0)
        assert (name in setting.missing) == (huge == 0)


def test_huge_pages_of_other_mappings_are_not_counted():
    smaps = [
        "7f0000000000-7f0000400000 r--s 00000000 08:01 12 /a:b-c\n",
        "Size:               4096 kB\n",
        "AnonHugePages:         0 kB\n",
        "FilePmdMapped:      2048 kB\n",
        "VmFlags: rd sh mr mw me ms\n",
        "7f0000400000-7f0000500000 r--p 00000000 00:00 0\n",
        "AnonHugePages:      1024 kB\n",
    ]
    assert page_cache.huge_in(smaps, 0x7F0000000000) == 2 * MIB
    assert page_cache.huge_in(smaps, 0x7F0000400000) == MIB
    assert page_cache.huge_in(smaps, 0x7F0000500000) == 0
    with mmap.mmap(-1, 4096) as mapping:
        assert page_cache.huge_bytes(mapping) == 0


def test_a_full_run_has_more_durable_writes(monkeypatch, tmp_path):
    monkeypatch.setattr(disk.disk_loops, "write_at", lambda *given, **named: None)
    monkeypatch.setattr(disk, "perf_counter", itertools.count(step=1e-6).__next__)
    quick, full = (
        disk.Writing(Setting(tmp_path, 64 * MIB, level), 4096) for level in ("quick", "full")
    )
    assert quick.synced == 400
    assert full.synced * 9 >= 10_000  # rounds
    names = [contest.name for contest in disk.commits(Setting(tmp_path, 64 * MIB, "full"))]
    assert names[-1] == "the slowest of 10000 durable writes of 4 KiB"
    setting = Setting(tmp_path, MIB, "full")
    assert not any("slowest" in contest.name for contest in disk.commits(setting))
    assert setting.missing["the slowest of durable writes"] == (
        "256 of the 10000 writes that a p99.9 takes"
    )


def test_the_length_of_calls_that_take_turns_is_fixed(monkeypatch, tmp_path):
    """Two installations would probe a disk at different moments, and then do different work."""
    monkeypatch.setattr(disk.disk_loops, "write_at", lambda *given, **named: None)
    clock = itertools.count(step=7.0)
    monkeypatch.setattr(disk, "perf_counter", clock.__next__)
    setting = Setting(tmp_path, 64 * MIB, "quick", in_turns=True)
    assert disk.Writing(setting, 4096).synced == disk.SYNCED_IN_TURN
    assert next(clock) == 0


def test_a_log_of_commits_stays_open_between_rounds(tmp_path):
    """A new store costs more syncs than the commits of a round that is followed by another's."""
    work = disk.Writing(Setting(tmp_path, MIB, in_turns=True), 4096)
    with closing(work.log(preallocate=True)) as log:
        first, second = log.commit(1), log.commit(3)
        (store,) = tmp_path.iterdir()
        segment = store / "commits-0" / "00000000000000000000.log"
        assert segment.read_bytes()[3 * 4096 : 4 * 4096] != bytes(4096)
        assert segment.read_bytes()[4 * 4096 :].strip(b"\0") == b""
    assert first.result == second.result == 4096
    assert [len(each.samples) for each in (first, second)] == [1, 3]
    assert "mean" not in first.also
    assert "mean" in second.also
    assert list(tmp_path.iterdir()) == []


# --- nothing is dirty when the first round begins ---------------------------------------------


@pytest.fixture(name="synced")
def _synced(monkeypatch):
    """Files that were synced."""
    found = set()
    real = os.fsync

    def fsync(fd):
        found.add((os.fstat(fd).st_ino, os.fstat(fd).st_size))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def files_below(directory):
    found = [path.stat() for path in directory.rglob("*") if path.is_file()]
    assert found
    return {(each.st_ino, each.st_size) for each in found if each.st_size}


def test_written_segments_are_synced(synced, tmp_path):
    partitions.write_store(tmp_path, 2, 10, 10_000)
    assert files_below(tmp_path) <= synced


def test_copies_of_partitions_are_synced(synced, tmp_path):
    compaction.write_keyed_store(tmp_path, 100, 3)
    assert files_below(tmp_path) <= synced
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.log").write_bytes(b"x")
    (tmp_path / "made" / "a.index").write_bytes(b"xy")
    log_read.copy_partition(tmp_path, str(tmp_path / "made"))
    assert (
        len(
            synced
            & {(path.stat().st_ino, path.stat().st_size) for path in tmp_path.glob("*/bench-0/*")}
        )
        == 2
    )
