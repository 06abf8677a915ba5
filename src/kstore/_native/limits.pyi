"""What the machine can do at best: the ceilings that the benchmarks divide by.

All release the GIL and are safe to call from several threads.
"""

from _typeshed import ReadableBuffer, WriteableBuffer

def read_all(buffer: ReadableBuffer) -> int:
    """Read every byte and do as little as possible with it; return the words' exclusive or."""

def copy(target: WriteableBuffer, source: ReadableBuffer) -> int:
    """``memcpy``; returns the size. ``ValueError`` if the source is longer."""

def count_frames(buffer: ReadableBuffer) -> int:
    """Walk the frames from the start in one chain, as a plain C loop does; return how many."""
