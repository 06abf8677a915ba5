from typing import Any

from _typeshed import ReadableBuffer
from numpy import int32, int64, uint8
from numpy.typing import NDArray

from kstore._native.format.record import RecordHeaders

_Data = ReadableBuffer | NDArray[Any]

def gather(data: _Data, positions: NDArray[int64], lengths: NDArray[int32]) -> list[bytes | None]:
    """The rows as bytes, None for a negative length; ``ValueError`` outside the data."""

def read_headers(data: _Data, position: int, count: int) -> RecordHeaders:
    """Parse ``count`` encoded headers at ``position``."""

def locate_headers(
    data: _Data,
    positions: NDArray[int64],
    counts: NDArray[int32],
    name_positions: NDArray[int64],
    name_lengths: NDArray[int32],
    value_positions: NDArray[int64],
    value_lengths: NDArray[int32],
) -> int:
    """Fill the last four arrays with the positions of all rows' headers; returns their number."""

def pack(
    data: _Data,
    positions: NDArray[int64],
    lengths: NDArray[int32],
    offsets: _Data,
    out: _Data,
) -> int:
    """Copy the rows to ``out``, without gaps, and their starts to ``offsets``.

    ``offsets`` has one int32 more than there are rows (Arrow's binary layout); null rows are
    empty. Both are writable buffers. Returns the number of null rows; ``ValueError`` for rows
    outside the data, or if ``out`` is too small.
    """

def total_size(lengths: NDArray[int32]) -> int:
    """The sum of the lengths that are not negative."""

def binary_views(
    data: _Data, positions: NDArray[int64], lengths: NDArray[int32], out: NDArray[uint8]
) -> None:
    """Write Arrow's 16-byte binary views of the rows to ``out``; does not copy long rows."""
