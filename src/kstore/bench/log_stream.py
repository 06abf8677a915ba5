"""A durable stream: values appended, acknowledged once on disk, read behind by another process.

    python -m kstore.bench.log_stream 10000000       # records; prints what came of it

The writer appends 1000 values at a time and never lets more than ``WINDOW`` bytes wait for their
acknowledgement, which comes only after an fdatasync that covers them (`kstore.Committer` syncs
while appends go on). The reader opens the store read-only, decodes every record into columns
with its checksum checked, and is done when it has seen the last one.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Event, Thread
from time import perf_counter, perf_counter_ns, sleep
from typing import Any

import kstore
from kstore.bench import statistic
from kstore.bench.contest import Timed
from kstore.bench.log_append import check, prepared, raw_file, thousand_values
from kstore.config import LogConfig
from kstore.log.files import DISK

WINDOW = 1 << 20  # bytes that may wait for their acknowledgement


@dataclass(frozen=True)
class Shape:
    """How a stream is written: records of an append, bytes of a batch, bytes that may wait, and
    whether batches are ready, as from a client, or made of values."""

    together: int = 1000
    batch_size: int = 1 << 17
    window: int = WINDOW
    ready: bool = False


NARROW = Shape()
WIDE = Shape(9000, 1 << 20, 16 << 20)
READY = Shape(9000, 1 << 20, 16 << 20, ready=True)


def stream(directory: Path, records: int, *, reader: bool = True, shape: Shape = NARROW) -> Timed:
    """Seconds a record until the last one is acknowledged; also the reader's.

    ``ack`` is how long each append waited for its acknowledgement, ``tail`` how long after an
    extend had returned the reader had seen its last record.
    """
    path = mkdtemp(dir=directory)
    following = None
    try:
        with kstore.open(path) as store:
            config = LogConfig(batch_size=shape.batch_size)
            log = store.create_topic("stream", config=config)[0]
            log.flush()
            following = _start_reader(path, records) if reader else None
            written = write(log, records, shape)
            waits = {"ack": written.waited}
            also = {}
            if following is not None:
                said = _end_reader(following, records)
                also["reader"] = said["seconds"] / records
                waits["tail"] = _behind(written.ends, said["seen"])
            check(log, records)
            if log.recovery_point < records:
                raise AssertionError("acknowledged, but not on disk")
    finally:
        if following is not None:
            following.kill()  # nothing where it ended by itself
            following.communicate()
        shutil.rmtree(path)
    return Timed(written.seconds / records, result=records, also=also, waits=waits)


@dataclass
class Written:
    """Seconds until all is acknowledged, nanoseconds of each acknowledgement's wait, and when
    (by the monotonic clock, in nanoseconds) the log had come to which end."""

    seconds: float
    waited: list[int]
    ends: list[tuple[int, int]]


def write(log: kstore.Log, records: int, shape: Shape) -> Written:
    """Append, bounded by the window."""
    values = (thousand_values() * (shape.together // 1000 + 1))[: shape.together]
    batch = prepared(shape.together)
    room = max(1, shape.window // len(batch))  # appends under way
    append: Callable[[], object] = (
        partial(log.append_as_leader, batch) if shape.ready else partial(log.extend, values)
    )
    pending: deque[tuple[int, int]] = deque()
    waited: list[int] = []
    ends: list[tuple[int, int]] = []
    clock = perf_counter_ns
    with kstore.Committer(log) as committer:
        started = perf_counter()
        for _ in range(records // shape.together):
            at = clock()
            append()
            end = log.end_offset
            pending.append((end, at))
            ends.append((clock(), end))
            committer.request()
            if len(pending) >= room:
                committer.wait(pending[0][0])
            _acknowledge(pending, committer.durable_offset, waited)
        committer.wait()
        _acknowledge(pending, committer.durable_offset, waited)
        seconds = perf_counter() - started
    return Written(seconds, waited, ends)


def _behind(ends: list[tuple[int, int]], seen: list[tuple[int, int]]) -> list[int]:
    """For each end of the log, how much later a reader had seen it; both in order."""
    behind, at = [], 0
    for when, end in ends:
        while seen[at][1] < end:
            at += 1
        behind.append(max(0, seen[at][0] - when))
    return behind


def _acknowledge(pending: deque[tuple[int, int]], durable: int, waited: list[int]) -> None:
    now = perf_counter_ns()
    while pending and pending[0][0] <= durable:
        waited.append(now - pending.popleft()[1])


def _start_reader(path: str, records: int) -> subprocess.Popen[str]:
    code = f"from kstore.bench.log_stream import follow; follow({path!r}, {records})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.kill()
        process.communicate()
        raise AssertionError("the reader did not start")
    return process


def _end_reader(process: subprocess.Popen[str], records: int) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(process.communicate(timeout=120)[0])
    if said["records"] != records or said["bytes"] != records * 100 or process.returncode:
        raise AssertionError(f"the reader saw {said}")
    return said


def follow(path: str, records: int) -> None:
    """The reading process: every record in columns, each checksum checked, until all were seen."""
    import_module("kstore.record.columns")  # NumPy too, before the clock starts
    with kstore.open(path, mode="r") as store:
        log = store["stream"][0]
        print("ready", flush=True)
        log.wait_beyond(0, 60)
        started = perf_counter()
        seen = size = 0
        noted: list[tuple[int, int]] = []
        while seen < records and log.wait_beyond(seen, 60):
            for columns in log.view(seen, None).scan():
                if columns.offsets[0] != seen:
                    raise AssertionError(f"offset {columns.offsets[0]} instead of {seen}")
                seen += len(columns)
                size += int(columns.values.lengths.sum())
                noted.append((perf_counter_ns(), seen))
        seconds = perf_counter() - started
    print(json.dumps({"records": seen, "bytes": size, "seconds": seconds, "seen": noted}))


def raw_stream(directory: Path, records: int) -> Timed:
    """write(2) of the same bytes and an fdatasync for every window: the plain way."""
    batch = prepared(1000)
    path = directory / "raw"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    every = max(1, WINDOW // len(batch))
    try:
        started = perf_counter()
        for n in range(1, records // 1000 + 1):
            os.write(fd, batch)
            if n % every == 0:
                os.fdatasync(fd)
        os.fdatasync(fd)
        seconds = perf_counter() - started
    finally:
        os.close(fd)
        os.remove(path)
    return Timed(seconds / records, result=records)


def buffered(directory: Path, records: int, every: int = 0) -> Timed:
    """write(2) of batches as large, one fdatasync in the end or one after about so many bytes:
    after whichever batch comes nearest to them."""
    batch = prepared(WIDE.together)
    count = records // WIDE.together
    with raw_file(directory, count * len(batch)) as fd:
        started = perf_counter()
        unsynced = 0
        for _ in range(count):
            unsynced += os.write(fd, batch)
            if every and unsynced + len(batch) // 2 >= every:
                os.fdatasync(fd)
                unsynced = 0
        if unsynced:
            os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds / records, result=records)


def synced_behind(directory: Path, records: int) -> Timed:
    """write(2) of batches as large, and another thread that syncs what there is, all the time."""
    batch = prepared(WIDE.together)
    count = records // WIDE.together
    written, ended = [0], Event()

    def sync(fd: int) -> None:
        synced = 0
        while not ended.is_set() or synced < written[0]:
            if written[0] == synced:
                sleep(0.0002)
                continue
            reached = written[0]
            os.fdatasync(fd)
            synced = reached

    with raw_file(directory, count * len(batch)) as fd:
        syncing = Thread(target=sync, args=(fd,), daemon=True)
        started = perf_counter()
        syncing.start()
        try:
            for _ in range(count):
                size = os.write(fd, batch)
                DISK.start_writing(fd, written[0], size)
                written[0] += size
        finally:
            ended.set()
            syncing.join()
        os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds / records, result=records)


def main(records: int) -> None:
    with TemporaryDirectory() as directory:
        timed = stream(Path(directory), records)
    print(f"acknowledged {1e-6 / timed.seconds:.2f} M records/s")
    print(f"read         {1e-6 / timed.also['reader']:.2f} M records/s")
    told = statistic.percentiles([timed.waits["ack"]])
    print("ack latency ", ", ".join(f"{name} {ns / 1e6:.2f} ms" for name, ns in told.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
