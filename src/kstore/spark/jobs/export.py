"""``kstore spark export``: writes records to Parquet files by topic and date; resumes by offset."""

import argparse
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstore.arguments import add_time_range, whole_number
from kstore.errors import InvalidConfigError
from kstore.log.log import Log
from kstore.partition_files import DISK, Files, absolute_paths
from kstore.spark.jobs.command import add_common, main, matching, paths_of
from kstore.spark.jobs.export_target import Exported, Target, subtract
from kstore.spark.jobs.parquet_files import COMPRESSIONS, Written, write_ranges
from kstore.spark.jobs.reports import count_with_commas
from kstore.spark.jobs.restore_settings import Settings, settings_of_log_dirs
from kstore.spark.jobs.task_runner import Progress, cores, cores_of, open_session, run_tasks, silent
from kstore.spark.local_disk import local_disk
from kstore.spark.session import Paths, check_executors, to_options
from kstore.spark.source.batch_plan import report_lost_segments
from kstore.spark.source.data_loss import LostOffsets
from kstore.spark.source.offset_ranges import OffsetRange, Plan, plan_ranges
from kstore.spark.source.options import SourceOptions, parse_source
from kstore.spark.source.range_reader import check_visible, open_store
from kstore.spark.source.read_task import read_ranges
from kstore.spark.source.snapshot import take_snapshot
from kstore.spark.source.time_bounds import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\
examples:
  kstore spark export --log-dir /data/kafka-logs --target /lake/kafka
  kstore spark export --topic 'orders.*' --since 2024-05-01T00:00Z --log-dir data --target out
  kstore spark export --dry-run --log-dir data --target out
  spark-submit --master spark://host:7077 .../kstore/spark/jobs/export.py \\
    --log-dir /mnt/kafka-logs --target /mnt/lake

Files are topic=NAME/date=YYYY-MM-DD/PARTITION-FIRST-LAST.parquet (date of the record, UTC), with
the columns of Spark's Kafka connector. Each file appears complete and never changes. Another run
exports the new records; after an interruption it continues. TARGET/_kstore_export, which readers of
Parquet ignore, keeps the exported offsets; remove the target to start over.
The export fails if segments of wanted offsets are lost. With --fail-on-data-loss false it warns,
names these offsets in the report, and does not count them as exported.
The target is a directory that the driver and every executor see under the same path.
The job reads beside a running broker or writer and changes nothing in the log directories.
"""

FILE_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class _Task:
    source: SourceOptions
    ranges: tuple[OffsetRange, ...]
    folder: str
    tag: str
    compression: str


@dataclass(slots=True)
class ExportReport:
    """The files that one run wrote: sums in total and by topic."""

    target: str
    records: int = 0
    files: int = 0
    parquet_bytes: int = 0
    log_bytes: int = 0
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    lost: list[LostOffsets] = field(default_factory=list)  # missing in the log, not exported

    def add(self, written: Iterable[Written]) -> None:
        for file in written:
            empty = {"records": 0, "files": 0, "parquet_bytes": 0}
            topic = self.topics.setdefault(file.topic, empty)
            topic["records"] += file.records
            topic["files"] += 1
            topic["parquet_bytes"] += file.size
            self.records += file.records
            self.files += 1
            self.parquet_bytes += file.size


def export(
    spark: "SparkSession",
    path: Paths,
    target: str | os.PathLike[str],
    *,
    topic: str | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    compression: str = "snappy",
    file_size: int = FILE_SIZE,
    isolation: str = "read_uncommitted",
    fail_on_data_loss: bool = True,
    progress: Progress = silent,
    files: Files = DISK,
) -> ExportReport:
    """Write the records that are not in the target yet to Parquet files, without the JVM.

    Parameters
    ----------
    path
        A log directory, or several that form one store.
    target
        A directory, created if missing, that every executor sees under the same path.
    topic
        A regular expression for topic names; None: all topics except Kafka's internal ones.
    since, until
        In each partition, the records from the first one at or after ``since`` to before the first
        one at or after ``until``: aware datetimes, or milliseconds.
    compression
        Of the Parquet files: snappy, zstd, lz4, gzip or none.
    file_size
        Bytes of log for each file, approximately; a file has records of one date only.
    isolation
        ``read_committed`` ends at the last stable offset and skips aborted transactions.
    fail_on_data_loss
        False: log a warning for offsets that are lost, or that retention deletes during the run,
        and list them in the report's ``lost``. They do not count as exported.

    Each record is exported exactly once, whenever a run is interrupted. Memory of a task: that of
    reading, 32 MiB of records as Arrow, and the same records encoded.

    Raises CorruptRecordError if segments with wanted offsets are lost, OffsetOutOfRangeError if
    retention deletes wanted offsets during the run, InvalidConfigError if no topic matches or the
    target has records of another log, and StorageError if an executor does not see a directory or
    another export writes to the target.
    """
    paths = absolute_paths(path)
    directory = absolute_paths([target])[0]
    if compression not in COMPRESSIONS:
        raise InvalidConfigError(f"compression is one of {', '.join(COMPRESSIONS)}")
    check_executors(spark, paths, files)
    source = _source(paths, topic, since, until, isolation, fail_on_data_loss)
    report = ExportReport(directory)
    with Target(directory, files, isolation=isolation) as store:
        check_executors(spark, (store.staged,), files)
        for name, settings in _settings(files, source).items():
            store.note_settings(name, dict(settings))
        plan, report.lost = _plan(source, store, cores(spark), file_size)
        tag = uuid.uuid4().hex
        tasks = [_Task(source, ranges, store.staged, tag, compression) for ranges in plan.tasks]
        with closing(run_tasks(spark, tasks, _export_task, "kstore export")) as results:
            for number, (written, lost) in results:
                report.lost += lost
                store.publish(_exported(tasks[number].ranges, report.lost), written)
                report.add(written)
                report.log_bytes += _size(tasks[number].ranges)
                progress(report.log_bytes, plan.size, tasks[number].ranges[0].topic)
        store.finish()
    report.lost.sort()
    return report


def _exported(
    ranges: Sequence[OffsetRange], lost: Sequence[LostOffsets]
) -> Iterator[tuple[str, str | None, int, int, int]]:
    """The offsets of a task's ranges that count as exported: all but the lost ones."""
    for each in ranges:
        identity = None if each.identity is None else each.identity.text
        partition = each.topic, each.partition
        missing = sorted((o.start, o.stop) for o in lost if (o.topic, o.partition) == partition)
        for start, stop in subtract(each.start, each.stop, missing):
            yield each.topic, identity, each.partition, start, stop


def _size(ranges: Sequence[OffsetRange]) -> int:
    return sum(each.size for each in ranges)


def _source(
    paths: tuple[str, ...],
    topic: str | None,
    since: datetime | int | None,
    until: datetime | int | None,
    isolation: str,
    fail_on_data_loss: bool,
) -> SourceOptions:
    names = matching(open_store(paths), topic, internal=False)
    options: dict[str, Any] = {"isolation": isolation, "failOnDataLoss": fail_on_data_loss}
    return parse_source(to_options(list(paths), topics=names, since=since, until=until, **options))


def _settings(files: Files, source: SourceOptions) -> dict[str, Settings]:
    """The settings with which a restore creates the topics."""
    return settings_of_log_dirs(files, open_store(source.paths), source.paths, source.topics)


def _plan(
    source: SourceOptions, exported: Exported, parallelism: int, file_size: int
) -> tuple[Plan, list[LostOffsets]]:
    """Plan tasks for the wanted offsets that are not exported yet, and list the lost ones.

    Raises CorruptRecordError for lost offsets, unless ``failOnDataLoss`` is false.
    """
    store = open_store(source.paths)
    snapshot = take_snapshot(store, source)
    starts = resolve(store, snapshot, source.starting, source)
    stops = resolve(store, snapshot, source.ending, source)
    logs: list[tuple[Log, int, int]] = []
    for tp, (_, end) in snapshot.extents.items():
        topic, partition = tp
        wanted = (0 if source.starting.is_earliest(tp) else starts[tp], stops[tp])
        intervals = exported.left(topic, snapshot.identities[topic], partition, wanted, end)
        logs += [(store[topic][partition], low, high) for low, high in intervals]
    plan = plan_ranges(
        [(log, max(low, starts[log.topic, log.partition]), high) for log, low, high in logs],
        parallelism=parallelism,
        max_bytes=file_size,
        identities=snapshot.identities,
    )
    return plan, report_lost_segments(logs, source.fail_on_data_loss)


def _export_task(task: _Task) -> tuple[list[Written], list[LostOffsets]]:
    """In an executor: write the files of a task's ranges; also returns the missing offsets."""
    check_visible(local_disk(), (task.folder,))
    lost: list[LostOffsets] = []
    records = read_ranges(task.source, task.ranges, lost)
    return write_ranges(records, task.folder, task.tag, task.compression), lost


# --- the command ----------------------------------------------------------------------------------


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    parser.add_argument(
        "--target", required=True, metavar="DIR", help="REQUIRED: the directory of the files"
    )
    add_time_range(parser)
    parser.add_argument("--compression", choices=COMPRESSIONS, default="snappy")
    parser.add_argument(
        "--file-size",
        type=whole_number(1, 1 << 40),
        default=FILE_SIZE >> 20,
        metavar="MIB",
        help="size of the log range of one file, approximately (default: 256)",
    )
    parser.add_argument(
        "--isolation", choices=("read_uncommitted", "read_committed"), default="read_uncommitted"
    )
    parser.add_argument(
        "--fail-on-data-loss",
        choices=("true", "false"),
        default="true",
        help="false: warn about lost offsets, and list them in the report",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    parser.add_argument("--dry-run", action="store_true", help="show the tasks, write nothing")


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    paths = paths_of(arguments)
    since, until = arguments.since, arguments.until
    size = arguments.file_size << 20
    fail = arguments.fail_on_data_loss == "true"
    if arguments.dry_run:
        source = _source(paths, arguments.topic, since, until, arguments.isolation, fail)
        target = absolute_paths([arguments.target])[0]
        exported = Exported(target, isolation=arguments.isolation)
        plan, lost = _plan(source, exported, cores_of(arguments.master), size)
        print("\n".join([*lost_lines(lost), f"would export: {plan}"]))
        return 0
    with open_session(arguments.master, "kstore export") as spark:
        report = export(
            spark,
            paths,
            arguments.target,
            topic=arguments.topic,
            since=since,
            until=until,
            compression=arguments.compression,
            file_size=size,
            isolation=arguments.isolation,
            fail_on_data_loss=fail,
            progress=progress,
        )
    print(
        json.dumps(asdict(report), indent=2) if arguments.json else "\n".join(format_lines(report))
    )
    return 0


def _written(records: int, files: int) -> str:
    return f"{count_with_commas(records, 'record')} in {count_with_commas(files, 'file')}"


def format_lines(report: ExportReport) -> list[str]:
    """A line for each range of lost offsets and each topic with new records, and a summary."""
    lines = [
        f"{name}: {_written(topic['records'], topic['files'])}, {topic['parquet_bytes']:,} bytes"
        for name, topic in sorted(report.topics.items())
    ]
    return [
        *lost_lines(report.lost),
        *lines,
        f"{_written(report.records, report.files)}: {report.log_bytes:,} bytes of log "
        f"became {report.parquet_bytes:,} bytes of Parquet in {report.target}",
    ]


def lost_lines(lost: Sequence[LostOffsets]) -> list[str]:
    return [
        f"{each.topic}-{each.partition}: offsets {each.start} to {each.stop - 1} are lost and "
        "not exported"
        for each in lost
    ]


if __name__ == "__main__":
    raise SystemExit(main("export"))
