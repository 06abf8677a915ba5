"""``kstore spark compact``: log compaction, several partitions at a time."""

import argparse
import os
import time
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from kstore.arguments import whole_number
from kstore.errors import CorruptRecordError, InvalidConfigError, KStoreError, StorageError
from kstore.log.log import Log
from kstore.partition_files import (
    NO_LIMIT,
    CleanedSegment,
    CompactionReport,
    Files,
    FinishedSegment,
    OffsetMap,
    RoundOutput,
    RoundPlan,
    StagingArea,
    Throttler,
    cleaner,
    count_of,
    plan_round,
    remove_staged,
    write_cleaner_offset,
)
from kstore.report_lines import compaction_line
from kstore.spark.jobs.command import main, matching
from kstore.spark.jobs.partition_job import ChangingJob, ChangingOptions
from kstore.spark.jobs.reports import as_tree, from_file_lines, verdict
from kstore.spark.jobs.store_changes import add_changing
from kstore.spark.jobs.task_runner import Progress, run_tasks
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import check_visible
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark compact --log-dir /data/kafka-logs
  kstore spark compact --topic 'accounts.*' --master 'local[4]' --log-dir data
  kstore spark compact --dedupe-buffer-size 1000000000 --resume done.json --json --log-dir data
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/compact.py --log-dir /mnt/kafka-logs

Does what `kstore compact` does, with one task for each partition: keeps the latest record of every
key, in all segments but the active one. Only topics whose cleanup.policy in this directory has
'compact' are compacted. A task uses the memory of --dedupe-buffer-size; a smaller buffer needs more
rounds.
No other process may write to the store meanwhile. After a kill each group of segments is the old or
the new one, and the next run continues. A corrupt partition is named and stays unchanged.
--dry-run shows the tasks. --resume saves the reports of finished partitions in a file; a partition
is compacted again if it has changed since.
Exit status: 0 if all is well, 1 if not.
"""


@dataclass(frozen=True, slots=True)
class CompactedPartition:
    """The result for one partition; ``error`` says why the compaction is incomplete."""

    topic: str
    partition: int
    path: str
    report: CompactionReport
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run saved it

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class _Task:
    paths: tuple[str, ...]
    plan: RoundPlan
    dedupe_buffer_size: int
    files: Files


@dataclass(frozen=True, slots=True)
class _Group:
    """A staged segment, and the base offsets of the segments that it replaces."""

    finished: FinishedSegment
    base_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _RoundResult:
    """The result of a round over one partition; ``groups`` has the finished groups only."""

    token: str
    groups: tuple[_Group, ...]
    report: CompactionReport | None
    error: str | None


def compact(
    spark: "SparkSession",
    path: Paths,
    *,
    dedupe_buffer_size: int = 134_217_728,
    **options: Unpack[ChangingOptions],
) -> list[CompactedPartition]:
    """Compact the topics of a store with ``cleanup.policy=compact``, on Spark's executors.

    Parameters
    ----------
    dedupe_buffer_size
        Bytes that each task uses for its map of keys, 24 for each key.
    options
        Those of every job that changes a store:
        :class:`~kstore.spark.jobs.partition_job.ChangingOptions`. A partition in the resume file
        is also compacted again if more of it can be compacted now.

    Returns a report for each partition, by topic and number. Raises StoreLockedError if another
    process keeps the store's lock, InvalidConfigError if no topic is to be compacted, and
    StorageError if an executor does not see the directories or a disk fails; the segments that
    were swapped in before stay.
    """
    return _Compact(spark, path, dedupe_buffer_size=dedupe_buffer_size, **options).run()


def _plan(log: Log, files: Files) -> RoundPlan:
    """Plan the next round of a log."""
    writer = log._require_writer()
    with writer.state.cleaning:
        return plan_round(log, writer, files)


def report_lines(reports: Sequence[CompactedPartition]) -> list[str]:
    """A line for each partition, and a summary."""
    lines = [
        f"{each.topic}-{each.partition}: "
        + (f"{each.error}; " if each.error is not None else "")
        + compaction_line(each.report)
        for each in reports
    ]
    return [*lines, *from_file_lines(as_tree(reports)), verdict(reports)]


class _Compact(ChangingJob[Log, CompactedPartition]):
    """The driver's side: plans rounds and swaps in what their tasks have staged."""

    name = "compact"
    format_lines = staticmethod(report_lines)

    def __init__(
        self,
        spark: "SparkSession | None",
        path: Paths,
        *,
        dedupe_buffer_size: int,
        **options: Any,
    ) -> None:
        super().__init__(spark, path, **options)
        self._buffer = dedupe_buffer_size
        self._reports: dict[str, CompactionReport] = {}
        self._total = self._done = 0  # bytes

    def list_partitions(self, store: Store) -> list[Log]:
        logs = [
            log
            for name in matching(store, self.topic)
            if "compact" in store[name].config.cleanup_policy
            for log in store[name]
        ]
        if not logs:
            raise InvalidConfigError(
                f"no topic that matches {self.topic or '.*'} has a cleanup.policy with 'compact' "
                "here: set it with alter_topic"
            )
        return logs

    def has_more_to_do(self, partition: Log) -> bool:
        """An unchanged log can need compaction: records become old enough, tombstones expire."""
        return not _plan(partition, self.files).is_empty

    def load(self, tree: dict[str, Any]) -> CompactedPartition:
        tree["report"] = CompactionReport(**tree["report"])
        return CompactedPartition(**tree)

    def describe_plan(self, partitions: Sequence[Log], parallelism: int) -> str:
        size = sum(log.size for log in partitions)
        tasks = count_of(len(partitions), "task")
        return f"{tasks} would compact a partition each, {size:,} bytes in total"

    def change(
        self, partitions: Sequence[Log]
    ) -> Generator[tuple[Log, CompactedPartition], None, None]:
        """Repeatedly run one round of each partition that needs another."""
        self._total = sum(log.size for log in partitions)
        remaining = list(partitions)
        while remaining:
            planned: list[tuple[Log, RoundPlan]] = []
            for log in remaining:
                plan = self._plan(log)
                if plan.is_empty:
                    self._report_progress(log)
                    yield log, self._report(log, None)
                else:
                    planned.append((log, plan))
            tasks = [_Task(self.paths, plan, self._buffer, self.files) for _, plan in planned]
            remaining = []
            with closing(run_tasks(self.spark, tasks, _run_round, "kstore compact")) as results:
                for number, result in results:
                    log = planned[number][0]
                    self._swap_in(log, result)
                    if result.error is None:
                        remaining.append(log)
                    else:
                        self._report_progress(log)
                        yield log, self._report(log, result.error)

    def _report_progress(self, log: Log) -> None:
        self._done = min(self._done + log.size, self._total)
        self.on_progress(self._done, self._total, f"{log.topic}-{log.partition}")

    def _plan(self, log: Log) -> RoundPlan:
        plan = _plan(log, self.files)
        self._reports.setdefault(log.path, plan.empty_report)
        return plan

    def _swap_in(self, log: Log, result: _RoundResult) -> None:
        """Replace each group of segments by the one that a task has staged."""
        writer = log._require_writer()
        views = {view.base_offset: view for view in log.segments.views}
        with writer.state.cleaning:
            for group in result.groups:
                new = CleanedSegment(self.files, log.path, group.finished.base_offset)
                try:
                    new.adopt(group.finished, result.token)
                    writer.replacer.replace_segments(
                        [new], [views[base] for base in group.base_offsets]
                    )
                except BaseException:
                    writer.replacer.abandon(new)
                    raise
            remove_staged(self.files, log.path)  # left by failed attempts
            if result.report is not None:
                self._reports[log.path] = cleaner.add_rounds(self._reports[log.path], result.report)
                write_cleaner_offset(
                    self.files,
                    log.path,
                    (log.topic, log.partition),
                    self._reports[log.path].end_offset,
                )
        self.write_checksums([(log, group.finished.base_offset) for group in result.groups])

    def _report(self, log: Log, error: str | None) -> CompactedPartition:
        return CompactedPartition(
            log.topic, log.partition, log.path, self._reports[log.path], error
        )


# --- in an executor -------------------------------------------------------------------------------


class _StagedOutput(RoundOutput):
    """Stages the new segments; the driver renames them."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = StagingArea(files, path)
        self.groups: list[_Group] = []

    def check(self) -> None:
        """Does nothing: only Spark cancels a task."""

    def new(self, base_offset: int) -> CleanedSegment:
        return CleanedSegment(self.files, self.files.directory, base_offset)

    def put(self, cleaned: CleanedSegment, base_offsets: Sequence[int]) -> None:
        assert cleaned.finished is not None
        self.groups.append(_Group(cleaned.finished, tuple(base_offsets)))

    def abandon(self, cleaned: CleanedSegment) -> None:
        with suppress(StorageError):
            cleaned.close()
            cleaned.discard()

    def judge(self, base_offset: int, error: Exception) -> None:
        """Does nothing: the driver holds the lock, so the segment cannot have left the log."""


def _run_round(task: _Task) -> _RoundResult:
    check_visible(task.files, task.paths)
    output = _StagedOutput(task.files, task.plan.path)
    started = time.perf_counter()
    keys = OffsetMap(task.dedupe_buffer_size, cleaner.LOAD_FACTOR, os.urandom(16))
    report, error = None, None
    try:
        report = cleaner.Round(task.plan, task.files, output, Throttler(NO_LIMIT)).run(keys)
        report = replace(report, seconds=time.perf_counter() - started)
    except (CorruptRecordError, InvalidConfigError) as problem:  # other partitions continue
        error = str(problem)
    except KStoreError:
        output.files.discard()
        raise
    return _RoundResult(output.files.token, tuple(output.groups), report, error)


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_changing(parser)
    parser.add_argument(
        "--dedupe-buffer-size",
        type=whole_number(1),
        default=134_217_728,
        metavar="BYTES",
        help="memory of a task for its map of keys, 24 bytes each (Kafka's "
        "log.cleaner.dedupe.buffer.size; default: 134217728)",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _Compact.run_command(
        arguments, progress, dedupe_buffer_size=arguments.dedupe_buffer_size
    )


if __name__ == "__main__":
    raise SystemExit(main("compact"))
