"""Spark jobs that work on the bytes, beside Spark's own way: aggregates and the export.

Aggregates against the same query over Spark's Kafka connector at a real broker; the export to
Parquet against the connector's ``read...write.parquet`` and against Spark copying the same rows
from Parquet to Parquet. Data, jars and settings as in contests_spark.py.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import contests_spark
import spark_data as bench
from kstore.bench.contest import Contest, scaled
from kstore.spark import aggregate
from kstore.spark.jobs.export import export
from peers.broker import broker
from peers.spark import data_folder, session

OURS, THEIRS, COPY = "kstore", "Kafka connector", "Spark, Parquet to Parquet"
WINDOW = "10 minutes"
Rows = list[tuple[Any, ...]]


def contests() -> Iterator[Contest]:
    records = scaled(contests_spark.RECORDS, 1000)
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder())
        store, _ = contests_spark.prepared(folder, records)
        spark, with_connector = stack.enter_context(session())
        address = ""
        if with_connector:
            root = folder / f"broker-{os.getpid()}"
            address = stack.enter_context(broker(store, bench.TOPIC, bench.PARTITIONS, root))
        for name, ours, theirs in (
            ("sizes, times and counts by partition", per_partition, per_partition_of),
            (f"the same by {WINDOW}", per_window, per_window_of),
            ("count by key, the number of keys", per_key, per_key_of),
            ("keys by hour, counted exactly", keys_per_hour, keys_per_hour_of),
        ):
            calls: dict[str, Callable[[], object]] = {OURS: partial(ours, spark, store)}
            if address:
                calls[THEIRS] = partial(theirs, bench.load(spark, "kafka", address))
            yield Contest(
                name=f"Spark {bench.SPARK_VERSION}, {name}, {records:,} records",
                calls=calls,
                amount=records,
                unit="records",
                bars=((OURS, THEIRS, 20),) if address else ((OURS, OURS, None),),
                rounds=3,
            )
        yield exports(spark, stack, folder, store, address, records)


def exports(
    spark: "bench.SparkSession",
    stack: ExitStack,
    folder: Path,
    store: Path,
    address: str,
    records: int,
) -> Contest:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
    source = directory / "source"
    # The rows to export, written by Spark, with the connector's columns.
    bench.load(spark, "kstore", store).write.parquet(str(source))
    frames = {COPY: spark.read.parquet(str(source))}
    if address:
        frames[THEIRS] = bench.load(spark, "kafka", address)

    def by_spark(who: str) -> int:
        out = directory / "out"
        shutil.rmtree(out, ignore_errors=True)
        frames[who].write.parquet(str(out))
        return rows_in(out)

    def by_us() -> int:
        out = directory / "ours"
        shutil.rmtree(out, ignore_errors=True)
        export(spark, store, out)
        return rows_in(out)

    calls: dict[str, Callable[[], object]] = {OURS: by_us}
    calls.update({who: partial(by_spark, who) for who in frames})
    wanted = {COPY: 3, THEIRS: 6}
    return Contest(
        name=f"Spark {bench.SPARK_VERSION}, export to Parquet of {records:,} records",
        calls=calls,
        amount=records,
        unit="records",
        expected=records,
        bars=tuple((OURS, who, wanted[who]) for who in frames),
        rounds=3,
    )


def rows_in(out: Path) -> int:
    """The row count in the files' footers; no row is read."""
    from pyarrow import parquet

    return sum(parquet.ParquetFile(each).metadata.num_rows for each in out.rglob("*.parquet"))


# --- the same questions, asked both ways ----------------------------------------------------------


def in_order(frame: "bench.DataFrame") -> Rows:
    return sorted(tuple(row) for row in frame.collect())


MEASURED = {
    "count": "count(*)",
    "key_bytes": "sum(length(key))",
    "value_bytes": "sum(length(value))",
    "max_value_size": "max(length(value))",
    "min_timestamp": "min(timestamp)",
    "max_timestamp": "max(timestamp)",
}


def measured(frame: "bench.DataFrame", *by: Any) -> Rows:
    from pyspark.sql import functions

    columns = [functions.expr(text).alias(name) for name, text in MEASURED.items()]
    return in_order(frame.groupBy(*by).agg(*columns))


def per_partition(spark: "bench.SparkSession", store: Path) -> Rows:
    names = list(MEASURED)
    return in_order(aggregate(spark, store, topics=bench.TOPIC, measures=names))


def per_partition_of(frame: "bench.DataFrame") -> Rows:
    return measured(frame, "topic", "partition")


def per_window(spark: "bench.SparkSession", store: Path) -> Rows:
    found = aggregate(
        spark,
        store,
        topics=bench.TOPIC,
        by=("partition", "window"),
        window=WINDOW,
        measures=list(MEASURED),
    )
    return in_order(found)


def per_window_of(frame: "bench.DataFrame") -> Rows:
    from pyspark.sql import functions

    return measured(frame, "partition", functions.window("timestamp", WINDOW))


def per_key(spark: "bench.SparkSession", store: Path) -> int:
    found = aggregate(spark, store, topics=bench.TOPIC, by="key", measures="count")
    return int(found.count())


def per_key_of(frame: "bench.DataFrame") -> int:
    return int(frame.groupBy("key").count().count())


def keys_per_hour(spark: "bench.SparkSession", store: Path) -> Rows:
    found = aggregate(
        spark,
        store,
        topics=bench.TOPIC,
        by="window",
        window="1 hour",
        measures=["count", "distinct_keys"],
    )
    return in_order(found)


def keys_per_hour_of(frame: "bench.DataFrame") -> Rows:
    from pyspark.sql import functions

    hours = frame.groupBy(functions.window("timestamp", "1 hour").alias("window"))
    return in_order(hours.agg(functions.expr("count(*)"), functions.expr("count(distinct key)")))
