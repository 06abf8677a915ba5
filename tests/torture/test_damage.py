"""Every cut and every flipped bit of small segments: the right records, or a typed error.

What the checksum covers is never read wrong. What it does not cover is counted: base offset,
batch length, leader epoch and magic of a v2 batch; offset and size of a v0 or v1 message. A
flip there is seen only where it breaks the frame or the order of offsets.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kstore.errors import CorruptRecordError, KStoreError, RecoveryNeededError
from kstore.log.log import Log
from oracle import writer as oracle
from oracle.plain import PlainRecord
from support.disks import HastyDisk
from support.logs import open_log, read_log

TORTURE = bool(os.environ.get("KSTORE_TORTURE"))
Row = tuple[int, bytes | None, bytes | None]
Contents = list[Row]  # a list: a flipped base offset may give an offset twice


class Segment(NamedTuple):
    data: bytes
    contents: Contents
    starts: tuple[int, ...]  # position of each batch, and the end
    ends: tuple[int, ...]  # the offset after each batch
    covered: tuple[range, ...]  # byte positions under a checksum


def segment(magic: int, codec: int) -> Segment:
    data, contents, starts, ends, covered = b"", [], [], [], []
    offset = 0
    for n in range(3):
        rows = [
            PlainRecord(offset + k, 1000 + k if magic else -1, b"k%d" % k, b"value %d" % n * 3)
            for k in range(3 if codec or magic == 2 else 1)
        ]
        if magic == 2:
            batch = oracle.batch(rows, codec=codec)
        elif codec:
            batch = oracle.wrapper(rows, magic=magic, codec=codec)
        else:
            row = rows[0]
            batch = oracle.message(
                row.offset, row.key, row.value, magic=magic, timestamp=row.timestamp
            )
        starts.append(len(data))
        # v2: the CRC itself and all after the magic byte; v0/v1: the CRC and all after it.
        first = 17 if magic == 2 else 12
        covered.append(range(len(data) + first, len(data) + len(batch)))
        data += batch
        contents += [(row.offset, row.key, row.value) for row in rows]
        offset += len(rows)
        ends.append(offset)
    return Segment(data, contents, (*starts, len(data)), tuple(ends), tuple(covered))


KINDS = {
    "v2": (2, 0),
    "v2 zstd": (2, 4),
    "v2 gzip": (2, 1),
    "v1": (1, 0),
    "v1 lz4": (1, 3),
    "v0": (0, 0),
    "v0 snappy": (0, 2),
}


def write(directory: Path, data: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        path.unlink()
    path = directory / f"{0:020d}.log"
    path.write_bytes(data)
    return path


def contents(log: Log) -> Contents:
    return [(record.offset, record.key, record.value) for record in log]


def columns(log: Log) -> Contents:
    return [
        (int(offset), key, value)
        for part in log.view().scan()
        for offset, key, value in zip(part.offsets, part.keys, part.values, strict=True)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_complete_batch_before_a_cut_is_read(tmp_path: Path, kind: str) -> None:
    made = segment(*KINDS[kind])
    for size in range(len(made.data) + 1):
        directory = tmp_path / "t-0"
        path = write(directory, made.data[:size])
        complete = sum(start <= size for start in made.starts[1:])
        end = made.ends[complete - 1] if complete else 0
        left = [row for row in made.contents if row[0] < end]
        beside = read_log(directory)  # changes nothing, and calls nothing damage
        assert contents(beside) == left, size
        assert columns(beside) == left, size
        assert path.stat().st_size == size
        log = open_log(directory, files=HastyDisk(), clean=False)
        assert contents(log) == left, size
        report = log.recovery
        assert report is not None
        assert report.cut_size == size - made.starts[complete], size
        lost = made.data[made.starts[complete] : size]
        if any(lost):
            assert report.kept_in is not None
            assert Path(report.kept_in).read_bytes() == lost
        assert log.append(b"on") == end
        assert log.close()


def read_or_error(read: Callable[[Log], Contents], log: Log, made: Segment) -> Contents | None:
    """What a reader got, or None for an error that says where."""
    try:
        return read(log)
    except CorruptRecordError as error:
        where = error.path, error.position
    assert where[0] is not None
    assert where[1] in made.starts[:-1]
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_is_seen_or_harmless(tmp_path: Path, kind: str) -> None:
    made = segment(*KINDS[kind])
    directory = tmp_path / "t-0"
    seen = unseen = covered = 0
    for position in range(len(made.data)):
        number = sum(start <= position for start in made.starts) - 1
        under_crc = position in made.covered[number]
        before = [row for row in made.contents if number and row[0] < made.ends[number - 1]]
        for bit in range(8) if TORTURE else (position % 8, (position + 5) % 8):
            data = bytearray(made.data)
            data[position] ^= 1 << bit
            where = (kind, position, bit)
            write(directory, bytes(data))
            beside = read_log(directory)
            for read in (contents, columns):
                got = read_or_error(read, beside, made)
                if under_crc:
                    assert got in (before, None), where
            beside.close()
            # A writer keeps what stands before the damage, and the rest aside.
            log = open_log(directory, files=HastyDisk(), clean=False)
            found = contents(log)
            if under_crc:
                covered += 1
                assert found == before, where
            assert {row[1:] for row in found} <= {row[1:] for row in made.contents}, where
            assert found[: len(before)] == before, where
            report = log.recovery
            assert report is not None
            if report.cut_size:
                assert report.kept_in is not None, where
                assert Path(report.kept_in).read_bytes() == bytes(data[-report.cut_size :]), where
            if found == made.contents and not report.cut_size:
                unseen += 1
            else:
                seen += 1
            log.close()
            # Once it was on disk, it is never cut: opening for writing is refused.
            if under_crc:
                write(directory, bytes(data))
                with pytest.raises(RecoveryNeededError) as caught:
                    open_log(
                        directory, files=HastyDisk(), clean=False, recovery_point=made.ends[-1]
                    )
                assert caught.value.position == made.starts[number], where
                assert (directory / f"{0:020d}.log").read_bytes() == bytes(data)
    print(f"flips {kind}: tried={seen + unseen} under the checksum={covered} unseen={unseen}")
    assert covered
    # What passes is a v2 leader epoch, and offsets of the last batches.
    assert unseen <= (seen + unseen - covered) // 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_writers_own_reading_never_lies(tmp_path: Path, kind: str) -> None:
    """Damage that comes while a log is open: the bytes change under the map."""
    made = segment(*KINDS[kind])
    directory = tmp_path / "t-0"
    path = write(directory, made.data)
    log = open_log(directory, files=HastyDisk())
    for position in range(len(made.data)):
        number = sum(start <= position for start in made.starts) - 1
        if position not in made.covered[number]:
            continue
        data = bytearray(made.data)
        data[position] ^= 1 << position % 8
        with path.open("r+b") as file:
            file.write(data)
        with pytest.raises(KStoreError) as caught:
            contents(log)
        assert isinstance(caught.value, CorruptRecordError)
        assert (caught.value.path, caught.value.position) == (str(path), made.starts[number])
        assert caught.value.offset is not None
    with path.open("r+b") as file:
        file.write(made.data)
    assert contents(log) == made.contents
