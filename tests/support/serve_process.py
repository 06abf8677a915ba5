"""``kstore serve`` in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

WAIT = 60


@contextmanager
def serving(
    *words: object, port: tuple[str, ...] = ("--port", "0")
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The process once its line has come, and the address in it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kstore", "serve", *port, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("kstore serves "), process.communicate(timeout=WAIT)
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()
