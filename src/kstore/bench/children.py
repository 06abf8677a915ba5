"""Whole programs: how long they take, and the most memory that each had by itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kstore.bench.contest import Timed
from kstore.bench.table import MIB

# Linux carries the peak of the old memory over an exec, and a child that is only there to exec has
# its parent's: from a bench with large data every program would seem as large as the bench. A small
# interpreter starts it instead, so that the peak of that one is all that can be carried over.
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
    """A program with its output in a file: seconds from its start to its end, and as
    ``memory, MiB`` the most memory that it, or one that it waited for, had at once.

    No figure of memory is below about 10 MiB, the peak of the interpreter that starts the program.
    What is under way when this is interrupted is killed. AssertionError where it ends with another
    status than 0, OSError where it cannot be started.
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
            told, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise OSError(f"{command[0]} could not be started")
    status, seconds, kib = told.split()
    if int(status):
        raise AssertionError(f"{' '.join(command)} ended with {status}")
    return Timed(float(seconds), result=0, also={f"memory{MIB}": int(kib) / 1024})
