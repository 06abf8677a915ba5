from _typeshed import ReadableBuffer
from numpy import int32, int64
from numpy.typing import NDArray

def encode(values: bytes, size: int, out: ReadableBuffer) -> tuple[int, int]:
    """Encode consecutive values of one size; returns (bytes, CRC-32C)."""

def decode(batches: bytes, positions: NDArray[int64], lengths: NDArray[int32]) -> tuple[int, int]:
    """Find the values in complete batches; returns (records, batches with a wrong CRC-32C)."""
