"""Committed offsets: a writer keeps them in ``__consumer_offsets``, other processes in a file.

The process that has the store open for writing appends Kafka's own records. Any other one keeps
``kstore.offsets.<group>`` in the log directory, JSON with a format version, replaced atomically;
the next writer folds it into ``__consumer_offsets`` and removes it. A reader uses, for each
partition, the newer of the two by commit timestamp.

The file identifies the topics of its offsets by topic id (or creation stamp): offsets of a topic
that was deleted since are ignored. Kafka's records have no field for an id. There a deletion
writes tombstones.

A commit's timestamp is later than that of the previous commit, even if the clock stood still or
went back: so "newer" never depends on a clock.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from os.path import join
from time import monotonic, sleep, time_ns
from typing import NamedTuple, NoReturn, Protocol

from kstore.coordinator.group.offset_records import (
    OffsetCommit,
    OffsetKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    GroupConflictError,
    NewerFormatError,
    StoreLockedError,
)
from kstore.files.filenames import OFFSETS_LOCK_PREFIX, OFFSETS_PREFIX
from kstore.files.files import Files, Lock
from kstore.record import Record

_LOGGER = logging.getLogger("kstore")

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions
OFFSETS_PROPERTIES = {"cleanup.policy": "compact", "segment.bytes": "104857600"}

FORMAT = 2  # format 1 has no topic ids
MAX_GROUP_FILE_SIZE = 1 << 26

_WAIT_SECONDS = 10.0
_NAME_LIMIT = 200
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

PartitionKey = tuple[str, int]  # topic, partition
Commits = dict[PartitionKey, OffsetCommit]
TopicIds = dict[str, str | None]  # by name: the id or creation stamp, None for neither
IsSameTopic = Callable[[str, str | None], bool]  # whether the topic of that name has that identity


class FiledOffsets(NamedTuple):
    """The content of a ``kstore.offsets.*`` file; a topic of format 1 is not in ``topic_ids``."""

    group: str
    commits: Commits
    topic_ids: TopicIds

    def split(self, is_same: IsSameTopic) -> "SplitOffsets":
        """The commits by whether their topic is still the one that they are of."""
        same: dict[str, bool] = {}
        errors: dict[str, CorruptFileError] = {}
        for topic in {topic for topic, _ in self.commits}:
            try:
                is_known = topic in self.topic_ids
                same[topic] = not is_known or is_same(topic, self.topic_ids[topic])
            except CorruptFileError as error:  # concerns no other topic
                errors[topic] = error
        return SplitOffsets(
            {tp: each for tp, each in self.commits.items() if same.get(tp[0]) is True},
            {tp: each for tp, each in self.commits.items() if same.get(tp[0]) is False},
            {tp: each for tp, each in self.commits.items() if tp[0] in errors},
            errors,
        )


class SplitOffsets(NamedTuple):
    """Commits of a file by topic."""

    valid: Commits
    others: Commits  # their names are another topic's now
    undecided: Commits  # of topics whose identity cannot be read
    errors: dict[str, CorruptFileError]  # by such a topic


class StoredRecord(Protocol):
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class OffsetsLog(Protocol):
    """The log of a partition of ``__consumer_offsets``."""

    @property
    def partition(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def extend(self, values: Iterable[Record]) -> range: ...
    def flush(self) -> None: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def settled(self, start: int) -> Iterable[StoredRecord]:
        """Records up to the end, without those of uncommitted transactions."""


def group_file_name(group: str, prefix: str = OFFSETS_PREFIX) -> str:
    """The name of a group's file: plain characters unchanged, others as ``%`` and two digits.

    A dot is not plain, so that no group's file has the name of another's ``.tmp`` file.
    """
    plain = "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in group.encode())
    if len(plain) > _NAME_LIMIT:
        plain = "~" + sha256(group.encode()).hexdigest()  # the file contains the group's name
    return prefix + plain


def newest_commits(*tables: Mapping[PartitionKey, OffsetCommit]) -> Commits:
    """For each partition the commit with the latest timestamp; the later table wins a tie."""
    merged: Commits = {}
    for table in tables:
        for tp, commit in table.items():
            known = merged.get(tp)
            if known is None or commit.commit_timestamp >= known.commit_timestamp:
                merged[tp] = commit
    return merged


class Claims:
    """The partitions that this consumer reads for its group: one lock each, across processes.

    A lock is one byte of ``kstore.offsets-lock.<group>``, whose position is a hash of topic and
    partition; byte 0 guards changes of the group's file. Not thread-safe.
    """

    def __init__(self, files: Files, directory: str, group: str) -> None:
        self._files = files
        self._group = group
        self._path = join(directory, group_file_name(group, OFFSETS_LOCK_PREFIX))
        self._held: dict[PartitionKey, Lock] = {}

    def take(self, tp: PartitionKey) -> None:
        """Claim a partition; GroupConflictError if another consumer of the group has it."""
        if tp in self._held:
            return
        digest = sha256(f"{tp[0]}-{tp[1]}".encode()).digest()
        start = 1 + int.from_bytes(digest[:7], "big")
        try:
            self._held[tp] = self._files.lock(self._path, start, 1)
        except StoreLockedError:
            raise GroupConflictError(
                f"another consumer of group {self._group!r} reads partition {tp[0]}-{tp[1]}",
                path=self._path,
            ) from None

    def release(self, tp: PartitionKey) -> None:
        lock = self._held.pop(tp, None)
        if lock is not None:
            lock.release()

    def release_all(self) -> None:
        for tp in list(self._held):
            self.release(tp)

    def guard(self) -> Lock:
        """Lock the group's file briefly, waiting for its current holder."""
        return _wait_for(self._files, self._path)


def _wait_for(files: Files, path: str) -> Lock:
    end = monotonic() + _WAIT_SECONDS
    while True:
        try:
            return files.lock(path, 0, 1)
        except StoreLockedError:
            if monotonic() >= end:
                raise
            sleep(0.001)


class OffsetsFile:
    """``kstore.offsets.<group>``: the commits of a process that may not write the store's logs.

    Its user holds the guard of the group's :class:`Claims` while it changes the file.
    """

    def __init__(self, files: Files, directory: str, group: str) -> None:
        self._files = files
        self._group = group
        self.path = join(directory, group_file_name(group))

    def read(self) -> FiledOffsets:
        """The contents of the file, empty if there is none.

        Raises CorruptFileError if it does not parse, NewerFormatError for a later format.
        """
        if not self._files.exists(self.path):
            return FiledOffsets(self._group, {}, {})
        filed = parse_group_file(self._files.read(self.path, MAX_GROUP_FILE_SIZE), self.path)
        if filed.group != self._group:
            raise CorruptFileError(
                f"the file belongs to group {filed.group!r}, not {self._group!r}", path=self.path
            )
        return filed

    def write(self, commits: Mapping[PartitionKey, OffsetCommit], topic_ids: TopicIds) -> None:
        """Replace the file; remove it if there are no commits."""
        if not commits:
            self.remove()
            return
        topics: dict[str, dict[str, object]] = {}
        for (topic, partition), commit in sorted(commits.items()):
            topics.setdefault(topic, {})[str(partition)] = {
                "offset": commit.offset,
                "leader_epoch": commit.leader_epoch,
                "metadata": commit.metadata,
                "commit_timestamp": commit.commit_timestamp,
            }
        ids = {topic: topic_ids[topic] for topic in topics if topic in topic_ids}
        document = {
            "format": FORMAT, "group": self._group, "topic_ids": ids, "offsets": topics,
        }  # fmt: skip
        self._files.write_atomically(self.path, json.dumps(document, indent=1).encode() + b"\n")

    def remove(self) -> None:
        if self._files.exists(self.path):
            self._files.remove(self.path)


def parse_group_file(data: bytes, path: str) -> FiledOffsets:
    """The content of a ``kstore.offsets.*`` file."""

    def bad(what: str) -> NoReturn:
        raise CorruptFileError(f"not a file of committed offsets: {what}", path=path)

    def integer(value: object, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            bad(f"{value!r} where a number from {low} to {high} belongs")
        return value

    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        bad(str(error))
    if not isinstance(document, dict):
        bad("no object")
    version = integer(document.get("format"), 1, 2**31)
    if version > FORMAT:
        raise NewerFormatError(
            f"format {version} was written by a newer kstore; known formats: up to {FORMAT}",
            path=path,
        )
    group, topics = document.get("group"), document.get("offsets")
    if not isinstance(group, str) or not isinstance(topics, dict):
        bad("no group or no offsets")
    ids = document.get("topic_ids", {})
    if not isinstance(ids, dict) or not all(isinstance(e, str | None) for e in ids.values()):
        bad("topic_ids is not an object of texts")
    commits: Commits = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            bad(f"topic {topic!r}")
        for partition, body in partitions.items():
            if not partition.isdecimal() or len(partition) > 10 or not isinstance(body, dict):
                bad(f"partition {partition!r} of topic {topic!r}")
            metadata = body.get("metadata", "")
            if not isinstance(metadata, str):
                bad(f"metadata of {topic}-{partition}")
            commits[topic, int(partition)] = OffsetCommit(
                integer(body.get("offset"), 0, 2**63 - 1),
                integer(body.get("commit_timestamp"), -1, 2**63 - 1),
                metadata,
                integer(body.get("leader_epoch", -1), -1, 2**31 - 1),
            )
    return FiledOffsets(group, commits, ids)


def commit_records(group: str, commits: Mapping[PartitionKey, OffsetCommit]) -> list[Record]:
    """Records for ``__consumer_offsets``."""
    now = time_ns() // 1_000_000
    return [
        Record(0, now, encode_offset_key(OffsetKey(group, *tp)), encode_offset_value(commit))
        for tp, commit in commits.items()
    ]


def find_undecodable_keys(records: Iterable[StoredRecord]) -> Iterator[tuple[int, str]]:
    """Offset and reason for each record of ``__consumer_offsets`` whose key does not decode."""
    for record in records:
        try:
            if record.key is not None:
                decode_offset_key(record.key)
        except CorruptRecordError as error:
            yield record.offset, error.reason


class OffsetsTable:
    """The commits in one partition of ``__consumer_offsets``, updated as the log grows.

    Not thread-safe.
    """

    def __init__(self, log: OffsetsLog) -> None:
        self._log = log
        self._next = -1
        # Values stay encoded until their group is read: a corrupt one affects only its group.
        self._groups: dict[str, dict[PartitionKey, bytes | None]] = {}  # None: deleted
        self._unstable: dict[str, dict[PartitionKey, bytes | None]] = {}
        self._keys: dict[str, set[bytes]] = {}  # of valid commits, by topic
        self._unstable_keys: dict[str, set[bytes]] = {}
        self._skipped: set[int] = set()  # offsets of records whose keys do not decode

    def group(self, group: str) -> Commits:
        """A group's current commits; CorruptRecordError if one of them does not decode."""
        self._catch_up()
        merged = {**self._groups.get(group, {}), **self._unstable.get(group, {})}
        return {tp: decode_offset_value(value) for tp, value in merged.items() if value is not None}

    @property
    def is_closed(self) -> bool:
        """Whether the log was closed: ``__consumer_offsets`` itself was deleted."""
        return self._log.closed

    def flush(self) -> None:
        self._log.flush()

    def forget_topic(self, topic: str) -> int:
        """Append tombstones for all commits of a topic's partitions, and flush; returns how many.

        Kafka's GroupCoordinator.onPartitionsDeleted. Each tombstone has the key of the commit
        that it deletes, so that compaction removes the commit. A commit whose value does not
        decode gets one, too.
        """
        self._catch_up()
        now = time_ns() // 1_000_000
        tombstones = [
            Record(0, now, key, None)
            for key in sorted(self._keys.get(topic, set()) | self._unstable_keys.get(topic, set()))
        ]
        if tombstones:
            self._log.extend(tombstones)
        self.flush()
        return len(tombstones)

    def append(self, group: str, commits: Mapping[PartitionKey, OffsetCommit]) -> None:
        """Append commits in Kafka's format, in one batch; without a flush, as Kafka."""
        self._log.extend(commit_records(group, commits))

    def _catch_up(self) -> None:
        """Read new records; those behind an open transaction are read again later.

        A transaction's commit takes effect at its offset in the log, as in Kafka.
        """
        log, stable = self._log, self._log.last_stable_offset
        if not log.start_offset <= self._next <= stable:
            self._next, self._groups, self._keys = log.start_offset, {}, {}
        self._unstable, self._unstable_keys = {}, {}
        for record in log.settled(self._next):
            data = record.key
            try:
                key = None if data is None else decode_offset_key(data)
            except CorruptRecordError as error:
                self._warn_of_key(record.offset, error)
                continue
            if key is None or data is None:
                continue
            is_stable = record.offset < stable
            changes = self._groups if is_stable else self._unstable
            changes.setdefault(key.group, {})[key.topic, key.partition] = record.value
            keys = (self._keys if is_stable else self._unstable_keys).setdefault(key.topic, set())
            if record.value is not None:
                keys.add(data)
            elif is_stable:
                keys.discard(data)
        self._next = stable

    def _warn_of_key(self, offset: int, error: CorruptRecordError) -> None:
        """Warn once of a record that is skipped because its key does not decode."""
        if offset not in self._skipped:
            self._skipped.add(offset)
            _LOGGER.warning(
                "%s-%d: the record at offset %d is skipped, its key does not decode: %s",
                OFFSETS_TOPIC, self._log.partition, offset, error,
            )  # fmt: skip


class GroupOffsets:
    """A group's committed offsets, from log and file. Not thread-safe.

    ``is_same_topic`` checks the topic identities in the file.
    """

    def __init__(
        self, files: Files, directory: str, group: str, is_same_topic: IsSameTopic
    ) -> None:
        self.group = group
        self.claims = Claims(files, directory, group)
        self._file = OffsetsFile(files, directory, group)
        self._is_same_topic = is_same_topic
        self._known: Commits | None = None  # used for their timestamps
        self.errors: dict[str, CorruptFileError] = {}  # by topics that the last fetch skipped

    def fetch(self, table: OffsetsTable | None) -> Commits:
        """All commits of the group: the newer one of log and file for each partition.

        ``table`` is the group's partition of ``__consumer_offsets``, None if there is none.
        Skips commits in the file of a topic whose identity cannot be read: see ``errors``.
        """
        # The file first, because a writer moves it to the log.
        filed = self._file.read().split(self._is_same_topic)
        self.errors = filed.errors
        logged = {} if table is None else table.group(self.group)
        found = newest_commits(logged, filed.valid)
        self._known = newest_commits(self._known or {}, found)
        return found

    def commit(
        self,
        commits: Mapping[PartitionKey, OffsetCommit],
        table: OffsetsTable | None,
        topic_ids: TopicIds,
        *,
        to_log: bool,
    ) -> None:
        """Store commits, each with a later timestamp than its partition's last commit."""
        if self._known is None:
            self.fetch(table)
        known = self._known or {}
        stamped = self._stamped(commits, known)
        if table is not None and to_log:
            table.append(self.group, stamped)
        else:
            with self.claims.guard():
                filed = self._file.read()
                known_now = filed.split(
                    lambda topic, known: topic not in topic_ids or self._is_same_topic(topic, known)
                )
                kept = newest_commits(known_now.valid, known_now.undecided, stamped)
                self._file.write(kept, {**filed.topic_ids, **topic_ids})
        self._known = {**known, **stamped}

    def records(
        self, commits: Mapping[PartitionKey, OffsetCommit], table: OffsetsTable | None
    ) -> list[Record]:
        """Commits as records for a transaction, with timestamps as by :meth:`commit`."""
        self.fetch(table)
        return commit_records(self.group, self._stamped(commits, self._known or {}))

    def _stamped(self, commits: Mapping[PartitionKey, OffsetCommit], known: Commits) -> Commits:
        now = time_ns() // 1_000_000
        stamped: Commits = {}
        for tp, commit in commits.items():
            last = known.get(tp)
            earliest = 0 if last is None else last.commit_timestamp + 1
            stamped[tp] = commit._replace(commit_timestamp=max(now, earliest))
        return stamped

    def fold(self, table: OffsetsTable, exists: Callable[[str], bool]) -> "Folded":
        """Move the newer commits of the file into the log.

        Drops offsets of a topic that was recreated since. Those of a missing topic stay in the
        file, because its log directory may not be open, and so do those of a topic whose identity
        cannot be read.
        """
        with self.claims.guard():
            filed, logged = self._file.read(), table.group(self.group)
            valid, others, undecided, errors = filed.split(self._is_same_topic)
            newer = {
                tp: commit
                for tp, commit in valid.items()
                if tp not in logged or commit.commit_timestamp > logged[tp].commit_timestamp
            }
            table.append(self.group, newer)
            table.flush()
            left = {tp: each for tp, each in others.items() if not exists(tp[0])}
            self._file.write({**left, **undecided}, filed.topic_ids)
        dropped = {tp: each for tp, each in others.items() if tp not in left}
        return Folded(len(newer), dropped, left, tuple(errors.values()))

    def forget_topic(self, topic: str) -> int:
        """Remove all commits of a topic from the file; returns how many."""
        with self.claims.guard():
            filed = self._file.read()
            left = {tp: each for tp, each in filed.commits.items() if tp[0] != topic}
            if len(left) < len(filed.commits):
                self._file.write(left, filed.topic_ids)
        return len(filed.commits) - len(left)


class Folded(NamedTuple):
    """The result of folding a group's file."""

    moved: int
    dropped: Commits  # of topics that were deleted and recreated since
    left: Commits  # of missing topics
    errors: tuple[CorruptFileError, ...] = ()  # of topics whose identity cannot be read
