from typing import Any

from _typeshed import ReadableBuffer
from numpy import int32, int64, uint8
from numpy.typing import NDArray

_Data = ReadableBuffer | NDArray[Any]

def gather(data: _Data, positions: NDArray[int64], lengths: NDArray[int32]) -> list[bytes | None]:
    """The rows as bytes, None where the length is negative; ``ValueError`` outside the data."""

def read_headers(data: _Data, position: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """The ``count`` headers whose encoding starts at ``position``."""

def place_headers(
    data: _Data,
    positions: NDArray[int64],
    counts: NDArray[int32],
    name_positions: NDArray[int64],
    name_lengths: NDArray[int32],
    value_positions: NDArray[int64],
    value_lengths: NDArray[int32],
) -> int:
    """Fill the last four arrays with the positions of all headers of all rows; returns how many."""

def pack(
    data: _Data,
    positions: NDArray[int64],
    lengths: NDArray[int32],
    offsets: _Data,
    out: _Data,
) -> int:
    """Copy the rows one after another into ``out``, and where each begins into ``offsets``.

    ``offsets`` takes one int32 more than there are rows (Arrow's binary layout); null rows are
    empty. Both are writable buffers. Returns how many rows are null; ``ValueError`` for rows
    outside the data, or more bytes than ``out`` has.
    """

def total_size(lengths: NDArray[int32]) -> int:
    """The sum of the lengths that are not negative."""

def binary_views(
    data: _Data, positions: NDArray[int64], lengths: NDArray[int32], out: NDArray[uint8]
) -> None:
    """Write Arrow's 16-byte binary views of the rows into ``out``; longer rows are not copied."""
