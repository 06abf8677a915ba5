"""Recovery on a disk that fails, and recovery that is broken off: nothing is lost, and doing it
again gives what one undisturbed recovery gives."""

import shutil
from pathlib import Path

import pytest

from kstore.config import LogConfig
from kstore.errors import KStoreError, StorageError
from kstore.files import filenames
from kstore.files.files import DISK
from kstore.recovery.loader import load
from oracle import writer
from oracle.plain import PlainRecord
from support.disks import FaultyDisk, HastyDisk

CONFIG = LogConfig(index_interval_bytes=100)


class Hasty(FaultyDisk, HastyDisk):
    """Fails on request, and syncs nothing."""


def batches(first: int, count: int, *, epoch: int = 0) -> list[bytes]:
    return [
        writer.batch(
            [PlainRecord(offset, 1_000 + offset, None, bytes([offset % 251]) * 60)],
            leader_epoch=epoch,
        )
        for offset in range(first, first + count)
    ]


def write_segment(directory: Path, first: int, data: bytes) -> None:
    (directory / filenames.log_name(first)).write_bytes(data)
    (directory / filenames.index_name(first)).write_bytes(bytes(800))
    (directory / filenames.time_index_name(first)).write_bytes(bytes(1200))


def torn_tail(directory: Path) -> None:
    """Two segments, the second torn, and what a roll had begun; side files of all kinds."""
    write_segment(directory, 0, b"".join(batches(0, 6)))
    write_segment(directory, 6, b"".join(batches(6, 4, epoch=3)) + b"torn off here")
    write_segment(directory, 11, b"")
    (directory / filenames.transaction_index_name(99)).write_bytes(b"x" * 34)
    (directory / filenames.snapshot_name(11)).write_bytes(b"bad")
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n5\n")


def bad_in_the_middle(directory: Path) -> None:
    """Three segments, a flipped bit in the first; the strict mode cuts there."""
    data = bytearray(b"".join(batches(0, 6)))
    data[len(data) // 2] ^= 1
    write_segment(directory, 0, bytes(data))
    write_segment(directory, 6, b"".join(batches(6, 4)))
    write_segment(directory, 10, b"".join(batches(10, 4)))
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")


def finished_swap(directory: Path) -> None:
    """A compaction of two segments into one, killed after its renames to ``.swap``."""
    write_segment(directory, 0, b"".join(batches(0, 6)))
    write_segment(directory, 6, b"".join(batches(6, 4)))
    write_segment(directory, 10, b"".join(batches(10, 2)))
    new = b"".join([*batches(2, 2), *batches(8, 2)])
    (directory / filenames.log_name(0, ".swap")).write_bytes(new)
    (directory / filenames.index_name(0, ".swap")).write_bytes(b"")
    (directory / filenames.time_index_name(0, ".swap")).write_bytes(b"")
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")


CASES = {
    "torn tail": (torn_tail, "careful"),
    "bad in the middle": (bad_in_the_middle, "kafka"),
    "finished swap": (finished_swap, "careful"),
}


def contents(directory: Path) -> dict[str, bytes]:
    """All files but replacements that were not finished."""
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if not path.name.endswith(".tmp")
    }


def kept_once(found: dict[str, bytes]) -> dict[str, bytes]:
    """What was cut may be kept twice where a cut was broken off after its copy was made."""
    kept = {data: name for name, data in sorted(found.items(), reverse=True) if "kstore." in name}
    return {name: data for name, data in found.items() if "kstore." not in name} | {
        name.rpartition(".")[0]: data for data, name in kept.items()
    }


def recover(directory: Path, mode: str, files=DISK) -> None:
    load(files, str(directory), CONFIG, clean=False, mode=mode)


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_call_fails_once_and_for_ever(tmp_path: Path, case: str, sticky: bool) -> None:
    prepare, mode = CASES[case]
    wanted = tmp_path / "wanted"
    wanted.mkdir()
    prepare(wanted)
    before = contents(wanted)
    disk = Hasty()
    recover(wanted, mode, disk)
    calls = list(disk.calls)
    assert {"open", "rename", "remove", "write"} <= set(calls)
    expected = kept_once(contents(wanted))
    failed = 0
    for number in range(len(calls)):
        directory = tmp_path / str(number)
        directory.mkdir()
        prepare(directory)
        disk = Hasty()
        disk.arm(number, lambda: StorageError("injected", errno=5), sticky=sticky)
        try:
            recover(directory, mode, disk)
        except KStoreError:
            failed += 1
        if case != "finished swap":  # there the old segments' bytes are meant to go
            check_nothing_lost(before, contents(directory))
        recover(directory, mode, HastyDisk())
        assert kept_once(contents(directory)) == expected, (number, calls[number])
        shutil.rmtree(directory)
    assert failed > len(calls) // 2


def check_nothing_lost(before: dict[str, bytes], found: dict[str, bytes]) -> None:
    """Every byte of every log is in that log still, or in what was kept of it."""
    for name, data in before.items():
        if name.endswith(".log") and data:
            base = name.removesuffix(".log")
            held = found.get(name, b"")
            kept = [b"", *(data for name, data in found.items() if f"cut.{base}" in name)]
            assert any(held + rest == data for rest in kept) or held == data, name


@pytest.mark.parametrize("case", CASES)
def test_recovering_again_changes_nothing(tmp_path: Path, case: str) -> None:
    prepare, mode = CASES[case]
    prepare(tmp_path)
    recover(tmp_path, mode)
    once = contents(tmp_path)
    recover(tmp_path, mode)
    assert contents(tmp_path) == once
    recover(tmp_path, "careful")
    assert contents(tmp_path) == once
