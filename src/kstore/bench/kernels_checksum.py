"""Checksums of hot buffers: the cost of one call, and the speed within it."""

import random

SIZES = (64, 100, 256, 1024, 4096, 16384, 65536, 1 << 20)


def buffer(size: int) -> bytes:
    """Bytes that no path can guess, the same in every run."""
    return random.Random(size).randbytes(size)
