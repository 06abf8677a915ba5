"""Child processes: their duration and their own peak memory."""

import os
import signal
import subprocess
import sys
import time

import pytest

from engine.child_process import FOLDER, run_program

PYTHON = [sys.executable, "-I", "-S", "-c"]
MIB = 1 << 20


def memory(timed):
    return timed.also["memory, MiB"]


def gone(process):
    for _ in range(1000):  # until its new parent has reaped it
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_the_memory_of_a_large_parent_is_not_counted(tmp_path):
    held = b"x" * (300 * MIB)
    found = run_program([*PYTHON, "print(1)"], tmp_path / "out")
    assert 1 < memory(found) < 60
    assert (tmp_path / "out").read_text() == "1\n"
    assert len(held) == 300 * MIB


def test_the_peak_memory_of_a_program_is_counted(tmp_path):
    found = run_program([*PYTHON, f"x = b'x' * {100 * MIB}"], tmp_path / "out")
    assert 100 < memory(found) < 160
    slept = run_program([*PYTHON, "import time; time.sleep(0.2)"], tmp_path / "out")
    assert slept.seconds >= 0.2


def test_a_program_that_fails_has_no_figure(tmp_path):
    with pytest.raises(AssertionError, match="ended with 3"):
        run_program([*PYTHON, "raise SystemExit(3)"], tmp_path / "out")
    with pytest.raises(OSError, match="no such program could not be started"):
        run_program(["no such program"], tmp_path / "out")


def test_a_program_gets_the_given_environment(tmp_path):
    result = run_program(
        [*PYTHON, "import os; print(os.environ['GIVEN'])"], tmp_path / "out", {"GIVEN": "so"}
    )
    assert result.seconds > 0
    assert (tmp_path / "out").read_text() == "so\n"


def test_an_interrupt_ends_the_program(tmp_path):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    out = tmp_path / "out"
    started = f"import sys; sys.path.insert(0, {FOLDER!r}); from pathlib import Path\n"
    started += "from engine.child_process import run_program\n"
    started += f"run_program({[*PYTHON, code]!r}, Path({str(out)!r}))\n"
    with subprocess.Popen([sys.executable, "-c", started], stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 30
        while not (out.exists() and out.read_text()) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) != 0
    assert gone(int(out.read_text()))
