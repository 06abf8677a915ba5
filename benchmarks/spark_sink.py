"""Spark sinks for the contests: DataFrames written as records, and records sent through streams."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

import kstore
from kstore.bench.contest import Timed
from kstore.spark import read
from spark_data import KEYS, PARTITIONS, VALUE_SIZE, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

TOPIC = "written"
# Otherwise Spark adds up the size of its Arrow batch after every row for a Python sink.
BY_ROWS = ("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
WARM, SAMPLES = 3, 20  # records before the latency is measured, and records that are measured
_PATIENCE = 120.0  # seconds for one record
_PAUSE = 0.0005  # between polls of the log


def make_rows(spark: "SparkSession", target: Path, records: int) -> None:
    """Write rows with keys of 12 bytes, random values of 88 and two headers, as plain Parquet."""
    frame = spark.range(0, records, 1, 4).selectExpr(
        f"cast(concat('key-', lpad(cast(id % {KEYS} as string), 8, '0')) as binary) as key",
        f"cast(left(sha2(cast(id as string), 512), {VALUE_SIZE}) as binary) as value",
        "array(named_struct('key', 'trace', 'value', unhex(md5(cast(id as string)))), "
        "named_struct('key', 'source', 'value', cast('web' as binary))) as headers",
    )
    part = target.with_suffix(".part")
    frame.write.mode("overwrite").option("compression", "none").parquet(str(part))
    part.rename(target)


def load_rows(spark: "SparkSession", path: Path, headers: bool) -> "DataFrame":
    """The rows to write."""
    frame = spark.read.parquet(str(path))
    return frame if headers else frame.drop("headers")


class Rows(WriterCommitMessage):
    """How many rows a task received."""

    def __init__(self, count: int) -> None:
        self.count = count


class CountingWriter(DataSourceArrowWriter):
    """Counts Arrow batches and drops them: no Python sink can be faster."""

    def write(self, iterator: "Iterator[Any]") -> WriterCommitMessage:
        return Rows(sum(batch.num_rows for batch in iterator))


class Counting(DataSource):
    """``format("counting")``, a sink."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def __init__(self, options: "MutableMapping[str, str]") -> None:
        super().__init__(options)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        return CountingWriter()


def write_nowhere(frame: "DataFrame") -> float:
    """Seconds until Spark has passed every row to a Python sink."""
    frame.sparkSession.dataSource.register(Counting)
    started = perf_counter()
    frame.write.format("counting").mode("append").save()
    return perf_counter() - started


def write_kstore(frame: "DataFrame", path: Path) -> float:
    """Seconds until the rows are published and on disk, in a new store."""
    with kstore.open(path) as store:
        store.create_topic(TOPIC, PARTITIONS)
    started = perf_counter()
    frame.write.format("kstore").mode("append").option("topic", TOPIC).save(str(path))
    return perf_counter() - started


def write_kafka(frame: "DataFrame", address: str, topic: str) -> float:
    """Seconds of Spark's Kafka sink, with producer settings that make it faster."""
    started = perf_counter()
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", address)
    writer = writer.option("kafka.batch.size", 65536).option("kafka.linger.ms", 5)
    writer.option("topic", topic).save()
    return perf_counter() - started


def written(spark: "SparkSession", directory: Path, topic: str) -> tuple[int, int]:
    """The row count and a hash of the records in a log dir.

    The hash includes partitions, and leaves out timestamps, offsets and the order.
    """
    columns = ("key", "value", "headers", "partition")
    return fingerprint(read(spark, directory, topics=topic, columns=columns, check=False))


def arrived(spark: "SparkSession", directory: Path, topic: str) -> int:
    """The row count alone, which is quick."""
    return read(spark, directory, topics=topic, columns=("partition",), check=False).count()


def carry(
    query: Callable[[], "StreamingQuery"],
    append: Callable[[bytes], object],
    directory: Path,
    topic: str,
) -> Timed:
    """How long single records take from visible in a stream's source to visible in its sink.

    Parameters
    ----------
    query
        Starts the stream; it is stopped at the end.
    append
        Makes one record visible in the source.
    directory, topic
        The log dir and topic that the stream writes, read by kstore.

    Returns the median, with the 90th percentile beside it, and the values in their order.
    """
    latencies = []
    pauses = random.Random(1)
    with kstore.open(directory, mode="r") as store:
        log = store[topic][0]
        base = log.end_offset
        stream = query()
        try:
            for n in range(WARM + SAMPLES):
                append(b"%d" % n)
                started = perf_counter()
                _wait(log, base + n + 1, stream)
                latencies.append(perf_counter() - started)
                time.sleep(pauses.random() * 0.05)  # at varying moments of its loop
        finally:
            stream.stop()
        values = [record.value for record in log[base:]]
    counted = latencies[WARM:]
    return Timed(median(counted), result=values, also={"p90": quantiles(counted, n=10)[-1]})


def expected_values() -> Sequence[bytes]:
    """The values that :func:`carry` sends."""
    return [b"%d" % n for n in range(WARM + SAMPLES)]


def _wait(log: kstore.Log, end: int, stream: "StreamingQuery") -> None:
    until = perf_counter() + _PATIENCE
    while log.end_offset < end:
        if perf_counter() > until or not stream.isActive:
            raise AssertionError(f"offset {end - 1} did not arrive: {stream.exception()}")
        time.sleep(_PAUSE)
