"""Verifying 8 GiB, cached, on two cores: Spark's executors beside the engine with two threads.

KSTORE_BENCH_DIR should be in memory (/dev/shm), where files stay cached.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import kstore
import spark_data as bench
from engine.data.partitions import write_partition
from kstore.bench.contest import Contest, scaled
from kstore.spark.jobs.verify import verify
from peers.spark import data_folder, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE, PARTITIONS = 8 << 30, 8
OURS, ENGINE = "kstore spark verify", "the engine, two threads"
RECORDS = 150  # in a batch of 16 KB


def prepared(folder: Path, size: int) -> Path:
    """A store of eight partitions of one segment each, written unless it exists."""
    store = folder / f"verify-{size}"
    if not store.exists():
        part = store.with_suffix(".part")
        for number in range(PARTITIONS):
            directory = part / f"{bench.TOPIC}-{number}"
            write_partition(directory, RECORDS, size // PARTITIONS)
        with kstore.open(part):  # indexes, checkpoints and the marker, as after a clean stop
            pass
        part.rename(store)
    return store


def by_engine(store: Path) -> tuple[bool, int, int]:
    with kstore.open(store, mode="r") as opened:
        reports = [log.verify(threads=2) for log in opened[bench.TOPIC]]
    ok = all(report.ok for report in reports)
    return ok, sum(report.batches for report in reports), sum(report.bytes for report in reports)


def by_spark(spark: "SparkSession", store: Path) -> tuple[bool, int, int]:
    found = verify(spark, store)
    ok = all(each.ok for each in found)
    batches = sum(each.report.batches for each in found)
    return ok, batches, sum(each.report.bytes for each in found)


def contests() -> Iterator[Contest]:
    size = scaled(SIZE, 1 << 22)
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder())
        store = prepared(folder, size)
        spark, _ = stack.enter_context(session())
        yield Contest(
            name=f"Spark {bench.SPARK_VERSION}, verify of {size:,} bytes",
            calls={ENGINE: partial(by_engine, store), OURS: partial(by_spark, spark, store)},
            amount=size,
            bars=((OURS, ENGINE, 0.6),),
            rounds=5,
        )
