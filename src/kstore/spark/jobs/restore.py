"""``kstore spark restore``: restores segments or Parquet into a log directory or a cluster."""

import argparse
import logging
import os
import re
import uuid
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kstore.arguments import add_time_range, partition_numbers, read_properties, whole_number
from kstore.config import CODECS
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX
from kstore.partition_files import DISK, Files, Paths, absolute_paths, count_of
from kstore.record import codec
from kstore.spark.jobs.command import absolute_of, main, parse_pairs, topic_pattern
from kstore.spark.jobs.reports import show
from kstore.spark.jobs.restore_driver import RestoreDriver
from kstore.spark.jobs.restore_plan import (
    Source,
    chunks_from,
    plan_parquet,
    plan_segments,
    source_of,
)
from kstore.spark.jobs.restore_types import Encoding, Filter, RestoredPartition
from kstore.spark.jobs.resume_file import ResumeFile
from kstore.spark.jobs.store_changes import LOCK_TIMEOUT_MS, add_flags
from kstore.spark.jobs.task_runner import Progress, open_session, silent
from kstore.spark.session import check_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger("kstore")

EPILOG = """\
examples:
  kstore spark restore --from backup --log-dir data
  kstore spark restore --parquet export --keep-offsets --resume state.json --log-dir data
  kstore spark restore --parquet export --since 1700000000000 --rename orders=again --log-dir data
  kstore spark restore --from /backup/kafka-logs --bootstrap-server kafka:9092 --resume state.json

The source is a log directory (kstore's or Kafka's) or Parquet with the columns of `kstore spark
export`; the target is a log directory or a cluster. Partition numbers, keys, values, headers and
timestamps are kept; of transactions only the committed records are restored (--isolation). Lost
segments fail the restore (--fail-on-data-loss).
A restore into a directory appends all records and publishes them at once, or none. With
--keep-offsets it appends to empty partitions, keeps the offsets, and continues after an
interrupted run. A restore into a cluster sends records in order, each at least once: records sent
after the last entry of the --resume file are sent again.
Exit status: 0 if all is well, 1 if not.
"""


def restore(
    spark: "SparkSession",
    to: Paths | None = None,
    *,
    log_dirs: Paths | None = None,
    parquet: str | Sequence[str] | None = None,
    bootstrap_server: str | None = None,
    client: Mapping[str, Any] | None = None,
    keep_offsets: bool = False,
    topic: str | None = None,
    partitions: Sequence[int] | None = None,
    rename: Mapping[str, str] | None = None,
    chosen: Filter | None = None,
    config: Mapping[str, str] | None = None,
    isolation: str = "read_committed",
    fail_on_data_loss: bool = True,
    compression: str = "none",
    batch_size: int = 131_072,
    progress: Progress = silent,
    resume: str | None = None,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
    files: Files = DISK,
) -> list[RestoredPartition]:
    """Restore records into log directories, or a cluster, on Spark's executors.

    Parameters
    ----------
    to, bootstrap_server
        Exactly one of them: the log directories of the target store, or a cluster's addresses.
    log_dirs, parquet
        Exactly one of them: the source's log directories, or its Parquet files, or directories
        with Parquet files.
    client
        More settings of kafka-python's producer, as ``{"security_protocol": "SSL"}``.
    keep_offsets
        Keep the offsets of records. The target's partitions must be empty, or belong to an earlier
        run with the same ``resume``.
    topic, partitions, chosen
        Which records: a regular expression for topics, partition numbers, and a filter.
    rename
        New names of topics.
    config
        Settings of the topics that are created, as ``{"retention.ms": "-1"}``; they override the
        source's.
    isolation
        For log directories: ``read_committed`` skips records of transactions that are not
        committed.
    fail_on_data_loss
        For log directories. False: warn about offsets whose segments are lost, or that retention
        deletes during the run, and restore the others.
    resume
        A file with the progress of each partition, created if missing.

    Returns a report for each partition. Raises InvalidConfigError for invalid or contradictory
    arguments, CorruptRecordError if segments with wanted offsets are lost, OffsetOutOfRangeError if
    retention deletes wanted offsets during the run, SourceError if the cluster rejects a record,
    and the errors of reading and appending. Without ``keep_offsets`` a failed restore into a
    directory appends no records.
    """
    source = source_of(
        log_dirs, parquet, topic, partitions, rename or {}, chosen, isolation, fail_on_data_loss
    )
    if (source.log_dirs is None) == (source.parquet is None):
        raise InvalidConfigError("one source is needed: log directories, or Parquet")
    if (to is None) == (bootstrap_server is None):
        raise InvalidConfigError("one target is needed: a log directory, or a cluster")
    if bootstrap_server is not None and keep_offsets:
        raise InvalidConfigError("a cluster assigns the offsets itself: they cannot be kept")
    targets = () if to is None else absolute_paths(to)
    for path in targets:
        if files.kind(path) is None:
            files.make_directory(path)
    shared = (*targets, *(source.log_dirs or ()))
    if shared:
        check_executors(spark, shared, files)
    _check_pattern(source.chosen.key_pattern)
    known = _resume_file(resume, source, bootstrap_server or list(targets), keep_offsets, files)
    if source.log_dirs is not None:
        plan = plan_segments(files, source)
    else:
        plan = plan_parquet(files, spark, source)
    driver = RestoreDriver(spark, plan, known, progress, config or {}, files)
    with closing(known):
        if bootstrap_server is not None:
            return driver.send(bootstrap_server, tuple((client or {}).items()), compression)
        job = uuid.uuid4().hex if resume is None else _job_of(resume)
        encoding = Encoding(targets, job, codec.codec_id(compression), batch_size, 0)
        if keep_offsets:
            return driver.append(encoding, lock_timeout_ms)
        name = None if resume is None else f"restore {os.path.abspath(resume)}"
        return driver.publish(encoding, lock_timeout_ms, name)


def _job_of(resume: str) -> str:
    """The job id of all runs with one resume file: each removes staged files of earlier ones."""
    return f"restore{zlib.crc32(os.path.abspath(resume).encode()):08x}"


def _resume_file(
    resume: str | None, source: Source, to: str | list[str], keep_offsets: bool, files: Files
) -> ResumeFile[RestoredPartition]:
    what = {"name": "restore", **asdict(source), "to": to, "exact": keep_offsets}
    what["chosen"] = repr(source.chosen)
    del what["fail_on_data_loss"]  # a run that failed may be resumed without the lost offsets
    return ResumeFile(resume, what, _load, files=files)


def _check_pattern(pattern: str | None) -> None:
    try:
        re.compile((pattern or "").encode())
    except re.error as error:
        raise InvalidConfigError(f"{pattern!r} is not a regular expression: {error}") from None


# --- the command ----------------------------------------------------------------------------------


def _load(tree: dict[str, Any]) -> RestoredPartition:
    return RestoredPartition(**tree)


def report_lines(reports: Sequence[RestoredPartition]) -> list[str]:
    """A line for each partition, and a summary."""
    lines = [
        f"{each.topic}-{each.partition}: {count_of(each.records, 'record')}"
        + (f" to {each.target}" if each.target != each.topic else "")
        + f", up to offset {each.next_offset} of the source"
        for each in reports
    ]
    records = count_of(sum(each.records for each in reports), "record")
    return [*lines, f"{count_of(len(reports), 'partition')}: {records}"]


def describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--from", dest="source", action="append", metavar="DIR[,DIR...]",
        help="log directories that hold the records",
    )  # fmt: skip
    source.add_argument(
        "--parquet", action="append", metavar="PATH",
        help="Parquet files, or directories with Parquet files",
    )  # fmt: skip
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--log-dir", "--path", action="append", metavar="DIR[,DIR...]",
        help="log directories to restore into; created if missing",
    )  # fmt: skip
    target.add_argument("--bootstrap-server", metavar="HOST:PORT", help="a cluster to restore into")
    parser.add_argument(
        "--command-config", metavar="FILE", help="a file with settings of kafka-python's producer"
    )
    parser.add_argument(
        "--keep-offsets", action="store_true", help="keep the offsets of the source"
    )
    parser.add_argument(
        "--topic", metavar="REGEX", type=topic_pattern, help="topics of the source (default: all)"
    )
    parser.add_argument("--partitions", metavar="N,N,...", help="partitions (default: all)")
    parser.add_argument(
        "--rename", action="append", default=[], metavar="OLD=NEW", help="a topic's new name"
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE",
        help="a setting of the topics that are created (default: as in the source)",
    )  # fmt: skip
    add_time_range(parser)
    for name, metavar, text in (
        ("--start-offset", "N", "records from this offset on"),
        ("--stop-offset", "N", "records before this offset"),
    ):
        parser.add_argument(name, type=whole_number(), metavar=metavar, help=text)
    parser.add_argument("--key", action="append", default=[], help="records of this key, in UTF-8")
    parser.add_argument("--key-pattern", metavar="REGEX", help="records whose key matches")
    parser.add_argument(
        "--isolation", choices=("read_committed", "read_uncommitted"), default="read_committed",
        help="which records of a log directory's transactions (default: read_committed)",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on-data-loss", choices=("true", "false"), default="true",
        help="false: warn about offsets whose segments are lost, and restore the others",
    )  # fmt: skip
    parser.add_argument("--compression", choices=CODECS, default="none", help="default: none")
    parser.add_argument(
        "--batch-size", type=whole_number(1, INT32_MAX), default=131_072, metavar="BYTES"
    )
    parser.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    add_flags(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    options = _source_options(arguments)
    _check_pattern(arguments.key_pattern)
    if arguments.dry_run:
        print(_describe_plan(arguments, source_of(**options)))
        return 0
    with open_session(arguments.master, "kstore restore") as spark:
        reports = restore(
            spark,
            None if arguments.log_dir is None else absolute_of(arguments.log_dir),
            **options,
            bootstrap_server=arguments.bootstrap_server,
            client=read_properties(arguments.command_config),
            config=parse_pairs(arguments.config, "--config takes NAME=VALUE"),
            keep_offsets=arguments.keep_offsets,
            compression=arguments.compression,
            batch_size=arguments.batch_size,
            progress=progress,
            resume=arguments.resume,
            lock_timeout_ms=int(arguments.lock_timeout * 1000),
        )
    return show(arguments.json, reports, report_lines(reports))


def _describe_plan(arguments: argparse.Namespace, source: Source, files: Files = DISK) -> str:
    to = arguments.bootstrap_server or list(absolute_of(arguments.log_dir))
    known = _resume_file(arguments.resume, source, to, arguments.keep_offsets, files)
    plan = plan_segments(files, source) if source.log_dirs else plan_parquet(files, None, source)
    tasks, partitions, size = 0, 0, 0
    for (topic, partition), chunks in plan.chunks.items():
        report = known.get(f"{topic}-{partition}")
        remaining = chunks if report is None else chunks_from(chunks, report.next_offset)
        tasks += len(remaining)
        partitions += bool(remaining)
        size += sum(chunk.size for chunk in remaining)
    restored = count_of(partitions, "partition")
    return f"{count_of(tasks, 'task')} would restore {restored} from {size:,} bytes"


def _source_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``source_of``, from the command line."""
    numbers = None
    if arguments.partitions is not None:
        numbers = partition_numbers(arguments.partitions)
    return {
        "log_dirs": None if arguments.source is None else absolute_of(arguments.source),
        "parquet": arguments.parquet,
        "topic": arguments.topic,
        "partitions": numbers,
        "rename": parse_pairs(arguments.rename, "--rename takes OLD=NEW"),
        "chosen": Filter(
            arguments.since,
            arguments.until,
            arguments.start_offset,
            arguments.stop_offset,
            tuple(key.encode() for key in arguments.key),
            arguments.key_pattern,
        ),
        "isolation": arguments.isolation,
        "fail_on_data_loss": arguments.fail_on_data_loss == "true",
    }


if __name__ == "__main__":
    raise SystemExit(main("restore"))
