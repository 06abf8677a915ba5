"""The sink's classes that Spark calls: tasks stage record batches, the commit publishes them.

Spark pickles a writer before its tasks run, and calls ``commit`` on a copy (for a stream on a new
one for each micro-batch). So writers contain only plain values, and a task reports to the commit
in its message.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kstore.spark.sink.commit import abort, new_job, publish
from kstore.spark.sink.options import SinkOptions
from kstore.spark.sink.write_identity import identify_job, identify_micro_batch
from kstore.spark.source.range_reader import freeze_imports


class StagedMessage(WriterCommitMessage):
    """The message of a task's attempt, in Spark's class."""

    def __init__(self, staged: Any) -> None:
        self.staged = staged


class KStoreWriter(DataSourceArrowWriter):
    """A batch job: all of its records become visible at once, or none."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = new_job(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        # A batch job's writeId is bound to the checksum of its rows.
        with_checksum = self._options.write_id is not None
        return _stage(self._options, self._job, iterator, with_checksum)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = _staged(messages)
        publish(self._options, self._job, staged, identify_job(self._options, staged))
        freeze_imports()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort(self._options, self._job)


class KStoreStreamWriter(DataSourceStreamArrowWriter):
    """A stream: every micro-batch is published once, however often Spark runs it."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = new_job(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _stage(self._options, self._job, iterator)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 (Spark's)
    ) -> None:
        staged = _staged(messages)
        identity = identify_micro_batch(self._options, staged, batchId)
        publish(self._options, self._job, staged, identity)
        freeze_imports()  # the same process commits the next batches

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        abort(self._options, self._job)


def _stage(
    options: SinkOptions, job: str, batches: Iterator[Any], with_checksum: bool = False
) -> StagedMessage:
    from kstore.spark.sink.stager import stage  # pyarrow, after Spark's fork

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a writer works only in a Spark task")
    return StagedMessage(
        stage(
            options,
            job,
            batches,
            task=context.partitionId(),
            attempt=int(context.taskAttemptId()),
            query=context.getLocalProperty("sql.streaming.queryId"),
            run=context.getLocalProperty("spark.jobGroup.id"),
            with_checksum=with_checksum,
        )
    )


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Any]:
    return [message.staged if isinstance(message, StagedMessage) else None for message in messages]
