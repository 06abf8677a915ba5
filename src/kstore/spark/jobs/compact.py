"""``kstore spark compact``: the log cleaner, several partitions at a time."""

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
    CleanedSegment,
    CompactionReport,
    Files,
    FinishedSegment,
    OffsetMap,
    RoundOutput,
    RoundPlan,
    StagingArea,
    cleaner,
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

What `kstore compact` does, one task a partition: of every key the latest record stays, in all
segments but the active one. Only topics whose cleanup.policy in this directory has 'compact' are
touched. A task takes the memory of --dedupe-buffer-size; with less, several rounds.
Nobody else may write meanwhile. When this program is killed, each group of segments is the old or
the new one, and the next run goes on. A partition with damage stays as it is, and is named.
--dry-run shows the tasks. --resume keeps what is done in a file; a partition that has changed since
is compacted again.
Exit status: 0 if all is well, 1 if not.
"""


@dataclass(frozen=True, slots=True)
class CompactedPartition:
    """What was done to one partition; ``error`` says why it is not compacted to its end."""

    topic: str
    partition: int
    path: str
    report: CompactionReport
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run made it

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
    """A staged segment, and the base offsets of those that it stands for."""

    finished: FinishedSegment
    base_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Done:
    """What a task made of a partition's round; the groups are those that were done in whole."""

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
    """Compact the topics of a store that are to be, on Spark's executors.

    Parameters
    ----------
    dedupe_buffer_size
        Bytes that each task takes for the keys, 24 a key.
    options
        Those of every job that changes a store:
        :class:`~kstore.spark.jobs.partition_job.ChangingOptions`. A partition in the file to
        resume from is also done again if it has more to compact.

    Returns a report for each partition, by topic and number. Raises StoreLockedError,
    InvalidConfigError where nothing is to be compacted, StorageError where an executor does not
    see the directories or a disk fails: what was swapped in by then stays.
    """
    return _Compact(spark, path, dedupe_buffer_size=dedupe_buffer_size, **options).run()


def _plan(log: Log, files: Files) -> RoundPlan:
    """What the next round has to do with a log."""
    writer = log._require_writer()
    with writer.state.cleaning:
        return cleaner.plan_round(log, writer, files)


def tell(reports: Sequence[CompactedPartition]) -> list[str]:
    """A line for each partition, and the sum."""
    lines = [
        f"{each.topic}-{each.partition}: "
        + (f"{each.error}; " if each.error is not None else "")
        + compaction_line(each.report)
        for each in reports
    ]
    return [*lines, *from_file_lines(as_tree(reports)), verdict(reports)]


class _Compact(ChangingJob[Log, CompactedPartition]):
    """The driver's side, while the store is open."""

    name = "compact"
    format_lines = staticmethod(tell)

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
                f"no topic called {self.topic or 'anything'} has a cleanup.policy with 'compact' "
                "here: set it with alter_topic"
            )
        return logs

    def has_more_to_do(self, partition: Log) -> bool:
        """Time alone makes records due, too."""
        return not _plan(partition, self.files).is_empty

    def load(self, tree: dict[str, Any]) -> CompactedPartition:
        tree["report"] = CompactionReport(**tree["report"])
        return CompactedPartition(**tree)

    def describe_plan(self, partitions: Sequence[Log], parallelism: int) -> str:
        size = sum(log.size for log in partitions)
        return f"{len(partitions)} tasks would compact a partition each, {size:,} bytes in all"

    def change(
        self, partitions: Sequence[Log]
    ) -> Generator[tuple[Log, CompactedPartition], None, None]:
        """Each wave does one round of all that need another."""
        self._total = sum(log.size for log in partitions)
        left = list(partitions)
        while left:
            planned: list[tuple[Log, RoundPlan]] = []
            for log in left:
                plan = self._plan(log)
                if plan.is_empty:
                    self._report_progress(log)
                    yield log, self._report(log, None)
                else:
                    planned.append((log, plan))
            tasks = [_Task(self.paths, plan, self._buffer, self.files) for _, plan in planned]
            left = []
            with closing(run_tasks(self.spark, tasks, _work, "kstore compact")) as results_of:
                for number, done in results_of:
                    log = planned[number][0]
                    self._take(log, done)
                    if done.error is None:
                        left.append(log)
                    else:
                        self._report_progress(log)
                        yield log, self._report(log, done.error)

    def _report_progress(self, log: Log) -> None:
        self._done = min(self._done + log.size, self._total)
        self.on_progress(self._done, self._total, f"{log.topic}-{log.partition}")

    def _plan(self, log: Log) -> RoundPlan:
        plan = _plan(log, self.files)
        dirty = plan.cleanable.first_dirty_offset
        self._reports.setdefault(
            log.path, CompactionReport(first_dirty_offset=dirty, end_offset=dirty)
        )
        return plan

    def _take(self, log: Log, done: _Done) -> None:
        """Swap in what a task has staged, group after group."""
        writer = log._require_writer()
        views = {view.base_offset: view for view in log.segments.views}
        with writer.state.cleaning:
            for group in done.groups:
                new = CleanedSegment(self.files, log.path, group.finished.base_offset)
                try:
                    new.adopt(group.finished, done.token)
                    writer.replacer.replace_segments(
                        [new], [views[base] for base in group.base_offsets]
                    )
                except BaseException:
                    writer.replacer.abandon(new)
                    raise
            remove_staged(self.files, log.path)  # of attempts that failed
            if done.report is not None:
                self._reports[log.path] = cleaner.add_rounds(self._reports[log.path], done.report)
                write_cleaner_offset(
                    self.files,
                    log.path,
                    (log.topic, log.partition),
                    self._reports[log.path].end_offset,
                )
        self.write_checksums([(log, group.finished.base_offset) for group in done.groups])

    def _report(self, log: Log, error: str | None) -> CompactedPartition:
        return CompactedPartition(
            log.topic, log.partition, log.path, self._reports[log.path], error
        )


# --- in an executor -------------------------------------------------------------------------------


class _Staged(RoundOutput):
    """New segments kept out of sight, for the driver."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = StagingArea(files, path)
        self.groups: list[_Group] = []

    def check(self) -> None:
        """Nobody ends a task but Spark."""

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
        """The driver keeps everybody from shortening the log: what is wrong is wrong."""


def _work(task: _Task) -> _Done:
    check_visible(task.files, task.paths)
    output = _Staged(task.files, task.plan.path)
    started = time.perf_counter()
    keys = OffsetMap(task.dedupe_buffer_size, cleaner.LOAD_FACTOR, os.urandom(16))
    report, error = None, None
    try:
        report = cleaner.Round(
            task.plan, task.files, output, cleaner.Throttle(cleaner.NO_LIMIT)
        ).run(keys)
        report = replace(report, seconds=time.perf_counter() - started)
    except (CorruptRecordError, InvalidConfigError) as found:  # the others go on
        error = str(found)
    except KStoreError:
        output.files.discard()
        raise
    return _Done(output.files.token, tuple(output.groups), report, error)


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_changing(parser)
    parser.add_argument(
        "--dedupe-buffer-size",
        type=whole_number(1),
        default=134_217_728,
        metavar="BYTES",
        help="memory of a task for the keys, 24 bytes each (Kafka's "
        "log.cleaner.dedupe.buffer.size; default: 134217728)",
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _Compact.run_command(
        arguments, progress, dedupe_buffer_size=arguments.dedupe_buffer_size
    )


if __name__ == "__main__":
    from kstore.spark.jobs import compact as job  # tasks find its functions by this name

    raise SystemExit(main("compact", job.describe, job.run))
