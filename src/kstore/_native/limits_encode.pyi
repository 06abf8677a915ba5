from _typeshed import ReadableBuffer

def encode(values: bytes, size: int, out: ReadableBuffer) -> tuple[int, int]:
    """Encode values of one size that lie one after another; returns (bytes, CRC-32C)."""
