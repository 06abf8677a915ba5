"""``kstore spark stats``: statistics of a store's topics, from one scan of its segments."""

import argparse
import base64
import json
import zlib
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, Unpack

from kstore.errors import KStoreError
from kstore.partition_files import (
    REGISTERS,
    SPREADS,
    WIDTHS,
    BatchKind,
    Files,
    PlannedSegment,
    Rates,
    SegmentDamage,
    Spread,
    Stats,
    count_of,
    segments_of,
    survey_segments,
    was_replaced,
)
from kstore.spark.jobs.command import add_common, main, matching
from kstore.spark.jobs.partition_job import (
    JobOptions,
    PartitionJob,
    Task,
    WorkUnit,
    result_or_error,
)
from kstore.spark.jobs.reports import add_reporting
from kstore.spark.jobs.resume_file import fingerprint_segments
from kstore.spark.jobs.stats_report import PartitionStats, as_tree, report_lines
from kstore.spark.jobs.task_runner import Progress, run_tasks
from kstore.spark.session import Paths
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark stats --log-dir /data/kafka-logs
  kstore spark stats --topic 'orders.*' --html orders.html --master 'local[4]' --log-dir data
  kstore spark stats --json --resume walked.json --log-dir /data/kafka-logs > stats.json
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/stats.py --log-dir /mnt/kafka-logs

Executors scan segments with kstore's kernels and return counts, not records: sizes, rates over
time, codecs and formats, keys, offsets and their gaps, transactions. The statistics cover all
records in the files, also those below the log start offset. Counts and sums are exact; p50 and p99
are upper ends of powers of two, and the number of distinct keys is an estimate (HyperLogLog,
standard error 0.8 %).
The job changes nothing and works beside a running broker or writer. It scans a partition again that
is compacted or truncated meanwhile; one that changes during every scan is reported as not ok. A
damaged batch is named by file, position and offset, and skipped. --resume saves the reports of
finished partitions in a file until the job is done. A later run with the same file skips them, and
scans a partition again if it has changed. --dry-run shows the tasks.
Exit status: 0 if all is well, 1 for damage, or for a partition that changed during every scan.
"""


TRIES = 3  # scans of an entire partition that changes meanwhile


@dataclass(frozen=True, slots=True)
class _Partition:
    topic: str
    partition: int
    path: str
    log_start_offset: int
    segments: tuple[PlannedSegment, ...]
    fingerprint: dict[str, Any] = field(default_factory=dict)


_PartitionTask = tuple[tuple[str, ...], str, int, Files]  # directories, topic, partition


def stats(
    spark: "SparkSession", path: Paths, **options: Unpack[JobOptions]
) -> list[PartitionStats]:
    """Compute statistics of the topics of a store, in one log directory or several, on Spark.

    ``options`` are those of every job: :class:`~kstore.spark.jobs.partition_job.JobOptions`.

    Returns a report for each partition, by topic and number; its ``stats`` equal those of
    ``survey_segments``. A partition that could not be read has an ``error``. Raises
    InvalidConfigError if no topic matches, and StorageError if an executor does not see the
    directories.
    """
    return _StatsJob(spark, path, **options).run()


def _partitions(files: Files, paths: tuple[str, ...], topic: str | None) -> list[_Partition]:
    store = open_store(paths)
    return [
        _Partition(
            log.topic,
            log.partition,
            log.path,
            log.start_offset,
            tuple(segments_of(log, files)),
            fingerprint_segments(files, log),
        )
        for name in matching(store, topic)
        for log in store[name]
    ]


def _dump(report: PartitionStats) -> dict[str, Any]:
    tree = asdict(report)
    del tree["from_file"]
    stats = tree["stats"]
    stats["key_registers"] = base64.b64encode(zlib.compress(stats["key_registers"])).decode()
    windows = report.stats.rates.windows.items()
    stats["rates"]["windows"] = sorted((start, *counts) for start, counts in windows)
    return tree


def _load(tree: dict[str, Any]) -> PartitionStats:
    stats = dict(tree["stats"])
    stats["key_registers"] = _load_registers(stats["key_registers"])
    for name in SPREADS:
        stats[name] = Spread(**stats[name])
    for name in ("formats", "codecs"):
        stats[name] = {kind: BatchKind(**counts) for kind, counts in stats[name].items()}
    for attribute in fields(Stats):
        if attribute.name not in stats:
            raise KeyError(attribute.name)
        value = stats[attribute.name]
        if attribute.type in (int, int | None) and type(value) not in (int, type(None)):
            raise TypeError(f"{attribute.name} is not a number")
    if stats["rates"]["width"] not in WIDTHS:
        raise ValueError(f"rates have an unknown window width: {stats['rates']['width']!r}")
    windows = {start: (records, size) for start, records, size in stats["rates"]["windows"]}
    stats["rates"] = Rates(stats["rates"]["width"], windows)
    stats["damages"] = [SegmentDamage(**damage) for damage in stats["damages"]]
    return PartitionStats(**{**tree, "stats": Stats(**stats)})


def _load_registers(text: str) -> bytes:
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(base64.b64decode(text, validate=True), REGISTERS + 1)
    if len(data) not in (0, REGISTERS):
        raise ValueError(f"{len(data)} or more registers instead of {REGISTERS}")
    return data


class _StatsJob(PartitionJob[_Partition, PartitionStats]):
    name = "stats"

    def list_partitions(self, store: Store) -> list[_Partition]:
        return _partitions(self.files, self.paths, self.topic)

    def fingerprint(self, partition: _Partition) -> Any:
        """The fingerprint from before the scan: the next run repeats what changes during it."""
        return partition.fingerprint

    def is_final(self, report: PartitionStats) -> bool:
        return report.error is None

    def process(
        self, partitions: Sequence[_Partition]
    ) -> Generator[tuple[_Partition, PartitionStats], None, None]:
        for partition, results in self.run_units(partitions, _plan_units(partitions), _scan_task):
            yield partition, self._merge(partition, results)

    def _merge(self, of: _Partition, results: Sequence[Stats | str | None]) -> PartitionStats:
        """Add up the statistics of a partition's tasks; if they do not fit, scan it in one task.

        They do not fit if compaction moved records that one task has counted into a segment that
        another task counts later.
        """
        total, error, overlap = Stats(), None, False
        for result in results:
            if isinstance(result, str):
                error = error or result
            elif result is not None:
                overlap = overlap or total.overlaps(result)
                total.add(result)
        suspect = overlap or total.segments_changed or total.segments_gone
        if (
            error is None
            and suspect
            and (overlap or was_replaced(of.segments, of.path, self.files))
        ):
            task: _PartitionTask = (self.paths, of.topic, of.partition, self.files)
            ((_, again),) = run_tasks(self.spark, [task], _scan_partition, "kstore stats, again")
            total, error = again
        return PartitionStats(of.topic, of.partition, of.path, of.log_start_offset, total, error)

    def describe_plan(self, partitions: Sequence[_Partition], parallelism: int) -> str:
        units = _plan_units(partitions)
        tasks, size = self.plan_units(units, parallelism), sum(unit.size for unit in units)
        segments = count_of(len(units), "segment")
        return f"{count_of(len(tasks), 'task')} would scan {segments}, {size:,} bytes"

    def show(self, reports: list[PartitionStats], arguments: argparse.Namespace) -> int:
        tree = as_tree(reports)
        if arguments.html is not None:
            from kstore.spark.jobs.stats_page import html

            self.files.write_atomically(arguments.html, html(tree).encode())
        print(json.dumps(tree, indent=2) if arguments.json else "\n".join(report_lines(tree)))
        return 0 if tree["ok"] else 1

    format_lines = staticmethod(report_lines)
    dump = staticmethod(_dump)
    load = staticmethod(_load)


def _plan_units(partitions: Sequence[_Partition]) -> list[WorkUnit]:
    return [
        WorkUnit(number, partition.path, segment.base_offset, segment.size, segment)
        for number, partition in enumerate(partitions)
        for segment in partition.segments
    ]


# --- in an executor -------------------------------------------------------------------------------


def _scan_task(task: Task) -> list[Stats | str | None]:
    """For each partition, the sums over the task's segments as the first result, None as others."""
    check_visible(task.files, task.paths)
    results: list[Stats | str | None] = []
    for path, units in groupby(task.units, key=lambda unit: unit.path):
        segments = [unit.argument for unit in units]
        results += [result_or_error(survey_segments, task.files, path, segments)]
        results += [None] * (len(segments) - 1)
    return results


def _scan_partition(task: _PartitionTask) -> tuple[Stats, str | None]:
    """Scan an entire partition, again if its segments change meanwhile."""
    paths, topic, partition, files = task
    check_visible(files, paths)
    stats = Stats()
    try:
        log = open_store(paths)[topic][partition]
        for _ in range(TRIES):
            segments = segments_of(log, files)
            stats = survey_segments(files, log.path, segments)
            is_changed = stats.segments_changed or stats.segments_gone
            if not is_changed and not was_replaced(segments, log.path, files):
                return stats, None
    except KStoreError as error:  # the job continues with the other partitions
        return stats, str(error)
    return stats, (
        f"changed during each of {TRIES + 1} scans, so these figures are not exact: compaction or "
        "truncation is running; run the job again when it has finished"
    )


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_reporting(parser)
    parser.add_argument(
        "--html", metavar="FILE", help="write the report as one HTML file with plots"
    )


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    return _StatsJob.run_command(arguments, progress)


if __name__ == "__main__":
    raise SystemExit(main("stats"))
