"""Partition directories written without kstore, as a crash may leave them."""

import os
from pathlib import Path

from engine.data.batches import at_offsets, build_batch
from kstore.bench.data.raw_files import opened
from kstore.files import filenames
from kstore.files.files import DISK

# name: records in a batch of 100-byte values; about 16 KB, 1.1 KB and 170 bytes
SHAPES = {"16 KB batches": 150, "1.1 KB batches": 10, "one-record batches": 1}
TOPIC = "many"
INDEXES = ("*/*.index", "*/*.timeindex")


def write_partition(directory: Path, records: int, size: int) -> int:
    """Write a synced segment of about ``size`` bytes, without indexes; return its end offset."""
    directory.mkdir(parents=True, exist_ok=True)
    batch = build_batch(records)
    count = max(1, size // len(batch))
    with (directory / filenames.log_name(0)).open("wb", buffering=1 << 20) as file:
        file.writelines(at_offsets(batch, count, records))
        file.flush()
        os.fsync(file.fileno())
    return count * records


def write_store(root: Path, partitions: int, records: int, size: int) -> int:
    """Write partitions of about ``size`` bytes each; return the sum of their end offsets."""
    return sum(
        write_partition(root / f"{TOPIC}-{number}", records, size) for number in range(partitions)
    )


def make_unclean(root: Path) -> None:
    """Leave of a closed log dir what a kill leaves when nothing was flushed.

    Indexes keep their sizes and hold zeros (Kafka recovers a segment twice where they are
    missing). Checkpoints and the producer snapshots at the ends are gone.
    """
    for pattern in (".kafka_cleanshutdown", "*-checkpoint", "*/*.snapshot"):
        for path in root.glob(pattern):
            path.unlink()
    zero_indexes(root)


def zero_indexes(root: Path) -> None:
    for pattern in INDEXES:
        for path in root.glob(pattern):
            path.write_bytes(bytes(os.stat(path).st_size))


def read_file(path: Path) -> int:
    """Open a file and read it once; return its size. The floor of a full scan."""
    with opened(path, os.O_RDONLY) as fd:
        return read_descriptor(fd)


def read_descriptor(fd: int) -> int:
    """Read a file once through a small buffer; return its size."""
    buffer = memoryview(bytearray(1 << 18))
    position = 0
    while size := DISK.preadv_into(fd, buffer, position):
        position += size
    return position
