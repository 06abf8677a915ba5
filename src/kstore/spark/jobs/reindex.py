"""``kstore spark reindex``: indexes, seals and producer state anew, segments side by side."""

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
from kstore.spark.jobs.partition_job import ChangingJob, ChangingOptions, Piece, Task, work_on
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

Makes .index, .timeindex and seals of every segment anew, and of every partition the transaction
indexes and producer snapshots: what recovery makes of a directory that has lost them. Logs are
read and checked, never changed. A damaged segment keeps the files it has, and is named.
Nobody else may write meanwhile. Executors put new files beside the old ones, this program renames
them, partition after partition; when it is killed, some are new and some are old, all of them true.
--dry-run shows the tasks. --resume keeps what is done in a file; a partition of which a file has
changed since is done again.
Exit status: 0 if all is well, 1 where something is damaged.
"""


@dataclass(frozen=True, slots=True)
class ReindexedPartition:
    """What was done to one partition; names are those of files in its folder."""

    topic: str
    partition: int
    path: str
    segments: int
    bytes: int
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    damages: tuple[SegmentDamage, ...] = ()
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run made it

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
    """A segment that is to be read."""

    config: LogConfig
    base_offset: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class _Replay:
    """The producers of one partition, for a task."""

    path: str
    config: LogConfig
    log_start: int
    segments: tuple[IndexedSegment, ...]


_Indexed = IndexedSegment | str  # or why there is none


def reindex(
    spark: "SparkSession", path: Paths, **options: Unpack[ChangingOptions]
) -> list[ReindexedPartition]:
    """Rebuild everything beside the log files of a store, on Spark's executors.

    ``options`` are those of every job that changes a store:
    :class:`~kstore.spark.jobs.partition_job.ChangingOptions`.

    Returns a report for each partition, by topic and number. Raises StoreLockedError,
    InvalidConfigError where no topic matches, StorageError where an executor does not see the
    directories or a disk fails.
    """
    return _Reindex(spark, path, **options).run()


def tell(reports: Sequence[ReindexedPartition]) -> list[str]:
    """A line for each partition, what is damaged below it, and the sum."""
    lines = []
    for each in reports:
        lines.append(f"{each.topic}-{each.partition}: {each.error or reindex_line(each)}")
        lines += damage_lines(each.damages)
    return [*lines, *from_file_lines(as_tree(reports)), verdict(reports)]


class _Reindex(ChangingJob[_Partition, ReindexedPartition]):
    name = "reindex"
    format_lines = staticmethod(tell)

    @contextmanager
    def open_store(self) -> Iterator[Store]:
        """No writer has the store, and unfinished changes of one are finished first."""
        with keep_closed(self.paths, self.lock_timeout_ms, LOCK_REASON, self.files):
            for name, _, folder in _folders(self.files, self.paths, self.topic):
                remove_staged(self.files, folder)
                finish_swaps(self.files, Path(folder), open_store(self.paths)[name].config)
            yield open_store(self.paths)

    def list_partitions(self, store: Store) -> list[_Partition]:
        return _partitions(self.files, self.paths, self.topic)

    def fingerprint(self, partition: _Partition) -> Any:
        """All files of the folder, and what indexes depend on."""
        return {
            "log_start": partition.log_start,
            "index_interval_bytes": partition.config.index_interval_bytes,
            "files": fingerprint_folder(self.files, partition.path),
        }

    def load(self, tree: dict[str, Any]) -> ReindexedPartition:
        tree["damages"] = tuple(SegmentDamage(**each) for each in tree["damages"])
        tree["written"], tree["removed"] = tuple(tree["written"]), tuple(tree["removed"])
        return ReindexedPartition(**tree)

    def describe_plan(self, partitions: Sequence[_Partition], parallelism: int) -> str:
        pieces = _pieces(partitions)
        tasks = self.plan_pieces(pieces, parallelism)
        return f"{len(tasks)} tasks would read {len(pieces)} segments and write their files anew"

    def change(
        self, partitions: Sequence[_Partition]
    ) -> Generator[tuple[_Partition, ReindexedPartition], None, None]:
        """At once where no producer is to be replayed, else behind all others."""
        replays: list[tuple[_Partition, _Replay]] = []
        for of, found in self.run_pieces(partitions, _pieces(partitions), _index):
            replay = _to_replay(self.files, of, found)
            if isinstance(replay, _Replay):
                replays.append((of, replay))
            else:
                yield of, replay
        tasks = [(self.paths, replay, self.files) for _, replay in replays]
        with closing(run_tasks(self.spark, tasks, _replay, "kstore reindex: producers")) as results:
            for number, replayed in results:
                of, replay = replays[number]
                if isinstance(replayed, str):
                    yield of, _failed(self.files, of, replayed)
                else:
                    yield of, _finish(self.files, of, replay.segments, replayed)


def _to_replay(
    files: Files, of: _Partition, found: Sequence[_Indexed]
) -> _Replay | ReindexedPartition:
    """What is left to do for a partition whose segments are all read, or its report."""
    segments = [each for each in found if not isinstance(each, str)]
    errors = [each for each in found if isinstance(each, str)]
    if errors:
        return _failed(files, of, errors[0])
    sound = not any(each.damage for each in segments) and not find_overlap(of.path, segments)
    if sound and any(each.producer_batches for each in segments):
        return _Replay(of.path, of.config, of.log_start, tuple(segments))
    return _finish(files, of, segments, None)


def _finish(
    files: Files,
    of: _Partition,
    segments: Sequence[IndexedSegment],
    replayed: ReplayedProducers | None,
) -> ReindexedPartition:
    report = finish_partition(files, of.path, segments, of.log_start, of.config, replayed)
    remove_staged(files, of.path)  # of attempts that failed
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
    """Topic, partition and folder of everything that the job is for."""
    store = open_store(paths)
    found = []
    for name in matching(store, topic):
        for partition in store[name].partitions:
            folders = [
                os.path.join(each, filenames.partition_directory(name, partition)) for each in paths
            ]
            there = [folder for folder in folders if files.kind(folder) == "directory"]
            found += [(name, partition, folder) for folder in there]
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
                log_dir.current_log_start((name, partition)),
                tuple(zip(bases, sizes, strict=True)),
            )
        )
    return [planned for planned in partitions if planned.segments]


def _pieces(partitions: Sequence[_Partition]) -> list[Piece]:
    return [
        Piece(
            number,
            of.path,
            base,
            size,
            _Segment(of.config, base, base == of.segments[-1][0]),
        )
        for number, of in enumerate(partitions)
        for base, size in of.segments
    ]


# --- in an executor -------------------------------------------------------------------------------


def _index(task: Task) -> list[_Indexed]:
    return work_on(task, _index_one)


def _index_one(files: Files, piece: Piece) -> IndexedSegment:
    of = piece.of
    return index_segment(files, piece.path, of.base_offset, of.config, last=of.is_last)


def _replay(task: tuple[tuple[str, ...], _Replay, Files]) -> ReplayedProducers | str:
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
    from kstore.spark.jobs import reindex as job  # tasks find its functions by this name

    raise SystemExit(main("reindex", job.describe, job.run))
