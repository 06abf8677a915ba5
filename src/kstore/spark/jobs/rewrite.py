"""The job behind ``recompress`` and ``convert``: rewrites rolled segments in parallel.

Executors stage the new segments. The driver, which holds the store's one-writer lock, swaps each
one in as soon as it is staged, as compaction does.
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
    count_of,
    damage_of,
    remove_staged,
    rewrite_segment,
    swap_in,
)
from kstore.report_lines import damage_lines, rewrite_line
from kstore.spark.jobs.command import matching
from kstore.spark.jobs.partition_job import ChangingJob, ChangingOptions, Task, WorkUnit
from kstore.spark.jobs.reports import as_tree, from_file_lines, verdict
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import check_visible
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RewrittenPartition:
    """The result for the rolled segments of one partition."""

    topic: str
    partition: int
    path: str
    segments: int
    rewritten: int
    bytes_before: int
    bytes_after: int
    damages: tuple[SegmentDamage, ...] = ()  # why segments are unchanged
    kept_batches: int = 0  # unchanged, because the codec would make them larger
    merged_batches: int = 0  # appended to the batch before them
    from_file: str | None = field(default=None, compare=False)  # when an earlier run saved it

    @property
    def ok(self) -> bool:
        return not self.damages


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment to rewrite."""

    config: LogConfig
    base_offset: int
    next_offset: int


_Staged = tuple[str, RewrittenSegment] | SegmentDamage  # staging token and new segment, or why not


def report_lines(reports: Sequence[RewrittenPartition]) -> list[str]:
    """A line for each partition, the damaged segments below it, and a summary."""
    lines = []
    for report in reports:
        lines.append(f"{report.topic}-{report.partition}: {rewrite_line(report, report.segments)}")
        lines += damage_lines(report.damages)
    before, after = sum(r.bytes_before for r in reports), sum(r.bytes_after for r in reports)
    lines += from_file_lines(as_tree(reports))
    return [*lines, f"{verdict(reports)} ({before} bytes to {after})"]


class RewriteOptions(ChangingOptions, total=False):
    """The options of ``recompress`` and ``convert``."""

    roll: bool  # roll the active segments first, so that all segments are rewritten


class RewriteJob(ChangingJob[Log, RewrittenPartition]):
    """Rewrites the rolled segments of a store, for ``recompress`` and ``convert``.

    Parameters
    ----------
    target
        The codec and the format of the new batches.
    roll
        Roll the active segments first, so that all segments are rewritten.
    options
        Those of :class:`ChangingJob`.

    A damaged segment is reported and stays unchanged. After a disk failure, the segments that were
    swapped in before it stay.
    """

    name = "rewrite"
    format_lines = staticmethod(report_lines)
    max_task_size = 256 << 20

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
        self._without_checksums: list[tuple[Log, int]] = []  # new segments, by base offset

    def resume_options(self) -> dict[str, Any]:
        # Options that are False are omitted: a resume file of an older kstore has no such options.
        target = {name: value for name, value in asdict(self._target).items() if value is not False}
        return {"name": self.name, **target, "roll": self._roll}

    def list_partitions(self, store: Store) -> list[Log]:
        return [log for name in matching(store, self.topic) for log in store[name]]

    def load(self, tree: dict[str, Any]) -> RewrittenPartition:
        tree["damages"] = tuple(SegmentDamage(**damage) for damage in tree["damages"])
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

        def swap(unit: WorkUnit, result: _Staged) -> None:
            self._swap(partitions[unit.number], unit, result)

        units = _plan_units(partitions, self._views)
        for log, _ in self.run_units(
            partitions, units, _rewrite_task, options=self._target, on_result=swap
        ):
            remove_staged(self.files, log.path)  # left by failed attempts
            self.write_checksums(self._without_checksums)
            self._without_checksums.clear()
            yield log, _report(log, reports[log.path])

    def _swap(self, log: Log, unit: WorkUnit, result: _Staged) -> None:
        """Replace a segment by those that a task has staged for it."""
        report, old = self._reports[unit.number], self._views[unit.number][unit.key]
        if isinstance(result, SegmentDamage):
            report.damages.append(result)
            return
        token, segment = result
        if segment.size != old.size:
            raise CompactionAbandonedError(
                "the segment has changed since the job was planned", path=old.path
            )
        report.add(segment)
        if segment.new:
            writer = log._require_writer()
            with writer.state.cleaning:
                swap_in(self.files, log, writer, segment.new, old, token)
            self._without_checksums += [(log, new.base_offset) for new in segment.new]

    def describe_plan(self, partitions: Sequence[Log], parallelism: int) -> str:
        units = _plan_units(partitions, [_views(log, roll=self._roll) for log in partitions])
        tasks, size = self.plan_units(units, parallelism), sum(unit.size for unit in units)
        segments = count_of(len(units), "segment" if self._roll else "rolled segment")
        return f"{count_of(len(tasks), 'task')} would rewrite {segments}, {size:,} bytes"


def _report(log: Log, report: RewriteReport) -> RewrittenPartition:
    return RewrittenPartition(
        log.topic,
        log.partition,
        log.path,
        report.segments + len(report.damages),
        report.rewritten,
        report.bytes_before,
        report.bytes_after,
        tuple(report.damages),
        report.kept_batches,
        report.merged_batches,
    )


def _views(log: Log, *, roll: bool = False) -> dict[int, SegmentView]:
    """The segments to rewrite, by base offset; with ``roll`` also the active one, unless empty."""
    views = log.segments.views
    with_active = roll and views[-1].size > 0
    return {view.base_offset: view for view in (views if with_active else views[:-1])}


def _plan_units(logs: Sequence[Log], views_of: Sequence[dict[int, SegmentView]]) -> list[WorkUnit]:
    return [
        WorkUnit(
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


def _rewrite_task(task: Task) -> list[_Staged]:
    check_visible(task.files, task.paths)
    return [_rewrite_one(task.files, unit, task.options) for unit in task.units]


def _rewrite_one(files: Files, unit: WorkUnit, target: RewriteTarget) -> _Staged:
    staged, segment = StagingArea(files, unit.path), unit.argument
    try:
        rewritten = rewrite_segment(
            files, unit.path, staged, staged.directory, segment.base_offset, segment.next_offset,
            target, segment.config,
        )  # fmt: skip
    except REWRITE_ERRORS as error:  # the task continues with its other segments
        return damage_of(error, unit.path)
    return staged.token, rewritten
