"""The way in from a Spark program: register the format, read the short way, see the plan."""

import json
import os
import socket
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstore.errors import StorageError
from kstore.partition_files import DISK, absolute_paths
from kstore.record.timestamp import to_milliseconds
from kstore.spark.source.batch_plan import plan_batch
from kstore.spark.source.offset_ranges import Plan
from kstore.spark.source.options import SOURCE_OPTIONS, check_names, parse_source
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.spark.source.snapshot import take_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def register(spark: "SparkSession") -> None:
    """Make ``format("kstore")`` known to a session; again is harmless.

    In a thread of your own call it there: Spark looks a format up in the session of the thread.

    Warns where Spark's Python processes are not of this environment: they would not find kstore.
    Set ``os.environ["PYSPARK_PYTHON"] = sys.executable`` before the session is made.
    """
    from kstore.spark.data_source import KStoreDataSource
    from kstore.spark.task_dataframe import make_active

    context = getattr(spark, "sparkContext", None)
    known = {} if context is None else {"parallelism": default_parallelism(spark)}
    if context is not None and context.pythonExec == "python3" and sys.prefix != sys.base_prefix:
        warnings.warn(
            "Spark starts 'python3' from the path, not this virtual environment: set "
            "os.environ['PYSPARK_PYTHON'] = sys.executable before the session is made",
            RuntimeWarning,
            stacklevel=2,
        )
    make_active(spark)
    # A subclass of its own carries what only the session knows to the planner, by value.
    spark.dataSource.register(type("KStoreDataSource", (KStoreDataSource,), known))


def read(
    spark: "SparkSession",
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    pattern: str | None = None,
    partitions: Mapping[str, Iterable[int]] | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    columns: str | Iterable[str] | None = None,
    headers: bool = False,
    check: bool = True,
    **options: object,
) -> "DataFrame":
    """A DataFrame of records, pruned where it counts: before Spark sees them.

    Its content is fixed now: call again to see what was appended later.

    Parameters
    ----------
    path
        A log directory, or several that make one store.
    topics, pattern, partitions
        One of them: names, a regular expression, or ``{"orders": [0, 1]}``.
    since, until
        Records from the first at or after ``since`` up to the first at or after ``until``: aware
        datetimes, or milliseconds. The rule of Kafka's offsetsForTimes, by partition.
    columns
        Those that are wanted; the others are not sent to the JVM, which is most of the cost.
    check
        Ask every executor first whether it sees the path.
    options
        Any option of the source, as in ``failOnDataLoss=False``.
    """
    register(spark)
    given = to_options(
        path,
        topics=topics,
        pattern=pattern,
        partitions=partitions,
        since=since,
        until=until,
        columns=columns,
        headers=headers,
        **options,
    )
    paths = parse_source(given).paths
    if check:
        check_executors(spark, paths)
    reader = spark.read.format("kstore")
    for name, value in given.items():
        if name != "paths":
            reader = reader.option(name, value)
    return reader.load(list(paths) if len(paths) > 1 else paths[0])


def plan(path: Paths, *, parallelism: int = 0, **options: Any) -> Plan:
    """What a :func:`read` with these options would do: its tasks, and what it leaves out.

    No Spark is needed. ``print`` it, or look at its ``size`` and ``tasks``.
    """
    wanted = parse_source(to_options(path, **options))
    store = open_store(wanted.paths)
    snapshot = take_snapshot(store, wanted)
    snapshot.raise_if_missing(wanted.paths)
    return plan_batch(wanted, snapshot, parallelism or os.cpu_count() or 1)


def to_options(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    pattern: str | None = None,
    partitions: Mapping[str, Iterable[int]] | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    columns: str | Iterable[str] | None = None,
    headers: bool = False,
    **options: object,
) -> dict[str, str]:
    """Arguments of :func:`read` as the options that Spark carries."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    given = dict(options)
    given["paths"] = json.dumps(list(absolute_paths(paths)))
    if topics is not None:
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    if pattern is not None:
        given["subscribePattern"] = pattern
    if partitions is not None:
        given["assign"] = json.dumps({topic: list(each) for topic, each in partitions.items()})
    if since is not None:
        given["startingTimestamp"] = to_milliseconds(since)
        given.setdefault("startingOffsetsByTimestampStrategy", "latest")
    if until is not None:
        given["endingTimestamp"] = to_milliseconds(until)
    if columns is not None:
        given["columns"] = columns if isinstance(columns, str) else ",".join(columns)
    if headers:
        given["includeHeaders"] = True
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }
    check_names(texts, SOURCE_OPTIONS)
    return texts


def default_parallelism(spark: "SparkSession") -> int:
    """Cores of the cluster; 0 where the session cannot say (Spark Connect has no context)."""
    context = getattr(spark, "sparkContext", None)
    return 0 if context is None else int(context.defaultParallelism)


def check_executors(spark: "SparkSession", paths: tuple[str, ...]) -> None:
    """StorageError with the hosts of executors that do not see the directories.

    Asks by a small job, of as many tasks as there are cores, twice over.
    """
    check_visible(DISK, paths)
    context = getattr(spark, "sparkContext", None)
    if context is None or context.master.split("[")[0] == "local":
        return
    count = 2 * max(int(context.defaultParallelism), 1)

    def look(_: Iterable[int]) -> list[tuple[str, str]]:
        here = socket.gethostname()
        return [(here, each) for each in paths if DISK.kind(each) != "directory"]

    blind = sorted(set(context.parallelize(range(count), count).mapPartitions(look).collect()))
    if blind:
        raise StorageError(
            f"executors on {', '.join(sorted({each for each, _ in blind}))} do not see the log "
            "directory: mount it on every machine under the same path",
            path=blind[0][1],
        )
