"""What keeps figures fair: the order of rounds, targets, caches, cores, memory, peers."""

import os
import signal
from array import array

import pytest

from engine.contests import log_append, log_read, log_stream
from engine.data import logs
from engine.peers import brokers, kafka
from kstore._native.bench import disk_loops, memory_loops
from kstore.bench import suite
from kstore.bench.contest import Contest, Timed
from kstore.bench.data.raw_files import opened
from kstore.bench.machine import sockets
from kstore.bench.machine.disk import Writing
from kstore.bench.report import results, text_table
from kstore.bench.runner.rounds import run
from kstore.bench.workload import Setting
from kstore.cli import main


def test_each_round_starts_with_another_contestant():
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


def test_percentiles_are_shown_as_durations():
    result = {"unit": "records", "amount": 1}
    assert text_table.figure({"name": "kstore ack p99", "median": 0.01}, result) == "10 ms"
    assert text_table.figure({"name": "kstore reader", "median": 0.01}, result) == "100  records/s"


def test_rounds_with_enough_samples_have_tail_percentiles():
    def call(count):
        return Timed(1.0, samples=range(1, count + 1))

    counts = {"few": 999, "many": 1000, "less": 9999, "more": 10_000}
    calls = {name: lambda count=count: call(count) for name, count in counts.items()}
    times = run(Contest(name="a", calls=calls), rounds=2).times
    assert times["many p99"] == [991e-9, 991e-9]
    assert "few p99" not in times
    assert times["more p99.9"] == [9991e-9, 9991e-9]
    assert "less p99.9" not in times


def test_waits_have_percentiles_too():
    def call(count):
        waits = {"ack": range(1, count + 1), "nothing": []}
        return Timed(1.0, also={"reader": 2.0}, waits=waits)

    calls = {"few": lambda: call(33), "many": lambda: call(1000)}
    bars = (("few ack p99", "few", None), ("many ack p99", "many", None))
    outcome = run(Contest(name="a", calls=calls, amount=1, bars=bars), rounds=2)
    assert outcome.times["many ack p99"] == [991e-9, 991e-9]
    assert not any("nothing" in name for name in outcome.times)
    tree = results.as_tree("engine", "engine/stream", outcome)
    reported = {entry["name"]: entry for entry in tree["contestants"]}
    assert list(reported["few ack"]["latency_ns"]) == ["p50", "max"]  # 66 samples
    assert reported["many ack"]["latency_ns"]["p99"] == 991
    assert reported["many ack"]["curve"]
    assert "few ack p99" not in reported
    assert [bar["ours"] for bar in tree["bars"]] == ["many ack p99"]
    assert "    ack: p50 501 ns, p90 901 ns" in "\n".join(text_table.lines(tree))


def test_samples_of_a_failed_contestant_are_removed():
    left = iter([1, 1])

    def call():
        next(left)
        return Timed(1.0, samples=[1], waits={"ack": [1]})

    contest = Contest(name="a", calls={"ours": call, "roof": lambda: Timed(1.0)})
    outcome = run(contest, rounds=3, keep_going=True)
    assert "ours" in outcome.failed
    assert outcome.samples == {}


def test_percentiles_of_kafka_need_ten_samples_beyond_them():
    result = {"count": 3125, "p50_ns": 1.0, "p99_ns": 2.0, "p999_ns": 3.0}
    assert set(kafka.timed(result, is_single=True).also) == {"p99"}
    assert set(kafka.timed(result | {"count": 10_000}, is_single=True).also) == {"p99", "p99.9"}


@pytest.mark.parametrize("count", [500, 3125])
def test_single_calls_are_kept_as_samples(tmp_path, count):
    with logs.fresh_log(tmp_path) as log:
        log.extend([b"x" * 100] * 100)
        timed = log_read.read_at_random(log, count, 1)
    assert len(timed.samples) == count
    assert timed.also == {}
    assert len(log_append.write_singles(tmp_path, count).samples) == count


def test_zeros_are_not_cached_when_they_are_overwritten(tmp_path):
    work = Writing(Setting(tmp_path, 1 << 20), 4096)
    work.zeros.read_bytes()
    work.forget_zeros()
    with opened(work.zeros, os.O_RDONLY) as fd:
        import mmap

        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapping:
            assert disk_loops.resident(mapping, mmap.PAGESIZE) <= 1


def test_memory_is_filled_item_by_item():
    memory = bytearray(1001)
    for size in (4, 8, 16, 32, 64, 128, 100):
        block = bytes(range(1, size + 1))
        assert disk_loops.store_all(memory, block) == 1001 // size
        filled = 1001 // size * size
        assert memory[:filled] == block * (1001 // size)
    assert disk_loops.store_all(bytearray(3), b"1234") == 0
    assert memory[1000] == 0


def test_io_uring_is_timed_from_its_first_write(tmp_path):
    with open(tmp_path / "a", "w+b") as file:
        try:
            seconds = disk_loops.write_ring(
                file.fileno(), bytearray(8192), 4096, array("q", [0, 4096]), depth=2
            )
        except OSError as error:
            pytest.skip(f"no io_uring: {error}")
        assert 0 < seconds < 60
        assert disk_loops.write_ring(file.fileno(), bytearray(8192), 4096, array("q"), depth=2) == 0


@pytest.mark.parametrize(
    ("listed", "numbers"),
    [("0-1\n", {0, 1}), ("0,4", {0, 4}), ("3", {3}), ("0-1,8-9", {0, 1, 8, 9})],
)
def test_hyperthread_lists_are_parsed(listed, numbers):
    assert sockets.siblings(listed) == numbers


def test_cpus_of_different_cores_are_preferred(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(sockets.Path, "read_text", lambda *_, **__: "0-1")
    assert sockets.two_cpus() == (0, 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert sockets.two_cpus() == (0, 1)  # better than one
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert sockets.two_cpus() == (None, None)


def test_a_workload_without_enough_memory_is_not_started(monkeypatch):
    monkeypatch.setattr(suite, "available_memory", lambda: 1 << 30)
    assert suite.short_of_memory(1 << 20) == ""
    assert "--quick takes less" in suite.short_of_memory(1 << 29)
    monkeypatch.setattr(suite, "available_memory", lambda: 0)
    assert suite.short_of_memory(1 << 40) == ""  # not known


def test_a_closed_terminal_leaves_no_files(tmp_path, request):
    found = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, found))
    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt), suite.workspace(tmp_path, 0):
        os.kill(os.getpid(), signal.SIGHUP)
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGHUP) == before


def test_a_server_that_is_not_installed_names_its_package(monkeypatch):
    monkeypatch.setattr(brokers.shutil, "which", lambda name: None)
    assert "apt-get install nats-server" in brokers.why_not("nats-server")


def test_a_server_that_is_too_old_is_reported(tmp_path, monkeypatch):
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
    assert brokers.why_not_synced("nats-server") == (
        'nats-server: v2.9.10 cannot: unknown field "sync_interval" (2.10 has it)'
    )
    monkeypatch.setenv("NEW", "1")
    assert brokers.why_not_synced("nats-server") == ""


def test_delays_of_a_reader_are_computed_for_each_end():
    ends = [(100, 10), (200, 20), (300, 30)]
    assert log_stream._delays(ends, [(150, 10), (290, 20), (295, 30)]) == [50, 90, 0]
    assert log_stream._delays(ends, [(500, 30)]) == [400, 300, 200]


def test_every_way_of_reading_memory_reads_every_byte():
    data = bytearray(1003)
    for at in range(len(data)):
        data[at] = 1
        assert memory_loops.read_all(data) == 1 << 8 * (at % 8)
        data[at] = 0


def test_the_list_measures_nothing(capsys, tmp_path):
    assert main(["bench", "--list", "--dir", str(tmp_path)]) == 0
    brief = capsys.readouterr().out
    assert "verdict/log: commits, sustained writing" in brief
    assert "ceiling: " not in brief
    assert main(["bench", "--list", "--details"]) == 0
    out = capsys.readouterr().out
    assert set(brief.splitlines()) < set(out.splitlines())
    assert "disk/sequential: " in out
    assert "ceiling: " in out
    for asked in (
        "write; pwritev; fallocated; over zeros; fdatasync each MiB; RWF_DONTCACHE; O_DSYNC",
        "random memory writes",
        "MAP_POPULATE; MADV_HUGEPAGE",
        "FADV_WILLNEED",
        "splice; MSG_ZEROCOPY",
        "sender CPU",
    ):
        assert asked in out
    assert list(tmp_path.iterdir()) == []
    assert "engine/" not in out
