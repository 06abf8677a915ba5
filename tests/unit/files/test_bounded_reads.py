"""Bytes after the last batch are read in bounded chunks, however many there are.

A broker with ``preallocate`` leaves a segment of ``segment.bytes`` with zeros behind its batches;
so does a file system that lost data in a power cut.
"""

import os
from contextlib import closing
from pathlib import Path

import pytest

from kstore.files.files import DISK
from support.disks import HastyDisk
from support.logs import open_log, read_log

MIB = 1 << 20
HOLE = 100 * MIB


class Measuring(HastyDisk):
    largest = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.largest = max(self.largest, len(data))
        return data


def make(directory: Path, values: list[bytes]) -> None:
    with closing(open_log(directory)) as log:
        for value in values:
            log.append(value)
    for name in ("index", "timeindex"):
        (directory / f"{0:020d}.{name}").unlink()


@pytest.mark.parametrize("start", [b"", b"\0" * 8 + b"\x7f\xff\xff\xff", b"rubbish " * 20])
def test_a_hole_behind_the_records_is_read_in_bounded_chunks(tmp_path: Path, start: bytes) -> None:
    directory = tmp_path / "t-0"
    make(directory, [b"one", b"two"])
    path = directory / f"{0:020d}.log"
    with path.open("ab") as file:
        file.write(start)
        file.truncate(file.tell() + HOLE)
    disk = Measuring()
    with closing(read_log(directory, files=disk)) as beside:
        assert [record.value for record in beside] == [b"one", b"two"]
    assert 0 < disk.largest <= 8 * MIB
    disk = Measuring()
    with closing(open_log(directory, files=disk, clean=False)) as log:
        assert [record.value for record in log] == [b"one", b"two"]
    assert 0 < disk.largest <= 8 * MIB


def test_a_batch_larger_than_one_read_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    settings = {"max_message_bytes": 1 << 30}
    values = [b"small", b"x" * (9 * MIB), b"small again"]
    with closing(open_log(directory, **settings)) as log:
        for value in values:
            log.append(value)
    for name in ("index", "timeindex"):
        (directory / f"{0:020d}.{name}").unlink()
    path = directory / f"{0:020d}.log"
    os.truncate(path, path.stat().st_size + MIB)
    with closing(read_log(directory)) as beside:
        assert [record.value for record in beside] == values
    with closing(open_log(directory, clean=False, **settings)) as log:
        assert [record.value for record in log] == values


def test_only_zeros_distinguishes_holes_from_data(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    os.truncate(path, 3 * MIB)
    with path.open("r+b") as file:
        file.seek(2 * MIB + 5)
        file.write(b"x")
    fd = DISK.open(path)
    try:
        assert not DISK.only_zeros(fd, 3, 10)
        assert DISK.only_zeros(fd, 4, 2 * MIB + 5)
        assert not DISK.only_zeros(fd, 4, 2 * MIB + 6)
        assert DISK.only_zeros(fd, 2 * MIB + 6, 9 * MIB)
        assert DISK.only_zeros(fd, 7, 7)
    finally:
        DISK.close(fd)
