"""Parses and checks the options and columns of a write before the job begins."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore.config import CODECS, StoreConfig, warn_of_codec
from kstore.errors import InvalidConfigError, InvalidTopicError
from kstore.hints.close_names import close_names
from kstore.partition_files import StagedRange, absolute_paths, filenames
from kstore.spark.local_disk import local_disk
from kstore.spark.source.options import (
    _choice,
    _duration,
    _flag,
    _integer,
    _size,
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
ABSENT = ""  # instead of a topic's identity: the topic does not exist
_MAX_PARTITIONS = 1 << 16  # of a topic that a commit creates: each is a directory with open files

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
    """The parsed options of a write."""

    paths: tuple[str, ...]
    topic: str | None
    compression: str | None
    batch_size: int  # 0: the topic's
    num_partitions: int  # of missing topics, which the commit creates; 0: they are an error
    write_id: str | None
    write_batch: int | None
    query_id: str | None  # of the streaming query whose micro-batch a batch job writes
    rebind: bool  # whether write_id may be bound to another query, or to other records
    lock_timeout_ms: int
    staging_retention_ms: int
    progress_retention_ms: int
    checkpoint: str | None
    include_headers: bool | None = None  # only for a warning: the column decides


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """The batches that an attempt staged for one partition."""

    topic: str
    partition: int
    ranges: tuple[StagedRange, ...]
    count: int
    topic_identity: str | None = None  # id or creation stamp; None: it has neither; or ABSENT
    largest: int = 0  # bytes of the largest batch
    keyless: bool = False  # whether it may have records without a key
    codec: int = -1  # of its batches; -1: unknown


@dataclass(frozen=True, slots=True)
class Staged:
    """The message of a task's attempt to the commit: what it staged."""

    task: int
    attempt: int
    query: str | None  # of a stream
    file: str
    host: str  # that staged it, for messages
    partitions: tuple[StagedPartition, ...]
    run: str | None = None  # Spark's job group: for a stream, the id of its run
    checksum: int | None = None  # of the rows in any order; None: not requested


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write; InvalidConfigError says what to write instead."""
    check_names(options, SINK_OPTIONS)
    given = {name.lower(): value for name, value in options.items()}
    codec = _choice(given, "compression", CODECS, "none") if "compression" in given else None
    if "writebatch" in given and not given.get("writeid"):
        raise InvalidConfigError(
            "writeBatch numbers the jobs of one writeId: set writeId, too, or repetitions are not "
            "recognized"
        )
    for name in ("queryId", "rebindWriteId"):
        if name.lower() in given and not given.get("writeid"):
            raise InvalidConfigError(f"{name} applies to a writeId: set writeId, too")
    if "queryid" in given and "writebatch" not in given:
        raise InvalidConfigError(
            "queryId names the query whose micro-batches writeBatch numbers: set writeBatch, too"
        )
    if "topic" in given:
        refuse_internal(given["topic"])
    wants_headers = _flag(given, "includeHeaders", False) if "includeheaders" in given else None
    return SinkOptions(
        paths=absolute_paths(list(parse_paths(given))),
        topic=given.get("topic"),
        compression=codec,
        batch_size=_size(given, "batchSize", 0),
        num_partitions=_integer(given, "numPartitions", 0, 1, _MAX_PARTITIONS) or 0,
        write_id=given.get("writeid") or None,
        write_batch=_integer(given, "writeBatch", None, 0),
        query_id=given.get("queryid") or None,
        rebind=_flag(given, "rebindWriteId", False),
        lock_timeout_ms=_duration(given, "lockTimeout", 60_000),
        staging_retention_ms=_duration(given, "stagingRetention", STAGING_RETENTION_MS),
        progress_retention_ms=_duration(given, "progressRetention", PROGRESS_RETENTION_MS),
        checkpoint=given.get("checkpointlocation"),
        include_headers=wants_headers,
    )


def refuse_internal(topic: str) -> None:
    """Raise InvalidTopicError for an internal topic, as a broker does."""
    if topic in filenames.INTERNAL_TOPICS:
        raise InvalidTopicError(
            f"{topic} is an internal topic, which only the group and transaction coordinators "
            "write. Write to another topic"
        )


def prepare_sink(
    options: Mapping[str, str], schema: "StructType", *, streaming: bool = False
) -> SinkOptions:
    """Parse the options and check the columns and directories, when the job is planned."""
    parsed = parse_sink(options)
    if streaming and any(name.lower() == "writebatch" for name in options):
        raise InvalidConfigError(
            "writeBatch is for batch jobs: Spark numbers the micro-batches of a stream"
        )
    check_columns(schema, parsed)
    check_visible(local_disk(), parsed.paths)
    if parsed.compression is not None:
        _warn_of_codec(parsed)
    return parsed


def _warn_of_codec(options: SinkOptions) -> None:
    """Warn of topics that store another codec than the requested one.

    Without the option ``topic`` that is any existing topic.
    """
    config = StoreConfig(max_mapped_segments=0)
    with Store(options.paths, "r", config=config, files=local_disk()) as store:
        for name in [options.topic] if options.topic is not None else store:
            if name in store and name not in filenames.INTERNAL_TOPICS:
                warn_of_codec(store[name].config, options.compression, name)


def check_columns(schema: "StructType", options: SinkOptions) -> None:
    """Refuse a frame that cannot be written. As in Spark's Kafka sink, other columns are ignored.

    A name that is similar to one of the sink's columns is refused as a misspelling.
    """
    types_by_name = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, types in COLUMNS.items():
        kind = types_by_name.get(name)
        if kind is not None and kind not in types and not (name == "topic" and options.topic):
            raise InvalidConfigError(
                f"column {name!r} is {kind}, and must be {' or '.join(types)}: cast it"
            )
    for name in types_by_name:
        close = close_names(name.lower(), COLUMNS, 1, 0.8)
        if name not in COLUMNS and name != "timestampType" and close:
            raise InvalidConfigError(
                f"there is no column {name!r}; is {close[0]!r} meant? Rename it, or drop it"
            )
    if "value" not in types_by_name:
        raise InvalidConfigError("there is no column 'value'")
    has_headers = "headers" in types_by_name
    if options.include_headers is not None and options.include_headers != has_headers:
        _LOGGER.warning(
            "includeHeaders is %s, but headers are written if the frame has a column 'headers', as "
            "by Spark's Kafka sink: %s",
            str(options.include_headers).lower(),
            "add the column" if options.include_headers else "drop the column to omit them",
        )
    if "topic" not in types_by_name and options.topic is None:
        raise InvalidConfigError("no topic: set the option 'topic', or add a column 'topic'")
