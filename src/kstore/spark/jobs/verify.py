"""``kstore spark verify``: the engine's audit, segments side by side on all executors."""

import argparse
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from kstore.errors import KStoreError
from kstore.partition_files import (
    MAX_FINDINGS,
    OFFSETS_TOPIC,
    Files,
    Finding,
    SegmentRange,
    SegmentRangeReport,
    StateReader,
    VerifyReport,
    find_logs,
    find_missing_folders,
    finding_lines,
    merge_parts,
    plan_parts,
    state_of,
    status_of,
    verify_part,
    warn_of_undecodable_keys,
)
from kstore.spark.jobs.command import add_common, main, matching, wanted_topics
from kstore.spark.jobs.partition_job import JobOptions, PartitionJob, Piece, Task, work_on
from kstore.spark.jobs.reports import add_reporting, as_tree, from_file_lines, verdict
from kstore.spark.jobs.resume_file import fingerprint_folder
from kstore.spark.jobs.task_runner import Progress, cores, run_tasks, task_size
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import open_store
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark verify --log-dir /data/kafka-logs
  kstore spark verify --topic 'orders.*' --master 'local[4]' --log-dir data
  kstore spark verify --json --log-dir data > report.json
  kstore spark verify --resume checked.json --log-dir /data/kafka-logs
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/verify.py --log-dir /mnt/kafka-logs

Every executor audits segments with kstore's own verify and sends back what it found, no records;
the report is that of `kstore verify` on one machine. Changes nothing, and works beside a running
broker or writer. A damaged segment is named by file, position and offset, and the job goes on.
--resume keeps the reports of partitions that are done in a file, until all are, and goes on behind
them after a stop; a partition that is not what it was is audited again. --dry-run shows the tasks.
Exit status: 0 if all is well, 1 for damage or what could not be read, 3 for warnings only.
"""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The audit of one partition; ``error`` says why there is none, where it could not be read.

    With ``is_deleted`` there is none either: the partition was deleted while the job ran.
    """

    topic: str
    partition: int
    path: str
    report: VerifyReport
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run made it
    is_deleted: bool = False

    @property
    def ok(self) -> bool:
        return self.error is None and self.report.ok


@dataclass(frozen=True, slots=True)
class _Range:
    """What a task audits: some segments of a partition."""

    topic: str
    partition: int
    part: SegmentRange


@dataclass(frozen=True, slots=True)
class _Audited:
    """The audit of a range; ``keys`` has warnings of keys of ``__consumer_offsets``."""

    part: SegmentRangeReport
    keys: VerifyReport


_Found = _Audited | str  # or why there is none


def verify(
    spark: "SparkSession", path: Paths, **options: Unpack[JobOptions]
) -> list[PartitionReport]:
    """Audit the partitions of a store, in a log directory or several, on Spark's executors.

    ``options`` are those of every job: :class:`~kstore.spark.jobs.partition_job.JobOptions`.

    Returns a report for each partition, by topic and number: what ``Log.verify`` returns. A
    partition that could not be read has an ``error``, one that was deleted while the job ran is
    marked ``is_deleted``. Raises InvalidConfigError where no topic
    matches, StorageError where an executor does not see the directories.
    """
    return _Verify(spark, path, **options).run()


def _missing(files: Files, paths: tuple[str, ...], pattern: str | None) -> list[PartitionReport]:
    """The partitions whose folder is gone."""
    missing = find_missing_folders(files, paths)
    wanted = wanted_topics(pattern)
    return [
        PartitionReport(each.topic, each.partition, each.path, each.report)
        for each in missing
        if wanted.fullmatch(each.topic)
    ]


@dataclass(frozen=True, slots=True)
class _Partition:
    topic: str
    partition: int
    path: str
    segments: tuple[tuple[int, int], ...]  # base offset, size
    fingerprint: dict[str, Any]
    inode: int | None = None  # of its folder


def _partitions(files: Files, paths: tuple[str, ...], topic: str | None) -> list[_Partition]:
    """Those that are there; a topic that is deleted meanwhile is left out."""
    store = open_store(paths)
    partitions = []
    for found in find_logs(store, matching(store, topic))[0]:
        log = found.log
        try:
            segments = tuple((view.base_offset, view.size) for view in log.segments.views)
            of = {"log_start": log.start_offset, "files": fingerprint_folder(files, log.path)}
        except KStoreError:
            if found.exists():
                raise
            continue
        partitions.append(_Partition(log.topic, log.partition, log.path, segments, of, found.inode))
    return partitions


def tell(reports: Sequence[PartitionReport]) -> list[str]:
    """A line for each partition, its findings below it, and the sum."""
    lines = []
    for each in reports:
        report = each.report
        if each.is_deleted:
            lines.append(f"{each.topic}-{each.partition}: left out, it was deleted meanwhile")
            continue
        state = each.error or state_of(report)
        lines.append(
            f"{each.topic}-{each.partition}: {state} ({report.segments} segments, "
            f"{report.batches} batches, {report.bytes} bytes)"
        )
        lines += finding_lines(report)
    size = sum(each.report.bytes for each in reports)
    lines += from_file_lines(as_tree(reports))
    warned = sum(each.ok and each.report.warning_count > 0 for each in reports)
    warnings = f", {warned} with warnings" if warned else ""
    there = [each for each in reports if not each.is_deleted]
    return [*lines, f"{verdict(there)}{warnings} ({size} bytes)"]


class _Verify(PartitionJob[_Partition, PartitionReport]):
    name = "verify"
    format_lines = staticmethod(tell)

    def list_partitions(self, store: Store) -> list[_Partition]:
        return _partitions(self.files, self.paths, self.topic)

    def fingerprint(self, partition: _Partition) -> Any:
        """As planned: what changes during the audit is audited again."""
        return partition.fingerprint

    def is_final(self, report: PartitionReport) -> bool:
        return report.error is None

    def process(
        self, partitions: Sequence[_Partition]
    ) -> Generator[tuple[_Partition, PartitionReport], None, None]:
        pieces = _pieces(partitions, cores(self.spark))
        for partition, parts in self.run_pieces(partitions, pieces, _work):
            yield partition, _if_there(self.files, partition, self._merge(partition, parts))

    def _merge(self, of: _Partition, parts: list[_Found]) -> PartitionReport:
        """A report from its parts; audited again as a whole where they do not add up."""
        reports = [part for part in parts if not isinstance(part, str)]
        is_complete = len(reports) == len(parts)
        merged = merge_parts([each.part for each in reports]) if is_complete else None
        if merged is None:
            # Retention removed a segment meanwhile, segments overlap, or a transaction spans parts.
            everything = _Range(of.topic, of.partition, SegmentRange())
            again = [Task(self.paths, (Piece(0, of.path, 0, 0, everything),), self.files)]
            ((_, (result,)),) = run_tasks(self.spark, again, _work, "kstore verify, again")
            if isinstance(result, str):
                return PartitionReport(of.topic, of.partition, of.path, VerifyReport(), result)
            merged, reports = result.part.report, [result]
        if merged.ok:  # as on one machine
            for each in reports:
                merged.merge(each.keys, MAX_FINDINGS)
        return PartitionReport(of.topic, of.partition, of.path, merged)

    def describe_plan(self, partitions: Sequence[_Partition], parallelism: int) -> str:
        pieces = _pieces(partitions, parallelism)
        tasks = self.plan_pieces(pieces, parallelism)
        return f"{len(tasks)} tasks would verify {sum(each.size for each in pieces):,} bytes"

    def show(self, reports: list[PartitionReport], arguments: argparse.Namespace) -> int:
        return super().show(reports, arguments) or status_of(each.report for each in reports)

    def run(self) -> list[PartitionReport]:
        return super().run() + _missing(self.files, self.paths, self.topic)

    def load(self, tree: dict[str, Any]) -> PartitionReport:
        found = dict(tree["report"])
        for name in ("findings", "warnings", "in_flight", "recovery_due"):
            found[name] = [Finding(**each) for each in found.get(name, ())]
        return PartitionReport(**{**tree, "report": VerifyReport(**found)})


def _pieces(partitions: Sequence[_Partition], parallelism: int) -> list[Piece]:
    target = task_size(sum(size for each in partitions for _, size in each.segments), parallelism)
    return [
        Piece(number, each.path, -1 if part.start is None else part.start, part.size, of)
        for number, each in enumerate(partitions)
        for part in plan_parts(each.segments, target)
        for of in [_Range(each.topic, each.partition, part)]
    ]


def _if_there(files: Files, planned: _Partition, report: PartitionReport) -> PartitionReport:
    """The report, where the folder is still the one that was listed; else that it was deleted."""
    now = files.identity_of(planned.path)
    if now is not None and now[0] == planned.inode:
        return report
    return replace(report, report=VerifyReport(), error=None, is_deleted=True)


# --- in an executor -------------------------------------------------------------------------------


def _work(task: Task) -> list[_Found]:
    states = StateReader(task.files)
    return work_on(task, lambda files, piece: _audit(task, piece, states))


def _audit(task: Task, piece: Piece, states: StateReader) -> _Audited:
    of: _Range = piece.of
    audited = _Audited(verify_part(task.files, piece.path, of.part, states=states), VerifyReport())
    if of.topic == OFFSETS_TOPIC and audited.part.report.ok:
        log = open_store(task.paths)[of.topic][of.partition]
        warn_of_undecodable_keys(audited.keys, log, of.part.start, of.part.stop)
    return audited


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_reporting(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _Verify.run_command(arguments, progress)


if __name__ == "__main__":
    from kstore.spark.jobs import verify as job  # tasks find its functions by this name

    raise SystemExit(main("verify", job.describe, job.run))
