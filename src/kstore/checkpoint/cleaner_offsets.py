"""``cleaner-offset-checkpoint``: how far the log cleaner has compacted each partition."""

import os
import threading

from kstore.checkpoint.offset_checkpoint import Partition, read_offsets, write_offsets
from kstore.errors import CorruptFileError
from kstore.files import filenames
from kstore.files.files import Files

_LOCK = threading.Lock()  # the file is read, changed and written by several threads


def read_cleaner_offset(files: Files, directory: str, partition: Partition) -> int | None:
    """The first dirty offset of the partition in a directory; None without a readable entry."""
    return _read(files, _path(directory)).get(partition)


def write_cleaner_offset(files: Files, directory: str, partition: Partition, offset: int) -> None:
    """Store a partition's first dirty offset.

    Entries of partitions that are not in the log directory are dropped, as Kafka does.
    """
    path = _path(directory)
    log_dir = os.path.dirname(path)
    with _LOCK:
        offsets = {
            key: value
            for key, value in _read(files, path).items()
            if files.kind(os.path.join(log_dir, f"{key[0]}-{key[1]}")) == "directory"
        }
        offsets[partition] = offset
        write_offsets(files, path, offsets)


def lower_cleaner_offset(files: Files, directory: str, partition: Partition, offset: int) -> None:
    """After a truncation: nothing from offset on was compacted."""
    known = read_cleaner_offset(files, directory, partition)
    if known is not None and known > offset:
        write_cleaner_offset(files, directory, partition, offset)


def _path(directory: str) -> str:
    return os.path.join(os.path.dirname(directory), filenames.CLEANER_OFFSETS)


def _read(files: Files, path: str) -> dict[Partition, int]:
    try:
        return read_offsets(files, path)
    except CorruptFileError:  # the cleaner repeats some work
        return {}
