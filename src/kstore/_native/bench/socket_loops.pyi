"""Minimal C loops that send a file to a socket: the ceilings of the benchmarks.

Sockets are blocking. Every function releases the GIL during the loop and raises OSError: ENODATA if
the file is shorter than ``size``.
"""

from _typeshed import ReadableBuffer, WriteableBuffer

def send_file(out: int, file: int, size: int, chunk: int) -> None:
    """``sendfile`` of the first ``size`` bytes, one chunk for each call."""

def read_and_send(out: int, file: int, buffer: WriteableBuffer, size: int, chunk: int) -> None:
    """``pread`` of each chunk into the buffer, then ``send``."""

def send_memory(
    out: int, data: ReadableBuffer, size: int, chunk: int, *, repeated: bool = False
) -> None:
    """``send`` of memory (a mapped file) in chunks; ``repeated``: the first chunk each time."""

def splice_file(out: int, file: int, pipe_out: int, pipe_in: int, size: int, chunk: int) -> None:
    """``splice`` of a file into a pipe (write end ``pipe_in``), and of the pipe into the socket."""

def send_zerocopy(out: int, data: ReadableBuffer, size: int, chunk: int) -> tuple[int, int]:
    """``send`` with ``MSG_ZEROCOPY``, until all sends complete; returns their number, and how many
    the kernel copied nevertheless."""

def receive(file: int, buffer: WriteableBuffer, *, drop: bool = False) -> int:
    """Receive until the sender closes; returns the number of bytes. ``drop``: with ``MSG_TRUNC``,
    so that the kernel discards them without a copy."""
