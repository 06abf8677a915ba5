from _typeshed import ReadableBuffer
from numpy import int32, int64
from numpy.typing import NDArray

def encode(values: bytes, size: int, out: ReadableBuffer) -> tuple[int, int]:
    """Encode values of one size that lie one after another; returns (bytes, CRC-32C)."""

def decode(batches: bytes, positions: NDArray[int64], lengths: NDArray[int32]) -> tuple[int, int]:
    """Where the values of whole batches lie; returns (records, batches with another CRC-32C)."""
