"""The same query by Spark's own Kafka connector and by kstore: what both give, comparable."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Row = tuple[Any, ...]  # topic, partition, offset and the other columns; times as numbers


class Sources(NamedTuple):
    """A broker, and its directory as it was when it was started."""

    broker: str
    copy: Path


def readers(spark: Any, sources: Sources, options: dict[str, object], how: str) -> Iterator[Any]:
    """The connector's frame, then ours, with the same options; how is read or readStream."""
    for name in ("kafka", "kstore"):
        reader = getattr(spark, how).format(name).option("includeHeaders", "true")
        for option, value in options.items():
            reader = reader.option(option, value)
        if name == "kafka":
            yield reader.option("kafka.bootstrap.servers", sources.broker).load()
        else:
            yield reader.load(str(sources.copy))


def rows(frame: Any) -> list[Row]:
    """Every column; times as numbers, so that no zone comes between."""
    from pyspark.sql.functions import unix_micros

    got = frame.withColumn("timestamp", unix_micros("timestamp")).collect()
    return sorted(
        (
            (
                row.topic,
                row.partition,
                row.offset,
                row.timestamp,
                row.timestampType,
                None if row.key is None else bytes(row.key),
                None if row.value is None else bytes(row.value),
                None
                if row.headers is None
                else [
                    (each.key, None if each.value is None else bytes(each.value))
                    for each in row.headers
                ],
            )
            for row in got
        ),
        key=lambda row: row[:3],
    )


def assert_same(theirs: list[Row], ours: list[Row]) -> None:
    assert [row[:3] for row in ours] == [row[:3] for row in theirs]
    assert ours == theirs


def streamed(frame: Any, checkpoint: Path, seconds: float = 120) -> tuple[list[Row], int, Any]:
    """Rows of a stream over all available records, in how many batches, and its last offsets."""
    found: list[Row] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: found.extend(rows(batch)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(seconds)
    finally:
        query.stop()
    progress = query.recentProgress
    end = json.loads(progress[-1]["sources"][0]["endOffset"])
    return sorted(found, key=lambda row: row[:3]), len(progress), end
