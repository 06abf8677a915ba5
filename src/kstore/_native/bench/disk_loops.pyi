"""Minimal C loops around system calls and memory: the ceilings of the benchmarks.

Positions are a contiguous array of int64 (an ``array("q")`` or a NumPy array). All functions
release the GIL during the loop; the caller's block is scratch memory of one thread.
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
    iovecs: int = 1,
    salt: int = 0,
    each: _Int64s | None = None,
) -> None:
    """``pwritev2`` of the block at each position; sets its first 8 bytes to the position, XOR
    ``salt``.

    ``sync_every``: number of writes before each ``fdatasync``, 0 for none. ``flags``: the kernel's
    ``RWF_*``. ``iovecs``: split the block into that many equal iovecs. ``each`` (int64) receives
    the nanoseconds of every write, including its sync. Raises ``OSError``.
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
    """Write a block of ``size`` bytes at each position through io_uring, with ``depth`` (a power of
    two up to 64) writes in flight; stamps blocks as ``write_at``. ``blocks`` has room for
    ``depth`` blocks. Returns the seconds from the first write to the end of the last, without the
    setup of the ring. Raises ``OSError``: ``ENOSYS`` or ``EPERM`` without io_uring."""

def read_at(
    fd: int,
    block: WriteableBuffer,
    positions: _Int64s,
    *,
    summed: bool = False,
    iovecs: int = 1,
) -> int:
    """``preadv`` of a block at each position; returns the XOR of all words if ``summed``, else 0.

    Raises ``OSError``: ``ENODATA`` if the file ends within a block.
    """

def store_at(
    target: WriteableBuffer,
    block: WriteableBuffer,
    positions: _Int64s,
    *,
    stamped: bool = False,
    salt: int = 0,
) -> None:
    """Copy the block to each position of memory; if ``stamped``, stamps it as ``write_at``.
    ``ValueError`` for a position where the block exceeds the memory."""

def store_all(target: WriteableBuffer, block: ReadableBuffer) -> int:
    """Fill the memory with copies of the block; returns their number."""

def load_at(source: ReadableBuffer, size: int, positions: _Int64s) -> int:
    """Read ``size`` bytes at each position of memory; returns the XOR of all words."""

def resident(mapping: ReadableBuffer, page: int) -> int:
    """Number of resident pages of a mapped file, by ``mincore``."""
