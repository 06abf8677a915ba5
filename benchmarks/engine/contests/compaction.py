"""Compaction of 10 million records in one partition by one thread, and in two by two threads.

Every key was written ten times; records have keys of 12 bytes and values of 88. Kafka's cleaner
works with one thread, its default, and with two where there are two partitions. Both have 128 MiB
for keys (each of two threads half of it), and both sync what they write; TMPDIR=/dev/shm makes
that free for both.
"""

import os
import random
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter

import kstore
from engine.data.batches import TIME
from engine.data.logs import TOPIC
from engine.data.partitions import read_descriptor
from engine.peers.kafka import KafkaLog, kafka_log
from kstore._native.append.encode import BatchBuffer
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import fresh, opened, sync_below

RECORDS = 10_000_000
RECORDS_A_BATCH = 150  # about 16 KB
DEDUPE_BUFFER = 134_217_728  # Kafka's default, for all threads together
FLOOR = "read all, write and sync a tenth"
BARS = {1: 5.0, 2: 8.0}  # threads, as many as partitions, against one of Kafka's


def write_keyed_store(root: Path, records: int, partitions: int = 1) -> Path:
    """A store with ``records`` in each partition, all but the active segment dirty."""
    config = kstore.LogConfig(cleanup_policy="compact", file_delete_delay_ms=0)
    with kstore.open(root, config=kstore.StoreConfig(background=False)) as store:
        log = store.create_topic(TOPIC, partitions=partitions, config=config)[0]
        keys = [b"key-%08d" % n for n in range(max(1, records // 10))]
        chosen = iter(random.Random(3).choices(keys, k=records))
        buffer, number = BatchBuffer(), 0
        while batch := list(islice(chosen, RECORDS_A_BATCH)):
            for key in batch:
                buffer.put(b"%088d" % number, key, None, TIME + number)
                number += 1
            log.append_as_leader(buffer.to_bytes(0))
            buffer = BatchBuffer()
        log.roll()
    for other in range(1, partitions):
        shutil.rmtree(root / f"{TOPIC}-{other}")
        shutil.copytree(root / f"{TOPIC}-0", root / f"{TOPIC}-{other}")
    sync_below(root)
    return root


def link_store(root: Path, copy: Path) -> Path:
    """Copy a store, with hard links for its rolled segments, which do not change."""

    def link_or_copy(source: str, target: str) -> None:
        is_rolled = source.endswith(".log") and os.path.getsize(source) > 0
        (os.link if is_rolled else shutil.copy2)(source, target)

    shutil.copytree(root, copy, copy_function=link_or_copy)
    return copy


def contents(root: Path) -> tuple[int, int, int]:
    """Records, bytes and a checksum of all log files of a closed store."""
    paths = sorted(root.glob("*/*.log"))
    checksum = 0
    for path in paths:
        checksum = zlib.crc32(path.read_bytes(), checksum)
    with kstore.open(root, mode="r") as store:
        records = sum(len(columns) for log in store[TOPIC] for columns in log.view().scan())
    return records, sum(path.stat().st_size for path in paths), checksum


def compact(root: Path, threads: int) -> Timed:
    """Compact every partition of a copy; opening and closing are not timed.

    ``map, MiB`` is the sum over the key maps of all partitions.
    """
    copy = link_store(root, root.with_name("kstore"))
    try:
        with (
            kstore.open(copy, config=kstore.StoreConfig(background=False)) as store,
            ThreadPoolExecutor(threads) as pool,
        ):
            logs = list(store[TOPIC])
            barrier = threading.Barrier(threads)
            for waiting in [pool.submit(barrier.wait) for _ in range(threads)]:
                waiting.result()  # all threads have started
            each = DEDUPE_BUFFER // threads
            started = perf_counter()
            done = [pool.submit(log.compact, dedupe_buffer_size=each) for log in logs]
            reports = [one.result() for one in done]
            seconds = perf_counter() - started
            for log, report in zip(logs, reports, strict=True):
                if report.end_offset != log.end_offset:
                    raise AssertionError(f"not everything was compacted: {report}")
        maps = sum(report.map_memory for report in reports) / (1 << 20)
        return Timed(seconds, result=contents(copy), also={"map, MiB": maps})
    finally:
        shutil.rmtree(copy)


def compact_by_kafka(peer: KafkaLog, root: Path, partitions: int, threads: int) -> Timed:
    copy = link_store(root, root.with_name("kafka"))
    try:
        names = [Path(copy.name) / f"{TOPIC}-{n}" for n in range(partitions)]
        seconds = float(peer.clean(*names, threads=threads)["seconds"])
        also = {"map, MiB": DEDUPE_BUFFER / (1 << 20)}  # allocated in full at the start
        return Timed(seconds, result=contents(copy), also=also)
    finally:
        shutil.rmtree(copy)


def read_and_write(root: Path) -> Timed:
    """Read every byte, write and sync a tenth of them: what every cleaner has to do."""
    block = bytes(1 << 20)
    with ExitStack() as files:
        logs = [files.enter_context(opened(path, os.O_RDONLY)) for path in root.glob("*/*.log")]
        fd = files.enter_context(fresh(root / "kept"))
        started = perf_counter()
        size = sum(map(read_descriptor, logs))
        for _ in range(size // 10 // len(block)):
            os.write(fd, block)
        os.write(fd, block[: size // 10 % len(block)])
        os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds, result=size)


def count_threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def contests() -> Iterator[Contest]:
    with tempfile.TemporaryDirectory() as path, kafka_log(Path(path)) as peer:
        for partitions, wanted in BARS.items():
            records = scaled(RECORDS, 1000) // partitions
            root = write_keyed_store(Path(path) / f"store{partitions}", records, partitions)
            ours = f"kstore, {count_threads(partitions)}"
            calls: Calls = {
                ours: partial(compact, root, partitions),
                FLOOR: partial(read_and_write, root),
            }
            bars: list[Bar] = [(ours, FLOOR, None)]
            for count in range(1, partitions + 1):
                if peer is None:
                    break
                theirs = f"Kafka, {count_threads(count)}"
                calls[theirs] = partial(compact_by_kafka, peer, root, partitions, count)
                bars.append((ours, theirs, wanted if count == 1 else None))
                if count == 1:
                    bars.append((f"{ours} map, MiB", f"{theirs} map, MiB", 1.0))
            yield Contest(
                name=f"compact {partitions} x {records:,} records, {records // 10:,} keys each",
                calls=calls,
                amount=partitions * records,
                unit="records",
                bars=tuple(bars),
                ceiling=FLOOR,
                unchecked=frozenset([FLOOR]),
                rounds=3,
            )
            shutil.rmtree(root)
