"""``preallocate`` on a full disk, in a signal handler, and with a stale checkpoint."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kstore.errors import PolicyViolationError, StorageError
from kstore.files.files import DISK
from kstore.recovery.loader import load
from kstore.store.partition_factory import peek_end_offset
from support.disks import HalfDisk
from support.logs import open_log

MIB = 1 << 20
ON: dict[str, Any] = {"preallocate": True}


def segment(directory: Path, base: int = 0) -> Path:
    return directory / f"{base:020d}.log"


def used(log: Any) -> int:
    return int(log.segments.views[-1].size)


def test_an_append_succeeds_if_zeros_do_not_fit(tmp_path: Path) -> None:
    disk = HalfDisk(errno.ENOSPC)
    log = open_log(tmp_path, files=disk, **ON)
    disk.arm(2)  # the third of four writes of zeros
    log.append(b"one")
    assert segment(tmp_path).stat().st_size == used(log)
    log.append(b"two")
    assert segment(tmp_path).stat().st_size == MIB  # there is room again
    assert [record.value for record in log] == [b"one", b"two"]


# --- what runs within an append -------------------------------------------------------------------


@pytest.mark.parametrize("within", ["prewrite", "roll"])
def test_no_append_begins_within_another_one(tmp_path: Path, within: str) -> None:
    """A signal handler runs wherever an append calls Python; the lock lets its thread in."""
    log = open_log(tmp_path, segment_bytes=2000, **ON)
    appender = log._require_writer().state.appender
    original = getattr(appender, within)

    def interrupted(*arguments: int) -> object:
        setattr(appender, within, original)
        with pytest.raises(PolicyViolationError, match="running in the same thread"):
            log.append(b"from a signal handler")
        return original(*arguments)

    if within == "roll":
        log.append(b"x" * 1500)
    setattr(appender, within, interrupted)
    log.append(b"y" * 1500)
    log.append(b"z")
    assert getattr(appender, within) != interrupted
    assert [record.value[:1] for record in log][-2:] == [b"y", b"z"]
    assert log.verify().ok


# --- truncations, and what the checkpoint says ----------------------------------------------------


def test_no_zeros_below_a_recovery_point_that_a_truncation_has_not_lowered(tmp_path: Path) -> None:
    """Else a kill leaves zeros where the checkpoint says that all was on disk: damage."""
    log = open_log(tmp_path, **ON)
    for n in range(5):
        log.append(b"%d" % n)
    seen: list[int] = []

    def checkpointed() -> None:
        log.append(b"meanwhile")
        seen.append(segment(tmp_path).stat().st_size - used(log))
        if len(seen) == 1:
            raise StorageError("injected", errno=errno.EIO)

    log._require_writer().truncator.on_truncated = checkpointed
    with pytest.raises(StorageError):
        log.truncate_to(3)
    log.append(b"behind it")
    assert segment(tmp_path).stat().st_size == used(log)
    log.truncate_to(2)
    assert seen == [0, 0]


def test_prewriting_resumes_after_the_checkpoint_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    for n in range(5):
        log.append(b"%d" % n)
    log.truncate_to(3)
    log.append(b"3")
    assert segment(tmp_path).stat().st_size == MIB


def test_durable_records_that_became_zeros_are_alarming(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    for n in range(5):
        log.append(b"%d" * 20 % ((n,) * 20))
    log.close()
    path = segment(tmp_path)
    size = path.stat().st_size
    os.truncate(path, size // 5 * 3)
    os.truncate(path, size)
    report = load(
        DISK, str(tmp_path), log.config, clean=False, recovery_point=lambda: 5, mode="kafka"
    ).recovery
    assert report is not None
    assert report.missing == 2
    assert report.alarming


def test_peek_end_offset_ignores_an_incomplete_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    log.append(b"x" * 300)
    first = used(log)
    log.append(b"y" * 300)
    with segment(tmp_path).open("r+b") as file:
        file.seek(first + 200)
        file.write(bytes(used(log) - first - 200))
    assert peek_end_offset(DISK, str(tmp_path), 0) == 1
