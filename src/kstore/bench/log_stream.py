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
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from time import perf_counter, perf_counter_ns

import kstore
from kstore.bench.contest import Timed
from kstore.bench.log_append import check, percentiles, prepared, thousand_values

WINDOW = 1 << 20  # bytes that may wait for their acknowledgement


def stream(directory: Path, records: int, *, reader: bool = True) -> Timed:
    """Seconds a record until the last one is acknowledged; also the reader's, and ack latency."""
    path = mkdtemp(dir=directory)
    following = None
    try:
        with kstore.open(path) as store:
            log = store.create_topic("stream")[0]
            log.flush()
            following = _start_reader(path, records) if reader else None
            seconds, waited = write(log, records)
            also = percentiles(waited)
            figures = {"ack p50": also.seconds, "ack p99": also.also["p99"]}
            if following is not None:
                figures["reader"] = _end_reader(following, records) / records
            check(log, records)
            if log.recovery_point < records:
                raise AssertionError("acknowledged, but not on disk")
    finally:
        if following is not None:
            following.kill()  # nothing where it ended by itself
            following.communicate()
        shutil.rmtree(path)
    return Timed(seconds / records, result=records, also=figures)


def write(log: kstore.Log, records: int) -> tuple[float, list[int]]:
    """Append, bounded by the window; seconds until all is acknowledged, and each ack's wait."""
    values = thousand_values()
    room = max(1, WINDOW // len(prepared(1000)))  # appends under way
    pending: deque[tuple[int, int]] = deque()
    waited: list[int] = []
    clock = perf_counter_ns
    with kstore.Committer(log) as committer:
        started = perf_counter()
        for _ in range(records // 1000):
            at = clock()
            pending.append((log.extend(values).stop, at))
            committer.request()
            if len(pending) >= room:
                committer.wait(pending[0][0])
            _acknowledge(pending, committer.durable_offset, waited)
        committer.wait()
        _acknowledge(pending, committer.durable_offset, waited)
        seconds = perf_counter() - started
    return seconds, waited


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


def _end_reader(process: subprocess.Popen[str], records: int) -> float:
    said = json.loads(process.communicate(timeout=120)[0])
    if said["records"] != records or said["bytes"] != records * 100 or process.returncode:
        raise AssertionError(f"the reader saw {said}")
    return float(said["seconds"])


def follow(path: str, records: int) -> None:
    """The reading process: every record in columns, each checksum checked, until all were seen."""
    import_module("kstore.record.columns")  # NumPy too, before the clock starts
    with kstore.open(path, mode="r") as store:
        log = store["stream"][0]
        print("ready", flush=True)
        log.wait_beyond(0, 60)
        started = perf_counter()
        seen = size = 0
        while seen < records and log.wait_beyond(seen, 60):
            for columns in log.view(seen, None).scan():
                if columns.offsets[0] != seen:
                    raise AssertionError(f"offset {columns.offsets[0]} instead of {seen}")
                seen += len(columns)
                size += int(columns.values.lengths.sum())
        seconds = perf_counter() - started
    print(json.dumps({"records": seen, "bytes": size, "seconds": seconds}))


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


def main(records: int) -> None:
    with TemporaryDirectory() as directory:
        timed = stream(Path(directory), records)
    print(f"acknowledged {1e-6 / timed.seconds:.2f} M records/s")
    print(f"read         {1e-6 / timed.also['reader']:.2f} M records/s")
    print(f"ack latency  p50 {timed.also['ack p50'] * 1e3:.2f} ms, ", end="")
    print(f"p99 {timed.also['ack p99'] * 1e3:.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
