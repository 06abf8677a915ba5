"""Functions with which tests damage files. Each asserts that the file has changed.

Damage that changes nothing (zeros over a zero, a cut at the end) would let a test pass, or fail
once in 256 runs, for the wrong reason.
"""

import os
from pathlib import Path


def write_damaged(path: str | os.PathLike[str], data: bytes | bytearray) -> None:
    """Replace the contents of a file."""
    path = Path(path)
    assert path.read_bytes() != data, f"{path.name} would stay as it is"
    path.write_bytes(data)


def flip(path: str | os.PathLike[str], position: int, mask: int = 1) -> None:
    """Flip the bits of mask in one byte; a negative position counts from the end."""
    data = bytearray(Path(path).read_bytes())
    data[position] ^= mask
    write_damaged(path, data)


def overwrite(path: str | os.PathLike[str], position: int, data: bytes) -> None:
    """Overwrite bytes at a position without changing the size."""
    before = Path(path).read_bytes()
    assert 0 <= position <= len(before) - len(data), "beyond the end"
    write_damaged(path, before[:position] + data + before[position + len(data) :])


def cut(path: str | os.PathLike[str], size: int) -> None:
    """Truncate a file to ``size``; a negative size removes this many bytes."""
    before = os.path.getsize(path)
    left = before + size if size < 0 else size
    assert 0 <= left < before, f"{before} bytes cannot be cut to {left}"
    os.truncate(path, left)
