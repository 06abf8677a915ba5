"""Options and columns of the sink, checked before a job begins."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kstore.config import CODECS, StoreConfig, warn_of_codec
from kstore.errors import InvalidConfigError, InvalidTopicError
from kstore.partition_files import DISK, StagedRange, absolute_paths, filenames
from kstore.spark.source.options import (
    _choice,
    _duration,
    _flag,
    _size,
    _whole,
    check_names,
    parse_paths,
)
from kstore.spark.source.range_reader import check_visible
from kstore.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_LOGGER = logging.getLogger("kstore")
STAGING_RETENTION_MS = 7 * 86_400_000
PROGRESS_RETENTION_MS = 90 * 86_400_000
ABSENT = ""  # in place of a topic's identity: there is no such topic
_MAX_PARTITIONS = 1 << 16  # of a topic that a commit makes: each is a directory with open files

SINK_OPTIONS = (
    "topic", "compression", "batchSize", "numPartitions", "writeId", "writeBatch", "queryId",
    "rebindWriteId", "lockTimeout", "stagingRetention", "progressRetention", "includeHeaders",
)  # fmt: skip

COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a write asks for."""

    paths: tuple[str, ...]
    topic: str | None
    compression: str | None
    batch_size: int  # 0: the topic's
    num_partitions: int  # of topics that are not there; 0: they are an error
    write_id: str | None
    write_batch: int | None
    query_id: str | None  # of the streaming query whose micro-batch a batch job writes
    rebind: bool  # whether write_id may be bound to another query, or to other records
    lock_timeout_ms: int
    staging_retention_ms: int
    progress_retention_ms: int
    checkpoint: str | None
    include_headers: bool | None = None  # as given: the column decides, as in Spark's connector


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What an attempt staged for one partition."""

    topic: str
    partition: int
    pieces: tuple[StagedRange, ...]
    count: int
    topic_identity: str | None = None  # id or creation stamp; None: it has neither; or ABSENT
    largest: int = 0  # bytes of the largest batch
    keyless: bool = False  # whether records without a key may be among them
    codec: int = -1  # of its batches; -1: not said


@dataclass(frozen=True, slots=True)
class Staged:
    """What one attempt of a task staged."""

    task: int
    attempt: int
    query: str | None  # of a stream
    file: str
    host: str  # that staged it, for messages
    parts: tuple[StagedPart, ...]
    run: str | None = None  # Spark's job group: of a stream, the id of its run
    checksum: int | None = None  # of the rows, whatever their order; None: not asked for


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Everything a write asks for; InvalidConfigError says what is wrong and what to write."""
    check_names(options, SINK_OPTIONS)
    given = {name.lower(): value for name, value in options.items()}
    codec = _choice(given, "compression", CODECS, "none") if "compression" in given else None
    if "writebatch" in given and not given.get("writeid"):
        raise InvalidConfigError(
            "writeBatch numbers the jobs of one writeId: set that, too, or nothing is recognised"
        )
    for name in ("queryId", "rebindWriteId"):
        if name.lower() in given and not given.get("writeid"):
            raise InvalidConfigError(f"{name} says more about a writeId: set that, too")
    if "queryid" in given and "writebatch" not in given:
        raise InvalidConfigError(
            "queryId names the query whose micro-batches writeBatch numbers: set that, too"
        )
    if "topic" in given:
        refuse_internal(given["topic"])
    wants_headers = _flag(given, "includeHeaders", False) if "includeheaders" in given else None
    return SinkOptions(
        paths=absolute_paths(list(parse_paths(given))),
        topic=given.get("topic"),
        compression=codec,
        batch_size=_size(given, "batchSize", 0),
        num_partitions=_whole(given, "numPartitions", 0, 1, _MAX_PARTITIONS) or 0,
        write_id=given.get("writeid") or None,
        write_batch=_whole(given, "writeBatch", None, 0),
        query_id=given.get("queryid") or None,
        rebind=_flag(given, "rebindWriteId", False),
        lock_timeout_ms=_duration(given, "lockTimeout", 60_000),
        staging_retention_ms=_duration(given, "stagingRetention", STAGING_RETENTION_MS),
        progress_retention_ms=_duration(given, "progressRetention", PROGRESS_RETENTION_MS),
        checkpoint=given.get("checkpointlocation"),
        include_headers=wants_headers,
    )


def refuse_internal(topic: str) -> None:
    """InvalidTopicError for a topic that only Kafka itself writes, as a broker says."""
    if topic in filenames.INTERNAL_TOPICS:
        raise InvalidTopicError(
            f"{topic} is internal: groups and transactions are kept there, and it is written by "
            "nobody else. Write to another topic"
        )


def prepare_sink(
    options: Mapping[str, str], schema: "StructType", *, streaming: bool = False
) -> SinkOptions:
    """Options and columns, checked where the job is planned, and that the directories are seen."""
    wanted = parse_sink(options)
    if streaming and any(name.lower() == "writebatch" for name in options):
        raise InvalidConfigError(
            "writeBatch is for batch jobs: the micro-batches of a stream have numbers of their own"
        )
    check_columns(schema, wanted)
    check_visible(DISK, wanted.paths)
    if wanted.compression is not None:
        _warn_of_codec(wanted)
    return wanted


def _warn_of_codec(options: SinkOptions) -> None:
    """Warn where a topic of the store keeps another codec than the one that is asked for.

    Without the option ``topic`` every topic that is there may be written to.
    """
    with Store(options.paths, "r", config=StoreConfig(max_mapped_segments=0)) as store:
        for name in [options.topic] if options.topic is not None else store:
            if name in store and name not in filenames.INTERNAL_TOPICS:
                warn_of_codec(store[name].config, options.compression, name)


def check_columns(schema: "StructType", options: SinkOptions) -> None:
    """Refuse a frame that cannot be written; columns of other names are left out, as by Kafka's.

    A name that is nearly one of the known ones is taken for a slip of the pen.
    """
    there = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, types in COLUMNS.items():
        kind = there.get(name)
        if kind is not None and kind not in types and not (name == "topic" and options.topic):
            raise InvalidConfigError(
                f"column {name!r} is {kind}, and has to be {' or '.join(types)}: cast it"
            )
    for name in there:
        close = get_close_matches(name.lower(), COLUMNS, 1, 0.8)
        if name not in COLUMNS and name != "timestampType" and close:
            raise InvalidConfigError(
                f"there is no column {name!r}; is {close[0]!r} meant? Rename it, or drop it"
            )
    if "value" not in there:
        raise InvalidConfigError("there is no column 'value'")
    if options.include_headers is not None and options.include_headers != ("headers" in there):
        _LOGGER.warning(
            "includeHeaders is %s, but headers are written where the frame has a column 'headers', "
            "as by Spark's Kafka sink: %s",
            str(options.include_headers).lower(),
            "add the column" if options.include_headers else "drop the column to leave them out",
        )
    if "topic" not in there and options.topic is None:
        raise InvalidConfigError("which topic? Set the option 'topic', or add a column 'topic'")
