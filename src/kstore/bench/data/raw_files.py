"""Raw files: aligned blocks, new and prewritten files, bare writes, cold and warm pages."""

import mmap
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from kstore._native.bench import disk_loops
from kstore.bench.runner.environment import in_memory

PAGE = mmap.PAGESIZE
RWF_DONTCACHE = 0x80  # Linux 6.14; not in Python's os module yet
_BLOCK = 1 << 20

Positions = NDArray[np.int64]


def aligned(size: int, seed: int = 1) -> mmap.mmap:
    """Memory with the alignment that O_DIRECT needs, filled with random bytes."""
    memory = mmap.mmap(-1, max(size, PAGE))
    memory[:] = np.random.default_rng(seed).bytes(len(memory))
    return memory


def block_of(size: int) -> memoryview:
    """Exactly ``size`` bytes of :func:`aligned` memory."""
    return memoryview(aligned(size))[:size]


def sequential(count: int, block: int) -> Positions:
    """Positions of consecutive blocks."""
    return np.arange(count, dtype=np.int64) * block


def shuffled(count: int, block: int, within: int, seed: int = 7) -> Positions:
    """Positions of ``count`` different blocks of a file of ``within`` bytes, in random order."""
    slots = np.random.default_rng(seed).permutation(max(1, within // block))
    return slots[:count].astype(np.int64) * block


@contextmanager
def fresh(path: Path, flags: int = 0, reserve: int = 0) -> Iterator[int]:
    """A new file, deleted afterwards with its dirty pages; ``reserve``: bytes to fallocate."""
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
    """An existing file, which is kept."""
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def raw_file(directory: Path, size: int, flags: int = os.O_APPEND) -> Iterator[int]:
    """A new file that must have ``size`` bytes at the end; it is deleted afterwards."""
    with fresh(directory / "raw", flags) as fd:
        yield fd
        if os.fstat(fd).st_size != size:
            raise AssertionError("not everything was written")


def write_blocks(directory: Path, blocks: Sequence[bytes], sync_every: float = 0) -> float:
    """Seconds that write(2) of all blocks into a new file takes.

    ``sync_every``: an fdatasync before more bytes than that would be unsynced, and one at the end;
    ``inf`` syncs at the end only, 0 never.
    """
    with raw_file(directory, sum(map(len, blocks))) as fd:
        write, unsynced = os.write, 0
        started = perf_counter()
        if not sync_every:
            for block in blocks:
                write(fd, block)
            return perf_counter() - started
        for block in blocks:
            unsynced += write(fd, block)
            if unsynced + len(block) > sync_every:
                os.fdatasync(fd)
                unsynced = 0
        if unsynced:
            os.fdatasync(fd)
        return perf_counter() - started


def prewrite(path: Path, size: int, *, zeros: bool = True) -> Path:
    """Write a file of zeros or random bytes that is on disk and in page cache."""
    block = bytes(_BLOCK) if zeros else np.random.default_rng(3).bytes(_BLOCK)
    with open(path, "wb", buffering=0) as file:
        for start in range(0, size, _BLOCK):
            file.write(block[: min(_BLOCK, size - start)])
        os.fsync(file.fileno())
    return path


def drop(fd: int) -> None:
    """Drop a file from the page cache, after a sync."""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def read_into_cache(fd: int) -> None:
    """Read all of a file, so that it is in the page cache if memory allows."""
    size = os.fstat(fd).st_size
    count = size // _BLOCK
    disk_loops.read_at(fd, block_of(_BLOCK), sequential(count, _BLOCK))
    os.pread(fd, size - count * _BLOCK, count * _BLOCK)


def check_stamps(path: Path, positions: Positions, salt: int, sample: int) -> None:
    """AssertionError unless a sample of the blocks carries the stamps of this run."""
    with opened(path, os.O_RDONLY) as fd:
        for position in positions[:: max(1, len(positions) // sample)].tolist():
            if os.pread(fd, 8, position) != array("q", [position ^ salt]).tobytes():
                raise AssertionError(f"the block at {position} of {path.name} is not what was put")


def sync_below(directory: Path) -> None:
    """Sync every file below a directory, so that nothing is written back while others are timed."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with opened(path, os.O_RDONLY) as fd:
                os.fsync(fd)


def kept_pages(fd: int, size: int) -> str:
    """Drop a file from the page cache; a reason if more than a twentieth of it stays there."""
    drop(fd)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapping:
        found = disk_loops.resident(mapping, PAGE)
    pages = -(-size // PAGE)
    return f"{found} of {pages} pages stayed in the cache" if found > max(1, pages // 20) else ""


def why_not_cold(path: Path) -> str:
    """Why a file cannot be read cold, or an empty string."""
    if kind := in_memory(path.parent):
        return f"{kind} has its files in memory and nowhere else"
    with opened(path, os.O_RDONLY) as fd:
        return kept_pages(fd, os.fstat(fd).st_size)


def refusal(directory: Path, flags: int = 0, rwf: int = 0, size: int = PAGE) -> str:
    """Why a file cannot be written here in this way, in blocks of ``size``, or an empty string."""
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
