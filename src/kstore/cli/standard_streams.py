"""Standard streams that are closed when a tool starts (``2>&-``): output to them is discarded."""

import os
import sys
from contextlib import suppress


def open_closed_streams() -> None:
    """Open ``/dev/null`` where standard output or standard error is closed.

    Otherwise Python has None for it, and a log's file would get its descriptor: what other
    libraries write to standard error would go into that file.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            _occupy(number)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _occupy(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, number)  # also makes it inheritable
        if sink != number:
            os.close(sink)


def forget_output() -> None:
    """Let the interpreter's own flush at exit find nothing to complain about."""
    with suppress(OSError, ValueError):  # captured: no file
        number = sys.stdout.fileno()
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(sink, number)
        finally:
            os.close(sink)
