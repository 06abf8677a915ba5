"""A segment that a crash left behind: batches of one size, to be checked and indexed anew."""

import os
from pathlib import Path
from time import perf_counter

from kstore._native.encode import BatchBuffer
from kstore.bench.contest import Timed
from kstore.config import LogConfig, StoreConfig
from kstore.log import filenames
from kstore.log.files import DISK, Files
from kstore.log.recovery import recover_partition
from kstore.log.verify import verify_partition
from kstore.store import Store

# name: (records in a batch, bytes of a value); about 16 KB, 1.1 KB and 170 bytes a batch.
SHAPES = {"16 KB batches": (150, 100), "1.1 KB batches": (10, 100), "one-record batches": (1, 100)}


def batch(records: int, value_size: int) -> bytes:
    """One batch at offset 0 with random-looking values."""
    buffer = BatchBuffer()
    for n in range(records):
        value = bytes((n * 31 + at * 7) & 0xFF for at in range(value_size))
        buffer.put(value, None, None, 1_700_000_000_000 + n)
    return buffer.to_bytes(0, 0, 0)


def write_segment(path: Path, records: int, value_size: int, size: int) -> int:
    """Write a segment of about size bytes from offset 0, and sync it; returns the offset after its
    end.

    All batches are one batch under other base offsets, which its checksum does not cover.
    """
    one = bytearray(batch(records, value_size))
    count = max(1, size // len(one))
    block = max(1, (1 << 22) // len(one))
    with path.open("wb") as file:
        for first in range(0, count, block):
            here = min(block, count - first)
            many = one * here
            for n in range(here):
                start = n * len(one)
                many[start : start + 8] = ((first + n) * records).to_bytes(8, "big")
            file.write(many)
        file.flush()
        os.fsync(file.fileno())
    return count * records


def write_partition(directory: Path, records: int, value_size: int, size: int) -> int:
    """A partition directory of one segment without indexes, as a crash may leave it."""
    directory.mkdir(parents=True, exist_ok=True)
    return write_segment(directory / filenames.log_name(0), records, value_size, size)


def read_whole(path: Path) -> int:
    """Read a file through a small buffer and forget it: a limit for whoever must see every byte."""
    buffer = memoryview(bytearray(1 << 18))
    fd = DISK.open(path)
    try:
        position = 0
        while size := DISK.preadv_into(fd, buffer, position):
            position += size
    finally:
        DISK.close(fd)
    return position


def recover(directory: Path) -> tuple[int, int]:
    """Recover as after a kill, without syncs; returns (batches, end offset)."""
    for name in (filenames.index_name(0), filenames.time_index_name(0)):
        if DISK.exists(directory / name):
            DISK.remove(directory / name)
    recovered = recover_partition(DISK, directory, 0, LogConfig(), sync=False)
    end = recovered.segments[-1].next_offset
    assert end is not None
    return recovered.report.batches, end


def verify(directory: Path, threads: int) -> int:
    """Audit the directory; returns the number of batches, all of them right."""
    report = verify_partition(DISK, directory, threads=threads)
    report.raise_if_corrupt()
    return report.batches


# --- a whole store ------------------------------------------------------------------------------

SIDE_FILES = ("*/*.index", "*/*.timeindex")


def write_store(root: Path, partitions: int, records: int, value_size: int, size: int) -> int:
    """Partitions ``many-N`` of about size bytes each; returns the sum of their end offsets."""
    return sum(
        write_partition(root / f"many-{number}", records, value_size, size)
        for number in range(partitions)
    )


def kill(root: Path) -> None:
    """Make a closed log directory what a kill leaves of it when nothing was ever flushed.

    Indexes are there, as large as they were, and hold zeros (Kafka recovers a segment twice
    where they are missing); producer snapshots at the ends are not.
    """
    for pattern in (".kafka_cleanshutdown", "*-checkpoint", "*/*.snapshot"):
        for path in root.glob(pattern):
            path.unlink()
    for pattern in SIDE_FILES:
        for path in root.glob(pattern):
            path.write_bytes(bytes(os.stat(path).st_size))


def open_unclean(root: Path, threads: int, files: Files = DISK) -> Timed:
    """Open a store after a kill: all of it recovered; the sum of end offsets is the result."""
    config = StoreConfig(background=False, num_recovery_threads_per_data_dir=threads)
    started = perf_counter()
    with Store(root, config=config, files=files) as store:
        seconds = perf_counter() - started
        if store.recovery.failed or not store.recovery.unclean:
            raise AssertionError(str(store.recovery))
        return Timed(seconds, result=sum(store.end_offsets().values()))
