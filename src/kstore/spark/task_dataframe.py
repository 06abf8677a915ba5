"""A DataFrame of Arrow batches that tasks make, one task each of some values.

Spark's ``mapInArrow`` does this too, but wants pandas.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Work = Callable[[Any], Iterator[Any]]
_NAME = "kstore-made"
_registering = threading.Lock()


def frame_of(spark: "SparkSession", work: Work, tasks: Sequence[Any], ddl: str) -> "DataFrame":
    """One task for each value, whose rows are the Arrow batches that ``work`` gives for it.

    ``work`` and the values are pickled; ``ddl`` has the batches' columns. Planned now: however
    often the frame is used, the tasks are these.
    """
    carried = {"work": staticmethod(work), "tasks": tuple(tasks), "ddl": ddl}
    make_active(spark)
    with _registering:  # Spark takes the class at load(): by value, with what it carries
        spark.dataSource.register(type("MadeSource", (MadeSource,), carried))
        return spark.read.format(_NAME).load()


def make_active(spark: "SparkSession") -> None:
    """Make it the session of this thread where that has none: there Spark looks formats up."""
    if getattr(spark, "sparkContext", None) is not None and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "none int")  # which does it


class MadeSource(DataSource):
    """A subclass for each frame carries what it is made of."""

    work: Work
    tasks: tuple[Any, ...] = ()
    ddl = ""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return self.ddl

    def reader(self, schema: "StructType") -> DataSourceReader:
        return _Reader(self.work, self.tasks)


class _Task(InputPartition):
    def __init__(self, value: Any) -> None:
        super().__init__(value)


class _Reader(DataSourceReader):
    def __init__(self, work: Work, tasks: tuple[Any, ...]) -> None:
        self._work = work
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        tasks, self._tasks = self._tasks, ()  # each travels with its own task only
        return [_Task(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, _Task):  # Spark makes an empty one where there are none
            yield from self._work(partition.value)
