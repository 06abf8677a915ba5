"""``kstore spark verify``: the engine's audit, in parallel by segment on all executors."""

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
    count_of,
    find_logs,
    find_missing_folders,
    finding_lines,
    merge_reports,
    plan_ranges,
    state_of,
    status_of,
    verify_range,
    warn_of_undecodable_keys,
)
from kstore.spark.jobs.command import add_common, main, matching, wanted_topics
from kstore.spark.jobs.partition_job import JobOptions, PartitionJob, Task, WorkUnit, process_units
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

Executors audit segments with the functions of `kstore verify` and return findings, not records; the
report equals that of `kstore verify`. The job changes nothing and works beside a running broker or
writer. It names a corrupt segment by file, position and offset, and continues.
--resume saves the reports of finished partitions in a file until the job is done. A later run with
the same file skips them, and audits a partition again if it has changed. --dry-run shows the tasks.
Exit status: 0 if all is well, 1 for damage or for a read error, 3 for warnings only.
"""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The audit of one partition.

    ``report`` is empty if the partition could not be read (``error`` says why), or if it was
    deleted while the job ran (``is_deleted``).
    """

    topic: str
    partition: int
    path: str
    report: VerifyReport
    error: str | None = None
    from_file: str | None = field(default=None, compare=False)  # when an earlier run saved it
    is_deleted: bool = False

    @property
    def ok(self) -> bool:
        return self.error is None and self.report.ok


@dataclass(frozen=True, slots=True)
class _Range:
    """Consecutive segments of a partition, which one task audits."""

    topic: str
    partition: int
    segments: SegmentRange


@dataclass(frozen=True, slots=True)
class _Audit:
    """The audit of a range; ``keys`` has the warnings about keys of ``__consumer_offsets``."""

    segments: SegmentRangeReport
    keys: VerifyReport


_AuditOrError = _Audit | str


def verify(
    spark: "SparkSession", path: Paths, **options: Unpack[JobOptions]
) -> list[PartitionReport]:
    """Audit the partitions of a store, in a log directory or several, on Spark's executors.

    ``options`` are those of every job: :class:`~kstore.spark.jobs.partition_job.JobOptions`.

    Returns a report for each partition, by topic and number: what ``Log.verify`` returns. A
    partition that could not be read has an ``error``; one that was deleted while the job ran is
    marked ``is_deleted``. Raises InvalidConfigError if no topic matches, and StorageError if an
    executor does not see the directories.
    """
    return _Verify(spark, path, **options).run()


def _missing(files: Files, paths: tuple[str, ...], pattern: str | None) -> list[PartitionReport]:
    """Reports on the partitions whose directory is missing."""
    wanted = wanted_topics(pattern)
    return [
        PartitionReport(missing.topic, missing.partition, missing.path, missing.report)
        for missing in find_missing_folders(files, paths)
        if wanted.fullmatch(missing.topic)
    ]


@dataclass(frozen=True, slots=True)
class _Partition:
    topic: str
    partition: int
    path: str
    segments: tuple[tuple[int, int], ...]  # base offset, size
    fingerprint: dict[str, Any]
    inode: int | None = None  # of its directory


def _partitions(files: Files, paths: tuple[str, ...], topic: str | None) -> list[_Partition]:
    """The partitions that exist, without those that are deleted during the listing."""
    store = open_store(paths)
    partitions = []
    for found in find_logs(store, matching(store, topic))[0]:
        log = found.log
        try:
            segments = tuple((view.base_offset, view.size) for view in log.segments.views)
            fingerprint = {
                "log_start": log.start_offset,
                "files": fingerprint_folder(files, log.path),
            }
        except KStoreError:
            if found.exists():
                raise
            continue
        partitions.append(
            _Partition(log.topic, log.partition, log.path, segments, fingerprint, found.inode)
        )
    return partitions


def report_lines(reports: Sequence[PartitionReport]) -> list[str]:
    """A line for each partition, its findings below it, and a summary."""
    lines = []
    for each in reports:
        report = each.report
        if each.is_deleted:
            lines.append(f"{each.topic}-{each.partition}: skipped, deleted while the job ran")
            continue
        state = each.error or state_of(report)
        lines.append(
            f"{each.topic}-{each.partition}: {state} ({count_of(report.segments, 'segment')}, "
            f"{count_of(report.batches, 'batch', 'es')}, {report.bytes} bytes)"
        )
        lines += finding_lines(report)
    size = sum(each.report.bytes for each in reports)
    lines += from_file_lines(as_tree(reports))
    warned = sum(each.ok and each.report.warning_count > 0 for each in reports)
    warnings = f", {warned} with warnings" if warned else ""
    existing = [each for each in reports if not each.is_deleted]
    return [*lines, f"{verdict(existing)}{warnings} ({size} bytes)"]


class _Verify(PartitionJob[_Partition, PartitionReport]):
    name = "verify"
    format_lines = staticmethod(report_lines)

    def list_partitions(self, store: Store) -> list[_Partition]:
        return _partitions(self.files, self.paths, self.topic)

    def fingerprint(self, partition: _Partition) -> Any:
        """The fingerprint from before the audit: the next run repeats what changes during it."""
        return partition.fingerprint

    def is_final(self, report: PartitionReport) -> bool:
        return report.error is None

    def process(
        self, partitions: Sequence[_Partition]
    ) -> Generator[tuple[_Partition, PartitionReport], None, None]:
        units = _plan_units(partitions, cores(self.spark))
        for partition, results in self.run_units(partitions, units, _verify_task):
            yield partition, _check_deleted(self.files, partition, self._merge(partition, results))

    def _merge(self, partition: _Partition, results: list[_AuditOrError]) -> PartitionReport:
        """Merge the audits of a partition's ranges; if they do not merge, audit it in one task."""
        topic, number, path = partition.topic, partition.partition, partition.path
        audits = [result for result in results if not isinstance(result, str)]
        is_complete = len(audits) == len(results)
        merged = merge_reports([audit.segments for audit in audits]) if is_complete else None
        if merged is None:
            # Retention deleted a segment, segments overlap, or a transaction spans ranges.
            everything = _Range(topic, number, SegmentRange())
            task = Task(self.paths, (WorkUnit(0, path, 0, 0, everything),), self.files)
            ((_, (result,)),) = run_tasks(self.spark, [task], _verify_task, "kstore verify, again")
            if isinstance(result, str):
                return PartitionReport(topic, number, path, VerifyReport(), result)
            merged, audits = result.segments.report, [result]
        if merged.ok:  # as `kstore verify`, which does not decode keys of a damaged log
            for audit in audits:
                merged.merge(audit.keys, MAX_FINDINGS)
        return PartitionReport(topic, number, path, merged)

    def describe_plan(self, partitions: Sequence[_Partition], parallelism: int) -> str:
        units = _plan_units(partitions, parallelism)
        tasks = self.plan_units(units, parallelism)
        size = sum(unit.size for unit in units)
        return f"{count_of(len(tasks), 'task')} would verify {size:,} bytes"

    def show(self, reports: list[PartitionReport], arguments: argparse.Namespace) -> int:
        return super().show(reports, arguments) or status_of(each.report for each in reports)

    def run(self) -> list[PartitionReport]:
        return super().run() + _missing(self.files, self.paths, self.topic)

    def load(self, tree: dict[str, Any]) -> PartitionReport:
        fields = dict(tree["report"])
        for name in ("findings", "warnings", "in_flight", "recovery_due"):
            fields[name] = [Finding(**finding) for finding in fields.get(name, ())]
        return PartitionReport(**{**tree, "report": VerifyReport(**fields)})


def _plan_units(partitions: Sequence[_Partition], parallelism: int) -> list[WorkUnit]:
    total = sum(size for partition in partitions for _, size in partition.segments)
    target = task_size(total, parallelism)
    units = []
    for number, partition in enumerate(partitions):
        for segments in plan_ranges(partition.segments, target):
            key = -1 if segments.start is None else segments.start
            argument = _Range(partition.topic, partition.partition, segments)
            units.append(WorkUnit(number, partition.path, key, segments.size, argument))
    return units


def _check_deleted(files: Files, planned: _Partition, report: PartitionReport) -> PartitionReport:
    """The report; marked ``is_deleted`` if the directory is not the one that was listed."""
    identity = files.identity_of(planned.path)
    if identity is not None and identity[0] == planned.inode:
        return report
    return replace(report, report=VerifyReport(), error=None, is_deleted=True)


# --- in an executor -------------------------------------------------------------------------------


def _verify_task(task: Task) -> list[_AuditOrError]:
    states = StateReader(task.files)
    return process_units(task, lambda files, unit: _verify_range(task, unit, states))


def _verify_range(task: Task, unit: WorkUnit, states: StateReader) -> _Audit:
    of: _Range = unit.argument
    report = verify_range(task.files, unit.path, of.segments, states=states)
    audit = _Audit(report, VerifyReport())
    if of.topic == OFFSETS_TOPIC and report.report.ok:
        log = open_store(task.paths)[of.topic][of.partition]
        warn_of_undecodable_keys(audit.keys, log, of.segments.start, of.segments.stop)
    return audit


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_reporting(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _Verify.run_command(arguments, progress)


if __name__ == "__main__":
    raise SystemExit(main("verify"))
