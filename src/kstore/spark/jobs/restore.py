"""``kstore spark restore``: segments or Parquet back into a log directory, or into a cluster."""

import argparse
import json
import os
import uuid
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kstore._native.frames import walk_frames
from kstore.config import CODECS
from kstore.errors import CorruptRecordError, InvalidConfigError, StorageError
from kstore.log.files import DISK
from kstore.log.log import Log
from kstore.log.log_dir import absolute_paths
from kstore.log.publication import Piece
from kstore.record import codec
from kstore.spark.alone import open_alone
from kstore.spark.jobs.changing import LOCK_REASON, LOCK_TIMEOUT_MS, add_flags
from kstore.spark.jobs.command import absolute_of, main
from kstore.spark.jobs.reports import Finished, show
from kstore.spark.jobs.restore_plan import Plan, Source, plan_parquet, plan_segments
from kstore.spark.jobs.restore_types import Chunk, Encoding, Filter, Written
from kstore.spark.jobs.running import Progress, open_session, run_tasks, silent
from kstore.spark.publishing import publish
from kstore.spark.session import check_executors
from kstore.spark.sink_options import STAGED, Staged, StagedPart, parse_sink
from kstore.store import Paths, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """What was restored of one partition. ``next_offset`` is the source's, up to which it is."""

    topic: str
    partition: int
    target: str  # the topic's name there
    records: int
    next_offset: int
    done: bool = True

    @property
    def ok(self) -> bool:
        return self.done


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
    isolation: str = "read_committed",
    compression: str = "none",
    batch_size: int = 131_072,
    progress: Progress = silent,
    resume: str | None = None,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
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
    isolation
        Of log directories: ``read_committed`` leaves out what no transaction committed.
    resume
        A file that keeps how far each partition is, made where missing.

    Returns a report for each partition. Raises InvalidConfigError for what cannot be, what
    reading and appending raise, and SourceError for what a cluster refuses; a directory into
    which records were to be appended anew has then none of them.
    """
    source = Source(
        None if log_dirs is None else absolute_paths(log_dirs),
        None if parquet is None else _paths(parquet),
        topic,
        None if partitions is None else tuple(partitions),
        tuple(sorted((rename or {}).items())),
        chosen or Filter(),
        isolation,
    )
    if (source.log_dirs is None) == (source.parquet is None):
        raise InvalidConfigError("one source is needed: log directories, or Parquet")
    if (to is None) == (bootstrap_server is None):
        raise InvalidConfigError("one target is needed: a log directory, or a cluster")
    if bootstrap_server is not None and keep_offsets:
        raise InvalidConfigError("a cluster gives offsets itself: they cannot be kept")
    targets = () if to is None else absolute_paths(to)
    for path in targets:
        if DISK.kind(path) is None:
            DISK.make_directory(path)
    seen = (*targets, *(source.log_dirs or ()))
    if seen:
        check_executors(spark, seen)
    where = bootstrap_server or list(targets)
    what = {"name": "restore", **asdict(source), "to": where, "exact": keep_offsets}
    what["chosen"] = repr(source.chosen)
    known: Finished[RestoredPartition] = Finished(resume, what, _load)
    plan = plan_segments(source) if source.log_dirs is not None else plan_parquet(spark, source)
    work = _Work(spark, plan, known, progress)
    with closing(known):
        if bootstrap_server is not None:
            task = (bootstrap_server, tuple((client or {}).items()), compression)
            return work.send(task)
        job = uuid.uuid4().hex if resume is None else _job_of(resume)
        encoding = Encoding(targets, job, codec.codec_id(compression), batch_size, 0)
        _remove_staged(targets[0], job)
        if keep_offsets:
            return work.put(encoding, lock_timeout_ms, resume is not None)
        identity = None if resume is None else f"restore {os.path.abspath(resume)}"
        return work.publish(encoding, lock_timeout_ms, identity)


def encode(task: tuple[Chunk, Encoding]) -> Written:
    """In an executor: stage the batches of a chunk."""
    from kstore.spark.jobs import restoring  # brings pyarrow

    return restoring.encode(task)


def send(task: tuple[Chunk, str, tuple[tuple[str, Any], ...], str]) -> Written:
    """In an executor: send a chunk's records."""
    from kstore.spark.jobs import restoring  # brings pyarrow

    return restoring.send(task)


def _job_of(resume: str) -> str:
    """The same for each run that goes on from a file: what one left over, the next removes."""
    return f"restore{zlib.crc32(os.path.abspath(resume).encode()):08x}"


def _paths(paths: str | Sequence[str]) -> tuple[str, ...]:
    return absolute_paths([paths] if isinstance(paths, str) else list(paths))


class _Work:
    """The driver's side."""

    def __init__(
        self,
        spark: "SparkSession",
        plan: Plan,
        known: Finished[RestoredPartition],
        progress: Progress,
    ) -> None:
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
            left[topic, partition] = _behind(chunks, begun)
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

    def put(
        self, encoding: Encoding, lock_timeout_ms: int, resumed: bool
    ) -> list[RestoredPartition]:
        """Append what executors have staged, partition by partition in order, as it comes."""
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON) as store:
            self._create(store)
            tasks = []
            for chunks in self._plan.chunks.values():
                for chunk in self._left(store, chunks, resumed):
                    log = store[chunk.target][chunk.partition]
                    tasks.append((chunk, _for(log, encoding)))
            tasks.sort(key=lambda each: each[0].number)
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
                        _append(log, encoding, ready)
                        self._note(chunk, ready.count, final=chunk.number == last[place])
                        following[place] += 1
        return self._reports()

    def _left(self, store: Store, chunks: Sequence[Chunk], resumed: bool) -> list[Chunk]:
        if not chunks:
            return []
        log = store[chunks[0].target][chunks[0].partition]
        empty = log.end_offset == log.start_offset == 0
        if not empty and not resumed:
            raise InvalidConfigError(
                f"{log.topic}-{log.partition} has records up to offset {log.end_offset}: to keep "
                "offsets it has to be empty; --resume goes on behind what an earlier run put there"
            )
        return _behind(chunks, -1 if empty else log.end_offset)

    def _create(self, store: Store) -> None:
        for name, count in self._plan.counts.items():
            if name not in store:
                store.create_topic(name, count)
            elif len(store[name]) < count:
                raise InvalidConfigError(
                    f"{name} has {len(store[name])} partitions, and {count} are to be restored"
                )

    # --- appended anew --------------------------------------------------------------------

    def publish(
        self, encoding: Encoding, lock_timeout_ms: int, identity: str | None
    ) -> list[RestoredPartition]:
        """Stage everything, then publish it as Spark's sink does."""
        with open_alone(encoding.log_dirs, lock_timeout_ms, LOCK_REASON) as store:
            self._create(store)
            tasks = [
                (chunk, _for(store[chunk.target][chunk.partition], encoding, exact=False))
                for chunks in self._plan.chunks.values()
                for chunk in chunks
                if f"{chunk.topic}-{chunk.partition}" not in self._known
            ]
        staged: dict[int, Staged] = {}
        try:
            with closing(run_tasks(self._spark, tasks, encode, "kstore restore")) as results_of:
                for number, written in results_of:
                    chunk = tasks[number][0]
                    part = StagedPart(chunk.target, chunk.partition, written.pieces, written.count)
                    parts = (part,) if written.pieces else ()
                    staged[number] = Staged(number, 0, None, written.file, written.host, parts)
                    self._done += chunk.size
                    self._progress(self._done, self._total, f"{chunk.topic}-{chunk.partition}")
            options = parse_sink({"paths": json.dumps(list(encoding.log_dirs)), "topic": "-"})
            options = replace(options, lock_timeout_ms=lock_timeout_ms)
            messages = [staged[number] for number in sorted(staged)]
            publish(options, encoding.job, messages, identity, 0)
        except BaseException:
            _remove_staged(encoding.log_dirs[0], encoding.job)
            raise
        for number, (chunk, _) in enumerate(tasks):
            count = sum(part.count for part in staged[number].parts)
            self._done -= chunk.size
            self._note(chunk, count, final=True)
        _remove_staged(encoding.log_dirs[0], encoding.job)
        return self._reports()


def _behind(chunks: Sequence[Chunk], offset: int) -> list[Chunk]:
    """What is left of chunks from an offset on."""
    return [
        replace(chunk, start=max(chunk.start, offset)) for chunk in chunks if chunk.stop > offset
    ]


def _for(log: Log, encoding: Encoding, *, exact: bool = True) -> Encoding:
    """How batches for a log are made."""
    if log.config.message_magic != 2:
        raise InvalidConfigError(
            f"{log.topic} has message.format.version {log.config.message_format_version}; record "
            "batches v2 are restored: set it to 0.11.0 or later"
        )
    epoch = -1
    if exact:
        writer = log._writing()
        with writer.lock:
            writer.appender.make_ready()
            epoch = max(writer.appender.leader_epoch, 0)
    most = min(log.config.max_message_bytes, log.config.segment_bytes)
    size = min(encoding.batch_size, most)
    return replace(encoding, batch_size=size, most=most, leader_epoch=epoch)


def _append(log: Log, encoding: Encoding, written: Written) -> None:
    """Append a chunk's batches with the offsets they have; on disk when it returns."""
    directory = encoding.log_dirs[0]
    most = min(1 << 20, log.config.segment_bytes)
    for piece in written.pieces:
        data = _read(directory, piece)
        starts = [*memoryview(walk_frames(data)).tolist(), len(data)]
        first = int.from_bytes(data[:8], "big")
        if log.end_offset == log.start_offset and log.end_offset < first:
            log._writing().skip_to(first)
        begin = 0
        for start, end in pairwise(starts):
            if end - begin > most and start > begin:
                log.append_as_follower(data[begin:start])
                begin = start
        log.append_as_follower(data[begin:])
    if written.pieces:
        log.flush()
        DISK.remove(os.path.join(directory, written.file))


def _read(directory: str, piece: Piece) -> bytes:
    path = os.path.join(directory, piece.file)
    fd = DISK.open(path)
    try:
        data = DISK.pread(fd, piece.size, piece.position)
    finally:
        DISK.close(fd)
    if len(data) != piece.size or zlib.crc32(data) != piece.crc:
        raise CorruptRecordError(
            f"{piece.size} bytes were staged here, and are cut or damaged: run the job again",
            path=path,
            position=piece.position,
        )
    return data


def _remove_staged(directory: str, job: str) -> None:
    """Remove what a job staged, or an earlier run of it."""
    with suppress(StorageError):
        for name in DISK.listdir(directory):
            if name.startswith(f"{STAGED}{job}."):
                DISK.remove(os.path.join(directory, name))


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
    parser.add_argument("--topic", metavar="REGEX", help="topics of the source (default: all)")
    parser.add_argument("--partitions", metavar="N,N,...", help="partitions (default: all)")
    parser.add_argument(
        "--rename", action="append", default=[], metavar="OLD=NEW", help="a topic's new name"
    )
    parser.add_argument("--since", type=int, metavar="MS", help="records from this time on")
    parser.add_argument("--until", type=int, metavar="MS", help="records before this time")
    parser.add_argument("--start-offset", type=int, metavar="N", help="records from here on")
    parser.add_argument("--stop-offset", type=int, metavar="N", help="records before this offset")
    parser.add_argument("--key", action="append", default=[], help="records of this key, in UTF-8")
    parser.add_argument("--key-pattern", metavar="REGEX", help="records whose key matches")
    parser.add_argument(
        "--isolation", choices=("read_committed", "read_uncommitted"), default="read_committed",
        help="of a log directory's transactions (default: read_committed)",
    )  # fmt: skip
    parser.add_argument("--compression", choices=CODECS, default="none", help="default: none")
    parser.add_argument("--batch-size", type=int, default=131_072, metavar="BYTES")
    parser.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    add_flags(parser)


def run(arguments: argparse.Namespace, progress: Progress) -> int:
    options = _options(arguments)
    if arguments.dry_run:
        source = _source(options)
        plan = plan_segments(source) if source.log_dirs else plan_parquet(None, source)
        chunks = [chunk for each in plan.chunks.values() for chunk in each]
        size = sum(chunk.size for chunk in chunks)
        print(
            f"{len(chunks)} tasks would restore {len(plan.chunks)} partitions from {size:,} bytes"
        )
        return 0
    with open_session(arguments.master, "kstore restore") as spark:
        reports = restore(
            spark,
            None if arguments.log_dir is None else absolute_of(arguments.log_dir),
            **options,
            bootstrap_server=arguments.bootstrap_server,
            client=_client(arguments.command_config),
            keep_offsets=arguments.keep_offsets,
            compression=arguments.compression,
            batch_size=arguments.batch_size,
            progress=progress,
            resume=arguments.resume,
            lock_timeout_ms=int(arguments.lock_timeout * 1000),
        )
    return show(arguments.json, reports, tell(reports))


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What of the command line says which records."""
    pairs = [text.partition("=") for text in arguments.rename]
    if not all(old and new for old, _, new in pairs):
        raise InvalidConfigError("--rename takes OLD=NEW")
    numbers = None
    if arguments.partitions is not None:
        words = [word.strip() for word in arguments.partitions.split(",")]
        if not all(word.isdecimal() for word in words):
            raise InvalidConfigError(f"--partitions takes numbers, not {arguments.partitions!r}")
        numbers = [int(word) for word in words]
    return {
        "log_dirs": None if arguments.source is None else absolute_of(arguments.source),
        "parquet": arguments.parquet,
        "topic": arguments.topic,
        "partitions": numbers,
        "rename": {old: new for old, _, new in pairs},
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


def _source(options: dict[str, Any]) -> Source:
    return Source(
        options["log_dirs"],
        None if options["parquet"] is None else _paths(options["parquet"]),
        options["topic"],
        None if options["partitions"] is None else tuple(options["partitions"]),
        tuple(sorted(options["rename"].items())),
        options["chosen"],
        options["isolation"],
    )


def _client(path: str | None) -> dict[str, str]:
    """Settings of a properties file, under kafka-python's names."""
    if path is None:
        return {}
    text = DISK.read(path).decode()
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {name.strip().replace(".", "_"): value.strip() for name, _, value in pairs}


if __name__ == "__main__":
    from kstore.spark.jobs import restore as job  # tasks find its functions by this name

    raise SystemExit(main("restore", job.describe, job.run))
