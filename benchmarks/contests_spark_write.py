"""Spark writes 10 million records: into a kstore directory, published and flushed, and by its own
Kafka sink into a real broker on the same machine, which flushes nothing. Rows come from Parquet in
page cache; the records that arrived are compared.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import spark_data as bench
import spark_sink as work
from kstore.bench.contest import Contest, Timed, scaled
from peers.broker import running
from peers.spark import data_folder, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from interop.node import Node

RECORDS = 10_000_000
OURS, THEIRS = "kstore", "Kafka connector"
CEILING = "a sink that only counts"
SHAPES = (("without headers", False, 2.5), ("with two headers", True, 1.6))


class Sinks:
    """Each write goes to a new topic; its records are compared the first time, and counted every
    time."""

    def __init__(self, spark: "SparkSession", folder: Path, node: "Node | None") -> None:
        self._spark = spark
        self._folder = folder
        self._node = node
        self._numbers = count()
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}

    def kstore(self, frame: "DataFrame", shape: str) -> Timed:
        store = self._folder / f"target-{os.getpid()}-{next(self._numbers)}"
        try:
            os.sync()  # dirty pages of earlier writes are not timed
            seconds = work.write_kstore(frame, store)
            return Timed(seconds, result=self._found(OURS, shape, store, work.TOPIC))
        finally:
            shutil.rmtree(store)

    def nowhere(self, frame: "DataFrame") -> Timed:
        return Timed(work.write_nowhere(frame))

    def kafka(self, frame: "DataFrame", shape: str) -> Timed:
        node = self._node
        assert node is not None
        topic = f"written-{next(self._numbers)}"
        node.create_topic(topic, bench.PARTITIONS)
        os.sync()
        seconds = work.write_kafka(frame, node.address, topic)
        return Timed(seconds, result=self._found(THEIRS, shape, node.log_dir, topic))

    def _found(self, who: str, shape: str, directory: Path, topic: str) -> tuple[int, int]:
        if (who, shape) not in self._seen:
            self._seen[who, shape] = work.written(self._spark, directory, topic)
            return self._seen[who, shape]
        return work.arrived(self._spark, directory, topic), self._seen[who, shape][1]


def contests() -> Iterator[Contest]:
    records = scaled(RECORDS, 1000)
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder())
        spark, with_connector = stack.enter_context(session())
        spark.conf.set(*work.BY_ROWS)  # as the guide recommends; no effect on the connector
        node = None
        if with_connector:
            root = folder / f"broker-{os.getpid()}"
            node = stack.enter_context(running(root))
        rows = folder / f"rows-{records}.parquet"
        if not rows.exists():
            work.make_rows(spark, rows, records)
        sinks = Sinks(spark, folder, node)
        for shape, headers, wanted in SHAPES:
            frame = work.load_rows(spark, rows, headers)
            calls: dict[str, Callable[[], object]] = {
                OURS: partial(sinks.kstore, frame, shape),
                CEILING: partial(sinks.nowhere, frame),
            }
            if node is not None:
                calls[THEIRS] = partial(sinks.kafka, frame, shape)
            yield Contest(
                name=f"Spark {bench.SPARK_VERSION}, write of {records:,} records {shape}",
                calls=calls,
                amount=records,
                unit="records",
                bars=(
                    *([(OURS, THEIRS, wanted)] if node is not None else []),
                    (OURS, CEILING, None),
                ),
                unchecked=frozenset({CEILING}),
                rounds=3,
            )
