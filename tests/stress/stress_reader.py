"""A reader in a process of its own: reads all it can for a while, and judges what it sees.

A value says where it belongs: ``offset:epoch:...``, the epoch going up by one at each truncation.
So a value shows whether its offset is right, and within one pass no epoch goes down. Anything
else than records, an end that was not reached yet, or an offset that retention took is a failure.
"""

import random
import sys
import time
import traceback
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from kstore.errors import OffsetOutOfRangeError, StorageError
from kstore.log.log import Log
from support.logs import read_log


def value_at(offset: int, epoch: int) -> bytes:
    return b"%d:%d:" % (offset, epoch) + b"v" * (offset % 90)


class Wrong(AssertionError):
    """A record that should not be there."""


def judge(offset: int, value: bytes | None, last: tuple[int, int]) -> tuple[int, int]:
    """Check one value after another; last is (offset, epoch) of the one before."""
    if value is None:
        raise Wrong(f"null at {offset}")
    expected_offset, epoch, _ = value.split(b":")
    if int(expected_offset) != offset or value != value_at(offset, int(epoch)):
        raise Wrong(f"at {offset}: {value[:40]!r}")
    if offset <= last[0] or int(epoch) < last[1]:
        raise Wrong(f"{(offset, int(epoch))} after {last}")
    return offset, int(epoch)


def one_pass(log: Log, pick: random.Random) -> int:
    """Read a window in one of the ways there are; returns how many records it had."""
    seen = 0
    last = (-1, -1)
    end = log.end_offset
    start = max(log.start_offset, end - pick.choice((10, 300, 100_000)))
    if pick.random() < 0.5:
        for record in log.view(start):
            last = judge(record.offset, record.value, last)
            seen += 1
    else:
        for part in log.view(start).scan():
            for offset, value in zip(part.offsets, part.values, strict=True):
                last = judge(int(offset), value, last)
                seen += 1
    return seen


def watch(directory: Path, own: bool, seconds: float, seed: int, results: Any, stop: Event) -> None:
    """Passes until the time is over; reports (passes, records, gone, failure or None)."""
    pick = random.Random(seed)
    passes = records = gone = 0
    try:
        log = read_log(directory, own=own)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not stop.is_set():
            passes += 1
            try:
                records += one_pass(log, pick)
            except OffsetOutOfRangeError:
                gone += 1  # truncated or retained away between two looks
            except StorageError as error:
                if error.errno != 2:  # a segment that went away between listing and opening
                    raise
                gone += 1
            if pick.random() < 0.05:
                log.close()
                log = read_log(directory, own=own)
        results.put((passes, records, gone, None))
    except BaseException:
        results.put((passes, records, gone, traceback.format_exc()))
        sys.exit(1)
