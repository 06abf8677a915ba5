"""Partial results of all tasks put together on the driver: one job of Spark's, and no shuffle.

Tasks hand their groups over as Arrow's bytes; Arrow merges them here, and what comes out becomes
a frame of rows that are there already. A query of Spark's would plan in Python twice, run two
stages and a shuffle, some tenths of a second that do not depend on how much is counted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[[Any], Iterator[Any]]
_MOST = 64 << 20  # bytes of all tasks' results that the driver takes
_FEW = 10_000  # rows that Spark keeps in its plan
_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
# Settings that decide how Arrow's types become Spark's: the caller's.
_TYPES = (
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
    "spark.sql.execution.arrow.useLargeVarTypes",
)


class _Bounded:
    """What a task runs: Arrow's stream of its batches, or None as soon as they are too many."""

    def __init__(self, work: Work, most: int) -> None:
        self._work = work
        self._most = most

    def __call__(self, values: Iterable[Any]) -> Iterator[bytes | None]:
        import pyarrow as pa

        for value in values:
            sink = pa.BufferOutputStream()
            writer = None
            for batch in self._work(value):
                if writer is None:
                    writer = pa.ipc.new_stream(sink, batch.schema)
                writer.write_batch(batch)
                if sink.tell() > self._most:
                    yield None
                    return
            if writer is not None:
                writer.close()
                yield sink.getvalue().to_pybytes()


def collect(spark: "SparkSession", work: Work, tasks: Sequence[Any]) -> "list[Any] | None":
    """The batches that ``work`` gives for each value, each in a task of its own.

    None where the session has no context of its own (Spark Connect), or where they are more than
    the driver takes; tasks end early then.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    if not tasks:
        return []
    import pyarrow as pa

    run = _Bounded(work, _MOST // len(tasks))
    found = context.parallelize(tasks, len(tasks)).mapPartitions(run).collect()
    if any(each is None for each in found):
        return None
    return [batch for each in found for batch in pa.ipc.open_stream(each)]


def merge(
    batches: Sequence[Any],
    schema: Any,
    labels: Sequence[str],
    how: Mapping[str, str],
    distinct: str | None = None,
) -> Any:
    """A table with one row for each group.

    Parameters
    ----------
    batches, schema
        With the columns of labels and measures.
    labels
        Columns that tell groups; without any all rows are one group, which is there even where
        there is no row.
    how
        ``"sum"``, ``"min"`` or ``"max"`` for each measure.
    distinct
        One more label of the batches, none of the groups: how many values of it a group has
        (null is none) is put in its place.
    """
    import pyarrow as pa

    table = pa.Table.from_batches(batches, schema).flatten()  # groups go by no structs
    by = [name for name in table.column_names if name.partition(".")[0] in labels]
    if distinct is not None:
        table = _grouped(table, [*by, distinct], how)
        how = {**how, distinct: "count"}
    if by:
        return _structs(_grouped(table, by, how))
    if table.num_rows == 0:
        return pa.table(
            {
                name: pa.array([None if kind in ("min", "max") else 0], _type(table, name, kind))
                for name, kind in how.items()
            }
        )
    every = table.append_column("every", pa.repeat(pa.scalar(True), table.num_rows))
    return _grouped(every, ["every"], how).drop_columns(["every"])


def _type(table: Any, name: str, kind: str) -> Any:
    import pyarrow as pa

    return pa.int64() if kind == "count" else table.schema.field(name).type


def _grouped(table: Any, by: Sequence[str], how: Mapping[str, str]) -> Any:
    found = table.group_by(list(by)).aggregate(list(how.items()))
    names = {f"{name}_{kind}": name for name, kind in how.items()}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def _structs(table: Any) -> Any:
    """Columns ``window.start`` and ``window.end`` as the struct that they were."""
    import pyarrow as pa

    parts: dict[str, dict[str, Any]] = {}
    for name in table.column_names:
        outer, _, inner = name.partition(".")
        parts.setdefault(outer, {})[inner] = table.column(name).combine_chunks()
    return pa.table(
        {
            name: columns[""]
            if "" in columns
            else pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
            for name, columns in parts.items()
        }
    )


def to_frame(spark: "SparkSession", table: Any) -> "DataFrame":
    """A frame of a table's rows.

    Few of them Spark keeps in its plan, and answers without a job. Many are slow there (200,000
    took 0.4 s, this way 0.1): they stay Arrow's batches, one for each core. The settings that make
    Spark do so are those of a session that nobody else uses, and the frame moves to the caller's.
    """
    if table.num_rows <= _FEW:
        return spark.createDataFrame(table)
    cores = max(int(spark.sparkContext.defaultParallelism), 1)
    own = spark.newSession()
    for name in _TYPES:
        own.conf.set(name, spark.conf.get(name) or "")
    own.conf.set(_THRESHOLD, "0")
    own.conf.set(_BATCH, str(-(-table.num_rows // cores)))
    made: Any = own.createDataFrame(table)
    jvm: Any = spark._jvm
    plan = made._jdf.queryExecution().analyzed()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    moved: DataFrame = type(made)(rows, spark)
    return moved
