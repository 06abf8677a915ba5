"""Names of everything in a log directory: formats and parses them, and no other module does.

Rules: Kafka's LogFileUtils, UnifiedLog.parseTopicPartitionName and Topic.validate. A base offset
is written with exactly 20 digits, which is how Kafka reopens a segment; files with other spellings
of a number are ignored.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from kstore.errors import InvalidTopicError

LOG = "log"
INDEX = "index"
TIME_INDEX = "timeindex"
TRANSACTION_INDEX = "txnindex"
SNAPSHOT = "snapshot"
KRAFT_SNAPSHOT = "checkpoint"  # of the cluster's metadata: batches outside of the log
SEGMENT_KINDS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)  # the order in which Kafka renames

DELETED_SUFFIX = ".deleted"  # retired, to be removed after a delay
CLEANED_SUFFIX = ".cleaned"  # being written by compaction, incomplete
SWAP_SUFFIX = ".swap"  # complete, about to replace old segments

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLUSTER_METADATA = "__cluster_metadata-0"  # KRaft's own log: of no topic

# kstore's own, in a log directory. A prefix is followed by an id or a group.
TOPICS_FILE = "kstore.topics"  # settings of the topics
BROKER_FILE = "kstore.broker"  # the cluster id, settings of the broker, topics that follow them
ACLS = "kstore.acls"  # who may do what, for a broker
CREDENTIALS = "kstore.credentials"  # what a broker knows of its users' passwords
LISTENERS = "kstore.listeners"  # addresses of the broker that serves the directory now
RESERVE = "kstore.reserve"  # disk space that a broker keeps to free more on a full disk
UNCLEANABLE = "kstore.uncleanable"  # partitions that the log cleaner skips
OFFSETS_PREFIX = "kstore.offsets."  # committed offsets of one group
OFFSETS_LOCK_PREFIX = "kstore.offsets-lock."
PUBLISHING_PREFIX = "kstore.publishing."  # the manifest of a publication in progress
PUBLISHED_PREFIX = "kstore.published."  # what a Spark query published last
STAGED_PREFIX = "kstore.staged."  # batches that a Spark task wrote for a publication
UNFINISHED = "kstore.unfinished"  # in a log directory that repair has not finished writing
MOVED = "kstore.moved"  # in a partition's folder: this copy is complete, the other is removed

FENCE = "kstore.fence"  # in a partition's folder: readers show nothing behind this barrier
KNOWN_GAPS = "kstore.gaps"  # offsets that are in no batch, and are no loss
REMOVED_ENDS = "kstore.ends"  # markers to write again that a truncation removes
LOST_SEGMENTS = "kstore.lost"  # offsets whose segments disappeared
HANDOVER = "kstore.handover"  # in a broker's partition folder: the copy is not complete
UNSYNCED = "kstore.unsynced"  # a sync failed: the disk may lack what reads show
CUT_PREFIX = "kstore.cut."  # bytes that recovery cut off
UNREADABLE_PREFIX = "kstore.unreadable."  # a side file that does not parse
REWRITE_PREFIX = "kstore.rewrite."  # files that are being prepared beside a log
STAGED_SUFFIX = ".staged"  # of those: no Kafka file has this suffix
TEMPORARY_SUFFIX = ".tmp"  # of a file until it is complete and renamed

DELETE = "delete"
FUTURE = "future"
STRAY = "stray"

SEAL = "kstore.seal."

MAX_TOPIC_LENGTH = 249
_MAX_NAME_LENGTH = 255  # of the file systems
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1

_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_SEGMENT_FILE = re.compile(
    r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap)?"
)
_CUT_FILE = re.compile(r"kstore\.cut\.([0-9]{20})\.([0-9]{1,10})\.([0-9]{1,10})")
_KRAFT_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_RETIRED = re.compile(r"(.+)\.([^.]+)-(delete|future|stray)")


class Parsed(NamedTuple):
    """A file of a segment, or a producer snapshot: its offset, kind and suffix ("" if live)."""

    base_offset: int
    kind: str
    suffix: str


class PartitionName(NamedTuple):
    """A partition's directory; ``state`` is "" (live), "delete", "future" or "stray"."""

    topic: str
    partition: int
    state: str
    unique: str  # Kafka's random part of a name that is not live, else ""


class CutName(NamedTuple):
    """A file with bytes that recovery cut from a log, at that position of the segment's file."""

    base_offset: int
    position: int
    number: int


# --- files of one partition ---------------------------------------------------------------


def file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """``<20 digits>.<kind><suffix>``; base_offset must be 0 to 2^63 - 1."""
    if not 0 <= base_offset <= _INT64_MAX:
        raise ValueError(f"an offset must be from 0 to 2^63 - 1, not {base_offset}")
    return f"{base_offset:020d}.{kind}{suffix}"


def log_name(base_offset: int, suffix: str = "") -> str:
    return file_name(base_offset, LOG, suffix)


def index_name(base_offset: int, suffix: str = "") -> str:
    return file_name(base_offset, INDEX, suffix)


def time_index_name(base_offset: int, suffix: str = "") -> str:
    return file_name(base_offset, TIME_INDEX, suffix)


def transaction_index_name(base_offset: int, suffix: str = "") -> str:
    return file_name(base_offset, TRANSACTION_INDEX, suffix)


def snapshot_name(end_offset: int, suffix: str = "") -> str:
    """A producer snapshot is named after the first offset that it does not cover."""
    return file_name(end_offset, SNAPSHOT, suffix)


def parse(name: str) -> Parsed | None:
    """Parse a segment's file name; None for every other name, however similar."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None:
        return None
    base_offset = int(match[1])
    if base_offset > _INT64_MAX:
        return None
    return Parsed(base_offset, match[2], match[3] or "")


def parse_kraft_snapshot(name: str) -> tuple[int, int] | None:
    """End offset and epoch of a snapshot of the cluster's metadata."""
    match = _KRAFT_SNAPSHOT.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def cut_name(base_offset: int, position: int, number: int) -> str:
    """The file for bytes that recovery cut from a segment; ``number`` distinguishes the cuts."""
    return f"{CUT_PREFIX}{base_offset:020d}.{position}.{number}"


def unreadable_name(name: str, number: int) -> str:
    """The file name of a quarantined side file, which does not parse."""
    return f"{UNREADABLE_PREFIX}{name}.{number}"


def parse_cut_name(name: str) -> CutName | None:
    match = _CUT_FILE.fullmatch(name)
    return None if match is None else CutName(int(match[1]), int(match[2]), int(match[3]))


def header_checksums_name(base_offset: int) -> str:
    """The file with the header checksums of a rolled segment."""
    return f"{SEAL}{base_offset:020d}"


# --- topics and partition directories --------------------------------------------------------


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError unless name is 1 to 249 of ``[a-zA-Z0-9._-]``, not ``.`` or ``..``.

    The rule of Kafka's Topic.validate; it also makes every topic name a safe file name.
    """
    if not isinstance(name, str):
        raise InvalidTopicError(f"a topic name is text, not {type(name).__name__}")
    if not name:
        raise InvalidTopicError("a topic name cannot be empty")
    if name in (".", ".."):
        raise InvalidTopicError("a topic cannot be named '.' or '..'")
    if len(name) > MAX_TOPIC_LENGTH:
        raise InvalidTopicError(
            f"a topic name has at most {MAX_TOPIC_LENGTH} characters, this one {len(name)}: "
            f"{name[:40]!r}..."
        )
    if _TOPIC.fullmatch(name) is None:
        raise InvalidTopicError(
            f"a topic name consists of letters, digits, '.', '_' and '-' (ASCII), not {name!r}"
        )


def collision_key(topic: str) -> str:
    """Equal for two topics that Kafka refuses together, as it treats ``.`` and ``_`` as equal."""
    return topic.replace(".", "_")


def partition_directory(topic: str, partition: int) -> str:
    """``<topic>-<partition>``, the directory of a live partition."""
    check_topic_name(topic)
    if not 0 <= partition <= _INT32_MAX:
        raise ValueError(f"a partition number must be from 0 to 2^31 - 1, not {partition}")
    return f"{topic}-{partition}"


def retired_directory(topic: str, partition: int, state: str, unique: str) -> str:
    """``<topic>-<partition>.<unique>-<state>``: a partition being deleted, moved or set aside.

    Shortens the topic where the name would exceed 255 characters, as Kafka does.
    """
    if state not in (DELETE, FUTURE, STRAY):
        raise ValueError(f"a directory's state is delete, future or stray, not {state!r}")
    live = partition_directory(topic, partition)
    ending = f"-{partition}.{unique}-{state}"
    room = _MAX_NAME_LENGTH - len(ending)
    return live[: min(len(topic), room)] + ending


# Topics that brokers and coordinators write themselves.
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def is_of_internal_topic(directory: str) -> bool:
    """Whether a partition's directory is of an internal topic."""
    parsed = parse_partition_directory(directory.rpartition("/")[2])
    return parsed is not None and parsed.topic in INTERNAL_TOPICS


def parse_partition_directory(name: str) -> PartitionName | None:
    """Parse a partition directory's name; None where it is not one.

    Stricter than Kafka: the partition must be written as Kafka writes it (no sign,
    no leading zero), because any other spelling would be reopened under another name.
    """
    state = unique = ""
    if name.endswith(("-delete", "-future", "-stray")):
        match = _RETIRED.fullmatch(name)
        if match is None:
            return None
        name, unique, state = match[1], match[2], match[3]
    topic, _, number = name.rpartition("-")
    if not _is_topic(topic):
        return None
    # Opening a store of ten thousand partitions takes mostly this: so no pattern here.
    if not (number.isascii() and number.isdigit()) or (number[0] == "0" and number != "0"):
        return None
    partition = int(number) if len(number) <= 10 else _INT32_MAX + 1
    if partition > _INT32_MAX:
        return None
    return PartitionName(topic, partition, state, unique)


@lru_cache(maxsize=1024)
def _is_topic(topic: str) -> bool:
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..")
