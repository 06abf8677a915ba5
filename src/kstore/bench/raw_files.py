"""Files of the raw workloads: aligned blocks, fresh and prewritten files, cold and warm pages."""

import mmap
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kstore._native import limits_disk
from kstore.bench.environment import in_memory

PAGE = mmap.PAGESIZE
RWF_DONTCACHE = 0x80  # Linux 6.14; Python does not name it yet
_BLOCK = 1 << 20

Positions = NDArray[np.int64]


def aligned(size: int, seed: int = 1) -> mmap.mmap:
    """Memory that O_DIRECT takes, filled with bytes that do not compress."""
    memory = mmap.mmap(-1, max(size, PAGE))
    memory[:] = np.random.default_rng(seed).bytes(len(memory))
    return memory


def block_of(size: int) -> memoryview:
    """Exactly ``size`` such bytes."""
    return memoryview(aligned(size))[:size]


def sequential(count: int, block: int) -> Positions:
    """Positions one after another."""
    return np.arange(count, dtype=np.int64) * block


def shuffled(count: int, block: int, within: int, seed: int = 7) -> Positions:
    """``count`` different blocks out of a file of ``within`` bytes, in no order."""
    slots = np.random.default_rng(seed).permutation(max(1, within // block))
    return slots[:count].astype(np.int64) * block


@contextmanager
def fresh(path: Path, flags: int = 0, reserve: int = 0) -> Iterator[int]:
    """A new file, gone afterwards with its dirty pages; ``reserve``: bytes to fallocate."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)
    try:
        if reserve:
            os.posix_fallocate(fd, 0, reserve)
        yield fd
    finally:
        os.close(fd)
        os.remove(path)


@contextmanager
def opened(path: Path, flags: int = os.O_RDWR) -> Iterator[int]:
    """A file that is there and stays."""
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def prewrite(path: Path, size: int, *, zeros: bool = True) -> Path:
    """A file of so many bytes, zeros or random, on disk and in page cache."""
    block = bytes(_BLOCK) if zeros else np.random.default_rng(3).bytes(_BLOCK)
    with open(path, "wb", buffering=0) as file:
        for start in range(0, size, _BLOCK):
            file.write(block[: min(_BLOCK, size - start)])
        os.fsync(file.fileno())
    return path


def drop(fd: int) -> None:
    """Let the page cache forget a clean file."""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def check_stamps(path: Path, positions: Positions, salt: int, sample: int) -> None:
    """Raise AssertionError unless the blocks say that this run wrote them; a spread of them."""
    with opened(path, os.O_RDONLY) as fd:
        for position in positions[:: max(1, len(positions) // sample)].tolist():
            if os.pread(fd, 8, position) != array("q", [position ^ salt]).tobytes():
                raise AssertionError(f"the block at {position} of {path.name} is not what was put")


def sync_below(directory: Path) -> None:
    """Every file below is on disk: what is still dirty would be written back later, while somebody
    is timed who has nothing to do with it."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with opened(path, os.O_RDONLY) as fd:
                os.fsync(fd)


def kept_pages(fd: int, size: int) -> str:
    """Have the page cache forget a file; what is told where more than a twentieth of it stays."""
    drop(fd)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapping:
        found = limits_disk.resident(mapping, PAGE)
    pages = -(-size // PAGE)
    return f"{found} of {pages} pages stayed in the cache" if found > max(1, pages // 20) else ""


def why_not_cold(path: Path) -> str:
    """Why a file cannot be read as one that the cache has forgotten, or an empty string."""
    if kind := in_memory(path.parent):
        return f"{kind} has its files in memory and nowhere else"
    with opened(path, os.O_RDONLY) as fd:
        return kept_pages(fd, os.fstat(fd).st_size)


def refusal(directory: Path, flags: int = 0, rwf: int = 0, size: int = PAGE) -> str:
    """Why a file cannot be written that way here by so many bytes, or an empty string."""
    path = directory / "probe"
    memory = block_of(size)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.remove(path)
        return f"open: {error.strerror}"
    try:
        os.pwritev(fd, [memory], 0, rwf)
    except OSError as error:
        return f"pwritev2: {error.strerror}"
    finally:
        os.close(fd)
        os.remove(path)
    return ""
