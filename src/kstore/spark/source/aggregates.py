"""Aggregates made where the bytes are: only partial results leave the tasks.

A task of Spark's counts and measures its offsets by a native table of groups and sends one row a
group; the driver puts the rows of all tasks together, or Spark where there are too many. No
record becomes a row.
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
# What each is as Spark SQL says it; also how partial results are put together.
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
_LAST_MS = (2**63 - 1) // 1000  # of Spark's times
_MOST_MEMORY = 256 << 20  # of a task's groups: then they are sent, and it begins anew
_ROWS = 1 << 16  # of a batch of partial results
_MOST_BYTES = 1 << 30  # of a task
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
    """Counts, sizes and extents of records by group, as a DataFrame with one row a group.

    The same as ``read(...).groupBy(...).agg(...)``, and exact as that is, but no record is sent
    to the JVM: tasks make partial results in native code. It runs now, as one job: the driver
    puts up to 64 MiB of partial results together, and the frame has its rows in memory. Where
    there are more (of millions of keys, say), the frame is a query over the tasks, which Spark
    runs where it is used.

    Parameters
    ----------
    path, topics, pattern, partitions, since, until, check, options
        As :func:`kstore.spark.read` has them.
    by
        Any of ``"topic"``, ``"partition"``, ``"window"`` and ``"key"``; none: one row for all.
    window
        How long a window is, where ``by`` has it: ``"10 minutes"``, a timedelta, or milliseconds.
        Tumbling, from 1970 on (UTC); a column of start and end as ``window()`` of Spark makes it.
    measures
        Those that are wanted: all of :data:`MEASURES` without it. ``"distinct_keys"`` in
        addition, on request: how many keys a group has (null is none), counted exactly, for which
        the keys of each task's groups travel.

    Sums are 0 where all are null; least and largest are null then. What is counted is fixed now,
    as by :func:`kstore.spark.read`. Memory of a task: that of reading and, with keys, up to 256
    MiB of groups (and what one batch adds); a group has 128 bytes, 12 to 24 more, and its key.

    Raises InvalidConfigError for names that are not there, StorageError where an executor does
    not see the path.
    """
    names = (by,) if isinstance(by, str) else tuple(by)
    wanted = tuple(MEASURES) if measures is None else _tuple(measures)
    shape = _Shape(names, to_width(window) if window is not None else 0, wanted)
    given = to_options(
        path,
        topics=topics,
        pattern=pattern,
        partitions=partitions,
        since=since,
        until=until,
        **options,
    )
    source = parse_source({"maxPartitionBytes": str(_MOST_BYTES), **given})
    from kstore.spark.task_dataframe import frame_of

    if check:
        check_executors(spark, source.paths)
    tasks = _plan(source, shape, default_parallelism(spark))
    work = _Work(source, shape)
    batches = merge_partial_results.collect(spark, work, tasks)
    if batches is None:
        return _whole(frame_of(spark, work, tasks, shape.ddl), shape)
    return merge_partial_results.to_frame(spark, _merged(batches, shape))


def _tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def to_width(window: timedelta | str | int) -> int:
    """Milliseconds; InvalidConfigError for what is no length of a window."""
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
    """What is grouped by and measured: checked, and as columns of partial results."""

    by: tuple[str, ...]
    width: int  # of a window, ms
    measures: tuple[str, ...]
    partial: tuple[str, ...] = field(init=False)  # measures that tasks send
    has_keys: bool = field(init=False)

    def __post_init__(self) -> None:
        known = (*MEASURES, DISTINCT)
        for what, names, allowed in (("by", self.by, BY), ("measures", self.measures, known)):
            for name in names:
                if name not in allowed:
                    raise InvalidConfigError(f"{what} has {name!r}; there are {', '.join(allowed)}")
            if len(set(names)) != len(names):
                raise InvalidConfigError(f"{what} has a name twice: {', '.join(names)}")
        if not self.measures:
            raise InvalidConfigError(f"measures is empty; there are {', '.join(known)}")
        if (WINDOW in self.by) != (self.width > 0):
            raise InvalidConfigError('by="window" and window="10 minutes" belong together')
        if DISTINCT in self.measures and KEY in self.by:
            raise InvalidConfigError(f"{DISTINCT} of a key is one: leave it out, or 'key' in by")
        object.__setattr__(self, "partial", tuple(n for n in MEASURES if n in self.measures))
        object.__setattr__(self, "has_keys", KEY in self.by or DISTINCT in self.measures)

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that tell a partial result's group."""
        names = [name for name in (TOPIC, PARTITION, WINDOW) if name in self.by]
        return (*names, KEY) if self.has_keys else tuple(names)

    @property
    def ddl(self) -> str:
        kinds = {TOPIC: "string", PARTITION: "int", WINDOW: _WINDOW, KEY: "binary"}
        parts = [f"{name} {kinds[name]}" for name in self.labels]
        parts += [f"{name} {MEASURES[name][1]}" for name in self.partial]
        return ", ".join(parts) or "nothing int"

    @property
    def schema(self) -> Any:
        """The same as Arrow has it."""
        import pyarrow as pa

        when = _kinds()["timestamp"]
        kinds = {TOPIC: pa.string(), PARTITION: pa.int32(), KEY: pa.binary()}
        kinds[WINDOW] = pa.struct([("start", when), ("end", when)])
        measures = [(name, _kinds()[MEASURES[name][1]]) for name in self.partial]
        return pa.schema([*((name, kinds[name]) for name in self.labels), *measures])


def _kinds() -> dict[str, Any]:
    """Arrow's types of measures, by Spark's names."""
    import pyarrow as pa

    return {"bigint": pa.int64(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}


def _plan(
    source: SourceOptions, shape: _Shape, parallelism: int
) -> tuple[tuple[OffsetRange, ...], ...]:
    """With keys as few tasks as there are cores: each sends every key that it meets."""
    snapshot = take_snapshot(open_store(source.paths), source)
    snapshot.raise_if_missing(source.paths)
    many = max(parallelism // 2, 1) if shape.has_keys else parallelism
    return plan_batch(source, snapshot, many).tasks


# --- in the tasks -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """A task's partial results as Arrow batches."""

    source: SourceOptions
    shape: _Shape

    def __call__(self, ranges: Sequence[OffsetRange]) -> Iterator[Any]:
        shape = self.shape
        tally = _tally(shape)
        told = {TOPIC, PARTITION}.intersection(shape.by)
        of: OffsetRange | None = None
        for each, found in read_ranges(self.source, ranges):
            if of is not None and any(getattr(each, name) != getattr(of, name) for name in told):
                yield from to_batches(tally, shape, of)
                tally.clear()
            of = each
            keys = found.keys
            tally.add(
                keys.data,
                found.offsets,
                found.timestamps,
                keys.positions,
                keys.lengths,
                found.values.lengths,
            )
            if tally.memory > _MOST_MEMORY:
                yield from to_batches(tally, shape, of)
                tally = _tally(shape)
        if of is not None:
            yield from to_batches(tally, shape, of)


def _tally(shape: _Shape) -> Tally:
    """A table that counts no more than is asked for."""
    return Tally(
        os.urandom(16),
        shape.width,
        by_key=shape.has_keys,
        extents=not _EXTENTS.isdisjoint(shape.partial),
        sizes=not _SIZES.isdisjoint(shape.partial),
    )


def to_batches(tally: Tally, shape: _Shape, of: OffsetRange) -> Iterator[Any]:
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
                columns[name] = pa.repeat(pa.scalar(of.topic, pa.string()), len(rows))
            else:
                columns[name] = pa.repeat(pa.scalar(of.partition, pa.int32()), len(rows))
        for name in shape.partial:
            values, missing = _measure(rows, name, shape.has_keys)
            columns[name] = pa.array(values, kinds[MEASURES[name][1]], mask=missing)
        if not columns:
            columns["nothing"] = pa.nulls(len(rows), pa.int32())
        yield pa.RecordBatch.from_pydict(columns)


def _measure(rows: Any, name: str, has_keys: bool) -> tuple[Any, Any]:
    """A measure of each group, and where there is none (None: nowhere)."""
    if has_keys and name in ("key_bytes", "null_keys", "min_key_size", "max_key_size"):
        lengths, counts = rows["key_lengths"], rows["count"]
        if name == "key_bytes":
            return np.maximum(lengths, 0) * counts, None
        if name == "null_keys":
            return np.where(lengths < 0, counts, 0), None
        return lengths.copy(), lengths < 0
    values = rows[name].copy()  # of one row, too: the tally's memory is used again
    if name.endswith("_timestamp"):
        from kstore.spark.source.arrow_batches import microseconds

        return microseconds(values), None
    if name.startswith("min_") and name.endswith("_size"):
        return values, values == _NO_SIZE
    if name.endswith("_size"):
        return values, values < 0
    return values, None


def _windows(numbers: Any, width: int) -> Any:
    """Starts and ends, both within what Spark holds; windows beyond it are its first and last."""
    import pyarrow as pa

    from kstore.spark.source.arrow_batches import microseconds

    most = _LAST_MS // width
    numbers = np.clip(numbers, -most - 1, most)  # so that nothing overflows here
    kind = pa.timestamp("us", "UTC")
    ends = {"start": numbers * width, "end": (numbers + 1) * width}
    arrays = [pa.array(microseconds(times), kind) for times in ends.values()]
    return pa.StructArray.from_arrays(arrays, names=list(ends))


# --- on the driver ----------------------------------------------------------------------------


def _merged(batches: Sequence[Any], shape: _Shape) -> Any:
    """The result as a table of Arrow's, from the rows of all tasks."""
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


def _whole(partial: "DataFrame", shape: _Shape) -> "DataFrame":
    """Spark's part: rows of all tasks put together."""
    from pyspark.sql import functions

    def put(name: str) -> "Column":
        how = MEASURES[name][2]
        merged: Column = getattr(functions, how)(name)
        if how == "sum":
            merged = functions.coalesce(merged, functions.lit(0))
        return merged.alias(name)

    merged = [put(name) for name in shape.partial]
    groups = [name for name in shape.labels if name in shape.by]
    if DISTINCT in shape.measures:
        # By key first, so that each is there once; then they are counted.
        if shape.partial:
            partial = partial.groupBy(*shape.labels).agg(*merged)
        else:
            partial = partial.select(*shape.labels).distinct()
        merged = [*merged, functions.count(KEY).alias(DISTINCT)]
    frame = partial.groupBy(*groups).agg(*merged)
    return frame.select(*shape.by, *shape.measures)
