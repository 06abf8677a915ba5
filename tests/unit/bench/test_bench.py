"""``kstore bench``: definitions, statistics, the runner, results, the command, the C loops."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from array import array
from importlib.util import find_spec

import pytest

from engine.workloads import CATALOG, PEERS
from kstore._native.bench import disk_loops
from kstore.bench import suite
from kstore.bench.contest import Contest, Timed
from kstore.bench.data.raw_files import (
    block_of,
    check_stamps,
    fresh,
    prewrite,
    sequential,
    shuffled,
)
from kstore.bench.report import html_page, results, text_table, units
from kstore.bench.runner import environment, estimate
from kstore.bench.runner.rounds import run
from kstore.bench.workload import LEVELS, MACHINE, Setting, Workload, workloads
from kstore.cli import main
from kstore.errors import KStoreError


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")


def timed(**seconds):
    """Contestants that say how long they took."""
    return {name: lambda taken=taken: Timed(taken, result=1) for name, taken in seconds.items()}


def contests(setting):
    calls = timed(roof=1.0, ours=2.0)
    calls["ours"] = lambda: Timed(2.0, result=1, also={"wait": 4.0}, samples=range(1, 2001))
    yield Contest(name="one", calls=calls, amount=10, bars=(("ours", "roof", 0.4),), size=4)
    (setting.directory / "left").write_bytes(b"x")


def broken(setting):
    calls = timed(roof=1.0) | {"wrong": lambda: 2}
    yield Contest(name="two", calls=calls)


def workload(name="some", make=contests):
    return Workload(
        group="disk", name=name, about="", ceiling="", sizes=(1, 2, 3), contests=make, copies=1
    )


def tree_of(*given, rounds=5, directory):
    absent = environment.absent(PEERS)
    return suite.Suite(given, directory, "quick", rounds, absent=absent).run()


# --- definitions ------------------------------------------------------------------------------


@pytest.mark.parametrize("catalog", [MACHINE, CATALOG], ids=["machine", "engine"])
def test_every_workload_has_a_description(catalog):
    found = workloads(catalog=catalog)
    assert {each.group for each in found} == set(catalog.groups)
    assert len({each.title for each in found}) == len(found)
    for each in found:
        assert each.about
        assert each.ceiling
        assert each.shows
        assert list(each.sizes) == sorted(each.sizes)
        assert len(each.count) == len(LEVELS)


def test_groups_and_single_workloads_are_chosen():
    assert {each.group for each in workloads(["disk"])} == {"disk"}
    assert [each.title for each in workloads(["disk/commit"])] == ["disk/commit"]
    with pytest.raises(ValueError, match="no group cheese; there are verdict, disk"):
        workloads(["cheese"])
    with pytest.raises(ValueError, match="no workload disk/cheese"):
        workloads(["disk/cheese"])


# --- statistics -------------------------------------------------------------------------------


def test_an_interval_contains_the_median_and_is_repeatable():
    values = [1.0, 1.1, 0.9, 1.3, 1.05, 1.2, 5.0]
    found = estimate.estimate(values)
    assert found.low <= found.median == 1.1 <= found.high < 5.0
    assert found == estimate.estimate(values)


def test_the_interval_of_few_values_is_their_range():
    assert estimate.estimate([3.0, 1.0, 2.0]) == estimate.Estimate(2.0, 1.0, 3.0)
    assert estimate.quotient([2.0, 4.0], [1.0, 1.0]) == estimate.Estimate(3.0, 2.0, 4.0)


def test_paired_ratios_cancel_what_slows_both():
    slow = [1.0, 7.0, 2.0, 30.0, 4.0]
    found = estimate.paired([2 * value for value in slow], slow)
    assert (found.low, found.median, found.high) == (2.0, 2.0, 2.0)


def test_percentiles_are_exact_and_need_ten_samples_beyond_them():
    found = estimate.percentiles([range(1, 501), range(501, 1001)])
    assert found == {"p50": 501, "p90": 901, "p99": 991, "max": 1000}
    steps = estimate.curve([range(1, 1001)])
    assert steps[0] == (0.0, 1.0)
    assert steps[-1] == (99.0, 991.0)  # the p99 is the last with ten samples beyond it
    assert steps == sorted(steps)


# --- the runner -------------------------------------------------------------------------------


def test_the_fastest_is_the_ceiling_unless_one_is_named():
    assert run(Contest(name="a", calls=timed(slow=2.0, quick=1.0), rounds=3)).ceiling == "quick"
    named = Contest(name="a", calls=timed(slow=2.0, quick=1.0), rounds=3, ceiling="slow")
    assert run(named).ceiling == "slow"


def test_rounds_end_with_the_time():
    def slow():
        time.sleep(0.01)
        return Timed(0.01)

    contest = Contest(name="a", calls={"slow": slow}, rounds=1000)
    reported = []
    assert (
        len(run(contest, seconds=0.05, on_progress=lambda *at: reported.append(at)).times["slow"])
        < 100
    )
    assert reported[0] == (0, 1000)
    assert len(run(contest, rounds=2).times["slow"]) == 2


def test_a_contestant_with_a_wrong_result_has_no_figure(tmp_path):
    tree = tree_of(workload(), workload("other", broken), directory=tmp_path)
    assert [result["workload"] for result in tree["results"]] == ["disk/some", "disk/other"]
    assert [entry["name"] for entry in tree["results"][1]["contestants"]] == ["roof"]
    (failed,) = tree["failed"]
    assert failed["workload"] == "disk/other"
    assert "wrong gave 2, not 1" in failed["reason"]


def test_an_error_of_a_workload_does_not_stop_the_others(tmp_path):
    def failing(setting):
        raise subprocess.TimeoutExpired("reader", 120)
        yield

    tree = tree_of(workload("other", failing), workload(), directory=tmp_path)
    assert [failed["workload"] for failed in tree["failed"]] == ["disk/other"]
    assert [result["workload"] for result in tree["results"]] == ["disk/some"]


# --- results ----------------------------------------------------------------------------------


def test_results_as_json_text_and_html(tmp_path):
    tree = tree_of(workload(), directory=tmp_path)
    (result,) = tree["results"]
    assert result["ceiling"] == "roof"
    roof, ours, wait, tail = result["contestants"]
    assert ours["of_ceiling"] == {"median": 0.5, "low": 0.5, "high": 0.5}
    assert (roof["rate"], ours["rate"]) == (10.0, 5.0)
    assert (wait["name"], wait["contestant"], wait["median"]) == ("ours wait", "ours", 4.0)
    assert ours["latency_ns"]["p99"] == 1981
    assert (tail["name"], tail["median"]) == ("ours p99", 1.981e-6)  # so that runs can be compared
    text = "\n".join(text_table.lines(result))
    assert "ours against roof: 0.5x (0.5 to 0.5), wanted 0.4x: met" in text
    assert "0.50 ##########.........." in text
    assert "(wait 2.5 B/s, p99 1.98 us)" in text
    written = tmp_path / "a.json"
    results.write(written, tree)
    assert results.read(written) == json.loads(json.dumps(tree))
    html = html_page.html(tree)
    drawn = find_spec("matplotlib") is not None
    assert html.count("<svg") == drawn  # percentiles; one size makes no line
    assert ("Without pictures" in html) is not drawn
    for outside in ("<script", "<link", "src=", "@import"):
        assert outside not in html


def ratio(value, low, high, wanted=None):
    return {"ours": "a", "peer": "b", "ratio": value, "low": low, "high": high, "wanted": wanted}


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.5, 1.7, "met"), (1.4, 1.7, "open"), (1.4, 1.49, "missed"), (None, None, "open")],
)
def test_a_wanted_ratio_heeds_its_interval(low, high, verdict):
    assert text_table.goal(ratio(1.6, low, high, 1.5)) == verdict


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.97, 1.08, "a as fast as b: 1.02x (0.97 to 1.08)"),
        (1.01, 1.08, "a against b: 1.02x (1.01 to 1.08)"),
        (None, None, "a against b: 1.02x"),
    ],
)
def test_a_ratio_whose_interval_contains_one_is_shown_as_fast(low, high, text):
    assert text_table.compared(ratio(1.02, low, high)) == text


@pytest.mark.parametrize(("low", "shown"), [(1.05, "(or 1 more)"), (1.2, "")])
def test_the_fastest_method_counts_those_that_may_be_as_fast(low, shown):
    entries = [
        {"name": name, "contestant": name, "median": median, "low": least, "high": median + 0.1}
        for name, median, least in (("one", 1.0, 0.9), ("two", 1.3, low), ("three", 9.0, 8.0))
    ]
    result = {"workload": "disk/a", "contest": "c", "rounds": 5, "contestants": entries}
    *_, line = text_table.fastest([result | {"amount": 0, "unit": "B"}])
    assert line.endswith(f"one {shown}".rstrip())


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"kstore_bench": 99}'])
def test_another_json_file_is_refused_as_a_result(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(KStoreError, match="is no result"):
        results.read(path)


def test_durations_rates_and_bars_are_readable():
    assert [units.duration(value) for value in (2.5, 0.0012, 3.4e-6, 5e-9)] == [
        "2.5 s",
        "1.2 ms",
        "3.4 us",
        "5 ns",
    ]
    assert units.rate(2.5e9, "B") == "2.5 GB/s"
    assert units.rate(1.3e6, "records") == "1.3 M records/s"
    assert text_table.bar(0.5, 4) == "##.."
    assert text_table.bar(1.2, 4) == "####+"


# --- the command ------------------------------------------------------------------------------


def test_bench_writes_its_results_and_its_page(capsys, tmp_path):
    given, there = tmp_path / "disk", tmp_path / "result.json"
    given.mkdir()
    words = ["memory/bandwidth", "disk/random", "--quick", "--rounds", "1", "--details"]
    html = tmp_path / "result.html"
    assert (
        main(["bench", *words, "--dir", str(given), "--json", str(there), "--html", str(html)]) == 0
    )
    out = capsys.readouterr().out
    first = out.index("cpu "), out.index("of fastest")
    assert list(first) == sorted(first)  # the environment before any figure
    tree = results.read(there)
    assert {result["workload"] for result in tree["results"]} == {"memory/bandwidth", "disk/random"}
    assert tree["failed"] == []
    assert html.read_text().startswith("<!doctype html>")
    assert list(given.iterdir()) == []
    assert main(["bench", *words, "--dir", str(given), "--json", str(there)]) == 1
    assert "exists; --force replaces it" in capsys.readouterr().err
    assert main(["bench", *words, "--dir", str(given), "--json", str(tmp_path / "no" / "a")]) == 1
    assert "there is no directory" in capsys.readouterr().err


def test_wrong_arguments_are_named_in_the_error(capsys, tmp_path):
    assert main(["bench", "cheese"]) == 1
    assert "no group cheese" in capsys.readouterr().err
    assert main(["bench", "--rounds", "0"]) == 1
    assert main(["bench", "memory/bandwidth", "--dir", str(tmp_path / "none")]) == 1
    assert "there is no directory" in capsys.readouterr().err


def test_too_little_disk_space_is_reported_before_anything_is_written(tmp_path):
    with (
        pytest.raises(KStoreError, match="bytes free and"),
        suite.workspace(tmp_path, 1 << 60),
    ):
        pytest.fail("there was no room")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_files(tmp_path, number):
    (tmp_path / "mine").write_text("stays")
    code = (
        "import sys, time; from pathlib import Path; from kstore.bench import suite\n"
        "try:\n"
        " with suite.workspace(Path(sys.argv[1]), 0) as folder:\n"
        "  (folder / 'data').write_bytes(bytes(100)); print('in', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        assert len(suite.left_behind(tmp_path)) == 1
        process.send_signal(number)
        assert process.wait(30) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_interrupted_run_leaves_no_files_and_keeps_its_results(tmp_path):
    there, result = tmp_path / "disk", tmp_path / "result.json"
    there.mkdir()
    words = ["bench", "disk", "--details"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kstore", *words, "--dir", there, "--json", result],
        stdout=subprocess.PIPE,
        env=os.environ | {"KSTORE_BENCH_SCALE": "0.05", "PYTHONUNBUFFERED": "1"},
    )
    with process:
        assert process.stdout is not None
        assert any(line.startswith(b"disk/sequential: ") for line in process.stdout)
        assert len(suite.left_behind(there)) == 1
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 130
    assert list(there.iterdir()) == []
    tree = results.read(result)  # what was measured until then is kept
    assert tree["ended_by"] == "KeyboardInterrupt"
    assert tree["results"]


def test_a_file_created_during_the_run_is_not_replaced(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("mine")
    assert results.put(path, "ours") == tmp_path / "a.1.json"
    assert path.read_text() == "mine"
    results.put(path, "ours", replace=True)
    assert path.read_text() == "ours"


def test_json_and_html_cannot_be_one_file(tmp_path, capsys):
    path = str(tmp_path / "a")
    assert main(["bench", "memory/bandwidth", "--json", path, "--html", path]) == 1
    assert "name the same file" in capsys.readouterr().err


def test_the_environment_is_listed_by_subject(tmp_path):
    found = environment.environment(tmp_path)
    assert set(found) == {"cpu", "memory", "system", "disk", "network", "software"}
    assert found["disk"]["file system"]
    assert found["cpu"]["cores"].endswith(f"of {os.cpu_count()}")
    assert len(environment.lines(found)) == len(found)


def test_the_environment_names_the_congestion_control_of_the_sockets(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "_read", lambda path: "bbr")
    assert environment.network("cubic")["congestion control"] == "cubic"
    assert environment.network("cubic")["the system's"] == "bbr"
    monkeypatch.undo()
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", "reno")
    tree = tree_of(workload(), directory=tmp_path)
    assert tree["environment"]["network"]["congestion control"] == "reno"


def test_the_busy_fraction_is_that_of_the_time_between_two_readings():
    """user, nice, system, idle, iowait, irq, softirq, steal, guest; then each processor."""
    before = "cpu  100 0 100 1000 50 0 0 10 5 0\ncpu0 50 0 50 500 25 0 0 5 5 0"
    after = "cpu  120 0 110 1060 60 0 0 20 9 0\ncpu0 60 0 55 530 30 0 0 10 9 0"
    assert environment.busy_share(before, after) == pytest.approx(40 / 110)
    assert environment.busy_share(before, before) is None
    assert environment.busy_share("", "") is None


def test_the_processors_are_sampled_before_a_run(monkeypatch):
    readings = iter(["cpu 0 0 0 0 0 0 0 0", "cpu 25 0 0 75 0 0 0 0"])
    monkeypatch.setattr(environment, "sleep", lambda seconds: None)
    monkeypatch.setattr(environment, "_read", lambda path: next(readings))
    assert environment.system()["processors busy"] == "25 %"


def test_files_in_memory_are_never_called_a_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "mount_of", lambda path: ("none", "/", "tmpfs", "rw"))
    tree = tree_of(workload(), directory=tmp_path)
    assert "tmpfs is memory" in "\n".join(environment.lines(tree["environment"]))
    assert tree["medium"] == "tmpfs"
    assert "files in memory (tmpfs), NO DISK" in "\n".join(text_table.lines(tree["results"][0]))
    assert "files in memory (tmpfs), NO DISK" in html_page.html(tree)
    monkeypatch.setattr(environment, "mount_of", lambda path: ("sda", "/", "ext4", "rw"))
    tree = tree_of(workload(), directory=tmp_path)
    assert tree["medium"] == "disk"
    assert "memory" not in "\n".join(text_table.lines(tree["results"][0]))


def test_missing_peers_are_listed_with_how_to_install_them(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    tree = tree_of(workload(), directory=tmp_path)
    assert tree["missing"]["peer nats-server"].startswith("not installed: apt-get install")
    assert "peer numpy" not in tree["missing"]
    assert "pip install" in environment.absent(PEERS).get("rocksdict", "pip install")
    assert "peer nats-server" in html_page.html(tree)


# --- the loops in C ---------------------------------------------------------------------------


def test_blocks_are_written_at_their_positions(tmp_path):
    block, positions = block_of(512), shuffled(7, 512, 8 * 512)
    path = tmp_path / "file"
    took = array("q", [0] * 7)
    with fresh(path) as fd:
        disk_loops.write_at(fd, block, positions, sync_every=2, iovecs=4, salt=9 << 48, each=took)
        check_stamps(path, positions, 9 << 48, 100)
        with pytest.raises(AssertionError, match="is not what was put"):
            check_stamps(path, positions, 8 << 48, 100)
        body = os.pread(fd, 504, int(positions[0]) + 8)
        assert body == bytes(block[8:])
    assert all(value > 0 for value in took)


@pytest.mark.parametrize("depth", [1, 4, 64])
def test_io_uring_writes_blocks_at_their_positions(tmp_path, depth):
    path, positions = tmp_path / "file", shuffled(50, 4096, 60 * 4096)
    blocks = block_of(depth * 4096)
    with fresh(path) as fd:
        try:
            disk_loops.write_ring(fd, blocks, 4096, positions, depth=depth, salt=3 << 48)
        except OSError as refused:
            if refused.errno not in (errno.ENOSYS, errno.EPERM):
                raise
            pytest.skip("this kernel or container allows no io_uring")
        check_stamps(path, positions, 3 << 48, 100)
        assert os.fstat(fd).st_size == int(positions.max()) + 4096
    reader = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Bad file"):
            disk_loops.write_ring(reader, blocks, 4096, positions, depth=depth)
    finally:
        os.close(reader)


def test_io_uring_refuses_sizes_that_do_not_fit():
    for size, depth in ((4096, 3), (4096, 128), (4096, 2), (4, 1), (-8, 1)):
        with pytest.raises(ValueError, match=r"depth|do not fit"):
            disk_loops.write_ring(-1, bytearray(4096), size, array("q", [0]), depth=depth)


def test_reads_and_loads_agree(tmp_path):
    path = prewrite(tmp_path / "file", 1 << 16, zeros=False)
    data = path.read_bytes()
    expected = 0
    for at in range(0, len(data), 8):
        expected ^= int.from_bytes(data[at : at + 8], sys.byteorder)
    fd = os.open(path, os.O_RDONLY)
    try:
        found = disk_loops.read_at(fd, block_of(4096), sequential(16, 4096), summed=True, iovecs=2)
        with pytest.raises(OSError, match="No data"):
            disk_loops.read_at(fd, block_of(4096), sequential(17, 4096))
    finally:
        os.close(fd)
    assert found == expected == disk_loops.load_at(data, 8, sequential(len(data) // 8, 8))
    assert disk_loops.load_at(data, 64, sequential(len(data) // 64, 64)) == expected


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64, 128, 24, 512])
def test_stores_fill_memory(size):
    memory, block = (
        bytearray(size * 8),
        bytes(range(1, size % 251 + 1)) * (size // (size % 251) or 1),
    )
    block = (block * size)[:size]
    disk_loops.store_at(memory, block, shuffled(8, size, size * 8))
    assert memory == block * 8


@pytest.mark.parametrize("position", [-1, 57, 1 << 62, -(1 << 63)])
def test_positions_outside_the_memory_are_refused(position):
    at = array("q", [position])
    with pytest.raises(ValueError, match="do not fit"):
        disk_loops.store_at(bytearray(64), bytes(8), at)
    with pytest.raises(ValueError, match="do not fit"):
        disk_loops.load_at(bytes(64), 8, at)


def test_a_setting_picks_the_value_of_its_level(tmp_path):
    assert [Setting(tmp_path, 100, level).pick(1, 2, 3) for level in LEVELS] == [1, 2, 3]
    assert Setting(tmp_path, 100).blocks(30, 10) == 3
    assert Setting(tmp_path, 100).blocks(300, 10) == 1
