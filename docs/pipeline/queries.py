"""The pipeline's queries: raw lines to records, records to rows, windows and a join.

Everything here is plain Spark; kstore appears only as the name of the format.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

import kstore.spark

START = "2026-01-05"  # the day on which the replay of all data sets begins
DAYS = 7
LATE = f"{DAYS} days"  # how far apart topics may be within a batch: a replay reads days at once
CPU = "ec2_cpu_utilization_5f5533"  # the server whose load is put beside the web server's errors

WEB, METRICS, QUAKES, HOURLY = "web-access", "server-metrics", "earthquakes", "hourly"
FILES = {
    WEB: "apache-access.log.gz",
    METRICS: "nab-metrics.csv.gz",
    QUAKES: "usgs-earthquakes-week.jsonl.gz",
}

# Of a raw line: what belongs together, and when it happened.
KEYS = {
    WEB: r"regexp_extract(value, '^\\S+', 0)",
    METRICS: "split(value, ',')[0]",
    QUAKES: "get_json_object(value, '$.id')",
}
TIMES = {
    WEB: r"to_timestamp(regexp_extract(value, '\\[([^\\]]+)', 1), 'dd/MMM/yyyy:HH:mm:ss Z')",
    METRICS: "to_timestamp(split(value, ',')[1])",
    QUAKES: "timestamp_millis(bigint(get_json_object(value, '$.properties.time')))",
}
# Of a web server's line, as Apache's combined format has it.
REQUEST = {
    "client": r"regexp_extract(line, '^\\S+', 0)",
    "method": r"""regexp_extract(line, '"(\\S+)', 1)""",
    "page": r"""regexp_extract(line, '"\\S+ (\\S+)', 1)""",
    "status": r"""int(regexp_extract(line, '" (\\d{3}) ', 1))""",
    "size": r"""coalesce(try_cast(regexp_extract(line, '" \\d{3} (\\S+)', 1) as bigint), 0)""",
}
# What is added up in an hour: bytes served, a metric's value, a magnitude.
AMOUNT = f"""case topic when '{WEB}' then double({REQUEST["size"]})
    when '{METRICS}' then double(split(line, ',')[2])
    else coalesce(double(get_json_object(line, '$.properties.mag')), 0D) end"""


# --- raw lines to records: a batch job for each topic -------------------------------------------


def lines(spark: SparkSession, data: Path, topic: str, weeks: int) -> DataFrame:
    """A file's lines with key and time, moved to the days of the replay, once for each week."""
    found = spark.read.text(str(data / FILES[topic]))
    if topic == METRICS:
        found = found.where("value like 'ec2_cpu%'")
    found = found.selectExpr("value", f"{KEYS[topic]} key", f"{TIMES[topic]} time")
    stream = "key" if topic == METRICS else "1"  # the series were recorded in different months
    shifted = found.selectExpr(
        "key",
        "value",
        f"timestamp'{START}' + (time - date_trunc('day', min(time) over (partition by {stream})))"
        " timestamp",
    )
    week = spark.range(weeks).selectExpr(f"make_dt_interval(int(id) * {DAYS}) later")
    return (
        shifted.where(f"timestamp < timestamp'{START}' + make_dt_interval({DAYS})")
        .crossJoin(week)
        .selectExpr("key", "value", "timestamp + later timestamp")
        .orderBy("timestamp")
    )


def produce(frame: DataFrame, store: Path, topic: str) -> None:
    """Publish all rows at once; a second run under the same writeId writes nothing."""
    kstore.spark.write(frame, store, topic=topic, compression="zstd", writeId=f"load {topic}")


# --- records to rows: streaming jobs --------------------------------------------------------------


def stream(spark: SparkSession, store: Path, topics: str, rows_a_batch: int) -> DataFrame:
    return (
        spark.readStream.format("kstore")
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_a_batch)
        .load(str(store))
        .selectExpr("topic", "string(key) key", "string(value) line", "timestamp")
    )


def requests(records: DataFrame) -> DataFrame:
    """The web server's lines, parsed."""
    columns = [f"{text} {name}" for name, text in REQUEST.items()]
    return records.where(f"topic = '{WEB}'").selectExpr("timestamp", *columns)


def start_requests(records: DataFrame, out: Path) -> StreamingQuery:
    """Parsed requests to Parquet, a directory for each day."""
    return (
        requests(records)
        .withColumn("date", f.to_date("timestamp"))
        .writeStream.queryName("requests")
        .format("parquet")
        .partitionBy("date")
        .option("checkpointLocation", str(out / "checkpoints" / "requests"))
        .trigger(availableNow=True)
        .start(str(out / "requests"))
    )


def start_incidents(records: DataFrame, out: Path) -> StreamingQuery:
    """Two streams joined: requests that failed, and how busy a server was in these five minutes."""
    bucket = f.window("timestamp", "5 minutes").alias("bucket")
    errors = requests(records).where("status >= 400").withWatermark("timestamp", LATE)
    loads = records.where(f"topic = '{METRICS}' and key = '{CPU}'")
    loads = loads.withWatermark("timestamp", LATE)
    return (
        errors.select(bucket, "client", "page", "status")
        .join(loads.select(bucket, f.expr("double(split(line, ',')[2]) cpu")), "bucket")
        .selectExpr("bucket.start timestamp", "client", "page", "status", "cpu")
        .writeStream.queryName("incidents")
        .format("parquet")
        .option("checkpointLocation", str(out / "checkpoints" / "incidents"))
        .trigger(availableNow=True)
        .start(str(out / "incidents"))
    )


def start_hours(records: DataFrame, store: Path, out: Path) -> StreamingQuery:
    """Each hour of each topic to a compacted topic: a later record replaces an earlier one.

    Spark knows no update mode for sinks in Python, so each micro-batch is written by a batch job
    of its own. writeId and writeBatch keep one that is run again from being written twice.
    """
    hours = (
        records.where(f"topic != '{METRICS}' or key = '{CPU}'")
        .withColumn("amount", f.expr(AMOUNT))
        .withWatermark("timestamp", LATE)
        .groupBy("topic", f.window("timestamp", "1 hour").alias("hour"))
        .agg(
            f.count("*").alias("count"),
            f.sum("amount").alias("total"),
            f.max("amount").alias("highest"),
        )
        .withColumn("hour", f.date_format("hour.start", "yyyy-MM-dd'T'HH"))
        .select(
            f.concat_ws(" ", "topic", "hour").alias("key"),
            f.to_json(f.struct("topic", "hour", "count", "total", "highest")).alias("value"),
        )
    )

    def write(batch: DataFrame, number: int) -> None:
        kstore.spark.write(batch, store, topic=HOURLY, writeId="hours", writeBatch=number)

    return (
        hours.writeStream.queryName("hours")
        .outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(out / "checkpoints" / "hours"))
        .trigger(availableNow=True)
        .start()
    )
