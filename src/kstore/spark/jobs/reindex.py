"""``kstore spark reindex``: indexes, seals and producer state anew, segments side by side."""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore.config import LogConfig
from kstore.errors import KStoreError
from kstore.log.filenames import log_name, partition_directory
from kstore.log.files import DISK
from kstore.log.leftovers import finish_leftovers
from kstore.log.loader import base_offsets
from kstore.log.log_dir import LogDir, absolute_paths
from kstore.log.reindex import (
    Damage,
    IndexedSegment,
    ReplayedProducers,
    find_overlap,
    finish_partition,
    index_segment,
    replay_producers,
)
from kstore.log.staged import remove_staged
from kstore.spark.alone import keep_closed
from kstore.spark.jobs.changing import (
    LOCK_REASON,
    LOCK_TIMEOUT_MS,
    add_changing,
    nothing_left,
)
from kstore.spark.jobs.command import main, matching, paths_of
from kstore.spark.jobs.reports import Finished, show, verdict
from kstore.spark.jobs.running import (
    Progress,
    cores,
    cores_of,
    open_session,
    plan_tasks,
    run_tasks,
    silent,
)
from kstore.spark.reading import check_visible, open_store
from kstore.spark.session import Paths, check_executors

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
--dry-run shows the tasks. --resume keeps what is done in a file.
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
    damages: tuple[Damage, ...] = ()
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and not self.damages


@dataclass(frozen=True, slots=True)
class _Place:
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
class _Piece:
    """One segment, for a task."""

    number: int  # of the partition
    path: str
    config: LogConfig
    base_offset: int
    last: bool


@dataclass(frozen=True, slots=True)
class _Replay:
    """The producers of one partition, for a task."""

    path: str
    config: LogConfig
    log_start: int
    segments: tuple[IndexedSegment, ...]


_Indexed = IndexedSegment | str  # or why there is none


def reindex(
    spark: "SparkSession",
    path: Paths,
    *,
    topic: str | None = None,
    progress: Progress = silent,
    resume: str | None = None,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
) -> list[ReindexedPartition]:
    """Make everything beside the log files of a store anew, on Spark's executors.

    Parameters
    ----------
    path
        A log directory, or several that make one store.
    topic
        A regular expression for names of topics; all of them without it.
    resume
        A file for the reports of finished partitions, made where missing: those it holds are
        not done again.
    lock_timeout_ms
        How long to wait where another process writes the store.

    Returns a report for each partition, by topic and number. Raises StoreLockedError,
    InvalidConfigError where no topic matches, StorageError where an executor does not see the
    directories or a disk fails.
    """
    paths = absolute_paths(path)
    check_executors(spark, paths)
    finished = _finished(resume)
    with keep_closed(paths, lock_timeout_ms, LOCK_REASON), closing(finished):
        for name, _, folder in _folders(paths, topic):
            remove_staged(DISK, folder)
            finish_leftovers(DISK, Path(folder), open_store(paths)[name].config)
        places = _partitions(paths, topic)
        left = [each for each in places if each.path not in finished]
        with nothing_left([place.path for place in left]):
            for place, report in _reindex(spark, paths, left, progress):
                finished.add(place.path, report, final=report.ok)
        reports = [finished[place.path] for place in places]
        if all(each.ok for each in reports):
            finished.end()
    return reports


def _reindex(
    spark: "SparkSession", paths: tuple[str, ...], places: Sequence[_Place], progress: Progress
) -> Iterator[tuple[_Place, ReindexedPartition]]:
    """Reports as partitions are done: at once where no producer is to be replayed, else later."""
    groups = _plan(places, cores(spark))
    total, done = sum(place.size for place in places), 0
    found: dict[int, dict[int, _Indexed]] = {n: {} for n in range(len(places))}
    replays: list[tuple[_Place, _Replay]] = []
    tasks = [(paths, tuple(group)) for group in groups]
    with closing(run_tasks(spark, tasks, _index, "kstore reindex")) as results_of:
        for number, results in results_of:
            for piece, result in zip(groups[number], results, strict=True):
                place, parts = places[piece.number], found[piece.number]
                parts[piece.base_offset] = result
                done += 0 if isinstance(result, str) else result.size
                progress(done, total, f"{place.topic}-{place.partition}")
                if len(parts) == len(place.segments):
                    replay = _to_replay(place, found.pop(piece.number))
                    if isinstance(replay, _Replay):
                        replays.append((place, replay))
                    else:
                        yield place, replay
    waiting = [(paths, replay) for _, replay in replays]
    with closing(run_tasks(spark, waiting, _replay, "kstore reindex: producers")) as results_of:
        for number, replayed in results_of:
            place, replay = replays[number]
            if isinstance(replayed, str):
                yield place, _failed(place, replayed)
            else:
                yield place, _finish(place, replay.segments, replayed)


def _to_replay(place: _Place, parts: dict[int, _Indexed]) -> _Replay | ReindexedPartition:
    """What is left to do for a partition whose segments are all read, or its report."""
    found = [parts[base] for base in sorted(parts)]
    segments = [each for each in found if not isinstance(each, str)]
    errors = [each for each in found if isinstance(each, str)]
    if errors:
        return _failed(place, errors[0])
    sound = not any(each.damage for each in segments) and not find_overlap(place.path, segments)
    if sound and any(each.producer_batches for each in segments):
        return _Replay(place.path, place.config, place.log_start, tuple(segments))
    return _finish(place, segments, None)


def _finish(
    place: _Place, segments: Sequence[IndexedSegment], replayed: ReplayedProducers | None
) -> ReindexedPartition:
    report = finish_partition(DISK, place.path, segments, place.log_start, place.config, replayed)
    remove_staged(DISK, place.path)  # of attempts that failed
    return ReindexedPartition(
        place.topic,
        place.partition,
        place.path,
        report.segments,
        report.bytes,
        report.written,
        report.removed,
        report.damages,
    )


def _failed(place: _Place, error: str) -> ReindexedPartition:
    remove_staged(DISK, place.path)
    return ReindexedPartition(
        place.topic, place.partition, place.path, len(place.segments), place.size, error=error
    )


def _folders(paths: tuple[str, ...], topic: str | None) -> list[tuple[str, int, str]]:
    """Topic, partition and folder of everything that the job is for."""
    store = open_store(paths)
    found = []
    for name in matching(store, topic):
        for partition in store[name].partitions:
            folders = [os.path.join(each, partition_directory(name, partition)) for each in paths]
            there = [folder for folder in folders if DISK.kind(folder) == "directory"]
            found += [(name, partition, folder) for folder in there]
    return found


def _partitions(paths: tuple[str, ...], topic: str | None) -> list[_Place]:
    store = open_store(paths)
    dirs = {path: LogDir(DISK, path, writable=False) for path in paths}
    places = []
    for name, partition, folder in _folders(paths, topic):
        log_dir = dirs[os.path.dirname(folder)]
        bases = base_offsets(DISK, folder)
        sizes = [DISK.size_of(os.path.join(folder, log_name(base))) for base in bases]
        places.append(
            _Place(
                name,
                partition,
                folder,
                store[name].config,
                log_dir.current_log_start((name, partition)),
                tuple(zip(bases, sizes, strict=True)),
            )
        )
    return [place for place in places if place.segments]


def _plan(places: Sequence[_Place], parallelism: int) -> list[list[_Piece]]:
    pieces = [
        (_Piece(number, place.path, place.config, base, base == place.segments[-1][0]), size)
        for number, place in enumerate(places)
        for base, size in place.segments
    ]
    return plan_tasks(pieces, parallelism)


# --- in an executor -------------------------------------------------------------------------------


def _index(task: tuple[tuple[str, ...], tuple[_Piece, ...]]) -> list[_Indexed]:
    paths, pieces = task
    check_visible(DISK, paths)
    return [_index_one(piece) for piece in pieces]


def _index_one(piece: _Piece) -> _Indexed:
    try:
        return index_segment(DISK, piece.path, piece.base_offset, piece.config, last=piece.last)
    except KStoreError as error:  # the others go on
        return str(error)


def _replay(task: tuple[tuple[str, ...], _Replay]) -> ReplayedProducers | str:
    paths, replay = task
    check_visible(DISK, paths)
    try:
        return replay_producers(DISK, replay.path, replay.segments, replay.log_start, replay.config)
    except KStoreError as error:
        return str(error)


# --- the command ----------------------------------------------------------------------------------


def _load(tree: dict[str, Any]) -> ReindexedPartition:
    tree["damages"] = tuple(Damage(**each) for each in tree["damages"])
    tree["written"], tree["removed"] = tuple(tree["written"]), tuple(tree["removed"])
    return ReindexedPartition(**tree)


def _finished(resume: str | None) -> Finished[ReindexedPartition]:
    return Finished(resume, {"name": "reindex"}, _load)


def tell(reports: Sequence[ReindexedPartition]) -> list[str]:
    """A line for each partition, what is damaged below it, and the sum."""
    lines = []
    for each in reports:
        state = each.error or (
            f"{len(each.written)} files written, {len(each.removed)} removed"
            + (f", {len(each.damages)} damaged" if each.damages else "")
        )
        lines.append(
            f"{each.topic}-{each.partition}: {state} ({each.segments} segments, {each.bytes} bytes)"
        )
        lines += [
            f"  {damage.path} position {damage.position} offset {damage.offset}: {damage.reason}"
            for damage in each.damages
        ]
    return [*lines, verdict(reports)]


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_changing(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    paths = paths_of(arguments)
    if arguments.dry_run:
        finished = _finished(arguments.resume)
        places = [p for p in _partitions(paths, arguments.topic) if p.path not in finished]
        groups = _plan(places, cores_of(arguments.master))
        count = sum(len(group) for group in groups)
        print(f"{len(groups)} tasks would read {count} segments and write their files anew")
        return 0
    with open_session(arguments.master, "kstore reindex") as spark:
        reports = reindex(
            spark,
            paths,
            topic=arguments.topic,
            progress=progress,
            resume=arguments.resume,
            lock_timeout_ms=int(arguments.lock_timeout * 1000),
        )
    return show(arguments.json, reports, tell(reports))


if __name__ == "__main__":
    from kstore.spark.jobs import reindex as job  # tasks find its functions by this name

    raise SystemExit(main("reindex", job.describe, job.run))
