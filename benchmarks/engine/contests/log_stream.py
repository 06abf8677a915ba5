"""A durable stream, acknowledged after an fdatasync that covers it, against bare writes.

The writer never lets more than a window of bytes wait for their acknowledgement
(``kstore.Committer`` syncs while appends continue). Another process opens the store read-only and
decodes every record into columns, checksums checked, until it has read the last one.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Event, Thread
from time import perf_counter, perf_counter_ns, sleep
from typing import Any

import kstore
from engine.child_process import python_call
from engine.data.batches import VALUE_SIZE, client_batch
from engine.data.fresh import copies, in_turn, value_lists
from engine.data.logs import check_log
from kstore.bench.contest import Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import raw_file, sequential, write_blocks
from kstore.bench.machine.disk import SEQUENTIAL, Writing
from kstore.bench.machine.sizes import MIB
from kstore.bench.workload import Setting
from kstore.config import LogConfig
from kstore.files.files import DISK

WANTED = 4_000_000  # records a second, durable, and read as fast by another process
OF_THE_BEST = 0.85
OF_BUFFERED = 1.3
RAW = ("RWF_DONTCACHE", "O_DIRECT", "O_DIRECT over zeros")
ZEROED = ", zeroed before"
EACH_MIB, AT_END = "write, fdatasync each MiB", "write, fdatasync at the end"


# --- kstore's stream --------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """How a stream is written.

    Attributes
    ----------
    records
        In each append.
    batch_size
        Bytes of a batch.
    window
        Bytes that may wait for their acknowledgement.
    is_ready
        Whether batches are appended as from a client, instead of values.
    """

    records: int = 1000
    batch_size: int = 1 << 17
    window: int = MIB
    is_ready: bool = False


NARROW = Shape()
WIDE = Shape(9000, MIB, 16 * MIB)
READY = Shape(9000, MIB, 16 * MIB, is_ready=True)


def stream(directory: Path, records: int, *, reader: bool = True, shape: Shape = NARROW) -> Timed:
    """Seconds per record until the last one is acknowledged; also the reader's.

    ``ack`` is how long each append waited for its acknowledgement, ``tail`` the time from the
    return of an append until the reader had read its last record.
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
                reply = _end_reader(following, records)
                also["reader"] = reply["seconds"] / records
                waits["tail"] = _delays(written.ends, reply["seen"])
            check_log(log, records)
            if log.recovery_point < records:
                raise AssertionError("acknowledged, but not on disk")
    finally:
        if following is not None:
            following.kill()  # no effect if it has exited
            following.communicate()
        shutil.rmtree(path)
    return Timed(written.seconds / records, result=records, also=also, waits=waits)


@dataclass
class Written:
    """Seconds until everything is acknowledged, nanoseconds that each acknowledgement took, and
    the log's ends with the monotonic time in nanoseconds at which each was reached."""

    seconds: float
    waited: list[int]
    ends: list[tuple[int, int]]


def write(log: kstore.Log, records: int, shape: Shape) -> Written:
    """Append records with at most a window of them unacknowledged."""
    batch, count = client_batch(shape.records), records // shape.records
    most = max(1, shape.window // len(batch))  # appends that may wait
    append: Callable[[Any], object] = log.append_as_leader if shape.is_ready else log.extend
    inputs: Iterable[object] = (
        copies(batch, count)
        if shape.is_ready
        else in_turn(value_lists(count, shape.records), count)
    )
    pending: deque[tuple[int, int]] = deque()
    waited: list[int] = []
    ends: list[tuple[int, int]] = []
    clock = perf_counter_ns
    with kstore.Committer(log) as committer:
        started = perf_counter()
        for some in inputs:
            at = clock()
            append(some)
            end = log.end_offset
            pending.append((end, at))
            ends.append((clock(), end))
            committer.request()
            if len(pending) >= most:
                committer.wait(pending[0][0])
            _acknowledge(pending, committer.durable_offset, waited)
        committer.wait()
        _acknowledge(pending, committer.durable_offset, waited)
        seconds = perf_counter() - started
    return Written(seconds, waited, ends)


def _acknowledge(pending: deque[tuple[int, int]], durable: int, waited: list[int]) -> None:
    now = perf_counter_ns()
    while pending and pending[0][0] <= durable:
        waited.append(now - pending.popleft()[1])


def _delays(ends: list[tuple[int, int]], seen: list[tuple[int, int]]) -> list[int]:
    """For each end of the log, how much later the reader had read it; both lists are in order."""
    delays, at = [], 0
    for when, end in ends:
        while seen[at][1] < end:
            at += 1
        delays.append(max(0, seen[at][0] - when))
    return delays


def _start_reader(path: str, records: int) -> subprocess.Popen[str]:
    words = [sys.executable, *python_call("contests.log_stream", "follow", path, records)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.kill()
        process.communicate()
        raise AssertionError("the reader did not start")
    return process


def _end_reader(process: subprocess.Popen[str], records: int) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(process.communicate(timeout=120)[0])
    right = reply["records"] == records and reply["bytes"] == records * VALUE_SIZE
    if not right or process.returncode:
        raise AssertionError(f"the reader read {reply}")
    return reply


def follow(path: str, records: int) -> None:
    """The reading process: every record in columns, each checksum checked."""
    import_module("kstore.record.columns")  # NumPy too, before the clock starts
    with kstore.open(path, mode="r") as store:
        log = store["stream"][0]
        print("ready", flush=True)
        log.wait_beyond(0, 60)
        started = perf_counter()
        end = size = 0
        seen: list[tuple[int, int]] = []
        while end < records and log.wait_beyond(end, 60):
            for columns in log.view(end, None).scan():
                if columns.offsets[0] != end:
                    raise AssertionError(f"offset {columns.offsets[0]} instead of {end}")
                end += len(columns)
                size += int(columns.values.lengths.sum())
                seen.append((perf_counter_ns(), end))
        seconds = perf_counter() - started
    print(json.dumps({"records": end, "bytes": size, "seconds": seconds, "seen": seen}))


# --- bare writes ------------------------------------------------------------------------------


def write_raw(directory: Path, records: int, sync_every: float, shape: Shape = NARROW) -> Timed:
    """write(2) of batches as large as a shape's, synced as in ``write_blocks``; per record."""
    blocks = copies(client_batch(shape.records), records // shape.records)
    return Timed(write_blocks(directory, blocks, sync_every) / records, result=records)


def write_synced_behind(directory: Path, records: int) -> Timed:
    """write(2) of batches of 1 MiB while another thread syncs what is written, all the time."""
    batch = client_batch(WIDE.records)
    blocks = copies(batch, records // WIDE.records)
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

    with raw_file(directory, len(blocks) * len(batch)) as fd:
        syncing = Thread(target=sync, args=(fd,), daemon=True)
        started = perf_counter()
        syncing.start()
        try:
            for block in blocks:
                size = os.write(fd, block)
                DISK.start_writing(fd, written[0], size)
                written[0] += size
        finally:
            ended.set()
            syncing.join()
        os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds / records, result=records)


# --- the contests -----------------------------------------------------------------------------


def contests() -> Iterator[Contest]:
    records = scaled(10_000_000, 20_000) // 1000 * 1000
    with TemporaryDirectory() as path:
        directory = Path(path)
        yield narrow(directory, records)
        yield wide(directory, max(records, 200_000))


def narrow(directory: Path, records: int) -> Contest:
    """Appends of 1000 values, at most 1 MiB of them unacknowledged."""
    rate = "4 M records/s"
    return Contest(
        name=f"durable stream of {records} records, read by another process",
        calls={
            "kstore": partial(stream, directory, records),
            "kstore, no reader": partial(stream, directory, records, reader=False),
            EACH_MIB: partial(write_raw, directory, records, MIB),
            rate: lambda: Timed(1 / WANTED, result=records),
            "10 ms": lambda: Timed(0.010, result=records),
        },
        amount=1,
        unit="records",
        targets=frozenset([rate, "10 ms"]),
        bars=(
            ("kstore", rate, 1.0),
            ("kstore reader", rate, 1.0),
            ("kstore ack p99", "10 ms", None),
            ("kstore, no reader", EACH_MIB, None),
        ),
        rounds=5,
    )


def wide(directory: Path, records: int) -> Contest:
    """Batches of 1 MiB, at most 16 MiB of them unacknowledged, beside every raw way to stream.

    RWF_DONTCACHE and O_DIRECT leave nothing in the page cache for a reader. A method that writes
    over zeros is compared with the time that writing the zeros takes; without it, only reported.
    """
    records = records // WIDE.records * WIDE.records
    ours = "kstore, ready batches, no reader"
    values = "kstore, values, no reader"
    streamed = partial(stream, directory, records)
    calls: Calls = {
        ours: partial(streamed, shape=READY, reader=False),
        "kstore, ready batches": partial(streamed, shape=READY),
        values: partial(streamed, shape=WIDE, reader=False),
        "kstore, values": partial(streamed, shape=WIDE),
        AT_END: partial(write_raw, directory, records, inf, WIDE),
        EACH_MIB: partial(write_raw, directory, records, MIB, WIDE),
        "write, synced behind": partial(write_synced_behind, directory, records),
    }
    batch = len(client_batch(WIDE.records))
    size = records // WIDE.records * batch // MIB * MIB
    writing = Writing(Setting(directory, size), MIB)
    blocks_per_record = batch / WIDE.records / MIB
    positions = sequential(size // MIB, MIB)

    def raw(call: Callable[[], Timed], before: Callable[[], float] = float) -> Timed:
        return Timed((before() + call().seconds) * blocks_per_record, result=records)

    methods: dict[str, tuple[Callable[[], Timed], bool]] = {
        f"{method.name} of 1 MiB": (partial(writing.write, method, positions), method.zeros)
        for method in SEQUENTIAL
        if method.name in RAW and not writing.why_not(method)
    }
    if not writing.why_no_ring():
        ring = partial(writing.by_ring, positions, 4)
        methods["io_uring, O_DIRECT over zeros, 4 at once"] = (ring, True)
    for name, (call, needs_zeros) in methods.items():
        calls[name] = partial(raw, call)
        if needs_zeros:
            calls[name + ZEROED] = partial(raw, call, writing.zero_again)
    others = [name for name in calls if not name.startswith("kstore") and "fdatasync" not in name]
    unpaid = {name for name in others if name + ZEROED in others}
    return Contest(
        name=f"durable stream of {records} records in batches of 1 MiB",
        calls=calls,
        amount=1,
        unit="records",
        bars=(
            *((ours, name, None if name in unpaid else OF_THE_BEST) for name in others),
            (ours, AT_END, OF_BUFFERED),
            (ours, EACH_MIB, OF_BUFFERED),
            *((values, name, None) for name in others),
            ("kstore, ready batches", ours, None),
            ("kstore, values", values, None),
        ),
        rounds=5,
    )
