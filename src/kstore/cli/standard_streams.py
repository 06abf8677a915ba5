"""Standard streams that are closed when a tool starts (``>&-``, ``2>&-``)."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def open_closed_streams(*, may_lose_output: bool) -> None:
    """Open ``/dev/null`` as standard output or standard error if that stream is closed.

    Standard output can only be read unless its loss does no harm: what is printed there fails with
    EBADF at the flush, as in other programs, and a tool that prints nothing is not affected.

    Otherwise Python sets the stream to None, and a log file could get its descriptor, so that other
    libraries' output to standard error would go into that file.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            is_lost = number == 2 or may_lose_output
            _occupy(number, os.O_WRONLY if is_lost else os.O_RDONLY)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _occupy(number: int, mode: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        sink = os.open(os.devnull, mode)
        os.dup2(sink, number)  # also makes it inheritable
        if sink != number:
            os.close(sink)


def forget_output(stream: TextIO) -> None:
    """Make the interpreter's flush of a standard stream at exit succeed."""
    with suppress(OSError, ValueError):  # captured: no file
        number = stream.fileno()
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(sink, number)
        finally:
            os.close(sink)
