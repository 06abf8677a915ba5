"""Loops in C that put a file into a socket: what the benchmarks divide by.

Sockets are blocking. Every function releases the GIL for the whole loop and raises OSError as the
kernel says, ENODATA where the file is shorter than ``size``.
"""

from _typeshed import ReadableBuffer, WriteableBuffer

def send_file(out: int, file: int, size: int, chunk: int) -> None:
    """``sendfile`` of the first ``size`` bytes, a chunk a call."""

def read_and_send(out: int, file: int, buffer: WriteableBuffer, size: int, chunk: int) -> None:
    """``pread`` of a chunk into the buffer and ``send``, over and over."""

def send_memory(
    out: int, data: ReadableBuffer, size: int, chunk: int, *, repeated: bool = False
) -> None:
    """``send`` of memory (a mapped file) by chunks; ``repeated``: the first chunk each time."""

def splice_file(out: int, file: int, pipe_out: int, pipe_in: int, size: int, chunk: int) -> None:
    """``splice`` of a file into a pipe (written at ``pipe_in``), of the pipe into the socket."""

def send_zerocopy(out: int, data: ReadableBuffer, size: int, chunk: int) -> tuple[int, int]:
    """``send`` with ``MSG_ZEROCOPY`` until all are finished; how many there were, and how many of
    them the kernel copied after all."""

def receive(file: int, buffer: WriteableBuffer, *, drop: bool = False) -> int:
    """Receive until the sender closes; how many bytes. ``drop``: with ``MSG_TRUNC``, so that the
    kernel forgets them without a copy."""
