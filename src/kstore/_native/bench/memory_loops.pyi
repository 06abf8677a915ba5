"""What the machine can do at best: the ceilings that the benchmarks divide by.

All but ``search`` and ``load`` release the GIL; all are safe to call from several threads.
"""

from array import array
from typing import Any

from _typeshed import ReadableBuffer, WriteableBuffer
from numpy import int64
from numpy.typing import NDArray

def read_all(buffer: ReadableBuffer) -> int:
    """Read every byte and do as little as possible with it; return the words' exclusive or."""

def load(buffer: ReadableBuffer, position: int, size: int) -> int:
    """Read so few bytes at a place that is known: a lookup without its search. Their words'
    exclusive or. ``ValueError`` where they are not within the buffer."""

def copy(target: WriteableBuffer, source: ReadableBuffer) -> int:
    """``memcpy``; returns the size. ``ValueError`` if the source is longer."""

def count_frames(buffer: ReadableBuffer) -> int:
    """Walk the frames from the start in one chain, as a plain C loop does; return how many."""

def search(
    how: str, entries: ReadableBuffer | NDArray[Any], targets: NDArray[int64] | array[int]
) -> int:
    """Look up each relative offset in index entries of 8 bytes, each lookup after the one before;
    the sum of the positions. ``how``: ``branchy`` (as Kafka's), ``branchless``, ``prefetching``."""

def compiler() -> str:
    """What compiled the extensions, as the compiler calls itself."""
