"""KeyboardInterrupt and MemoryError at every line of the writing half, one line at a time.

After each: every batch is completely in or completely out, a reader beside agrees, what a kill
would leave behind opens to the same, the log takes appends, and a clean reopen gives all of it.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kstore.log import (
    active_segment,
    delete_segments,
    flush,
    segment_access,
    truncate,
    writable_log,
    writer,
    writer_state,
)
from kstore.log.log import Log
from kstore.producer_state import state
from kstore.recovery import loader
from kstore.segment import segment
from oracle import writer as oracle
from oracle.plain import PlainRecord
from oracle.reader import read_log as read
from support.disks import HastyDisk
from support.interrupts import Interrupt
from support.logs import log_bytes, open_log, read_log

MODULES = [
    active_segment,
    delete_segments,
    flush,
    loader,
    state,
    segment,
    segment_access,
    truncate,
    writable_log,
    writer,
    writer_state,
]
ERRORS: list[type[BaseException]] = [KeyboardInterrupt, MemoryError]
TORTURE = bool(os.environ.get("KSTORE_TORTURE"))
DISK = HastyDisk()
SETTINGS = {
    "segment_bytes": 1500,
    "index_interval_bytes": 0,
    "segment_index_bytes": 4096,
    "file_delete_delay_ms": 0,
    "batch_size": 400,
}
Contents = dict[int, bytes | None]


def batches(first: int, count: int, *, epoch: int, codec: int = 0) -> bytes:
    """Complete batches of two records each, as a leader would send them."""
    return b"".join(
        oracle.batch(
            [PlainRecord(offset + n, 7, None, b"f%d" % (offset + n) * 30) for n in (0, 1)],
            leader_epoch=epoch,
            codec=codec,
        )
        for offset in range(first, first + 2 * count, 2)
    )


def roll_then(call: Callable[[Log], object]) -> Callable[[Log], object]:
    def both(log: Log) -> None:
        log.roll()
        log.append(b"in the new segment")
        call(log)

    return both


# What is done, by name; each begins on a log of four segments.
OPERATIONS: dict[str, Callable[[Log], object]] = {
    "append": lambda log: log.append(b"one more"),
    "append that rolls": lambda log: log.append(b"x" * 1200),
    "extend": lambda log: log.extend([b"e%d" % n * 40 for n in range(30)]),
    "leader": lambda log: log.append_as_leader(batches(0, 1, epoch=0)),
    "leader, compressed": lambda log: log.append_as_leader(batches(0, 1, epoch=0, codec=4)),
    "follower": lambda log: log.append_as_follower(batches(log.end_offset, 4, epoch=3)),
    "roll": lambda log: log.roll(),
    "flush": lambda log: log.flush(),
    "roll and flush": roll_then(lambda log: log.flush()),
    "truncate in the last segment": lambda log: log.truncate_to(log.end_offset - 1),
    "truncate over segments": lambda log: log.truncate_to(12),
    "truncate at a segment's start": lambda log: log.truncate_to(
        log.segments.views[-1].base_offset
    ),
    "truncate below the start": lambda log: log.truncate_to(3),
    "delete records": lambda log: log.delete_records(20),
    "delete all": lambda log: log.delete_records(-1),
    "retention": lambda log: log.apply_retention(),
    "park": lambda log: log.park(),
    "close": lambda log: log.close(),
}
SHORTENS = ("truncate", "delete", "retention")
START = 5  # the log start of every scene


def scene(directory: Path, name: str) -> Log:
    retention = {"retention_bytes": 2000} if name == "retention" else {}
    made = open_log(directory, files=DISK, log_start_offset=START, **SETTINGS, **retention)
    for n in range(START, 31):
        made.append(b"%d" % n * 40)
    made.park()  # so that the operation begins by opening the files
    return made


def contents(found: Log) -> Contents:
    return {record.offset: record.value for record in found}


def allowed(name: str, found: Contents, before: Contents, after: Contents, ends: set[int]) -> bool:
    """Between before and after, complete batches, no gap and nothing foreign."""
    offsets = list(found)
    if offsets and offsets != list(range(offsets[0], offsets[-1] + 1)):
        return False
    everything = {**before, **after}
    if any(everything.get(offset) != value for offset, value in found.items()):
        return False
    if name.startswith(SHORTENS):
        return after.keys() <= found.keys() <= before.keys()
    if not before.keys() <= found.keys() <= after.keys():
        return False
    return found.keys() == before.keys() or offsets[-1] + 1 in ends


def expected(tmp_path: Path, name: str) -> tuple[int, Contents, Contents, set[int]]:
    """How many lines the operation executes, contents before and after it, where batches end."""
    made = scene(tmp_path / "uninterrupted", name)
    before = contents(made)
    with Interrupt(MODULES) as lines:
        OPERATIONS[name](made)
    after = before if name == "close" else contents(made)
    ends = {batch.last_offset + 1 for batch in read(log_bytes(tmp_path / "uninterrupted")).batches}
    made.close()
    return lines.count, before, after, ends


def strike(
    directory: Path,
    name: str,
    at: int,
    error: type[BaseException],
    before: Contents,
    after: Contents,
    ends: set[int],
) -> str:
    """One operation interrupted at one line; returns where."""
    made = scene(directory, name)
    assert contents(made) == before
    with Interrupt(MODULES, at, error) as lines, suppress(error):
        OPERATIONS[name](made)
    if not lines.where:  # a run may execute a line less than the one that was counted
        assert at - 5 <= lines.count <= at
        made.close()
        shutil.rmtree(directory)
        return ""
    where = f"{name}: {error.__name__} at {lines.where}"
    start = made.start_offset
    # What a kill right now would leave behind.
    left = directory.with_name(directory.name + "-left")
    shutil.copytree(directory, left)
    with_start = {"log_start_offset": start, **SETTINGS}
    killed = open_log(
        left, files=DISK, clean=False, recovery_point=made.recovery_point, **with_start
    )
    found = contents(killed)
    assert allowed(name, found, before, after, ends), (where, "after a kill", list(found))
    assert killed.append(b"on") == killed.end_offset - 1, where
    killed.close()
    if name == "close":
        clean = made.close()
        if clean:  # then nothing may be left to do
            for path in directory.glob("*index"):
                assert path.stat().st_size < SETTINGS["segment_index_bytes"] // 12 * 12, where
    else:
        now = contents(made)
        assert allowed(name, now, before, after, ends), (where, list(now))
        assert made.end_offset >= max(now, default=0), where
        beside = read_log(directory)
        seen = {k: v for k, v in contents(beside).items() if k >= start}
        if name.startswith("truncate"):  # cut in memory, the files follow with the next change
            assert allowed(name, seen, before, after, ends), (where, "a reader beside", list(seen))
        else:
            assert seen == now, (where, "a reader beside", list(seen), list(now))
        end = made.end_offset
        assert made.append(b"next" * 20) == end, where
        assert made.extend([b"more" * 30] * 20) == range(end + 1, end + 21), where
        made.flush()
        assert made.recovery_point == made.end_offset, where
        before = contents(made)
        seen = {k: v for k, v in contents(beside).items() if k >= start}
        assert seen == before, (where, "a reader beside", list(seen), list(before))
        assert list(before)[-21:] == list(range(end, end + 21)), where
        clean = made.close()
        assert clean, where
    again = open_log(
        directory, files=DISK, clean=clean, recovery_point=made.recovery_point, **with_start
    )
    assert contents(again) == before, (where, "reopened")
    assert again.verify().ok, (where, again.verify())
    again.close()
    shutil.rmtree(left)
    shutil.rmtree(directory)
    return where


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_every_line(tmp_path: Path, name: str) -> None:
    count, before, after, ends = expected(tmp_path, name)
    assert count > 0
    struck = set()
    for at in range(count):
        for error in ERRORS if TORTURE else [ERRORS[at % 2]]:
            struck.add(strike(tmp_path / f"{at}", name, at, error, before, after, ends))
    struck.discard("")
    assert len(struck) >= count // 4  # loops pass a line more than once
