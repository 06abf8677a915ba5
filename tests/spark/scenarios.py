"""What drivers of tests do: jobs that are slow enough to be killed, and streams."""

import threading
import time
from pathlib import Path
from typing import Any

from kstore.spark import register

OLD = 1_400_000_000_000  # more than ten years ago


def slowly(frame: Any, pause: float, marks: str = "", straggle: float = 0) -> Any:
    """The same rows, with a pause at each hundred, and a file among ``marks`` at the first.

    The first attempt of task 0 straggles.
    """
    if not pause and not straggle:
        return frame
    from pyspark.sql import functions as f

    def wait(value: bytearray) -> bytearray:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = int(value)
        if pause and number % 100 == 0:
            if marks:
                Path(marks, f"{context.taskAttemptId()}.{context.attemptNumber()}").touch()
            time.sleep(pause)
        if number == 150 and context.partitionId() == context.attemptNumber() == 0:
            time.sleep(straggle)
        return value

    return frame.withColumn("value", f.udf(wait, "binary", useArrow=False)("value"))


def numbered(spark: Any, count: int, tasks: int, first: int = 0) -> Any:
    """Rows whose value is their number, ten years old."""
    return spark.range(first, first + count, 1, tasks).selectExpr(
        "cast(string(id) as binary) key",
        "cast(string(id) as binary) value",
        f"timestamp_millis({OLD} + id) timestamp",
    )


def write(
    spark: Any, path: str, topic: str, count: int, tasks: int = 2, pause: float = 0,
    marks: str = "", first: int = 0, straggle: float = 0, deadly: str | None = None,
    **options: object,
) -> None:  # fmt: skip
    """A batch job."""
    use(spark, deadly)
    frame = slowly(numbered(spark, count, tasks, first), pause, marks, straggle)
    writer = frame.write.format("kstore").mode("append").option("topic", topic)
    writer.options(**options).save(path)


def read(
    spark: Any, path: str, topic: str, pause: float = 0, marks: str = "", **options: object
) -> list[int]:
    """How many rows there are, how many of them differ, and the sum of their numbers."""
    use(spark)
    frame = spark.read.format("kstore").option("subscribe", topic).options(**options).load(path)
    rows = slowly(frame.select("partition", "offset", "value"), pause, marks)
    found = rows.selectExpr(
        "count(*) rows",
        "count(distinct partition, offset) positions",
        "coalesce(sum(bigint(string(value))), 0) total",
    ).first()
    return [found["rows"], found["positions"], found["total"]]


def stream(
    spark: Any, path: str, source: str, topic: str, checkpoint: str, most: int = 1000,
    pause: float = 0, marks: str = "", deadly: str | None = None, **options: object,
) -> int:  # fmt: skip
    """One topic into another until it has everything; how many micro-batches it took."""
    use(spark, deadly)
    frame = (
        spark.readStream.format("kstore")
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .option("minPartitions", 2)
        .load(path)
        .select("key", "value", "timestamp")
    )
    query = (
        slowly(frame, pause, marks)
        .writeStream.format("kstore")
        .option("topic", topic)
        .options(**options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()
    return len(query.recentProgress)


def cancel(spark: Any, path: str, topic: str, count: int, marks: str) -> str:
    """A write that is cancelled while its tasks run; what Spark said."""
    said: list[str] = []
    context = spark.sparkContext

    def run() -> None:
        context.setJobGroup("doomed", "to be cancelled", True)
        try:
            write(spark, path, topic, count, pause=0.1, marks=marks, batchSize=512)
        except Exception as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and not any(Path(marks).iterdir()):
        time.sleep(0.01)
    context.cancelJobGroup("doomed")
    thread.join()
    return said[0] if said else ""


def use(spark: Any, deadly: str | None = None) -> None:
    """The format as it is, or with a commit that takes the driver with it."""
    register(spark)
    if deadly is not None:
        import dying_sink

        spark.dataSource.register(dying_sink.source(deadly))
