"""The smallest micro-batch: one record through a Spark stream, from source to sink.

kstore copies from directory to directory, published and flushed; Spark's Kafka connector from topic
to topic of a real broker, with its defaults and with a fetch that waits 10 ms at most. Spark has
its defaults: each micro-batch starts when the previous one is done.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import kstore
import spark_data as bench
import spark_sink as work
from kstore.bench.contest import Contest, Timed
from peers.broker import running
from peers.spark import data_folder, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from interop.node import Node

OURS, THEIRS = "kstore", "Kafka connector"
QUICK = "Kafka connector, fetch.max.wait.ms=10"
SOURCE, SINK = "source", "sink"


class Streams:
    """Streams, each between two new topics and with a new checkpoint."""

    def __init__(self, spark: "SparkSession", folder: Path, node: "Node | None") -> None:
        self._spark = spark
        self._folder = folder
        self._node = node
        self._numbers = count()

    def _start(
        self, kind: str, source: dict[str, str], sink: dict[str, str], root: Path
    ) -> "StreamingQuery":
        reader = self._spark.readStream.format(kind).options(**source)
        frame = reader.option("startingOffsets", "earliest").load().select("key", "value")
        writer = frame.writeStream.format(kind).options(**sink)
        return writer.option("checkpointLocation", str(root / "checkpoint")).start()

    def kstore(self) -> Timed:
        root = self._folder / f"stream-{next(self._numbers)}"
        paths = {name: str(root / name) for name in (SOURCE, SINK)}
        try:
            for name, path in paths.items():
                with kstore.open(path) as store:
                    store.create_topic(name)
            source = {"path": paths[SOURCE], "subscribe": SOURCE}
            sink = {"path": paths[SINK], "topic": SINK}
            with kstore.open(paths[SOURCE]) as store:
                start = partial(self._start, "kstore", source, sink, root)
                return work.carry(start, store[SOURCE][0].append, root / SINK, SINK)
        finally:
            shutil.rmtree(root)

    def kafka(self, wait_ms: int | None = None) -> Timed:
        from kafka import KafkaProducer

        node = self._node
        assert node is not None
        number = next(self._numbers)
        root = self._folder / f"stream-{number}"
        topics = [f"{name}-{number}" for name in (SOURCE, SINK)]
        for topic in topics:
            node.create_topic(topic)
        broker = {"kafka.bootstrap.servers": node.address}
        source = broker | {"subscribe": topics[0]}
        if wait_ms is not None:
            source["kafka.fetch.max.wait.ms"] = str(wait_ms)
        sink = broker | {"topic": topics[1]}
        producer = KafkaProducer(bootstrap_servers=node.address, acks="all", linger_ms=0)
        try:

            def append(value: bytes) -> None:
                producer.send(topics[0], value).get(10)

            start = partial(self._start, "kafka", source, sink, root)
            return work.carry(start, append, node.log_dir, topics[1])
        finally:
            producer.close()
            shutil.rmtree(root)


def contests() -> Iterator[Contest]:
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder())
        spark, with_connector = stack.enter_context(session())
        node = None
        if with_connector:
            node = stack.enter_context(running(folder / f"broker-{os.getpid()}"))
        streams = Streams(spark, folder, node)
        calls: dict[str, Callable[[], object]] = {OURS: streams.kstore}
        bars: tuple[tuple[str, str, float | None], ...] = ()
        if node is not None:
            calls |= {THEIRS: streams.kafka, QUICK: partial(streams.kafka, 10)}
            bars = ((OURS, THEIRS, 1 / 0.3), (OURS, QUICK, 1.0))
        yield Contest(
            name=f"Spark {bench.SPARK_VERSION}, smallest micro-batch from source to sink",
            calls=calls,
            expected=work.expected_values(),
            bars=bars,
            rounds=2,
        )
