"""``kstore bench`` as a command: terminals, result files, sizes."""

import fcntl
import os
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kstore.bench import suite
from kstore.bench.contest import Contest, Timed
from kstore.bench.report import results, text_table
from kstore.bench.workload import Workload
from kstore.cli import bench, main
from support.system import pseudo_terminal

SMALL = ["memory/bandwidth", "--quick", "--rounds", "1"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")


# --- terminals --------------------------------------------------------------------------------


@pytest.fixture
def terminal():
    """A terminal of no size, as of ``pty.fork``."""
    with pseudo_terminal() as (_, theirs):
        yield theirs


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))


def test_a_terminal_without_columns_loses_no_result(tmp_path, terminal):
    result = tmp_path / "result.json"
    words = ["bench", *SMALL, "--dir", str(tmp_path), "--json", str(result)]
    done = subprocess.run(
        [sys.executable, "-m", "kstore", *words],
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        timeout=120,
    )
    assert done.returncode == 0
    assert results.read(result)["results"]


@pytest.mark.parametrize(("columns", "width"), [(0, 79), (1, 0), (2, 1), (10, 9), (200, 199)])
def test_a_line_of_progress_is_as_wide_as_its_terminal(monkeypatch, terminal, columns, width):
    resize(terminal, columns)
    with open(os.dup(terminal), "w") as file:
        written = []
        monkeypatch.setattr(file, "write", written.append, raising=False)
        monkeypatch.setattr(sys, "stderr", file)
        bench.progress("x" * 1000)
    assert written == ["\r" + "x" * width]


def test_progress_on_a_closed_terminal_is_no_error(monkeypatch, terminal):
    class Gone:
        def isatty(self):
            return True

        def fileno(self):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    assert bench.progress("a") is None
    assert bench.clear() is None


# --- where results go -------------------------------------------------------------------------


@pytest.fixture
def unmeasured(monkeypatch):
    """A run with a result at once, and how often one was begun."""
    begun = []

    def run(self):
        begun.append(self.directory)
        self.tree = {"results": [], "missing": {}, "failed": [], "seconds": 0.0}
        self.tree |= {"kstore_bench": results.FORMAT, "environment": {}, "level": "quick"}
        self.tree |= {"started": "", "command": [], "medium": "disk"}
        return self.tree

    monkeypatch.setattr(suite.Suite, "run", run)
    return begun


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_an_unwritable_file_is_reported_before_anything_runs(
    tmp_path, capsys, unmeasured, option, force
):
    for path, reason in (
        (tmp_path, "is a directory"),
        ("/proc/kstore-bench", "cannot be written"),
        (tmp_path / ("long" * 100), "cannot be written: File name too long"),
        (tmp_path / "none" / "file", "there is no directory"),
    ):
        assert main(["bench", *SMALL, "--dir", str(tmp_path), option, str(path), *force]) == 1
        assert reason in capsys.readouterr().err
    assert unmeasured == []
    assert list(tmp_path.iterdir()) == []


def test_the_check_for_writing_does_not_change_the_file(tmp_path):
    there = tmp_path / "there"
    there.write_text("mine")
    bench.refuse_to_replace(there, force=True)
    bench.refuse_to_replace(tmp_path / "new", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert there.read_text() == "mine"


def test_an_unwritable_file_does_not_prevent_the_other(tmp_path, capsys, unmeasured):
    html = tmp_path / "a.html"
    words = ["--json", "/dev/full", "--html", str(html), "--force"]
    assert main(["bench", *SMALL, "--dir", str(tmp_path), *words]) == 1
    assert "/dev/full could not be written: No space left" in capsys.readouterr().err
    assert html.read_text().startswith("<!doctype html>")
    assert unmeasured


# --- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["abc", "", "nan", "inf", "-1", "0", "1e300"])
def test_an_invalid_scale_is_named_in_the_error(monkeypatch, tmp_path, capsys, given):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", given)
    assert main(["bench", *SMALL, "--dir", str(tmp_path)]) == 1
    assert f"KSTORE_BENCH_SCALE is {given!r}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", ["1e9", "1000"])
def test_a_scale_beyond_the_disk_space_is_refused(monkeypatch, tmp_path, capsys, asked):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", asked)
    assert main(["bench", "disk", "--full", "--dir", str(tmp_path)]) == 1
    assert "bytes free and" in capsys.readouterr().err


def test_each_result_has_the_factors_of_its_size(tmp_path):
    def contests(setting):
        yield Contest(name="one", calls={"a": lambda: Timed(1.0)})

    some = Workload(
        group="disk", name="a", about="", ceiling="", sizes=(1, 2, 3), contests=contests
    )
    (result,) = suite.Suite([some], tmp_path, "quick", 2).run()["results"]
    assert (result["scale"], result["part"]) == (0.001, 1.0)


def test_a_figure_of_zero_seconds_is_shown(tmp_path):
    calls = {"a": lambda: Timed(1.0, also={"tail p50": 0.0}), "b": lambda: Timed(0.0)}

    def contests(setting):
        yield Contest(name="one", calls=calls, amount=10, bars=(("a", "b", 1.0), ("b", "a", 1.0)))

    some = Workload(
        group="disk", name="a", about="", ceiling="", sizes=(1, 2, 3), contests=contests
    )
    tree = suite.Suite([some], tmp_path, "quick", 2).run()
    assert tree["failed"] == []
    (result,) = tree["results"]
    assert [entry["median"] for entry in result["contestants"]] == [1.0, 0.0, 0.0]
    assert "tail p50 0 ns" in "\n".join(text_table.lines(result))
    assert "a against b" in "\n".join(text_table.lines(result))


# --- where it measures ------------------------------------------------------------------------


def test_the_workspace_has_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with suite.workspace(Path(), 0) as folder:
        assert folder.is_absolute()
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
