"""Merges the partial results of all tasks on the driver: one Spark job without a shuffle.

Tasks send their groups as Arrow bytes; Arrow merges them here, and the result becomes a DataFrame
of rows in memory. A Spark query would plan in Python twice, run two stages and a shuffle: some
tenths of a second, however little is counted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[[Any], Iterator[Any]]
_MAX_BYTES = 64 << 20  # of all tasks' results that the driver merges
_MAX_PLAN_ROWS = 10_000  # rows up to which the frame's rows are in Spark's plan
_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
# Settings of the caller's session that decide how Arrow types become Spark types.
_TYPES = (
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
    "spark.sql.execution.arrow.useLargeVarTypes",
)


class _Bounded:
    """The body of a task: its batches as an Arrow stream, or None once they are too large."""

    def __init__(self, work: Work, max_bytes: int) -> None:
        self._work = work
        self._max_bytes = max_bytes

    def __call__(self, values: Iterable[Any]) -> Iterator[bytes | None]:
        import pyarrow as pa

        for value in values:
            sink = pa.BufferOutputStream()
            writer = None
            for batch in self._work(value):
                if writer is None:
                    writer = pa.ipc.new_stream(sink, batch.schema)
                writer.write_batch(batch)
                if sink.tell() > self._max_bytes:
                    yield None
                    return
            if writer is not None:
                writer.close()
                yield sink.getvalue().to_pybytes()


def collect(spark: "SparkSession", work: Work, tasks: Sequence[Any]) -> "list[Any] | None":
    """The batches that ``work`` yields for the values, one task for each value.

    None if the session has no context of its own (Spark Connect), or if the batches are larger
    than the driver accepts; then the tasks end early.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    if not tasks:
        return []
    import pyarrow as pa

    run = _Bounded(work, _MAX_BYTES // len(tasks))
    streams = context.parallelize(tasks, len(tasks)).mapPartitions(run).collect()
    if any(stream is None for stream in streams):
        return None
    return [batch for stream in streams for batch in pa.ipc.open_stream(stream)]


def merge(
    batches: Sequence[Any],
    schema: Any,
    labels: Sequence[str],
    functions: Mapping[str, str],
    distinct: str | None = None,
) -> Any:
    """A table with one row for each group.

    Parameters
    ----------
    batches, schema
        The partial results, with columns for labels and measures.
    labels
        Columns that identify groups; without any, all rows are one group, which exists even
        without rows.
    functions
        ``"sum"``, ``"min"`` or ``"max"`` for each measure.
    distinct
        A label of the batches that is no label of the groups: its column becomes the number of
        its values in the group (null is no value).
    """
    import pyarrow as pa

    table = pa.Table.from_batches(batches, schema).flatten()  # Arrow cannot group by structs
    by = [name for name in table.column_names if name.partition(".")[0] in labels]
    if distinct is not None:
        table = _grouped(table, [*by, distinct], functions)
        functions = {**functions, distinct: "count"}
    if by:
        return _structs(_grouped(table, by, functions))
    if table.num_rows == 0:
        return pa.table(
            {
                name: pa.array([None if kind in ("min", "max") else 0], _type(table, name, kind))
                for name, kind in functions.items()
            }
        )
    all_rows = table.append_column("all", pa.repeat(pa.scalar(True), table.num_rows))
    return _grouped(all_rows, ["all"], functions).drop_columns(["all"])


def _type(table: Any, name: str, kind: str) -> Any:
    import pyarrow as pa

    return pa.int64() if kind == "count" else table.schema.field(name).type


def _grouped(table: Any, by: Sequence[str], functions: Mapping[str, str]) -> Any:
    grouped = table.group_by(list(by)).aggregate(list(functions.items()))
    names = {f"{name}_{kind}": name for name, kind in functions.items()}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


def _structs(table: Any) -> Any:
    """Combine columns such as ``window.start`` and ``window.end`` into a struct again."""
    import pyarrow as pa

    fields: dict[str, dict[str, Any]] = {}
    for name in table.column_names:
        outer, _, inner = name.partition(".")
        fields.setdefault(outer, {})[inner] = table.column(name).combine_chunks()
    return pa.table(
        {
            name: columns[""]
            if "" in columns
            else pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
            for name, columns in fields.items()
        }
    )


def to_frame(spark: "SparkSession", table: Any) -> "DataFrame":
    """A DataFrame of a table's rows.

    A few rows are part of Spark's plan, and Spark answers without a job. Many rows are slow that
    way (200,000 took 0.4 s instead of 0.1): they stay Arrow batches, one for each core. The
    settings for this are set in a new session, and the frame is moved to the caller's session.
    """
    if table.num_rows <= _MAX_PLAN_ROWS:
        return spark.createDataFrame(table)
    cores = max(int(spark.sparkContext.defaultParallelism), 1)
    session = spark.newSession()
    for name in _TYPES:
        session.conf.set(name, spark.conf.get(name) or "")
    session.conf.set(_THRESHOLD, "0")
    session.conf.set(_BATCH, str(-(-table.num_rows // cores)))
    frame: Any = session.createDataFrame(table)
    jvm: Any = spark._jvm
    plan = frame._jdf.queryExecution().analyzed()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    moved: DataFrame = type(frame)(rows, spark)
    return moved
