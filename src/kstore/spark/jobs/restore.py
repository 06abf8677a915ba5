"""``kstore spark restore``: restores segments or Parquet into a log directory or a cluster."""

import argparse
import json
import logging
import os
import re
import uuid
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kstore.arguments import add_time_range, partition_numbers, read_properties, whole_number
from kstore.config import CODECS
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX
from kstore.partition_files import DISK, Files, Paths, TopicIdentities, absolute_paths
from kstore.record import codec
from kstore.spark.exclusive_lock import open_alone
from kstore.spark.jobs.command import absolute_of, main, parse_pairs, topic_pattern
from kstore.spark.jobs.reports import show
from kstore.spark.jobs.restore_plan import (
    Plan,
    Source,
    chunks_from,
    fingerprint_ranges,
    plan_parquet,
    plan_segments,
    source_of,
)
from kstore.spark.jobs.restore_settings import create_topics
from kstore.spark.jobs.restore_target import append_staged, encoding_for, remove_staged_of
from kstore.spark.jobs.restore_types import Chunk, Encoding, Filter, RestoredPartition, Written
from kstore.spark.jobs.resume_file import ResumeFile
from kstore.spark.jobs.store_changes import LOCK_REASON, LOCK_TIMEOUT_MS, add_flags
from kstore.spark.jobs.task_runner import Progress, open_session, run_tasks, silent
from kstore.spark.session import check_executors
from kstore.spark.sink.commit import publish
from kstore.spark.sink.options import Staged, StagedPartition, parse_sink
from kstore.spark.sink.write_identity import Identity
from kstore.spark.source.offsets import TopicPartition
from kstore.store.store import Store

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
    driver = _Driver(spark, plan, known, progress, config or {}, files)
    with closing(known):
        if bootstrap_server is not None:
            return driver.send(bootstrap_server, tuple((client or {}).items()), compression)
        job = uuid.uuid4().hex if resume is None else _job_of(resume)
        encoding = Encoding(targets, job, codec.codec_id(compression), batch_size, 0)
        if keep_offsets:
            return driver.append(encoding, lock_timeout_ms)
        name = None if resume is None else f"restore {os.path.abspath(resume)}"
        return driver.publish(encoding, lock_timeout_ms, name)


def encode(task: tuple[Chunk, Encoding]) -> Written:
    """In an executor: stage the batches of a chunk."""
    from kstore.spark.jobs import restore_tasks  # brings pyarrow

    return restore_tasks.encode(task)


def send(task: tuple[Chunk, str, tuple[tuple[str, Any], ...], str]) -> Written:
    """In an executor: send a chunk's records."""
    from kstore.spark.jobs import restore_tasks  # brings pyarrow

    return restore_tasks.send(task)


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


class _Driver:
    """The driver's side of a restore: runs the tasks, and appends or publishes their results."""

    def __init__(
        self,
        spark: "SparkSession",
        plan: Plan,
        known: ResumeFile[RestoredPartition],
        progress: Progress,
        config: Mapping[str, str],
        files: Files,
    ) -> None:
        self._files = files
        self._config = config
        self._spark = spark
        self._plan = plan
        self._known = known
        self._progress = progress
        self._done = 0
        self._total = sum(chunk.size for chunks in plan.chunks.values() for chunk in chunks)

    def _save_progress(self, chunk: Chunk, count: int, *, final: bool) -> None:
        """Add the result of a chunk to its partition's entry in the resume file."""
        key = f"{chunk.topic}-{chunk.partition}"
        before = self._known.get(key)
        self._known.add(
            key,
            RestoredPartition(
                chunk.topic,
                chunk.partition,
                chunk.target,
                count + (0 if before is None else before.records),
                chunk.stop,
                final,
            ),
        )
        self._done += chunk.size
        self._progress(self._done, self._total, key)

    def _reports(self) -> list[RestoredPartition]:
        reports = []
        for (topic, partition), chunks in sorted(self._plan.chunks.items()):
            known = self._known.get(f"{topic}-{partition}")
            target = chunks[0].target if chunks else self._plan.source.target(topic)
            reports.append(known or RestoredPartition(topic, partition, target, 0, 0))
        return reports

    # --- into a cluster -------------------------------------------------------------------

    def send(
        self, servers: str, settings: tuple[tuple[str, Any], ...], compression: str
    ) -> list[RestoredPartition]:
        """Send the chunks of each partition one after the other, the partitions in parallel."""
        remaining = {}
        for (topic, partition), chunks in self._plan.chunks.items():
            known = self._known.get(f"{topic}-{partition}")
            next_offset = -1 if known is None else known.next_offset
            remaining[topic, partition] = chunks_from(chunks, next_offset)
        while any(remaining.values()):
            wave = [chunks.pop(0) for chunks in remaining.values() if chunks]
            tasks = [(chunk, servers, settings, compression) for chunk in wave]
            with closing(run_tasks(self._spark, tasks, send, "kstore restore")) as results:
                for number, written in results:
                    chunk = wave[number]
                    final = not remaining[chunk.topic, chunk.partition]
                    self._save_progress(chunk, written.count, final=final)
        return self._reports()

    # --- into a directory, with the source's offsets --------------------------------------

    def append(self, encoding: Encoding, lock_timeout_ms: int) -> list[RestoredPartition]:
        """Append staged chunks while tasks run, in each partition in the order of offsets."""
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON, self._files) as store:
            directory = encoding.log_dirs[0]
            remove_staged_of(self._files, directory, encoding.job)  # left by an interrupted run
            create_topics(store, self._plan.counts, self._plan.settings, self._config)
            tasks = []
            for chunk in self._claim_partitions(store):
                log = store[chunk.target][chunk.partition]
                tasks.append((chunk, encoding_for(log, encoding)))
            tasks.sort(key=lambda task: task[0].number)
            try:
                self._append_in_order(store, encoding, tasks)
            except Exception:
                remove_staged_of(self._files, directory, encoding.job)
                raise
            remove_staged_of(self._files, directory, encoding.job)  # left by failed attempts
        return self._reports()

    def _append_in_order(
        self, store: Store, encoding: Encoding, tasks: Sequence[tuple[Chunk, Encoding]]
    ) -> None:
        staged: dict[TopicPartition, dict[int, Written]] = {}  # by the number of the chunk
        next_number = {(c.topic, c.partition): c.number for c, _ in reversed(tasks)}
        last_number = {(c.topic, c.partition): c.number for c, _ in tasks}
        chunks = {(c.topic, c.partition, c.number): c for c, _ in tasks}
        with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results:
            for task_number, written in results:
                chunk = tasks[task_number][0]
                tp = (chunk.topic, chunk.partition)
                by_number = staged.setdefault(tp, {})
                by_number[chunk.number] = written
                while (ready := by_number.pop(next_number[tp], None)) is not None:
                    chunk = chunks[(*tp, next_number[tp])]
                    log = store[chunk.target][chunk.partition]
                    append_staged(self._files, log, encoding, ready)
                    final = chunk.number == last_number[tp]
                    self._save_progress(chunk, ready.count, final=final)
                    next_number[tp] += 1

    def _claim_partitions(self, store: Store) -> list[Chunk]:
        """Save in the resume file which partitions this job fills, and return the chunks to do.

        A later run appends to a partition that is not empty only if the resume file has it. So
        the entries are written before the first append.
        """
        claimed: dict[str, RestoredPartition] = {}
        remaining: list[Chunk] = []
        sources: dict[TopicPartition, str] = {}
        for (topic, partition), chunks in self._plan.chunks.items():
            if not chunks:
                continue
            key, target = f"{topic}-{partition}", chunks[0].target
            other = sources.setdefault((target, partition), topic)
            if other != topic:
                raise InvalidConfigError(
                    f"{other} and {topic} would both become {target}: offsets of two topics cannot "
                    "be kept in one"
                )
            log = store[target][partition]
            empty = log.end_offset == log.start_offset == 0
            if not empty and key not in self._known:
                raise InvalidConfigError(
                    f"{log.topic}-{log.partition} has records up to offset {log.end_offset}: to "
                    "keep offsets it must be empty, or use --resume with the file of the run that "
                    "wrote these records"
                )
            first = RestoredPartition(topic, partition, target, 0, chunks[0].start, False)
            of_partition = chunks_from(chunks, -1 if empty else log.end_offset)
            claimed[key] = self._known.get(key) or first
            if not of_partition:
                claimed[key] = replace(claimed[key], next_offset=chunks[-1].stop, done=True)
            remaining += of_partition
        self._known.add_all(claimed)
        return remaining

    # --- into a directory, with new offsets -----------------------------------------------

    def publish(
        self, encoding: Encoding, lock_timeout_ms: int, name: str | None
    ) -> list[RestoredPartition]:
        """Stage all chunks, then publish them in one step, as Spark's sink does.

        A run that resumes publishes what the interrupted run had planned, then what is new.
        """
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON, self._files) as store:
            remove_staged_of(self._files, encoding.log_dirs[0], encoding.job)  # of an earlier run
            create_topics(store, self._plan.counts, self._plan.settings, self._config)
            encodings = {
                tp: encoding_for(store[chunks[0].target][tp[1]], encoding, exact=False)
                for tp, chunks in self._plan.chunks.items()
                if chunks
            }
            identities = store._manager.identities
            ids = {name: identities.identity_of(name) for name in self._plan.counts}
            self._forget_deleted(identities)
        options = parse_sink({"paths": json.dumps(list(encoding.log_dirs)), "topic": "-"})
        options = replace(options, lock_timeout_ms=lock_timeout_ms)
        while ranges := self._plan_publication():
            tasks = []
            for tp, chunks in self._plan.chunks.items():
                start, stop = ranges.get(f"{tp[0]}-{tp[1]}", (0, 0))
                for chunk in chunks_from(chunks, start):
                    if chunk.start < stop:
                        limited = replace(chunk, stop=min(chunk.stop, stop))
                        tasks.append((limited, encodings[tp]))
            # The identity contains the ranges: an earlier resume file of this path had others.
            identity = None
            if name is not None:
                planned = self._known[next(iter(ranges))].publication
                identity = Identity(f"{name} {fingerprint_ranges(ranges)}", None, 0, planned, True)
            try:
                staged = self._stage(tasks, ids)
                publish(
                    options, encoding.job, staged, identity, keep_timestamps=True, files=self._files
                )
            finally:
                remove_staged_of(self._files, encoding.log_dirs[0], encoding.job)
            counts = dict.fromkeys(ranges, 0)
            for (chunk, _), file in zip(tasks, staged, strict=True):
                counts[f"{chunk.topic}-{chunk.partition}"] += sum(p.count for p in file.partitions)
            self._known.add_all({key: self._published(key, counts[key], ids) for key in ranges})
        return self._reports()

    def _forget_deleted(self, identities: TopicIdentities) -> None:
        """Drop the entries of topics that were deleted since: they are restored again."""
        for key, report in self._known.items():
            target, topic_id = report.target, report.topic_id
            is_target = target in self._plan.counts
            if is_target and topic_id and not identities.is_same(target, topic_id):
                _LOGGER.warning(
                    "%s was deleted since it was restored: restoring it again from %s", target, key
                )
                self._known.forget(key)

    def _plan_publication(self) -> dict[str, tuple[int, int]]:
        """The offsets of each partition to publish next; empty if all are published.

        They are saved in the resume file first. A run that resumes publishes the same offsets as
        the interrupted run, even if the source has grown, and recognizes a publication that has
        finished, even if the source has lost records since. New records follow in the next one.
        """
        if not any(each.planned for _, each in self._known.items()):
            new, publication = {}, uuid.uuid4().hex
            for (topic, partition), chunks in self._plan.chunks.items():
                key = f"{topic}-{partition}"
                if chunks:
                    first = RestoredPartition(
                        topic, partition, chunks[0].target, 0, chunks[0].start, False
                    )
                    known = self._known.get(key) or first
                    if known.next_offset < chunks[-1].stop:
                        stop = chunks[-1].stop
                        new[key] = replace(known, done=False, planned=stop, publication=publication)
            self._known.add_all(new)
        return {
            key: (each.next_offset, each.planned)
            for key, each in self._known.items()
            if each.planned
        }

    def _published(self, key: str, count: int, ids: Mapping[str, str | None]) -> RestoredPartition:
        known = self._known[key]
        return replace(
            known,
            records=known.records + count,
            next_offset=known.planned or known.next_offset,
            done=True,
            planned=0,
            topic_id=ids[known.target],
            publication=None,
        )

    def _stage(
        self, tasks: Sequence[tuple[Chunk, Encoding]], ids: Mapping[str, str | None]
    ) -> list[Staged]:
        staged: dict[int, Staged] = {}
        with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results:
            for number, written in results:
                chunk = tasks[number][0]
                partition = StagedPartition(
                    chunk.target, chunk.partition, written.ranges, written.count, ids[chunk.target]
                )
                partitions = (partition,) if written.ranges else ()
                staged[number] = Staged(
                    number, 0, None, written.file, written.host, partitions,
                    checksum=written.checksum,
                )  # fmt: skip
                self._done += chunk.size
                self._progress(self._done, self._total, f"{chunk.topic}-{chunk.partition}")
        return [staged[number] for number in sorted(staged)]


# --- the command ----------------------------------------------------------------------------------


def _load(tree: dict[str, Any]) -> RestoredPartition:
    return RestoredPartition(**tree)


def report_lines(reports: Sequence[RestoredPartition]) -> list[str]:
    """A line for each partition, and a summary."""
    lines = [
        f"{each.topic}-{each.partition}: {each.records} records"
        + (f" to {each.target}" if each.target != each.topic else "")
        + f", up to offset {each.next_offset} of the source"
        for each in reports
    ]
    return [*lines, f"{len(reports)} partitions: {sum(r.records for r in reports)} records"]


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
        "--log-dir", action="append", metavar="DIR[,DIR...]",
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
    return f"{tasks} tasks would restore {partitions} partitions from {size:,} bytes"


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
