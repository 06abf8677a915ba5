"""``kstore spark reindex``: rebuilds indexes, checksum files and producer state, by segment."""

import argparse
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kstore.config import LogConfig
from kstore.errors import KStoreError
from kstore.partition_files import (
    Files,
    IndexedSegment,
    LogDir,
    ReplayedProducers,
    SegmentDamage,
    base_offsets,
    count_of,
    filenames,
    find_overlap,
    finish_partition,
    finish_swaps,
    index_segment,
    remove_staged,
    replay_producers,
)
from kstore.report_lines import damage_lines, reindex_line
from kstore.spark.exclusive_lock import keep_closed
from kstore.spark.jobs.command import main, matching
from kstore.spark.jobs.partition_job import (
    ChangingJob,
    ChangingOptions,
    Task,
    WorkUnit,
    process_units,
)
from kstore.spark.jobs.reports import as_tree, from_file_lines, verdict
from kstore.spark.jobs.resume_file import fingerprint_folder
from kstore.spark.jobs.store_changes import LOCK_REASON, add_changing
from kstore.spark.jobs.task_runner import Progress, run_tasks
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark reindex --log-dir /data/kafka-logs
  kstore spark reindex --topic orders --master 'local[4]' --log-dir data
  kstore spark reindex --resume done.json --json --log-dir data
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/reindex.py --log-dir /mnt/kafka-logs

Rebuilds .index, .timeindex and checksum files (kstore.seal) of every segment, and the transaction
indexes and producer snapshots of every partition: the files that recovery builds for a directory
that has lost them. Logs are read and checked, never changed. A damaged segment is named and keeps
its files.
No other process may write to the store meanwhile. Executors stage new files beside the old ones;
this program renames them, one partition after the other. After a kill some files are new and some
are old, and all are valid. --dry-run shows the tasks. --resume saves the reports of finished
partitions in a file; a partition is processed again if one of its files has changed since.
Exit status: 0 if all is well, 1 for damage.
"""


@dataclass(frozen=True, slots=True)
class ReindexedPartition:
    """The result for one partition; ``written`` and ``removed`` are file names."""

    topic: str
    partition: int
    path: str
    segments: int
    bytes: int
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    damages: tuple[SegmentDamage, ...] = ()
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run saved it

    @property
    def ok(self) -> bool:
        return self.error is None and not self.damages


@dataclass(frozen=True, slots=True)
class _Partition:
    topic: str
    partition: int
    path: str
    config: LogConfig
    log_start: int
    segments: tuple[tuple[int, int], ...]  # base offset, size

    @property
    def size(self) -> int:
        return sum(size for _, size in self.segments)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment to read and to index."""

    config: LogConfig
    base_offset: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class _Replay:
    """The segments of one partition, from which a task rebuilds its producer state."""

    path: str
    config: LogConfig
    log_start: int
    segments: tuple[IndexedSegment, ...]


_SegmentOrError = IndexedSegment | str


def reindex(
    spark: "SparkSession", path: Paths, **options: Unpack[ChangingOptions]
) -> list[ReindexedPartition]:
    """Rebuild all files beside the log files of a store, on Spark's executors.

    ``options`` are those of every job that changes a store:
    :class:`~kstore.spark.jobs.partition_job.ChangingOptions`.

    Returns a report for each partition, by topic and number. Raises StoreLockedError if another
    process keeps the store's lock, InvalidConfigError if no topic matches, and StorageError if an
    executor does not see the directories or a disk fails.
    """
    return _Reindex(spark, path, **options).run()


def report_lines(reports: Sequence[ReindexedPartition]) -> list[str]:
    """A line for each partition, the damaged segments below it, and a summary."""
    lines = []
    for report in reports:
        result = report.error or reindex_line(report)
        lines.append(f"{report.topic}-{report.partition}: {result}")
        lines += damage_lines(report.damages)
    return [*lines, *from_file_lines(as_tree(reports)), verdict(reports)]


class _Reindex(ChangingJob[_Partition, ReindexedPartition]):
    name = "reindex"
    format_lines = staticmethod(report_lines)

    @contextmanager
    def open_store(self) -> Iterator[Store]:
        """A store for reading, under the writer's lock; finishes interrupted swaps first."""
        with keep_closed(self.paths, self.lock_timeout_ms, LOCK_REASON, self.files):
            for name, _, folder in _folders(self.files, self.paths, self.topic):
                remove_staged(self.files, folder)
                finish_swaps(self.files, Path(folder), open_store(self.paths)[name].config)
            yield open_store(self.paths)

    def list_partitions(self, store: Store) -> list[_Partition]:
        return _partitions(self.files, self.paths, self.topic)

    def fingerprint(self, partition: _Partition) -> Any:
        """All files of the directory, and the values that the indexes depend on."""
        return {
            "log_start": partition.log_start,
            "index_interval_bytes": partition.config.index_interval_bytes,
            "files": fingerprint_folder(self.files, partition.path),
        }

    def load(self, tree: dict[str, Any]) -> ReindexedPartition:
        tree["damages"] = tuple(SegmentDamage(**damage) for damage in tree["damages"])
        tree["written"], tree["removed"] = tuple(tree["written"]), tuple(tree["removed"])
        return ReindexedPartition(**tree)

    def describe_plan(self, partitions: Sequence[_Partition], parallelism: int) -> str:
        units = _plan_units(partitions)
        tasks = self.plan_units(units, parallelism)
        segments = count_of(len(units), "segment")
        return f"{count_of(len(tasks), 'task')} would read {segments} and rebuild their files"

    def change(
        self, partitions: Sequence[_Partition]
    ) -> Generator[tuple[_Partition, ReindexedPartition], None, None]:
        """First the partitions without producer state, then those that need a replay."""
        replays: list[tuple[_Partition, _Replay]] = []
        for partition, results in self.run_units(partitions, _plan_units(partitions), _index_task):
            replay = _replay_or_report(self.files, partition, results)
            if isinstance(replay, _Replay):
                replays.append((partition, replay))
            else:
                yield partition, replay
        tasks = [(self.paths, replay, self.files) for _, replay in replays]
        with closing(
            run_tasks(self.spark, tasks, _replay_task, "kstore reindex: producers")
        ) as outcomes:
            for number, producers in outcomes:
                partition, replay = replays[number]
                if isinstance(producers, str):
                    yield partition, _failed(self.files, partition, producers)
                else:
                    yield partition, _finish(self.files, partition, replay.segments, producers)


def _replay_or_report(
    files: Files, of: _Partition, results: Sequence[_SegmentOrError]
) -> _Replay | ReindexedPartition:
    """The replay that a partition needs after its segments are indexed, or its final report."""
    segments = [result for result in results if not isinstance(result, str)]
    errors = [result for result in results if isinstance(result, str)]
    if errors:
        return _failed(files, of, errors[0])
    is_valid = not any(each.damage for each in segments) and not find_overlap(of.path, segments)
    if is_valid and any(each.producer_batches for each in segments):
        return _Replay(of.path, of.config, of.log_start, tuple(segments))
    return _finish(files, of, segments, None)


def _finish(
    files: Files,
    of: _Partition,
    segments: Sequence[IndexedSegment],
    producers: ReplayedProducers | None,
) -> ReindexedPartition:
    report = finish_partition(files, of.path, segments, of.log_start, of.config, producers)
    remove_staged(files, of.path)  # left by failed attempts
    return ReindexedPartition(
        of.topic,
        of.partition,
        of.path,
        report.segments,
        report.bytes,
        report.written,
        report.removed,
        report.damages,
    )


def _failed(files: Files, of: _Partition, error: str) -> ReindexedPartition:
    remove_staged(files, of.path)
    return ReindexedPartition(
        of.topic,
        of.partition,
        of.path,
        len(of.segments),
        of.size,
        error=error,
    )


def _folders(files: Files, paths: tuple[str, ...], topic: str | None) -> list[tuple[str, int, str]]:
    """Topic, number and directory of each partition of the job."""
    store = open_store(paths)
    found = []
    for name in matching(store, topic):
        for partition in store[name].partitions:
            for path in paths:
                folder = os.path.join(path, filenames.partition_directory(name, partition))
                if files.kind(folder) == "directory":
                    found.append((name, partition, folder))
    return found


def _partitions(files: Files, paths: tuple[str, ...], topic: str | None) -> list[_Partition]:
    store = open_store(paths)
    dirs = {path: LogDir(files, path, writable=False) for path in paths}
    partitions = []
    for name, partition, folder in _folders(files, paths, topic):
        log_dir = dirs[os.path.dirname(folder)]
        bases = base_offsets(files, folder)
        sizes = [files.size_of(os.path.join(folder, filenames.log_name(base))) for base in bases]
        partitions.append(
            _Partition(
                name,
                partition,
                folder,
                store[name].config,
                log_dir.offsets.current_log_start((name, partition)),
                tuple(zip(bases, sizes, strict=True)),
            )
        )
    return [planned for planned in partitions if planned.segments]


def _plan_units(partitions: Sequence[_Partition]) -> list[WorkUnit]:
    return [
        WorkUnit(
            number,
            partition.path,
            base,
            size,
            _Segment(partition.config, base, base == partition.segments[-1][0]),
        )
        for number, partition in enumerate(partitions)
        for base, size in partition.segments
    ]


# --- in an executor -------------------------------------------------------------------------------


def _index_task(task: Task) -> list[_SegmentOrError]:
    return process_units(task, _index_one)


def _index_one(files: Files, unit: WorkUnit) -> IndexedSegment:
    segment = unit.argument
    return index_segment(
        files, unit.path, segment.base_offset, segment.config, last=segment.is_last
    )


def _replay_task(task: tuple[tuple[str, ...], _Replay, Files]) -> ReplayedProducers | str:
    paths, replay, files = task
    check_visible(files, paths)
    try:
        return replay_producers(
            files, replay.path, replay.segments, replay.log_start, replay.config
        )
    except KStoreError as error:
        return str(error)


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_changing(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _Reindex.run_command(arguments, progress)


if __name__ == "__main__":
    raise SystemExit(main("reindex"))
