"""The sink's classes that Spark calls: tasks stage, the driver's side publishes.

Spark pickles a writer before its tasks run and calls ``commit`` on such a copy, for a stream on
a new one for each micro-batch: so they hold values only, and what a task has to tell travels in
its message.
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
from kstore.spark.source.range_reader import keep_imports_out_of_collections


class StagedMessage(WriterCommitMessage):
    """What one attempt of a task staged."""

    def __init__(self, staged: Any) -> None:
        self.staged = staged


class KStoreWriter(DataSourceArrowWriter):
    """A batch job: all of it shows at once, or nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = new_job(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        # What writeId stands for is known by its records.
        with_checksum = self._options.write_id is not None
        return _stage(self._options, self._job, iterator, with_checksum)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = _staged(messages)
        publish(self._options, self._job, staged, identify_job(self._options, staged))
        keep_imports_out_of_collections()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort(self._options, self._job)


class KStoreStreamWriter(DataSourceStreamArrowWriter):
    """A stream: every micro-batch is there once, however often Spark runs it."""

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
        keep_imports_out_of_collections()  # of this process, which serves one batch after another

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
        raise RuntimeError("a writer writes in a task of Spark's only")
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
    return [each.staged if isinstance(each, StagedMessage) else None for each in messages]
