"""Options and columns of the sink, checked before a job begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kstore.config import CODECS
from kstore.errors import InvalidConfigError, InvalidTopicError
from kstore.log.files import DISK
from kstore.log.log_dir import absolute_paths
from kstore.log.publication import Piece
from kstore.spark.options import _choice, _duration, _size, _whole, check_names, parse_paths
from kstore.spark.reading import check_visible
from kstore.spark.snapshot import INTERNAL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STAGED = "kstore.staged."
STAGING_RETENTION_MS = 7 * 86_400_000
PROGRESS_RETENTION_MS = 90 * 86_400_000
_MAX_PARTITIONS = 1 << 16  # of a topic that a commit makes: each is a directory with open files

SINK_OPTIONS = (
    "topic", "compression", "batchSize", "numPartitions", "writeId", "writeBatch", "lockTimeout",
    "stagingRetention", "progressRetention",
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
    write_batch: int
    lock_timeout_ms: int
    staging_retention_ms: int
    progress_retention_ms: int
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What an attempt staged for one partition."""

    topic: str
    partition: int
    pieces: tuple[Piece, ...]
    count: int
    topic_id: str | None = None  # None: the topic was not there, or has none
    largest: int = 0  # bytes of the largest batch
    keyless: bool = False  # whether records without a key may be among them


@dataclass(frozen=True, slots=True)
class Staged:
    """What one attempt of a task staged."""

    task: int
    attempt: int
    query: str | None  # of a stream
    file: str
    host: str  # that staged it, for messages
    parts: tuple[StagedPart, ...]


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Everything a write asks for; InvalidConfigError says what is wrong and what to write."""
    check_names(options, SINK_OPTIONS)
    given = {name.lower(): value for name, value in options.items()}
    codec = _choice(given, "compression", CODECS, "none") if "compression" in given else None
    if "writebatch" in given and not given.get("writeid"):
        raise InvalidConfigError(
            "writeBatch numbers the jobs of one writeId: set that, too, or nothing is recognised"
        )
    if "topic" in given:
        refuse_internal(given["topic"])
    return SinkOptions(
        paths=absolute_paths(list(parse_paths(given))),
        topic=given.get("topic"),
        compression=codec,
        batch_size=_size(given, "batchSize", 0),
        num_partitions=_whole(given, "numPartitions", 0, 1, _MAX_PARTITIONS) or 0,
        write_id=given.get("writeid") or None,
        write_batch=_whole(given, "writeBatch", 0, 0) or 0,
        lock_timeout_ms=_duration(given, "lockTimeout", 60_000),
        staging_retention_ms=_duration(given, "stagingRetention", STAGING_RETENTION_MS),
        progress_retention_ms=_duration(given, "progressRetention", PROGRESS_RETENTION_MS),
        checkpoint=given.get("checkpointlocation"),
    )


def refuse_internal(topic: str) -> None:
    """InvalidTopicError for a topic that only Kafka itself writes, as a broker says."""
    if topic in INTERNAL:
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
    return wanted


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
    if "topic" not in there and options.topic is None:
        raise InvalidConfigError("which topic? Set the option 'topic', or add a column 'topic'")
