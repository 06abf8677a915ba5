"""Run a program as a child process, with its duration and its own peak memory."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kstore.bench.contest import Timed
from kstore.bench.report.text_table import MIB

FOLDER = os.fspath(Path(__file__).parents[1])  # the one that has this package
# Linux keeps the peak memory of a process over exec, and a forked child starts with its parent's: a
# program started by a benchmark with large data would seem as large. A small interpreter starts it
# instead, so that only that interpreter's peak can be inherited.
_STARTER = """\
import os, sys, time
output, *command = sys.argv[1:]
opened = (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
began = time.perf_counter()
process = os.posix_spawnp(command[0], command, os.environ, file_actions=[opened])
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - began
print(os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss)
"""


def run_program(
    command: Sequence[str], output: Path, environment: dict[str, str] | None = None
) -> Timed:
    """Run a program with its output in a file: seconds from start to exit, and as ``memory, MiB``
    the peak memory of the program or of a child that it waited for.

    No figure of memory is below about 10 MiB, the peak of the interpreter that starts the program.
    An interrupt kills the program. AssertionError if it exits with another status than 0, OSError
    if it cannot be started.
    """
    words = [sys.executable, "-I", "-S", "-c", _STARTER, str(output), *command]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            output_text, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise OSError(f"{command[0]} could not be started")
    status, seconds, kib = output_text.split()
    if int(status):
        raise AssertionError(f"{' '.join(command)} ended with {status}")
    return Timed(float(seconds), result=0, also={f"memory{MIB}": int(kib) / 1024})


def python_call(module: str, function: str, *arguments: object) -> list[str]:
    """The words after ``python`` that call a function of this package, found by its path."""
    path = f"import sys; sys.path.insert(0, {FOLDER!r})"
    given = ", ".join(map(repr, arguments))
    return ["-c", f"{path}; from engine.{module} import {function}; {function}({given})"]


def run_python(words: list[str], output: Path) -> Timed:
    """Run a Python program whose modules are compiled, as those of an installed one are."""
    compiled = output.with_name("compiled")
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return run_program([sys.executable, *words], output, environment)
