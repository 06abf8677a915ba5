"""``kstore spark restore``: segments or Parquet back into a log directory, or into a cluster."""

import argparse
import hashlib
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

from kstore.arguments import add_time_range, partition_numbers, whole_number
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
    chunks_behind,
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
times are kept; of transactions only what was committed is taken (--isolation).
Into a directory, everything is appended and shows at once, or nothing does; or, with
--keep-offsets, into empty partitions with the offsets it had, from where a stopped run came to.
Into a cluster, records are sent in order, each at least once: what was sent after the last note
in the --resume file is sent again.
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
        One of them: the directories that make the target store, or a cluster's addresses.
    log_dirs, parquet
        One of them: where the records are. Parquet files, or folders with such.
    client
        More settings of kafka-python's producer, as ``{"security_protocol": "SSL"}``.
    keep_offsets
        Give records the offsets they had. The target's partitions have to be empty, or to be
        those that an earlier run with the same ``resume`` began.
    topic, partitions, chosen
        Which records: a regular expression for topics, numbers, and a filter.
    rename
        New names of topics.
    config
        Settings of topics that are made, as ``{"retention.ms": "-1"}``, before the source's.
    isolation
        Of log directories: ``read_committed`` leaves out what no transaction committed.
    resume
        A file that keeps how far each partition is, made where missing.

    Returns a report for each partition. Raises InvalidConfigError for what cannot be, what
    reading and appending raise, and SourceError for what a cluster refuses; a directory into
    which records were to be appended anew has then none of them.
    """
    source = source_of(log_dirs, parquet, topic, partitions, rename or {}, chosen, isolation)
    if (source.log_dirs is None) == (source.parquet is None):
        raise InvalidConfigError("one source is needed: log directories, or Parquet")
    if (to is None) == (bootstrap_server is None):
        raise InvalidConfigError("one target is needed: a log directory, or a cluster")
    if bootstrap_server is not None and keep_offsets:
        raise InvalidConfigError("a cluster gives offsets itself: they cannot be kept")
    targets = () if to is None else absolute_paths(to)
    for path in targets:
        if files.kind(path) is None:
            files.make_directory(path)
    seen = (*targets, *(source.log_dirs or ()))
    if seen:
        check_executors(spark, seen, files)
    _check_pattern(source.chosen.key_pattern)
    known = _known(resume, source, bootstrap_server or list(targets), keep_offsets, files)
    if source.log_dirs is not None:
        plan = plan_segments(files, source)
    else:
        plan = plan_parquet(files, spark, source)
    work = _Work(spark, plan, known, progress, config or {}, files)
    with closing(known):
        if bootstrap_server is not None:
            task = (bootstrap_server, tuple((client or {}).items()), compression)
            return work.send(task)
        job = uuid.uuid4().hex if resume is None else _job_of(resume)
        encoding = Encoding(targets, job, codec.codec_id(compression), batch_size, 0)
        if keep_offsets:
            return work.put(encoding, lock_timeout_ms)
        name = None if resume is None else f"restore {os.path.abspath(resume)}"
        return work.publish(encoding, lock_timeout_ms, name)


def encode(task: tuple[Chunk, Encoding]) -> Written:
    """In an executor: stage the batches of a chunk."""
    from kstore.spark.jobs import restore_tasks  # brings pyarrow

    return restore_tasks.encode(task)


def send(task: tuple[Chunk, str, tuple[tuple[str, Any], ...], str]) -> Written:
    """In an executor: send a chunk's records."""
    from kstore.spark.jobs import restore_tasks  # brings pyarrow

    return restore_tasks.send(task)


def _job_of(resume: str) -> str:
    """The same for each run that goes on from a file: what one left over, the next removes."""
    return f"restore{zlib.crc32(os.path.abspath(resume).encode()):08x}"


def _known(
    resume: str | None, source: Source, to: str | list[str], keep_offsets: bool, files: Files
) -> ResumeFile[RestoredPartition]:
    what = {"name": "restore", **asdict(source), "to": to, "exact": keep_offsets}
    what["chosen"] = repr(source.chosen)
    return ResumeFile(resume, what, _load, files=files)


def _check_pattern(pattern: str | None) -> None:
    try:
        re.compile((pattern or "").encode())
    except re.error as error:
        raise InvalidConfigError(f"{pattern!r} is no regular expression: {error}") from None


class _Work:
    """The driver's side."""

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

    def _note(self, chunk: Chunk, count: int, *, final: bool) -> None:
        """Write down how far a partition is."""
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
        found = []
        for (topic, partition), chunks in sorted(self._plan.chunks.items()):
            known = self._known.get(f"{topic}-{partition}")
            target = chunks[0].target if chunks else self._plan.source.target(topic)
            found.append(known or RestoredPartition(topic, partition, target, 0, 0))
        return found

    # --- over the wire --------------------------------------------------------------------

    def send(self, how: tuple[str, tuple[tuple[str, Any], ...], str]) -> list[RestoredPartition]:
        """Chunk after chunk of each partition, the partitions side by side."""
        left = {}
        for (topic, partition), chunks in self._plan.chunks.items():
            known = self._known.get(f"{topic}-{partition}")
            begun = -1 if known is None else known.next_offset
            left[topic, partition] = chunks_behind(chunks, begun)
        while any(left.values()):
            wave = [chunks.pop(0) for chunks in left.values() if chunks]
            servers, settings, compression = how
            tasks = [(chunk, servers, settings, compression) for chunk in wave]
            with closing(run_tasks(self._spark, tasks, send, "kstore restore")) as results_of:
                for number, written in results_of:
                    chunk = wave[number]
                    final = not left[chunk.topic, chunk.partition]
                    self._note(chunk, written.count, final=final)
        return self._reports()

    # --- with the offsets they had --------------------------------------------------------

    def put(self, encoding: Encoding, lock_timeout_ms: int) -> list[RestoredPartition]:
        """Append what executors have staged, partition by partition in order, as it comes."""
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON, self._files) as store:
            remove_staged_of(
                self._files, encoding.log_dirs[0], encoding.job
            )  # of a run that was stopped
            create_topics(store, self._plan.counts, self._plan.settings, self._config)
            tasks = []
            for chunk in self._begin(store):
                log = store[chunk.target][chunk.partition]
                tasks.append((chunk, encoding_for(log, encoding)))
            tasks.sort(key=lambda each: each[0].number)
            try:
                self._put(store, encoding, tasks)
            except Exception:
                remove_staged_of(self._files, encoding.log_dirs[0], encoding.job)
                raise
            remove_staged_of(
                self._files, encoding.log_dirs[0], encoding.job
            )  # of attempts that failed
        return self._reports()

    def _put(
        self, store: Store, encoding: Encoding, tasks: Sequence[tuple[Chunk, Encoding]]
    ) -> None:
        waiting: dict[tuple[str, int], dict[int, Written]] = {}
        following = {(c.topic, c.partition): c.number for c, _ in reversed(tasks)}
        last = {(c.topic, c.partition): c.number for c, _ in tasks}
        by_place = {(c.topic, c.partition, c.number): c for c, _ in tasks}
        with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results_of:
            for number, written in results_of:
                chunk = tasks[number][0]
                place = (chunk.topic, chunk.partition)
                parts = waiting.setdefault(place, {})
                parts[chunk.number] = written
                while (ready := parts.pop(following[place], None)) is not None:
                    chunk = by_place[(*place, following[place])]
                    log = store[chunk.target][chunk.partition]
                    append_staged(self._files, log, encoding, ready)
                    self._note(chunk, ready.count, final=chunk.number == last[place])
                    following[place] += 1

    def _begin(self, store: Store) -> list[Chunk]:
        """What is left to do. What this job begins is written down before anything is appended:
        so a later run knows its own records from others that were there."""
        begun: dict[str, RestoredPartition] = {}
        chunks_left: list[Chunk] = []
        taken: dict[tuple[str, int], str] = {}
        for (topic, partition), chunks in self._plan.chunks.items():
            if not chunks:
                continue
            key, target = f"{topic}-{partition}", chunks[0].target
            other = taken.setdefault((target, partition), topic)
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
                    "keep offsets it has to be empty; --resume, with the file of the run that put "
                    "them there, goes on behind them"
                )
            first = RestoredPartition(topic, partition, target, 0, chunks[0].start, False)
            left = chunks_behind(chunks, -1 if empty else log.end_offset)
            begun[key] = self._known.get(key) or first
            if not left:
                begun[key] = replace(begun[key], next_offset=chunks[-1].stop, done=True)
            chunks_left += left
        self._known.add_all(begun)
        return chunks_left

    # --- appended anew --------------------------------------------------------------------

    def publish(
        self, encoding: Encoding, lock_timeout_ms: int, name: str | None
    ) -> list[RestoredPartition]:
        """Stage everything, then publish it as Spark's sink does; once more where partitions
        have come since an earlier run with the same file was stopped."""
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON, self._files) as store:
            remove_staged_of(
                self._files, encoding.log_dirs[0], encoding.job
            )  # of a run that was stopped
            create_topics(store, self._plan.counts, self._plan.settings, self._config)
            encodings = {
                place: encoding_for(store[chunks[0].target][place[1]], encoding, exact=False)
                for place, chunks in self._plan.chunks.items()
                if chunks
            }
            identities = store._manager.identities
            ids = {name: identities.identity_of(name) for name in self._plan.counts}
            self._forget_deleted(identities)
        options = parse_sink({"paths": json.dumps(list(encoding.log_dirs)), "topic": "-"})
        options = replace(options, lock_timeout_ms=lock_timeout_ms)
        while fixed := self._fix():
            tasks = []
            for place, chunks in self._plan.chunks.items():
                start, stop = fixed.get(f"{place[0]}-{place[1]}", (0, 0))
                for chunk in chunks_behind(chunks, start):
                    if chunk.start < stop:
                        cut = replace(chunk, stop=min(chunk.stop, stop))
                        tasks.append((cut, encodings[place]))
            # Known by its records, too: another file of this path may have been of others.
            identity = None
            if name is not None:
                identity = Identity(f"{name} {_fingerprint(fixed)}", rebind=True)
            try:
                staged = self._stage(tasks, ids)
                publish(
                    options,
                    encoding.job,
                    staged,
                    identity,
                    keep_timestamps=True,
                    files=self._files,
                )
            finally:
                remove_staged_of(self._files, encoding.log_dirs[0], encoding.job)
            counts = dict.fromkeys(fixed, 0)
            for (chunk, _), each in zip(tasks, staged, strict=True):
                counts[f"{chunk.topic}-{chunk.partition}"] += sum(p.count for p in each.partitions)
            self._known.add_all({key: self._done_with(key, counts[key], ids) for key in fixed})
        return self._reports()

    def _forget_deleted(self, identities: TopicIdentities) -> None:
        """What went into a topic that was deleted since is restored again, into the new one."""
        for key, each in self._known.items():
            is_target = each.target in self._plan.counts
            if is_target and each.topic_id and not identities.is_same(each.target, each.topic_id):
                _LOGGER.warning(
                    "%s was deleted since it was restored: again from %s", each.target, key
                )
                self._known.forget(key)

    def _fix(self) -> dict[str, tuple[int, int]]:
        """From where to where which partitions are published next; none: all are.

        It is written down first: a run that goes on takes what the stopped one took, however much
        the source has grown, and so knows whether that was published. What is new comes then.
        """
        if not any(each.planned for _, each in self._known.items()):
            new = {}
            for (topic, partition), chunks in self._plan.chunks.items():
                key = f"{topic}-{partition}"
                if chunks:
                    first = RestoredPartition(
                        topic, partition, chunks[0].target, 0, chunks[0].start, False
                    )
                    known = self._known.get(key) or first
                    if known.next_offset < chunks[-1].stop:
                        new[key] = replace(known, done=False, planned=chunks[-1].stop)
            self._known.add_all(new)
        return {
            key: (each.next_offset, each.planned)
            for key, each in self._known.items()
            if each.planned
        }

    def _done_with(self, key: str, count: int, ids: Mapping[str, str | None]) -> RestoredPartition:
        known = self._known[key]
        return replace(
            known,
            records=known.records + count,
            next_offset=known.planned or known.next_offset,
            done=True,
            planned=0,
            topic_id=ids[known.target],
        )

    def _stage(
        self, tasks: Sequence[tuple[Chunk, Encoding]], ids: Mapping[str, str | None]
    ) -> list[Staged]:
        staged: dict[int, Staged] = {}
        with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results_of:
            for number, written in results_of:
                chunk = tasks[number][0]
                part = StagedPartition(
                    chunk.target, chunk.partition, written.pieces, written.count, ids[chunk.target]
                )
                parts = (part,) if written.pieces else ()
                staged[number] = Staged(
                    number, 0, None, written.file, written.host, parts, checksum=written.checksum
                )
                self._done += chunk.size
                self._progress(self._done, self._total, f"{chunk.topic}-{chunk.partition}")
        return [staged[number] for number in sorted(staged)]


def _fingerprint(fixed: Mapping[str, tuple[int, int]]) -> str:
    return hashlib.sha256(json.dumps(sorted(fixed.items())).encode()).hexdigest()[:16]


# --- the command ----------------------------------------------------------------------------------


def _load(tree: dict[str, Any]) -> RestoredPartition:
    return RestoredPartition(**tree)


def tell(reports: Sequence[RestoredPartition]) -> list[str]:
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
        "--parquet", action="append", metavar="PATH", help="Parquet files, or folders with such"
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--log-dir", action="append", metavar="DIR[,DIR...]",
        help="log directories to restore into; made where missing",
    )  # fmt: skip
    target.add_argument("--bootstrap-server", metavar="HOST:PORT", help="a cluster to restore into")
    parser.add_argument(
        "--command-config", metavar="FILE", help="a file with settings of kafka-python's producer"
    )
    parser.add_argument(
        "--keep-offsets", action="store_true", help="give records the offsets they had"
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
        help="a setting of the topics that are made (default: as in the source)",
    )  # fmt: skip
    add_time_range(parser)
    for name, metavar, what in (
        ("--start-offset", "N", "records from here on"),
        ("--stop-offset", "N", "records before this offset"),
    ):
        parser.add_argument(name, type=whole_number(), metavar=metavar, help=what)
    parser.add_argument("--key", action="append", default=[], help="records of this key, in UTF-8")
    parser.add_argument("--key-pattern", metavar="REGEX", help="records whose key matches")
    parser.add_argument(
        "--isolation", choices=("read_committed", "read_uncommitted"), default="read_committed",
        help="of a log directory's transactions (default: read_committed)",
    )  # fmt: skip
    parser.add_argument("--compression", choices=CODECS, default="none", help="default: none")
    parser.add_argument(
        "--batch-size", type=whole_number(1, INT32_MAX), default=131_072, metavar="BYTES"
    )
    parser.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    add_flags(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    options = _options(arguments)
    _check_pattern(arguments.key_pattern)
    if arguments.dry_run:
        print(_would_restore(arguments, source_of(**options)))
        return 0
    with open_session(arguments.master, "kstore restore") as spark:
        reports = restore(
            spark,
            None if arguments.log_dir is None else absolute_of(arguments.log_dir),
            **options,
            bootstrap_server=arguments.bootstrap_server,
            client=_client(arguments.command_config),
            config=parse_pairs(arguments.config, "--config takes NAME=VALUE"),
            keep_offsets=arguments.keep_offsets,
            compression=arguments.compression,
            batch_size=arguments.batch_size,
            progress=progress,
            resume=arguments.resume,
            lock_timeout_ms=int(arguments.lock_timeout * 1000),
        )
    return show(arguments.json, reports, tell(reports))


def _would_restore(arguments: argparse.Namespace, source: Source, files: Files = DISK) -> str:
    to = arguments.bootstrap_server or list(absolute_of(arguments.log_dir))
    known = _known(arguments.resume, source, to, arguments.keep_offsets, files)
    plan = plan_segments(files, source) if source.log_dirs else plan_parquet(files, None, source)
    chunks, places = 0, 0
    size = 0
    for (topic, partition), planned in plan.chunks.items():
        report = known.get(f"{topic}-{partition}")
        left = planned if report is None else chunks_behind(planned, report.next_offset)
        chunks, places = chunks + len(left), places + bool(left)
        size += sum(chunk.size for chunk in left)
    return f"{chunks} tasks would restore {places} partitions from {size:,} bytes"


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What of the command line says which records."""
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
    }


def _client(path: str | None, files: Files = DISK) -> dict[str, str]:
    """Settings of a properties file, under kafka-python's names."""
    if path is None:
        return {}
    text = files.read(path).decode()
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {name.strip().replace(".", "_"): value.strip() for name, _, value in pairs}


if __name__ == "__main__":
    from kstore.spark.jobs import restore as job  # tasks find its functions by this name

    raise SystemExit(main("restore", job.describe, job.run))
