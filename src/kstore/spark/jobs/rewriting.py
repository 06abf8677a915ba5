"""What ``recompress`` and ``convert`` share: sealed segments written anew, side by side.

Executors stage the new segments; the driver, which is the store's writer meanwhile, swaps each in
as soon as it is there, as a compaction does.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kstore._native.locate import SegmentView
from kstore.config import CODECS, LogConfig
from kstore.errors import CompactionAbandonedError, InvalidConfigError
from kstore.log import seal
from kstore.log.files import DISK
from kstore.log.log import Log
from kstore.log.log_dir import absolute_paths
from kstore.log.reindex import Damage
from kstore.log.rewriting import (
    REFUSED,
    RewriteReport,
    RewrittenSegment,
    Target,
    damage_of,
    rewrite_segment,
    swap_in,
)
from kstore.log.staged import StagedFiles, remove_staged
from kstore.spark.alone import open_alone
from kstore.spark.jobs.changing import (
    LOCK_REASON,
    LOCK_TIMEOUT_MS,
    add_changing,
    nothing_left,
)
from kstore.spark.jobs.command import matching, paths_of
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
from kstore.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_TASK = 256 << 20
_LEVELS = {"gzip": (1, 9), "zstd": (1, 22)}
_SEALS = 64  # of a task


@dataclass(frozen=True, slots=True)
class RewrittenPartition:
    """What was done to the sealed segments of one partition."""

    topic: str
    partition: int
    path: str
    segments: int
    rewritten: int
    bytes_before: int
    bytes_after: int
    damages: tuple[Damage, ...] = ()  # why segments stay as they were

    @property
    def ok(self) -> bool:
        return not self.damages


@dataclass(frozen=True, slots=True)
class _Piece:
    """One segment, for a task."""

    number: int  # of the partition
    path: str
    config: LogConfig
    base_offset: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class _Task:
    paths: tuple[str, ...]
    target: Target
    pieces: tuple[_Piece, ...]


_Made = tuple[str, RewrittenSegment] | Damage  # token and segment


def rewrite(
    spark: "SparkSession",
    path: Paths,
    target: Target,
    *,
    topic: str | None = None,
    roll: bool = False,
    progress: Progress = silent,
    resume: str | None = None,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
) -> list[RewrittenPartition]:
    """Write the sealed segments of a store anew on Spark's executors.

    Parameters
    ----------
    path
        A log directory, or several that make one store.
    target
        What batches are to become.
    topic
        A regular expression for names of topics; all of them without it.
    roll
        Close the active segments first, so that everything is written anew.
    resume
        A file for the reports of finished partitions, made where missing: those it holds are
        not done again.
    lock_timeout_ms
        How long to wait where another process writes the store.

    Returns a report for each partition, by topic and number. Raises StoreLockedError,
    InvalidConfigError where no topic matches, StorageError where an executor does not see the
    directories or a disk fails: what was swapped in by then stays.
    """
    _check_level(target)
    paths = absolute_paths(path)
    check_executors(spark, paths)
    finished = _finished(resume, target, roll)
    with open_alone(paths, lock_timeout_ms, LOCK_REASON) as store, closing(finished):
        logs = [log for name in matching(store, topic) for log in store[name]]
        left = [log for log in logs if log.path not in finished]
        for log in left:
            remove_staged(DISK, log.path)
            if roll:
                log.roll()
        work = _Work(spark, paths, store, target, left)
        with nothing_left([log.path for log in left]):
            for log, report in work.run(progress):
                finished.add(log.path, report, final=report.ok)
        reports = [finished[log.path] for log in logs]
        if all(each.ok for each in reports):
            finished.end()
    return reports


def _check_level(target: Target) -> None:
    if target.level is None:
        return
    low, high = _LEVELS.get(target.compression or "", (0, 0))
    if not low <= target.level <= high or high == 0:
        known = ", ".join(f"{name} {low} to {high}" for name, (low, high) in _LEVELS.items())
        raise InvalidConfigError(f"a level goes with a codec that has one: {known}")


class _Work:
    """The driver's side, while the store is open."""

    def __init__(
        self,
        spark: "SparkSession",
        paths: tuple[str, ...],
        store: Store,
        target: Target,
        logs: Sequence[Log],
    ) -> None:
        self._spark = spark
        self._paths = paths
        self._target = target
        self._logs = logs
        self._views = [_views(log) for log in logs]
        self._new: list[tuple[str, int]] = []  # what is to be sealed

    def run(self, progress: Progress) -> Iterator[tuple[Log, RewrittenPartition]]:
        """Reports as partitions are done."""
        for log, views in zip(self._logs, self._views, strict=True):
            if not views:
                yield log, _report(log, RewriteReport())
        pieces = _pieces(self._logs, self._views)
        groups = plan_tasks(pieces, cores(self._spark), _MOST_TASK)
        tasks = [_Task(self._paths, self._target, tuple(group)) for group in groups]
        left = [len(views) for views in self._views]
        reports = [RewriteReport() for _ in self._logs]
        total = sum(view.size for views in self._views for view in views.values())
        done = 0
        with closing(run_tasks(self._spark, tasks, _work, "kstore rewrite")) as results_of:
            for number, results in results_of:
                for piece, result in zip(groups[number], results, strict=True):
                    log, view = self._logs[piece.number], self._views[piece.number]
                    old = view[piece.base_offset]
                    self._take(log, old, result, reports[piece.number])
                    done += old.size
                    progress(done, total, f"{log.topic}-{log.partition}")
                    left[piece.number] -= 1
                    if not left[piece.number]:
                        remove_staged(DISK, log.path)  # of attempts that failed
                        self._seal()
                        yield log, _report(log, reports[piece.number])

    def _take(self, log: Log, old: SegmentView, result: _Made, report: RewriteReport) -> None:
        """Swap in what a task has staged for a segment."""
        if isinstance(result, Damage):
            report.damages.append(result)
            return
        token, made = result
        if made.size != old.size:
            raise CompactionAbandonedError(
                "a segment is not what it was when the job was planned", path=old.path
            )
        report.add(made)
        if made.new:
            writer = log._writing()
            with writer.cleaning:
                swap_in(DISK, log, writer, made.new, old, token)
            self._new += [(log.path, each.base_offset) for each in made.new]

    def _seal(self) -> None:
        """Seal what is new: executors read it again, for its files have their names only now."""
        size = min(max(1, len(self._new) // cores(self._spark)), _SEALS)
        tasks = [
            (self._paths, tuple(self._new[at : at + size])) for at in range(0, len(self._new), size)
        ]
        with closing(run_tasks(self._spark, tasks, _seal, "kstore seals")) as results_of:
            for _ in results_of:
                pass
        self._new.clear()


def _report(log: Log, found: RewriteReport) -> RewrittenPartition:
    return RewrittenPartition(
        log.topic,
        log.partition,
        log.path,
        found.segments + len(found.damages),
        found.rewritten,
        found.bytes_before,
        found.bytes_after,
        tuple(found.damages),
    )


def _views(log: Log, *, roll: bool = False) -> dict[int, SegmentView]:
    """Segments that are to be written anew, by base offset; roll: as if all were sealed."""
    views = log.segments.views
    with_last = roll and views[-1].size > 0
    return {view.base_offset: view for view in (views if with_last else views[:-1])}


def _pieces(
    logs: Sequence[Log], views_of: Sequence[dict[int, SegmentView]]
) -> list[tuple[_Piece, int]]:
    return [
        (_Piece(number, log.path, log.config, view.base_offset, view.next_offset), view.size)
        for number, (log, views) in enumerate(zip(logs, views_of, strict=True))
        for view in views.values()
    ]


# --- in an executor -------------------------------------------------------------------------------


def _work(task: _Task) -> list[_Made]:
    check_visible(DISK, task.paths)
    return [_rewrite_one(piece, task.target) for piece in task.pieces]


def _rewrite_one(piece: _Piece, target: Target) -> _Made:
    staged = StagedFiles(DISK, piece.path)
    try:
        made = rewrite_segment(
            DISK, piece.path, staged, staged.directory, piece.base_offset, piece.next_offset,
            target, piece.config,
        )  # fmt: skip
    except REFUSED as error:  # the others go on
        return damage_of(error, piece.path)
    return staged.token, made


def _seal(task: tuple[tuple[str, ...], tuple[tuple[str, int], ...]]) -> int:
    paths, segments = task
    check_visible(DISK, paths)
    return sum(seal.write(DISK, path, base_offset) for path, base_offset in segments)


# --- the command ----------------------------------------------------------------------------------


def _load(tree: dict[str, Any]) -> RewrittenPartition:
    tree["damages"] = tuple(Damage(**each) for each in tree["damages"])
    return RewrittenPartition(**tree)


def _finished(resume: str | None, target: Target, roll: bool) -> Finished[RewrittenPartition]:
    return Finished(resume, {"name": "rewrite", **asdict(target), "roll": roll}, _load)


def tell(reports: Sequence[RewrittenPartition]) -> list[str]:
    """A line for each partition, what stays as it was below it, and the sum."""
    lines = []
    for each in reports:
        lines.append(
            f"{each.topic}-{each.partition}: {each.rewritten} of {each.segments} segments "
            f"rewritten, {each.bytes_before} bytes to {each.bytes_after}"
        )
        lines += [
            f"  stays: {damage.path} position {damage.position} offset {damage.offset}: "
            f"{damage.reason}"
            for damage in each.damages
        ]
    before, after = sum(r.bytes_before for r in reports), sum(r.bytes_after for r in reports)
    return [*lines, f"{verdict(reports)} ({before} bytes to {after})"]


def add_rewriting(parser: argparse.ArgumentParser, *, codec_required: bool) -> None:
    add_changing(parser)
    parser.add_argument(
        "--compression",
        choices=CODECS,
        required=codec_required,
        help="the codec of every batch"
        + ("" if codec_required else " (default: each batch keeps its own)"),
    )
    parser.add_argument(
        "--level",
        type=int,
        metavar="N",
        help="of gzip (1 to 9) or zstd (1 to 22), for what is compressed "
        "anew; what has the codec already stays (default: Kafka's)",
    )
    parser.add_argument(
        "--roll",
        action="store_true",
        help="close the active segments first, so that everything is written anew",
    )


def run_rewriting(
    arguments: argparse.Namespace, progress: Progress, name: str, target: Target
) -> int:
    paths = paths_of(arguments)
    if arguments.dry_run:
        _check_level(target)
        store = open_store(paths)
        finished = _finished(arguments.resume, target, arguments.roll)
        found = [log for each in matching(store, arguments.topic) for log in store[each]]
        logs = [log for log in found if log.path not in finished]
        pieces = _pieces(logs, [_views(log, roll=arguments.roll) for log in logs])
        tasks = plan_tasks(pieces, cores_of(arguments.master), _MOST_TASK)
        size = sum(size for _, size in pieces)
        which = "segments" if arguments.roll else "sealed segments"
        print(f"{len(tasks)} tasks would write {len(pieces)} {which} anew, {size:,} bytes")
        return 0
    with open_session(arguments.master, f"kstore {name}") as spark:
        reports = rewrite(
            spark,
            paths,
            target,
            topic=arguments.topic,
            roll=arguments.roll,
            progress=progress,
            resume=arguments.resume,
            lock_timeout_ms=int(arguments.lock_timeout * 1000),
        )
    return show(arguments.json, reports, tell(reports))
