"""Loops around system calls and memory in C: what the benchmarks divide by.

Positions are a contiguous array of int64 (an ``array("q")`` or NumPy's). All functions release the
GIL for the whole loop; the caller's block is scratch memory and must not be shared by threads.
"""

from array import array

from _typeshed import ReadableBuffer, WriteableBuffer
from numpy import int64
from numpy.typing import NDArray

_Int64s = NDArray[int64] | array[int]

def write_at(
    fd: int,
    block: WriteableBuffer,
    positions: _Int64s,
    *,
    sync_every: int = 0,
    flags: int = 0,
    pieces: int = 1,
    salt: int = 0,
    each: _Int64s | None = None,
) -> None:
    """``pwritev2`` of the block at each position; its first 8 bytes become the
    position, exclusive-or ``salt``.

    ``sync_every``: an ``fdatasync`` after so many writes, 0 for none. ``flags``: the kernel's
    ``RWF_*``. ``pieces``: the block as so many equal parts of one vector. ``each`` (int64) gets
    the nanoseconds of every write, with the sync that followed it. ``OSError`` as the kernel says.
    """

def write_ring(
    fd: int,
    blocks: WriteableBuffer,
    size: int,
    positions: _Int64s,
    *,
    depth: int,
    salt: int = 0,
) -> float:
    """Write a block of ``size`` bytes at each position through io_uring, ``depth`` (a power of two
    up to 64) on their way at any time; stamped as by ``write_at``. ``blocks`` holds ``depth`` of
    them. Seconds from the first write to the end of the last: without making the ring ready.
    ``OSError`` as the kernel says, ``ENOSYS`` or ``EPERM`` where it has no io_uring."""

def read_at(
    fd: int,
    block: WriteableBuffer,
    positions: _Int64s,
    *,
    summed: bool = False,
    pieces: int = 1,
) -> int:
    """``preadv`` of a block at each position; the exclusive or of all words if ``summed``, or 0.

    ``OSError``: as the kernel says, ``ENODATA`` where the file ends within a block.
    """

def store_at(
    target: WriteableBuffer,
    block: WriteableBuffer,
    positions: _Int64s,
    *,
    stamped: bool = False,
    salt: int = 0,
) -> None:
    """Copy the block to each position of memory, stamped as by ``write_at`` if
    ``stamped``. ``ValueError`` where one would reach outside."""

def store_all(target: WriteableBuffer, block: ReadableBuffer) -> int:
    """Copy the block over all of a memory, one after another; how many times it fitted."""

def load_at(source: ReadableBuffer, size: int, positions: _Int64s) -> int:
    """Read ``size`` bytes at each position of memory; the exclusive or of all words."""

def resident(mapping: ReadableBuffer, page: int) -> int:
    """How many pages of a mapped file are in memory, by ``mincore``."""
