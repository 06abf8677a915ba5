"""CRC-32C (record batch v2) and CRC-32 (message v0 and v1), by the fastest path for this CPU.

The import chooses a path; ``KSTORE_CPU=table|sse42|pclmul|avx2|avx512`` forces one, and an unknown
or unsupported path is an ImportError. All functions accept any object with a contiguous buffer,
do not copy it, and are safe to call from several threads; they release the GIL for buffers of 128
KiB and more. Every result is the final checksum, 0 to 2**32 - 1. ``seed`` is the result for the
preceding bytes: ``crc32c(b, crc32c(a)) == crc32c(a + b)``.
"""

from _typeshed import ReadableBuffer

def crc32c(buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32C (Castagnoli), as in record batches of magic 2."""

def crc32(buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32 (IEEE, as in zlib), as in messages of magic 0 and 1."""

def crc32c_by(path: str, buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32C by a named path; ValueError if it is unknown or unsupported."""

def crc32_by(path: str, buffer: ReadableBuffer, seed: int = 0) -> int:
    """CRC-32 by a named path; ValueError if it is unknown or unsupported."""

def cpu_path() -> str:
    """The path in use."""

def supported_paths() -> tuple[str, ...]:
    """The paths that this CPU supports, slowest first."""
