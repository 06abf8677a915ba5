"""Partition directories built by hand: batches of one record, segments, their indexes."""

import os
from collections.abc import Iterable
from pathlib import Path

from kstore._native.append.encode import BatchBuffer
from kstore.config import LogConfig
from kstore.files import filenames
from kstore.files.files import Files
from oracle import writer
from oracle.plain import PlainRecord
from oracle.recovery import recover

CONFIG = LogConfig(index_interval_bytes=100)


class Unsynced(Files):
    """A disk without syncs, for tests with thousands of directories."""

    def fsync(self, fd):
        assert os.fstat(fd)

    def sync_directory(self, path):
        assert os.path.isdir(path)


class Copying(Unsynced):
    """A disk without memory mapping, like test doubles."""

    native = False

    def map(self, fd, size):
        raise AssertionError("not to be mapped")


def batches(first, count, *, size=60, epoch=0):
    """Batches of one record each, with offsets first to first + count - 1."""
    return [
        writer.batch(
            [PlainRecord(offset, 1_000 + offset, None, bytes([offset % 251]) * size)],
            leader_epoch=epoch,
        )
        for offset in range(first, first + count)
    ]


def write_segment(directory, first, parts, *, index=True):
    data = b"".join(parts)
    (directory / filenames.log_name(first)).write_bytes(data)
    if index:
        (directory / filenames.index_name(first)).write_bytes(b"")
        # Valid, but different from what a scan would write; a scan rewrites both.
        times = writer.time_index([(1, first)], first) if data else b""
        (directory / filenames.time_index_name(first)).write_bytes(times)
    return data


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def check_indexes(directory, base, data):
    expected = recover(data, base, CONFIG.index_interval_bytes)
    assert expected.valid_size == len(data)
    found = contents(directory)
    assert found[filenames.log_name(base)] == data
    assert found[filenames.index_name(base)] == writer.offset_index(expected.index, base)
    assert found[filenames.time_index_name(base)] == writer.time_index(expected.time_index, base)


def write_pairs(folder: Path, pairs: Iterable[tuple[bytes | None, bytes | None]]) -> Path:
    """The log file of a segment with one batch of these keys and values."""
    buffer = BatchBuffer()
    buffer.reset()
    for key, value in pairs:
        buffer.put(value, key, [], 1000)
    path = folder / "00000000000000000000.log"
    path.write_bytes(buffer.to_bytes(0, 3))
    return path
