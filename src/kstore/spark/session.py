"""The functions for Spark programs: register the format, read a DataFrame, show the plan."""

import json
import os
import socket
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstore.config import setting_text
from kstore.errors import StorageError
from kstore.partition_files import DISK, Files, absolute_paths
from kstore.record.timestamp import to_lookup_time
from kstore.spark.local_disk import local_disk
from kstore.spark.source.batch_plan import plan_batch
from kstore.spark.source.offset_ranges import Plan
from kstore.spark.source.options import SOURCE_OPTIONS, check_names, parse_source
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.spark.source.snapshot import take_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def register(spark: "SparkSession") -> None:
    """Register ``format("kstore")`` in a session; may be called again.

    Spark looks a format up in the session of the calling thread, so call it in every thread that
    uses the format.

    Warns if Spark starts its Python processes from another environment, where kstore may be
    missing. Set ``os.environ["PYSPARK_PYTHON"] = sys.executable`` before you create the session.
    """
    from kstore.spark.data_source import KStoreDataSource
    from kstore.spark.task_dataframe import make_active

    context = getattr(spark, "sparkContext", None)
    attributes = {} if context is None else {"parallelism": default_parallelism(spark)}
    if context is not None and context.pythonExec == "python3" and sys.prefix != sys.base_prefix:
        warnings.warn(
            "Spark starts 'python3' from the path, not this virtual environment: set "
            "os.environ['PYSPARK_PYTHON'] = sys.executable before you create the session",
            RuntimeWarning,
            stacklevel=2,
        )
    make_active(spark)
    # A subclass, pickled by value, brings the session's parallelism to the planner process.
    spark.dataSource.register(type("KStoreDataSource", (KStoreDataSource,), attributes))


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
    """A DataFrame of records; partitions, times and columns are pruned before Spark reads.

    Its content is fixed by this call: call again to read records that were appended later.

    Parameters
    ----------
    path
        A log directory, or several that make one store.
    topics, pattern, partitions
        One of them: names, a regular expression, or ``{"orders": [0, 1]}``.
    since, until
        Records from the first at or after ``since`` up to the first at or after ``until``: aware
        datetimes, or milliseconds. The rule of Kafka's offsetsForTimes, for each partition.
    columns
        The columns to read; the others are not sent to the JVM, which is most of the cost.
    check
        Check first that every executor sees the path.
    options
        Any option of the source, such as ``failOnDataLoss=False``.
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
    """The plan of a :func:`read` with these options: its tasks, and how much they skip.

    Works without Spark. ``print`` the plan, or use its ``size`` and ``tasks``.
    """
    parsed = parse_source(to_options(path, **options))
    store = open_store(parsed.paths)
    snapshot = take_snapshot(store, parsed)
    snapshot.raise_if_missing(parsed.paths)
    return plan_batch(parsed, snapshot, parallelism or os.cpu_count() or 1)


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
    """The arguments of :func:`read` as options for Spark, which are text."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    given = dict(options)
    given["paths"] = json.dumps(list(absolute_paths(paths)))
    if topics is not None:
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    if pattern is not None:
        given["subscribePattern"] = pattern
    if partitions is not None:
        given["assign"] = json.dumps(
            {topic: list(numbers) for topic, numbers in partitions.items()}
        )
    if since is not None:
        given["startingTimestamp"] = to_lookup_time(since)
        given.setdefault("startingOffsetsByTimestampStrategy", "latest")
    if until is not None:
        given["endingTimestamp"] = to_lookup_time(until)
    if columns is not None:
        given["columns"] = columns if isinstance(columns, str) else ",".join(columns)
    if headers:
        given["includeHeaders"] = True
    texts = {name: setting_text(value) for name, value in given.items()}
    check_names(texts, SOURCE_OPTIONS)
    return texts


def default_parallelism(spark: "SparkSession") -> int:
    """Cores of the cluster; 0 if the session does not know (Spark Connect has no context)."""
    context = getattr(spark, "sparkContext", None)
    return 0 if context is None else int(context.defaultParallelism)


def check_executors(spark: "SparkSession", paths: tuple[str, ...], files: Files = DISK) -> None:
    """Raise StorageError, with the hosts, if an executor does not see the directories.

    Runs a small job with two tasks for each core.
    """
    check_visible(files, paths)
    context = getattr(spark, "sparkContext", None)
    if context is None or context.master.split("[")[0] == "local":
        return
    count = 2 * max(int(context.defaultParallelism), 1)

    def find_missing(_: Iterable[int]) -> list[tuple[str, str]]:
        host = socket.gethostname()
        return [(host, path) for path in paths if local_disk().kind(path) != "directory"]

    tasks = context.parallelize(range(count), count)
    missing = sorted(set(tasks.mapPartitions(find_missing).collect()))
    if missing:
        raise StorageError(
            f"executors on {', '.join(sorted({host for host, _ in missing}))} do not see the log "
            "directory: mount it on every machine under the same path",
            path=missing[0][1],
        )
