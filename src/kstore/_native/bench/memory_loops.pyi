"""Minimal C loops over memory: the ceilings of the benchmarks.

All but ``search`` and ``load`` release the GIL; all are safe to call from several threads.
"""

from array import array
from typing import Any

from _typeshed import ReadableBuffer, WriteableBuffer
from numpy import int64
from numpy.typing import NDArray

def read_all(buffer: ReadableBuffer) -> int:
    """Read every byte; returns the XOR of the words."""

def load(buffer: ReadableBuffer, position: int, size: int) -> int:
    """Read a few bytes at a known position: a lookup without its search. Returns the XOR of
    their words. ``ValueError`` for a range outside the buffer."""

def copy(target: WriteableBuffer, source: ReadableBuffer) -> int:
    """``memcpy``; returns the size. ``ValueError`` if the source is longer."""

def count_frames(buffer: ReadableBuffer) -> int:
    """Walk the frames from the start in one chain; returns their number."""

def search(
    how: str, entries: ReadableBuffer | NDArray[Any], targets: NDArray[int64] | array[int]
) -> int:
    """Look up relative offsets in index entries of 8 bytes, each after the result of the previous
    one; returns the sum of the positions. ``how``: ``branchy`` (as in Kafka), ``branchless``,
    ``prefetching``."""

def compiler() -> str:
    """Version string of the compiler of the extensions."""
