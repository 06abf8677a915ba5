"""``kstore bench`` as a command: terminals of every size, and where its results go."""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kstore.bench import programs, results, suite
from kstore.cli import bench, main

SMALL = ["memory/chains", "--quick", "--rounds", "1"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_SCALE", "0.001")


# --- terminals --------------------------------------------------------------------------------


@pytest.fixture
def terminal():
    """A terminal of no size, as of ``pty.fork``."""
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))


def test_a_terminal_of_no_columns_costs_no_figure(tmp_path, terminal):
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


@pytest.mark.parametrize(("columns", "told"), [(0, 79), (1, 0), (2, 1), (10, 9), (200, 199)])
def test_a_line_of_progress_is_as_wide_as_its_terminal(monkeypatch, terminal, columns, told):
    resize(terminal, columns)
    with open(os.dup(terminal), "w") as file:
        written = []
        monkeypatch.setattr(file, "write", written.append, raising=False)
        monkeypatch.setattr(sys, "stderr", file)
        bench.progress("x" * 1000)
    assert written == ["\r" + "x" * told]


def test_progress_on_a_terminal_that_is_gone_is_not_told(monkeypatch, terminal):
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
    """A run that is told at once, and how often one was begun."""
    begun = []

    def run(self):
        begun.append(self.directory)
        self.tree = {"results": [], "missing": {}, "failed": [], "seconds": 0.0, "noise": {}}
        self.tree |= {"kstore_bench": results.FORMAT, "environment": {}, "level": "quick"}
        self.tree |= {"started": "", "command": [], "medium": "disk"}
        return self.tree

    monkeypatch.setattr(suite.Suite, "run", run)
    return begun


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_what_cannot_be_written_is_said_before_anything_is_measured(
    tmp_path, capsys, unmeasured, option, force
):
    for path, told in (
        (tmp_path, "is a directory"),
        ("/proc/kstore-bench", "cannot be written"),
        (tmp_path / ("long" * 100), "cannot be written: File name too long"),
        (tmp_path / "none" / "file", "there is no directory"),
    ):
        assert main(["bench", *SMALL, "--dir", str(tmp_path), option, str(path), *force]) == 1
        assert told in capsys.readouterr().err
    assert unmeasured == []
    assert list(tmp_path.iterdir()) == []


def test_a_look_whether_it_can_be_written_leaves_the_file_as_it_was(tmp_path):
    there = tmp_path / "there"
    there.write_text("mine")
    bench.refuse_to_replace(there, force=True)
    bench.refuse_to_replace(tmp_path / "new", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert there.read_text() == "mine"


def test_one_file_that_cannot_be_written_costs_not_the_other(tmp_path, capsys, unmeasured):
    html = tmp_path / "a.html"
    words = ["--json", "/dev/full", "--html", str(html), "--force"]
    assert main(["bench", *SMALL, "--dir", str(tmp_path), *words]) == 1
    assert "/dev/full could not be written: No space left" in capsys.readouterr().err
    assert html.read_text().startswith("<!doctype html>")
    assert unmeasured


# --- where it measures ------------------------------------------------------------------------


def test_a_relative_directory_is_where_programs_write_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with suite.workspace(Path(), 0) as folder:
        assert folder.is_absolute()
        assert folder.parent == tmp_path
        if shutil.which("fio"):
            file = folder / "0" / "data"
            file.parent.mkdir()
            assert programs.fio_commits(file, 4096, 20).seconds > 0
    assert list(tmp_path.iterdir()) == []
