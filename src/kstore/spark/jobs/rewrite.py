"""What ``recompress`` and ``convert`` share: sealed segments written anew, side by side.

Executors stage the new segments; the driver, which is the store's writer meanwhile, swaps each in
as soon as it is there, as a compaction does.
"""

from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kstore.config import LogConfig
from kstore.errors import CompactionAbandonedError
from kstore.log.log import Log
from kstore.partition_files import (
    REWRITE_ERRORS,
    Files,
    RewriteReport,
    RewriteTarget,
    RewrittenSegment,
    SegmentDamage,
    SegmentView,
    StagingArea,
    damage_of,
    remove_staged,
    rewrite_segment,
    swap_in,
)
from kstore.report_lines import damage_lines, rewrite_line
from kstore.spark.jobs.command import matching
from kstore.spark.jobs.partition_job import ChangingJob, ChangingOptions, Piece, Task
from kstore.spark.jobs.reports import as_tree, from_file_lines, verdict
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import check_visible
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    damages: tuple[SegmentDamage, ...] = ()  # why segments stay as they were
    kept_batches: int = 0  # that stay as they are since they would grow
    merged_batches: int = 0  # that became part of the one before them
    from_file: str | None = field(default=None, compare=False)  # when an earlier run made it

    @property
    def ok(self) -> bool:
        return not self.damages


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment that is to be written anew."""

    config: LogConfig
    base_offset: int
    next_offset: int


_Staged = tuple[str, RewrittenSegment] | SegmentDamage  # token and segment


def tell(reports: Sequence[RewrittenPartition]) -> list[str]:
    """A line for each partition, what stays as it was below it, and the sum."""
    lines = []
    for each in reports:
        lines.append(f"{each.topic}-{each.partition}: {rewrite_line(each, each.segments)}")
        lines += damage_lines(each.damages)
    before, after = sum(r.bytes_before for r in reports), sum(r.bytes_after for r in reports)
    lines += from_file_lines(as_tree(reports))
    return [*lines, f"{verdict(reports)} ({before} bytes to {after})"]


class RewriteOptions(ChangingOptions, total=False):
    """What ``recompress`` and ``convert`` take."""

    roll: bool  # close the active segments first, so that everything is rewritten


class RewriteJob(ChangingJob[Log, RewrittenPartition]):
    """Write the sealed segments of a store anew, for ``recompress`` and ``convert``.

    Parameters
    ----------
    target
        What batches are to become.
    roll
        Close the active segments first, so that everything is written anew.
    options
        Those of :class:`ChangingJob`.

    Damage in a segment is reported, and the segment stays. Where a disk fails, what was swapped
    in by then stays.
    """

    name = "rewrite"
    format_lines = staticmethod(tell)
    most_task = 256 << 20

    def __init__(
        self,
        spark: "SparkSession | None",
        path: Paths,
        target: RewriteTarget,
        *,
        roll: bool = False,
        **options: Any,
    ) -> None:
        target.check()
        super().__init__(spark, path, **options)
        self._target = target
        self._roll = roll
        self._views: list[dict[int, SegmentView]] = []
        self._reports: list[RewriteReport] = []
        self._new: list[tuple[Log, int]] = []  # segments without header checksums yet

    def resume_options(self) -> dict[str, Any]:
        # What an older kstore has done without these options is what it is without them now.
        wanted = {name: value for name, value in asdict(self._target).items() if value is not False}
        return {"name": self.name, **wanted, "roll": self._roll}

    def list_partitions(self, store: Store) -> list[Log]:
        return [log for name in matching(store, self.topic) for log in store[name]]

    def load(self, tree: dict[str, Any]) -> RewrittenPartition:
        tree["damages"] = tuple(SegmentDamage(**each) for each in tree["damages"])
        return RewrittenPartition(**tree)

    def change(
        self, partitions: Sequence[Log]
    ) -> Generator[tuple[Log, RewrittenPartition], None, None]:
        if self._roll:
            for log in partitions:
                log.roll()
        self._views = [_views(log) for log in partitions]
        self._reports = [RewriteReport() for _ in partitions]
        reports = dict(zip((log.path for log in partitions), self._reports, strict=True))

        def swap(piece: Piece, result: _Staged) -> None:
            self._swap(partitions[piece.number], piece, result)

        pieces = _pieces(partitions, self._views)
        for log, _ in self.run_pieces(
            partitions, pieces, _work, options=self._target, on_result=swap
        ):
            remove_staged(self.files, log.path)  # of attempts that failed
            self.write_checksums(self._new)
            self._new.clear()
            yield log, _report(log, reports[log.path])

    def _swap(self, log: Log, piece: Piece, result: _Staged) -> None:
        """Swap in what a task has staged for a segment."""
        report, old = self._reports[piece.number], self._views[piece.number][piece.key]
        if isinstance(result, SegmentDamage):
            report.damages.append(result)
            return
        token, segment = result
        if segment.size != old.size:
            raise CompactionAbandonedError(
                "a segment is not what it was when the job was planned", path=old.path
            )
        report.add(segment)
        if segment.new:
            writer = log._require_writer()
            with writer.state.cleaning:
                swap_in(self.files, log, writer, segment.new, old, token)
            self._new += [(log, each.base_offset) for each in segment.new]

    def describe_plan(self, partitions: Sequence[Log], parallelism: int) -> str:
        pieces = _pieces(partitions, [_views(log, roll=self._roll) for log in partitions])
        tasks, size = self.plan_pieces(pieces, parallelism), sum(each.size for each in pieces)
        which = "segments" if self._roll else "sealed segments"
        return f"{len(tasks)} tasks would write {len(pieces)} {which} anew, {size:,} bytes"


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
        found.kept_batches,
        found.merged_batches,
    )


def _views(log: Log, *, roll: bool = False) -> dict[int, SegmentView]:
    """Segments that are to be written anew, by base offset; roll: as if all were sealed."""
    views = log.segments.views
    with_last = roll and views[-1].size > 0
    return {view.base_offset: view for view in (views if with_last else views[:-1])}


def _pieces(logs: Sequence[Log], views_of: Sequence[dict[int, SegmentView]]) -> list[Piece]:
    return [
        Piece(
            number,
            log.path,
            view.base_offset,
            view.size,
            _Segment(log.config, view.base_offset, view.next_offset),
        )
        for number, (log, views) in enumerate(zip(logs, views_of, strict=True))
        for view in views.values()
    ]


# --- in an executor -------------------------------------------------------------------------------


def _work(task: Task) -> list[_Staged]:
    check_visible(task.files, task.paths)
    return [_rewrite_one(task.files, piece, task.options) for piece in task.pieces]


def _rewrite_one(files: Files, piece: Piece, target: RewriteTarget) -> _Staged:
    staged, segment = StagingArea(files, piece.path), piece.of
    try:
        rewritten = rewrite_segment(
            files, piece.path, staged, staged.directory, segment.base_offset, segment.next_offset,
            target, segment.config,
        )  # fmt: skip
    except REWRITE_ERRORS as error:  # the others go on
        return damage_of(error, piece.path)
    return staged.token, rewritten
