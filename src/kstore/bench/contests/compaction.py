"""Compaction of 10 million records in one partition by one thread, and in two by two threads.

Beside it Kafka's own cleaner: one thread, its default, which cleans the same partitions one after
the other; and two where there are two. Both have 128 MiB for keys (each of two threads half of it),
and both sync what they write; TMPDIR=/dev/shm makes that free for both.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

from kstore.bench import compaction
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import KafkaLog, kafka_log
from kstore.bench.raw_files import fresh
from kstore.bench.recovery import read_whole

RECORDS = 10_000_000
FLOOR = "read all, write and sync a tenth"
BARS = {1: 5.0, 2: 8.0}  # threads, as many as partitions, against one of Kafka's


def contests() -> Iterator[Contest]:
    with tempfile.TemporaryDirectory() as path, kafka_log(Path(path)) as peer:
        for partitions, wanted in BARS.items():
            records = scaled(RECORDS, 1000) // partitions
            root = compaction.write(Path(path) / f"store{partitions}", records, partitions)
            calls: dict[str, Callable[[], object]] = {}
            bars: list[tuple[str, str, float | None]] = []
            ours = f"kstore, {in_words(partitions)}"
            calls[ours] = partial(by_kstore, root, partitions)
            calls[FLOOR] = partial(read_and_write, root)
            bars.append((ours, FLOOR, None))
            for count in range(1, partitions + 1):
                if peer is None:
                    break
                theirs = f"Kafka, {in_words(count)}"
                calls[theirs] = partial(by_kafka, peer, root, partitions, count)
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


def read_and_write(root: Path) -> Timed:
    """Every byte read, and a tenth of them written and synced: what no cleaner can do without."""
    logs = sorted(root.glob("*/*.log"))
    started = perf_counter()
    size = sum(read_whole(path) for path in logs)
    with fresh(root / "kept") as fd:
        block = bytes(1 << 20)
        for _ in range(size // 10 // len(block)):
            os.write(fd, block)
        os.write(fd, block[: size // 10 % len(block)])
        os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds, result=size)


def in_words(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def by_kstore(root: Path, threads: int) -> Timed:
    copy = compaction.linked(root, root.with_name("kstore"))
    try:
        return compaction.compact(copy, threads)
    finally:
        shutil.rmtree(copy)


def by_kafka(peer: KafkaLog, root: Path, partitions: int, threads: int = 1) -> Timed:
    copy = compaction.linked(root, root.with_name("kafka"))
    try:
        names = [Path(copy.name) / f"{compaction.TOPIC}-{n}" for n in range(partitions)]
        seconds = float(peer.clean(*names, threads=threads)["seconds"])
        also = {"map, MiB": compaction.DEDUPE_BUFFER / (1 << 20)}  # allocated whole, when it starts
        return Timed(seconds, result=compaction.contents(copy), also=also)
    finally:
        shutil.rmtree(copy)
