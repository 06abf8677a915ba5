"""Real log lines and JSON through Spark into topics, and through streaming jobs out of them.

``make pipeline`` runs it on this machine's cores, with no server. The same script on a cluster::

    make pipeline PIPELINE_ARGS='--cluster --kill-executors 3'
    make pipeline PIPELINE_ARGS='--master spark://host:7077'

The steps: lines of three kinds become records of three topics; three streaming queries parse
them, add them up by the hour into a compacted topic, and join two of them; the results are
compared with what plain Python finds in the same files, and shown in out/pipeline/report.html.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

# Set before a session is created, so that Spark's Python processes use this environment.
os.environ["PYSPARK_PYTHON"] = sys.executable

import queries
import report
from cluster import Cluster, Killer
from expected import datasets, expect
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from queries import HOURLY, METRICS, QUAKES, WEB

import kstore
import kstore.spark

OUT = Path(__file__).resolve().parents[2] / "out" / "pipeline"
MADE = ".made-by-the-pipeline"
PARTITIONS = {WEB: 4, METRICS: 4, QUAKES: 2}
STEPS = 6  # three topics, three queries


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--master", metavar="URL", help="default: local[*], this machine's cores")
    parser.add_argument("--cluster", action="store_true",
                        help="start a master and two workers on this machine first")  # fmt: skip
    parser.add_argument("--kill-executors", type=int, default=0, metavar="N",
                        help="kill this many executors while it runs")  # fmt: skip
    parser.add_argument("--weeks", type=int, default=2, help="how often to repeat the data")
    parser.add_argument("--rows", type=int, default=10_000, help="rows in a micro-batch, about")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if given.cluster and given.master:
        parser.error("--cluster starts a master of its own: omit --master")
    if (
        given.kill_executors
        and not given.cluster
        and not (given.master or "local[").startswith("local-cluster")
    ):
        parser.error("--kill-executors needs executors on this machine that are processes of "
                     "their own: --cluster, or --master 'local-cluster[2,1,1024]'")  # fmt: skip
    return given


def open_session(master: str) -> SparkSession:
    return (
        SparkSession.builder.master(master)
        .appName("kstore-pipeline")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 4)
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def say(text: str) -> None:
    print(text, flush=True)


def timed(what: str, work: Callable[[], None]) -> None:
    start = time.perf_counter()
    work()
    say(f"  {what}  ({time.perf_counter() - start:.1f} s)")


def create_topics(store: Path) -> None:
    """A compacted topic keeps the last record of each key, whatever segments it has by then."""
    with kstore.open(store) as opened:
        for topic, count in PARTITIONS.items():
            opened.create_topic(topic, count)
        compacted = kstore.LogConfig(cleanup_policy="compact", segment_bytes=64 << 10)
        opened.create_topic(HOURLY, 1, config=compacted)


def run_queries(
    spark: SparkSession, store: Path, out: Path, rows: int, step: Callable[[], None]
) -> list[report.Batch]:
    """Run one query after the other, each until it has read all input."""
    kstore.spark.register(spark)
    everything = f"{WEB},{METRICS},{QUAKES}"
    found = []
    for name, start, topics in (
        ("requests", queries.start_requests, WEB),
        ("incidents", queries.start_incidents, f"{WEB},{METRICS}"),
    ):
        step()
        query = start(queries.stream(spark, store, topics, rows), out)
        found += finish(query, name)
    step()
    records = queries.stream(spark, store, everything, rows)
    found += finish(queries.start_hours(records, store, out), "hours")
    return found


def finish(query: object, name: str) -> list[report.Batch]:
    query.awaitTermination()
    batches = [
        report.Batch(
            name,
            each["batchId"],
            report.started(each["timestamp"]),
            each["durationMs"]["triggerExecution"] / 1000,
            each["numInputRows"],
        )
        for each in query.recentProgress
    ]
    rows = sum(each.rows for each in batches)
    seconds = sum(each.seconds for each in batches)
    say(f"  {name:<10} {len(batches)} micro-batches, {rows:,} rows  ({seconds:.1f} s)")
    return batches


def compact(store: Path) -> None:
    with kstore.open(store) as opened:
        log = opened[HOURLY][0]
        log.roll()  # the segment that is appended to is never compacted
        before = log.size
        log.compact()
        say(f"  {HOURLY}: compacted from {before:,} to {log.size:,} bytes")


def read_hours(spark: SparkSession, store: Path) -> dict[str, dict]:
    """The last record of each key."""
    rows = kstore.spark.read(spark, store, topics=HOURLY, columns=["key", "value", "offset"])
    last = rows.groupBy("key").agg(f.max_by("value", "offset").alias("value")).collect()
    return {row.key.decode(): json.loads(row.value) for row in last}


def check(
    spark: SparkSession, store: Path, out: Path, weeks: int, hours: dict[str, dict]
) -> list[report.Check]:
    """Compare the results with what plain Python finds in the same files."""
    wanted = expect(weeks)
    found = []
    for topic in PARTITIONS:
        rows = kstore.spark.read(spark, store, topics=topic, columns="offset").count()
        found.append(report.Check(f"records of {topic}", rows, wanted.records[topic]))
    parsed = (
        spark.read.parquet(str(out / "requests"))
        .selectExpr("count(*) count", "sum(size) size", "count_if(status >= 400) errors")
        .first()
    )
    joined = spark.read.parquet(str(out / "incidents")).count()
    found += [
        report.Check("rows of requests/*.parquet", parsed["count"], wanted.records[WEB]),
        report.Check("bytes served", parsed["size"], wanted.size),
        report.Check("requests that failed", parsed["errors"], wanted.errors),
        report.Check("rows of incidents/*.parquet", joined, wanted.incidents),
        report.Check(f"keys of {HOURLY}", len(hours), len(wanted.hours)),
    ]
    same = sum(
        key in hours
        and hours[key]["count"] == hour.count
        and abs(hours[key]["total"] - hour.total) <= 1e-9 * abs(hour.total)
        and hours[key]["highest"] == hour.highest
        for key, hour in wanted.hours.items()
    )
    found.append(report.Check("hours whose figures are equal", same, len(wanted.hours)))
    return found


def verify(store: Path) -> None:
    with kstore.open(store, mode="r") as opened:
        for topic in opened.values():
            for log in topic:
                log.verify().raise_if_corrupt()


def run(
    spark: SparkSession, out: Path, weeks: int, rows: int, killer: Killer | None = None
) -> bool:
    """Run the complete pipeline into a directory; returns whether its figures are right."""
    store = out / "store"
    step = (lambda: None) if killer is None else killer.step
    say(f"1. Lines to records, a batch job for each topic ({spark.sparkContext.master})")
    create_topics(store)
    for topic in PARTITIONS:
        step()
        frame = queries.lines(spark, datasets.DATA, topic, weeks)
        timed(topic, lambda f=frame, t=topic: queries.produce(f, store, t))
    say("2. Streaming queries parse, join, and add up by the hour")
    batches = run_queries(spark, store, out, rows, step)
    compact(store)
    say("3. Compared with plain Python over the same files")
    hours = read_hours(spark, store)
    checks = check(spark, store, out, weeks, hours)
    verify(store)
    for each in checks:
        say(f"  {each.what:<32} {each.found:>16,.10g}  {'equal' if each.ok else 'WRONG'}")
    incidents = spark.read.parquet(str(out / "incidents")).select("timestamp", "cpu").collect()
    where = f"Spark {spark.version} at {spark.sparkContext.master}."
    killed = [] if killer is None else list(killer.killed)
    if killed:
        say(f"  {len(killed)} executors were killed meanwhile")
    points = [(row.timestamp, row.cpu) for row in incidents]
    report.save(out / "report.html", where, checks, hours, points, batches, killed)
    say(f"Report: {out / 'report.html'}")
    return all(each.ok for each in checks)


def clear(out: Path) -> None:
    """Empty the directory, but only one that an earlier run created."""
    if out.exists():
        if any(out.iterdir()) and not (out / MADE).exists():
            raise SystemExit(f"{out} is not empty, and no earlier run made it: name another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MADE).touch()


def main() -> int:
    given = arguments()
    out = given.out.absolute()
    clear(out)
    with ExitStack() as stack:
        master = given.master or "local[*]"
        if given.cluster:
            say("Starting a master and two workers")
            master = stack.enter_context(Cluster(out / "cluster")).url
        spark = open_session(master)
        stack.callback(spark.stop)
        killer = None
        if given.kill_executors:
            killer = Killer(spark.sparkContext, given.kill_executors, STEPS)
            killer.start()
            stack.callback(killer.stop)
        return 0 if run(spark, out, given.weeks, given.rows, killer) else 1


if __name__ == "__main__":
    sys.exit(main())
