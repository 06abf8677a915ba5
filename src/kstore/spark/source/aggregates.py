"""Aggregates that tasks compute from the files, so that only partial results leave a task.

A Spark task counts and measures its offsets in a native table of groups and sends one row for each
group. The driver merges the rows of all tasks, or Spark does if there are too many. No record
becomes a row.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from kstore._native.spark.tally import Tally
from kstore.errors import InvalidConfigError
from kstore.record.columns import Ragged
from kstore.spark.session import Paths, check_executors, default_parallelism, to_options
from kstore.spark.source import merge_partial_results
from kstore.spark.source.batch_plan import plan_batch
from kstore.spark.source.offset_ranges import OffsetRange
from kstore.spark.source.options import SourceOptions, parse_source
from kstore.spark.source.range_reader import open_store
from kstore.spark.source.read_task import read_ranges
from kstore.spark.source.snapshot import take_snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TOPIC, PARTITION, WINDOW, KEY = BY = ("topic", "partition", "window", "key")
# By name: the equivalent in Spark SQL, its type, and the function that merges partial results.
MEASURES = {
    "count": ("count(*)", "bigint", "sum"),
    "key_bytes": ("sum(length(key))", "bigint", "sum"),
    "value_bytes": ("sum(length(value))", "bigint", "sum"),
    "null_keys": ("count_if(key is null)", "bigint", "sum"),
    "null_values": ("count_if(value is null)", "bigint", "sum"),
    "min_key_size": ("min(length(key))", "int", "min"),
    "max_key_size": ("max(length(key))", "int", "max"),
    "min_value_size": ("min(length(value))", "int", "min"),
    "max_value_size": ("max(length(value))", "int", "max"),
    "min_timestamp": ("min(timestamp)", "timestamp", "min"),
    "max_timestamp": ("max(timestamp)", "timestamp", "max"),
    "min_offset": ("min(offset)", "bigint", "min"),
    "max_offset": ("max(offset)", "bigint", "max"),
}
DISTINCT = "distinct_keys"
_EXTENTS = {"min_timestamp", "max_timestamp", "min_offset", "max_offset"}
_SIZES = {"value_bytes", "null_values", "min_value_size", "max_value_size"}
_NO_SIZE = 2**31 - 1
_LAST_MS = (2**63 - 1) // 1000  # the largest time of Spark, in milliseconds
_MAX_MEMORY = 256 << 20  # bytes of a task's groups; beyond it the task sends and clears them
_ROWS = 1 << 16  # of a batch of partial results
_MAX_TASK_BYTES = 1 << 30
_WINDOW = "struct<start: timestamp, end: timestamp>"
_UNITS = {
    "ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000,
    "min": 60_000, "minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000,
    "day": 86_400_000, "w": 604_800_000, "week": 604_800_000,
}  # fmt: skip


def aggregate(
    spark: "SparkSession",
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    pattern: str | None = None,
    partitions: Mapping[str, Iterable[int]] | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    by: str | Sequence[str] = (TOPIC, PARTITION),
    window: timedelta | str | int | None = None,
    measures: str | Sequence[str] | None = None,
    check: bool = True,
    **options: Any,
) -> "DataFrame":
    """Counts, sizes and extents of records by group, as a DataFrame with one row for each group.

    The result is that of ``read(...).groupBy(...).agg(...)``, exactly, but no record is sent to
    the JVM: tasks compute partial results in native code. The call runs one job: the driver merges
    up to 64 MiB of partial results, and the frame has its rows in memory. With more of them (for
    millions of keys, say) the frame is a query over the tasks, which Spark runs when the frame is
    used.

    Parameters
    ----------
    path, topics, pattern, partitions, since, until, check, options
        As for :func:`kstore.spark.read`.
    by
        Any of ``"topic"``, ``"partition"``, ``"window"`` and ``"key"``; none: one row for all.
    window
        The length of a window, if ``by`` has it: ``"10 minutes"``, a timedelta, or milliseconds.
        Windows are tumbling, from 1970 on (UTC); the column has start and end like Spark's
        ``window()``.
    measures
        The measures to compute; by default all of :data:`MEASURES`. ``"distinct_keys"`` is
        computed only on request: the exact number of keys of a group (null is no key), for which
        the tasks send the keys of their groups.

    If all values of a group are null, sums are 0, minimum and maximum are null. The records are
    fixed by this call, as by :func:`kstore.spark.read`. Memory of a task: that of reading and,
    with keys, up to 256 MiB of groups and the groups of one batch; a group takes 128 bytes, 12 to
    24 more, and its key.

    Raises InvalidConfigError for unknown names, StorageError if an executor does not see the path.
    """
    width = to_width(window) if window is not None else 0
    shape = _Shape(_tuple(by), width, tuple(MEASURES) if measures is None else _tuple(measures))
    given = to_options(
        path,
        topics=topics,
        pattern=pattern,
        partitions=partitions,
        since=since,
        until=until,
        **options,
    )
    source = parse_source({"maxPartitionBytes": str(_MAX_TASK_BYTES), **given})
    from kstore.spark.task_dataframe import dataframe_of_tasks

    if check:
        check_executors(spark, source.paths)
    tasks = _plan(source, shape, default_parallelism(spark))
    work = _Work(source, shape)
    batches = merge_partial_results.collect(spark, work, tasks)
    if batches is None:
        return _merge_in_spark(dataframe_of_tasks(spark, work, tasks, shape.ddl), shape)
    return merge_partial_results.to_frame(spark, _merge_on_driver(batches, shape))


def _tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def to_width(window: timedelta | str | int) -> int:
    """The length of a window in milliseconds; InvalidConfigError if it is none."""
    width = 0
    if isinstance(window, timedelta):
        width = window // timedelta(milliseconds=1)
    elif isinstance(window, str):
        found = re.fullmatch(r"\s*(\d{1,12})\s*([a-z]+?)(s?)\s*", window.lower())
        if found is not None:
            unit = _UNITS.get(found[2] + found[3]) or _UNITS.get(found[2], 0)
            width = int(found[1]) * unit
    elif isinstance(window, int) and not isinstance(window, bool):
        width = window
    if not 1 <= width <= _LAST_MS:
        raise InvalidConfigError(
            f"a window is a timedelta, milliseconds, or text such as '10 minutes', not {window!r}"
        )
    return width


@dataclass(frozen=True, slots=True)
class _Shape:
    """The checked groups and measures, and the columns of the partial results."""

    by: tuple[str, ...]
    width: int  # of a window, ms
    measures: tuple[str, ...]
    partial: tuple[str, ...] = field(init=False)  # measures that tasks send
    has_keys: bool = field(init=False)

    def __post_init__(self) -> None:
        known = (*MEASURES, DISTINCT)
        for argument, names, allowed in (("by", self.by, BY), ("measures", self.measures, known)):
            for name in names:
                if name not in allowed:
                    raise InvalidConfigError(
                        f"{argument} has {name!r}; there are {', '.join(allowed)}"
                    )
            if len(set(names)) != len(names):
                raise InvalidConfigError(f"{argument} has a name twice: {', '.join(names)}")
        if not self.measures:
            raise InvalidConfigError(f"measures is empty; there are {', '.join(known)}")
        if (WINDOW in self.by) != (self.width > 0):
            raise InvalidConfigError('by="window" and window="10 minutes" require each other')
        if DISTINCT in self.measures and KEY in self.by:
            raise InvalidConfigError(
                f"{DISTINCT} of one key is always 1: omit it, or omit 'key' in by"
            )
        object.__setattr__(self, "partial", tuple(n for n in MEASURES if n in self.measures))
        object.__setattr__(self, "has_keys", KEY in self.by or DISTINCT in self.measures)

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns that identify the group of a partial result."""
        names = [name for name in (TOPIC, PARTITION, WINDOW) if name in self.by]
        return (*names, KEY) if self.has_keys else tuple(names)

    @property
    def ddl(self) -> str:
        kinds = {TOPIC: "string", PARTITION: "int", WINDOW: _WINDOW, KEY: "binary"}
        columns = [f"{name} {kinds[name]}" for name in self.labels]
        columns += [f"{name} {MEASURES[name][1]}" for name in self.partial]
        return ", ".join(columns) or "nothing int"

    @property
    def schema(self) -> Any:
        """The columns as an Arrow schema."""
        import pyarrow as pa

        timestamp = _kinds()["timestamp"]
        kinds = {TOPIC: pa.string(), PARTITION: pa.int32(), KEY: pa.binary()}
        kinds[WINDOW] = pa.struct([("start", timestamp), ("end", timestamp)])
        measures = [(name, _kinds()[MEASURES[name][1]]) for name in self.partial]
        return pa.schema([*((name, kinds[name]) for name in self.labels), *measures])


def _kinds() -> dict[str, Any]:
    """The Arrow types of the measures, by Spark's names."""
    import pyarrow as pa

    return {"bigint": pa.int64(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}


def _plan(
    source: SourceOptions, shape: _Shape, parallelism: int
) -> tuple[tuple[OffsetRange, ...], ...]:
    """The tasks; with keys only as many as cores, because each task sends every key it reads."""
    snapshot = take_snapshot(open_store(source.paths), source)
    snapshot.raise_if_missing(source.paths)
    if shape.has_keys:
        parallelism = max(parallelism // 2, 1)  # a plan has two tasks for each core
    return plan_batch(source, snapshot, parallelism).tasks


# --- in the tasks -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """The body of a task: the partial results of its offset ranges as Arrow batches."""

    source: SourceOptions
    shape: _Shape

    def __call__(self, ranges: Sequence[OffsetRange]) -> Iterator[Any]:
        shape = self.shape
        tally = _tally(shape)
        range_labels = {TOPIC, PARTITION}.intersection(shape.by)
        current: OffsetRange | None = None
        for following, columns in read_ranges(self.source, ranges):
            if current is not None and any(
                getattr(following, name) != getattr(current, name) for name in range_labels
            ):
                yield from to_batches(tally, shape, current)
                tally.clear()
            current = following
            keys = columns.keys
            tally.add(
                keys.data,
                columns.offsets,
                columns.timestamps,
                keys.positions,
                keys.lengths,
                columns.values.lengths,
            )
            if tally.memory > _MAX_MEMORY:
                yield from to_batches(tally, shape, current)
                tally = _tally(shape)
        if current is not None:
            yield from to_batches(tally, shape, current)


def _tally(shape: _Shape) -> Tally:
    """A table that computes only the requested measures."""
    return Tally(
        os.urandom(16),
        shape.width,
        by_key=shape.has_keys,
        extents=not _EXTENTS.isdisjoint(shape.partial),
        sizes=not _SIZES.isdisjoint(shape.partial),
    )


def to_batches(tally: Tally, shape: _Shape, offset_range: OffsetRange) -> Iterator[Any]:
    """A tally's groups as Arrow batches of the shape's labels and measures."""
    import pyarrow as pa

    from kstore.spark.source.arrow_batches import pack

    groups = np.frombuffer(
        memoryview(tally),
        np.dtype(
            {
                "names": list(tally.layout),
                "formats": [kind for kind, _ in tally.layout.values()],
                "offsets": [start for _, start in tally.layout.values()],
                "itemsize": tally.stride,
            }
        ),
    )
    data = np.frombuffer(memoryview(tally.key_data), np.uint8)
    kinds = _kinds()
    for first in range(0, len(groups), _ROWS):
        rows = groups[first : first + _ROWS]
        columns: dict[str, Any] = {}
        for name in shape.labels:
            if name == KEY:
                keys = Ragged(data, rows["key_positions"], rows["key_lengths"])
                columns[name] = pack(keys, pa.binary())
            elif name == WINDOW:
                columns[name] = _windows(rows["window"], shape.width)
            elif name == TOPIC:
                columns[name] = pa.repeat(pa.scalar(offset_range.topic, pa.string()), len(rows))
            else:
                partition = pa.scalar(offset_range.partition, pa.int32())
                columns[name] = pa.repeat(partition, len(rows))
        for name in shape.partial:
            values, missing = _measure(rows, name, shape.has_keys)
            columns[name] = pa.array(values, kinds[MEASURES[name][1]], mask=missing)
        if not columns:
            columns["nothing"] = pa.nulls(len(rows), pa.int32())
        yield pa.RecordBatch.from_pydict(columns)


def _measure(rows: Any, name: str, has_keys: bool) -> tuple[Any, Any]:
    """A measure of each group, and the mask of groups without a value (None: all have one)."""
    if has_keys and name in ("key_bytes", "null_keys", "min_key_size", "max_key_size"):
        lengths, counts = rows["key_lengths"], rows["count"]
        if name == "key_bytes":
            return np.maximum(lengths, 0) * counts, None
        if name == "null_keys":
            return np.where(lengths < 0, counts, 0), None
        return lengths.copy(), lengths < 0
    values = rows[name].copy()  # always: the tally reuses its memory
    if name.endswith("_timestamp"):
        from kstore.spark.source.arrow_batches import microseconds

        return microseconds(values), None
    if name.startswith("min_") and name.endswith("_size"):
        return values, values == _NO_SIZE
    if name.endswith("_size"):
        return values, values < 0
    return values, None


def _windows(numbers: Any, width: int) -> Any:
    """Start and end of each window, clipped to the range of Spark's timestamps."""
    import pyarrow as pa

    from kstore.spark.source.arrow_batches import microseconds

    most = _LAST_MS // width
    numbers = np.clip(numbers, -most - 1, most)  # so that nothing overflows here
    kind = pa.timestamp("us", "UTC")
    ends = {"start": numbers * width, "end": (numbers + 1) * width}
    arrays = [pa.array(microseconds(times), kind) for times in ends.values()]
    return pa.StructArray.from_arrays(arrays, names=list(ends))


# --- on the driver ----------------------------------------------------------------------------


def _merge_on_driver(batches: Sequence[Any], shape: _Shape) -> Any:
    """The result as an Arrow table, merged from the rows of all tasks."""
    distinct = DISTINCT in shape.measures
    table = merge_partial_results.merge(
        batches,
        shape.schema,
        [name for name in shape.labels if name in shape.by],
        {name: MEASURES[name][2] for name in shape.partial},
        KEY if distinct else None,
    )
    if distinct:
        names = [DISTINCT if name == KEY else name for name in table.column_names]
        table = table.rename_columns(names)
    return table.select([*shape.by, *shape.measures])


def _merge_in_spark(partial: "DataFrame", shape: _Shape) -> "DataFrame":
    """The result as a query that merges the rows of all tasks."""
    from pyspark.sql import functions

    def merge(name: str) -> "Column":
        function = MEASURES[name][2]
        column: Column = getattr(functions, function)(name)
        if function == "sum":
            column = functions.coalesce(column, functions.lit(0))
        return column.alias(name)

    merged = [merge(name) for name in shape.partial]
    groups = [name for name in shape.labels if name in shape.by]
    if DISTINCT in shape.measures:
        # Group by key first, so that each key has one row; then count the rows.
        if shape.partial:
            partial = partial.groupBy(*shape.labels).agg(*merged)
        else:
            partial = partial.select(*shape.labels).distinct()
        merged = [*merged, functions.count(KEY).alias(DISTINCT)]
    frame = partial.groupBy(*groups).agg(*merged)
    return frame.select(*shape.by, *shape.measures)
