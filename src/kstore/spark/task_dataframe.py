"""A DataFrame of the Arrow batches that tasks compute, one task for each of some values.

Spark's ``mapInArrow`` does the same, but requires pandas.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Work = Callable[[Any], Iterator[Any]]
_NAME = "kstore-tasks"
_registering = threading.Lock()


def dataframe_of_tasks(
    spark: "SparkSession", work: Work, tasks: Sequence[Any], ddl: str
) -> "DataFrame":
    """One task for each value; its rows are the Arrow batches that ``work`` yields for the value.

    ``work`` and the values are pickled; ``ddl`` describes the batches' columns. The tasks are
    planned now, once for all uses of the frame.
    """
    attributes = {"work": staticmethod(work), "tasks": tuple(tasks), "ddl": ddl}
    make_active(spark)
    with _registering:  # load() pickles the class by value, with its attributes
        spark.dataSource.register(type("TaskSource", (TaskSource,), attributes))
        return spark.read.format(_NAME).load()


def make_active(spark: "SparkSession") -> None:
    """Make it the active session of a thread without one: Spark looks formats up in that one."""
    if getattr(spark, "sparkContext", None) is not None and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "none int")  # activates the session


class TaskSource(DataSource):
    """The data source of one frame: a subclass has its work, tasks and columns as attributes."""

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
        tasks, self._tasks = self._tasks, ()  # so that a task gets only its own value
        return [_Task(value) for value in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, _Task):  # without tasks Spark passes a partition of its own
            yield from self._work(partition.value)
