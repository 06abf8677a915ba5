"""The batch source: a snapshot's offset ranges as tasks, and a task's Arrow batches."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kstore.spark.source.batch_plan import plan_batch
from kstore.spark.source.offset_ranges import OffsetRange
from kstore.spark.source.options import SourceOptions
from kstore.spark.source.read_task import run_task
from kstore.spark.source.snapshot import Snapshot


class RangesPartition(InputPartition):
    """The offset ranges of one task."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


class KStoreReader(DataSourceReader):
    """Plans in Spark's planner process and reads in its workers; pickled, so only plain values."""

    def __init__(
        self,
        options: SourceOptions,
        snapshot: Snapshot,
        columns: tuple[str, ...],
        parallelism: int,
    ) -> None:
        self._options = options
        self._snapshot = snapshot
        self._columns = columns
        self._parallelism = parallelism

    def partitions(self) -> list[InputPartition]:
        plan = plan_batch(self._options, self._snapshot, self._parallelism)
        return [RangesPartition(task) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        ranges = getattr(partition, "ranges", ())  # without tasks Spark passes its own partition
        return run_task(self._options, self._columns, ranges)
