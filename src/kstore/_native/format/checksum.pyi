"""CRC-32C (record batch v2) and CRC-32 (message v0 and v1), by the fastest path of this CPU.

The path is chosen once, at import: ``KSTORE_CPU=table|sse42|pclmul|avx2|avx512`` forces one; a path
that is unknown or that this CPU lacks is an ImportError. All functions take any object with a
contiguous buffer, never copy it, and are safe to call from several threads; the GIL is released
for buffers of 128 KiB and more. Every result is the finished checksum, 0 to 2**32 - 1. Passing an
earlier result as ``seed`` continues it: ``crc32c(b, crc32c(a)) == crc32c(a + b)``.
"""

from _typeshed import ReadableBuffer

def crc32c(buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32C (Castagnoli), as in record batches of magic 2."""

def crc32(buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32 (IEEE, zlib's), as in messages of magic 0 and 1."""

def crc32c_by(path: str, buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32C by a named path; ValueError if it is unknown or this CPU lacks it."""

def crc32_by(path: str, buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32 by a named path; ValueError if it is unknown or this CPU lacks it."""

def cpu_path() -> str:
    """The path in use."""

def supported_paths() -> tuple[str, ...]:
    """The paths that this CPU has, slowest first."""
