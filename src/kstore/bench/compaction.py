"""Compaction of a log whose every key was written ten times: seconds, and memory beside.

    python -m kstore.bench.compaction 10000000       # records; a tenth as many keys

Records have keys of 12 bytes and values of 88. A directory is made once; each contestant gets one
of its own, whose sealed log files are hard links: neither kstore nor Kafka ever writes into those.
"""

import os
import random
import shutil
import sys
import tempfile
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from time import perf_counter

import kstore
from kstore._native.encode import BatchBuffer
from kstore.bench.contest import Timed
from kstore.bench.raw_files import sync_below

TOPIC = "bench"
RECORDS_A_BATCH = 150  # about 16 KB
DEDUPE_BUFFER = 134_217_728  # Kafka's default, for all threads together
SLOT = 24  # bytes an entry of Kafka's map takes, and of ours


def write(root: Path, records: int, partitions: int = 1) -> Path:
    """A store of so many partitions of so many records each, all but the active segment dirty."""
    config = kstore.LogConfig(cleanup_policy="compact", file_delete_delay_ms=0)
    with kstore.open(root, config=kstore.StoreConfig(background=False)) as store:
        log = store.create_topic(TOPIC, partitions=partitions, config=config)[0]
        keys = [b"key-%08d" % n for n in range(max(1, records // 10))]
        chosen = iter(random.Random(3).choices(keys, k=records))
        buffer, number = BatchBuffer(), 0
        while here := list(islice(chosen, RECORDS_A_BATCH)):
            for key in here:
                buffer.put(b"%088d" % number, key, None, 1_700_000_000_000 + number)
                number += 1
            log.append_as_leader(buffer.to_bytes(0))
            buffer = BatchBuffer()
        log.roll()
    for other in range(1, partitions):
        shutil.rmtree(root / f"{TOPIC}-{other}")
        shutil.copytree(root / f"{TOPIC}-0", root / f"{TOPIC}-{other}")
    sync_below(root)
    return root


def linked(root: Path, copy: Path) -> Path:
    """A directory with the same contents, to be compacted."""

    def give(source: str, target: str) -> None:
        sealed = source.endswith(".log") and os.path.getsize(source) > 0
        (os.link if sealed else shutil.copy2)(source, target)

    shutil.copytree(root, copy, copy_function=give)
    return copy


def contents(root: Path) -> tuple[int, int, int]:
    """Records, bytes and a checksum of all log files of a closed store."""
    paths = sorted(root.glob("*/*.log"))
    checksum = 0
    for path in paths:
        checksum = zlib.crc32(path.read_bytes(), checksum)
    with kstore.open(root, mode="r") as store:
        logs = store[TOPIC]
        records = sum(len(columns) for log in logs for columns in log.view().scan())
    return records, sum(path.stat().st_size for path in paths), checksum


def compact(root: Path, threads: int = 1) -> Timed:
    """Compact every partition of a store, by so many threads; opening and closing not timed.

    ``map, MiB`` is of the maps of keys, were all partitions' there at once.
    """
    with (
        kstore.open(root, config=kstore.StoreConfig(background=False)) as store,
        ThreadPoolExecutor(threads) as pool,
    ):
        logs = list(store[TOPIC])
        meet = threading.Barrier(threads)
        for waiting in [pool.submit(meet.wait) for _ in range(threads)]:
            waiting.result()  # all threads have started
        started = perf_counter()
        done = [
            pool.submit(log.compact, dedupe_buffer_size=DEDUPE_BUFFER // threads) for log in logs
        ]
        reports = [each.result() for each in done]
        seconds = perf_counter() - started
        for log, report in zip(logs, reports, strict=True):
            if report.end_offset != log.end_offset:
                raise AssertionError(f"not all was compacted: {report}")
    maps = sum(report.map_memory for report in reports) / (1 << 20)
    return Timed(seconds, result=contents(root), also={"map, MiB": maps})


def anonymous() -> int:
    """Bytes of this process that no file stands behind."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise OSError("/proc/self/status does not say RssAnon")


def memory(root: Path) -> tuple[int, int, int]:
    """The most bytes that compacting partition 0 took; those of its map; how many keys."""
    with kstore.open(root, config=kstore.StoreConfig(background=False)) as store:
        log = store[TOPIC][0]
        before = most = anonymous()

        def look(done: int, total: int) -> None:
            nonlocal most
            most = max(most, anonymous())

        report = log.compact(progress=look)
    return most - before, report.map_memory, report.keys


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as path:
        root = write(Path(path) / "store", records)
        for number in range(3):
            copy = linked(root, Path(path) / "copy")
            if number < 2:
                done = compact(copy)
                print(f"{records / done.seconds:,.0f} records/s, {done.seconds:.3f} s")
            else:
                peak, table, keys = memory(copy)
                print(f"memory {peak:,} bytes, map {table:,}; {keys:,} keys")
            shutil.rmtree(copy)


if __name__ == "__main__":
    main()
