"""What keeps figures honest: turns, targets, hot caches, two cores, memory, programs by name."""

import os
import signal
from array import array

import pytest

from kstore._native import limits, limits_disk
from kstore.bench import (
    log_append,
    log_read,
    log_stream,
    peers,
    programs,
    results,
    servers,
    sockets,
    suite,
    table,
)
from kstore.bench.contest import Contest, Timed
from kstore.bench.contests import growth
from kstore.bench.disk import SEQUENTIAL, Writing
from kstore.bench.raw_files import opened
from kstore.bench.runner import report, run
from kstore.bench.workload import Setting, workloads
from kstore.cli import main


def test_another_contestant_begins_each_round():
    order = []

    def note(name):
        order.append(name)
        return Timed(1.0)

    calls = {name: lambda name=name: note(name) for name in "abc"}
    contest = Contest(name="a", calls=calls, rounds=4)
    run(contest)
    assert "".join(order[-12:]) == "abcbcacababc"


def test_a_target_is_never_the_ceiling():
    calls = {"wanted": lambda: Timed(0.1), "ours": lambda: Timed(1.0), "raw": lambda: Timed(0.5)}
    contest = Contest(name="a", calls=calls, rounds=2, targets=frozenset(["wanted"]))
    assert run(contest).ceiling == "raw"


def test_a_further_figure_that_is_a_percentile_is_no_rate():
    result = {"unit": "records", "amount": 1}
    assert table.figure({"name": "kstore ack p99", "median": 0.01}, result) == "10 ms"
    assert table.figure({"name": "kstore reader", "median": 0.01}, result) == "100  records/s"


def test_a_tail_is_kept_of_rounds_with_enough_samples():
    def call(count):
        return Timed(1.0, samples=range(1, count + 1))

    counts = {"few": 999, "many": 1000, "less": 9999, "more": 10_000}
    calls = {name: lambda count=count: call(count) for name, count in counts.items()}
    times = run(Contest(name="a", calls=calls), rounds=2).times
    assert times["many p99"] == [991e-9, 991e-9]
    assert "few p99" not in times
    assert times["more p99.9"] == [9991e-9, 9991e-9]
    assert "less p99.9" not in times


def test_waits_of_a_contestant_are_samples_too():
    def call(count):
        waits = {"ack": range(1, count + 1), "nothing": []}
        return Timed(1.0, also={"reader": 2.0}, waits=waits)

    calls = {"few": lambda: call(33), "many": lambda: call(1000)}
    bars = (("few ack p99", "few", None), ("many ack p99", "many", None))
    outcome = run(Contest(name="a", calls=calls, amount=1, bars=bars), rounds=2)
    assert outcome.times["many ack p99"] == [991e-9, 991e-9]
    assert not any("nothing" in name for name in outcome.times)
    assert any("too few samples" in line for line in report(outcome))
    tree = results.as_tree(workloads(["engine/stream"])[0], outcome)
    told = {entry["name"]: entry for entry in tree["contestants"]}
    assert list(told["few ack"]["latency_ns"]) == ["p50", "max"]  # 66 samples
    assert told["many ack"]["latency_ns"]["p99"] == 991
    assert told["many ack"]["curve"]
    assert "few ack p99" not in told
    assert [bar["ours"] for bar in tree["bars"]] == ["many ack p99"]
    assert "    ack: p50 501 ns, p90 901 ns" in "\n".join(table.lines(tree))


def test_samples_of_who_failed_are_gone():
    left = iter([1, 1])

    def call():
        next(left)
        return Timed(1.0, samples=[1], waits={"ack": [1]})

    contest = Contest(name="a", calls={"ours": call, "roof": lambda: Timed(1.0)})
    outcome = run(contest, rounds=3, careful=True)
    assert "ours" in outcome.failed
    assert outcome.samples == {}


def test_kafkas_percentiles_have_samples_beyond_them():
    result = {"count": 3125, "p50_ns": 1.0, "p99_ns": 2.0, "p999_ns": 3.0}
    assert set(peers.timed(result, single=True).also) == {"p99"}
    assert set(peers.timed(result | {"count": 10_000}, single=True).also) == {"p99", "p99.9"}


@pytest.mark.parametrize("count", [500, 3125])
def test_single_calls_are_samples(tmp_path, count):
    with log_append.fresh_log(tmp_path) as log:
        log.extend([b"x" * log_append.VALUE_SIZE] * 100)
        timed = log_read.at_random(log, count, 1)
    assert len(timed.samples) == count
    assert timed.also == {}
    assert len(log_append.single_writes(tmp_path, count).samples) == count


def test_zeros_are_not_in_the_cache_when_they_are_written_over(tmp_path):
    work = Writing(Setting(tmp_path, 1 << 20), 4096)
    work.zeros.read_bytes()
    work.forget_zeros()
    with opened(work.zeros, os.O_RDONLY) as fd:
        import mmap

        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapping:
            assert limits_disk.resident(mapping, mmap.PAGESIZE) <= 1


def test_random_writes_are_a_part_of_the_file(tmp_path):
    work = Writing(Setting(tmp_path, 1 << 20), 4096)
    positions = work.positions(SEQUENTIAL[0], random=True, part=4)
    assert len(positions) == 64
    assert positions.max() > 1 << 18  # spread over all of it


def test_a_memory_is_filled_by_items():
    memory = bytearray(1001)
    for size in (4, 8, 16, 32, 64, 128, 100):
        block = bytes(range(1, size + 1))
        assert limits_disk.store_all(memory, block) == 1001 // size
        filled = 1001 // size * size
        assert memory[:filled] == block * (1001 // size)
    assert limits_disk.store_all(bytearray(3), b"1234") == 0
    assert memory[1000] == 0


def test_a_ring_is_timed_from_its_first_write(tmp_path):
    with open(tmp_path / "a", "w+b") as file:
        try:
            seconds = limits_disk.write_ring(
                file.fileno(), bytearray(8192), 4096, array("q", [0, 4096]), depth=2
            )
        except OSError as error:
            pytest.skip(f"no io_uring: {error}")
        assert 0 < seconds < 60
        assert (
            limits_disk.write_ring(file.fileno(), bytearray(8192), 4096, array("q"), depth=2) == 0
        )


@pytest.mark.parametrize(
    ("told", "numbers"), [("0-1\n", {0, 1}), ("0,4", {0, 4}), ("3", {3}), ("0-1,8-9", {0, 1, 8, 9})]
)
def test_hyperthreads_of_a_core(told, numbers):
    assert sockets.siblings(told) == numbers


def test_two_cores_before_two_threads_of_one(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(sockets.Path, "read_text", lambda *_, **__: "0-1")
    assert sockets.two_cpus() == (0, 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert sockets.two_cpus() == (0, 1)  # better than one
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert sockets.two_cpus() == (None, None)


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(suite, "available_memory", lambda: 1 << 30)
    assert suite.short_of_memory(1 << 20) == ""
    assert "--quick takes less" in suite.short_of_memory(1 << 29)
    monkeypatch.setattr(suite, "available_memory", lambda: 0)
    assert suite.short_of_memory(1 << 40) == ""  # nobody knows


def test_a_closed_terminal_leaves_nothing_behind(tmp_path, request):
    found = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, found))
    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt), suite.workspace(tmp_path, 0):
        os.kill(os.getpid(), signal.SIGHUP)
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGHUP) == before


def test_programs_that_are_missing_say_what_brings_them(monkeypatch):
    monkeypatch.setattr(programs.shutil, "which", lambda name: None)
    assert "apt-get install fio" in programs.why_not("fio")
    assert "apt-get install nats-server" in servers.why_not("nats-server")


def test_a_server_that_is_too_old_is_named(tmp_path, monkeypatch):
    program = tmp_path / "nats-server"
    program.write_text(
        """#!/bin/sh
        [ "$1" = --version ] && echo "nats-server: v2.9.10" && exit
        [ -n "$NEW" ] && exit
        echo "nats-server: $3:1:13: unknown field \\"sync_interval\\"" >&2
        exit 1
        """
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert servers.why_not_synced("nats-server") == (
        'nats-server: v2.9.10 cannot: unknown field "sync_interval" (2.10 has it)'
    )
    monkeypatch.setenv("NEW", "1")
    assert servers.why_not_synced("nats-server") == ""


def test_how_far_a_reader_is_behind():
    ends = [(100, 10), (200, 20), (300, 30)]
    assert log_stream._behind(ends, [(150, 10), (290, 20), (295, 30)]) == [50, 90, 0]
    assert log_stream._behind(ends, [(500, 30)]) == [400, 300, 200]


def test_threads_of_a_contest_raise_what_one_raised():
    def work(number):
        if number:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        growth.in_threads(work, 2)


def test_every_way_of_reading_memory_reads_every_byte():
    data = bytearray(1003)
    for at in range(len(data)):
        data[at] = 1
        assert limits.read_all(data) == 1 << 8 * (at % 8)
        data[at] = 0


def test_the_list_measures_nothing(capsys, tmp_path):
    assert main(["bench", "--list", "--dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "disk/sequential: " in out
    assert "ceiling: " in out
    for asked in (
        "write; pwritev; fallocated; over zeros; fdatasync each MiB; RWF_DONTCACHE; O_DSYNC",
        "random memory writes",
        "MAP_POPULATE; MADV_HUGEPAGE",
        "FADV_WILLNEED",
        "mmap behind",
        "splice; MSG_ZEROCOPY",
        "sender CPU",
        "read(offset); offset_at(time)",
        "segments of 1 MiB",
        "Apache Kafka's DumpLogSegments",
        "Redis Streams, NATS JetStream",
        "DuckDB",
        "dd, fio",
    ):
        assert asked in out
    assert list(tmp_path.iterdir()) == []
