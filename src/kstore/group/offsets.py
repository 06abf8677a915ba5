"""Committed offsets: in ``__consumer_offsets`` where this process writes, else in a plain file.

The process that has the store open for writing appends Kafka's own records. Any other one keeps
``kstore.offsets.<group>`` in the log directory, JSON with a format version, replaced atomically;
the next writer folds it into ``__consumer_offsets`` and removes it. Who reads takes, for each
partition, the newer of the two by commit timestamp.

A commit's timestamp is later than that of the commit before it, even where the clock stood or
went back: so "newer" never depends on a clock.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from os.path import join
from time import monotonic, sleep, time_ns
from typing import NoReturn, Protocol

from kstore.errors import (
    CorruptFileError,
    GroupConflictError,
    NewerFormatError,
    StoreLockedError,
)
from kstore.group.messages import (
    OffsetCommit,
    OffsetKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from kstore.log.files import Files, Lock
from kstore.record import Record

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions
OFFSETS_PROPERTIES = {"cleanup.policy": "compact", "segment.bytes": "104857600"}

FILE_PREFIX = "kstore.offsets."
LOCK_PREFIX = "kstore.offsets-lock."
FORMAT = 1
MAX_FILE_SIZE = 1 << 26

_WAIT_SECONDS = 10.0
_NAME_LIMIT = 200
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

Place = tuple[str, int]  # topic, partition
Commits = dict[Place, OffsetCommit]


class StoredRecord(Protocol):
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class OffsetsLog(Protocol):
    """What is needed of the log of a partition of ``__consumer_offsets``."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def extend(self, values: Iterable[Record]) -> range: ...
    def flush(self) -> None: ...
    @property
    def last_stable_offset(self) -> int: ...
    def settled(self, start: int) -> Iterable[StoredRecord]:
        """Records up to the end, but for those of transactions that are not committed."""


def file_name(group: str, prefix: str = FILE_PREFIX) -> str:
    """The name of a group's file: plain characters kept, others as ``%`` and two digits.

    A dot is not plain, so that no group's file looks like the ``.tmp`` of another's.
    """
    plain = "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in group.encode())
    if len(plain) > _NAME_LIMIT:
        plain = "~" + sha256(group.encode()).hexdigest()  # the file itself tells the group
    return prefix + plain


def newest(*tables: Mapping[Place, OffsetCommit]) -> Commits:
    """For each partition the commit with the latest timestamp; the later table wins a tie."""
    merged: Commits = {}
    for table in tables:
        for place, commit in table.items():
            known = merged.get(place)
            if known is None or commit.commit_timestamp >= known.commit_timestamp:
                merged[place] = commit
    return merged


class Claims:
    """Which partitions this consumer reads for its group: one lock each, seen by every process.

    A lock is one byte of ``kstore.offsets-lock.<group>``, at a place drawn from the hash of topic
    and partition; byte 0 guards the group's file while it is changed. Not thread-safe.
    """

    def __init__(self, files: Files, directory: str, group: str) -> None:
        self._files = files
        self._group = group
        self._path = join(directory, file_name(group, LOCK_PREFIX))
        self._held: dict[Place, Lock] = {}

    def take(self, place: Place) -> None:
        """Claim a partition; GroupConflictError where another consumer of the group has it."""
        if place in self._held:
            return
        digest = sha256(f"{place[0]}-{place[1]}".encode()).digest()
        start = 1 + int.from_bytes(digest[:7], "big")
        try:
            self._held[place] = self._files.lock(self._path, start, 1)
        except StoreLockedError:
            raise GroupConflictError(
                f"another consumer of group {self._group!r} reads partition {place[0]}-{place[1]}",
                path=self._path,
            ) from None

    def release(self, place: Place) -> None:
        lock = self._held.pop(place, None)
        if lock is not None:
            lock.release()

    def release_all(self) -> None:
        for place in list(self._held):
            self.release(place)

    def guard(self) -> Lock:
        """Lock the group's file for a moment, waiting for whoever has it."""
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

    Changes are made under the guard of the group's :class:`Claims`.
    """

    def __init__(self, files: Files, directory: str, group: str) -> None:
        self._files = files
        self._group = group
        self.path = join(directory, file_name(group))

    def read(self) -> Commits:
        """The commits, none where there is no file.

        Raises CorruptFileError for what does not parse, NewerFormatError for a later format.
        """
        if not self._files.exists(self.path):
            return {}
        group, commits = parse(self._files.read(self.path, MAX_FILE_SIZE), self.path)
        if group != self._group:
            raise CorruptFileError(
                f"the file belongs to group {group!r}, not {self._group!r}", path=self.path
            )
        return commits

    def write(self, commits: Mapping[Place, OffsetCommit]) -> None:
        topics: dict[str, dict[str, object]] = {}
        for (topic, partition), commit in sorted(commits.items()):
            topics.setdefault(topic, {})[str(partition)] = {
                "offset": commit.offset,
                "leader_epoch": commit.leader_epoch,
                "metadata": commit.metadata,
                "commit_timestamp": commit.commit_timestamp,
            }
        document = {"format": FORMAT, "group": self._group, "offsets": topics}
        self._files.write_atomically(self.path, json.dumps(document, indent=1).encode() + b"\n")

    def remove(self) -> None:
        if self._files.exists(self.path):
            self._files.remove(self.path)


def parse(data: bytes, path: str) -> tuple[str, Commits]:
    """Group and commits in the bytes of a ``kstore.offsets.*`` file."""

    def bad(what: str) -> NoReturn:
        raise CorruptFileError(f"not a file of committed offsets: {what}", path=path)

    def whole(value: object, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            bad(f"{value!r} where a number from {low} to {high} belongs")
        return value

    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        bad(str(error))
    if not isinstance(document, dict):
        bad("no object")
    version = whole(document.get("format"), 1, 2**31)
    if version > FORMAT:
        raise NewerFormatError(
            f"format {version} was written by a newer kstore; known is {FORMAT}", path=path
        )
    group, topics = document.get("group"), document.get("offsets")
    if not isinstance(group, str) or not isinstance(topics, dict):
        bad("no group or no offsets")
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
                whole(body.get("offset"), 0, 2**63 - 1),
                whole(body.get("commit_timestamp"), -1, 2**63 - 1),
                metadata,
                whole(body.get("leader_epoch", -1), -1, 2**31 - 1),
            )
    return group, commits


def commit_records(group: str, commits: Mapping[Place, OffsetCommit]) -> list[Record]:
    """Records for ``__consumer_offsets``."""
    now = time_ns() // 1_000_000
    return [
        Record(0, now, encode_offset_key(OffsetKey(group, *place)), encode_offset_value(commit))
        for place, commit in commits.items()
    ]


class OffsetsTable:
    """The commits in one partition of ``__consumer_offsets``, read on as the log grows.

    Not thread-safe.
    """

    def __init__(self, log: OffsetsLog) -> None:
        self._log = log
        self._next = -1
        self._groups: dict[str, dict[Place, OffsetCommit | None]] = {}  # None: deleted
        self._unstable: dict[str, dict[Place, OffsetCommit | None]] = {}

    def group(self, group: str) -> Commits:
        """A group's commits as of now."""
        self._catch_up()
        merged = {**self._groups.get(group, {}), **self._unstable.get(group, {})}
        return {place: commit for place, commit in merged.items() if commit is not None}

    def flush(self) -> None:
        self._log.flush()

    def append(self, group: str, commits: Mapping[Place, OffsetCommit]) -> None:
        """Append commits in Kafka's format, in one batch; not flushed, as with Kafka."""
        self._log.extend(commit_records(group, commits))

    def _catch_up(self) -> None:
        """Take over what came since; what lies behind an open transaction is read again later.

        A commit of a transaction counts at its place in the log, as Kafka has it.
        """
        log, stable = self._log, self._log.last_stable_offset
        if not log.start_offset <= self._next <= stable:
            self._next, self._groups = log.start_offset, {}
        self._unstable = {}
        for record in log.settled(self._next):
            key = None if record.key is None else decode_offset_key(record.key)
            if key is not None:
                value = None if record.value is None else decode_offset_value(record.value)
                changes = self._groups if record.offset < stable else self._unstable
                changes.setdefault(key.group, {})[key.topic, key.partition] = value
        self._next = stable


class GroupOffsets:
    """A group's committed offsets, wherever they are kept. Not thread-safe."""

    def __init__(self, files: Files, directory: str, group: str) -> None:
        self.group = group
        self.claims = Claims(files, directory, group)
        self._file = OffsetsFile(files, directory, group)
        self._known: Commits | None = None

    def fetch(self, table: OffsetsTable | None) -> Commits:
        """All commits of the group: the newer one of log and file for each partition.

        ``table`` is the group's partition of ``__consumer_offsets``, None where there is none.
        """
        logged = {} if table is None else table.group(self.group)
        self._known = newest(self._known or {}, logged, self._file.read())
        return dict(self._known)

    def commit(
        self, commits: Mapping[Place, OffsetCommit], table: OffsetsTable | None, *, to_log: bool
    ) -> None:
        """Store commits under a timestamp later than their partition's last one."""
        known = self.fetch(table) if self._known is None else self._known
        stamped = self._stamped(commits, known)
        if table is not None and to_log:
            table.append(self.group, stamped)
        else:
            with self.claims.guard():
                self._file.write(newest(self._file.read(), stamped))
        self._known = {**known, **stamped}

    def records(
        self, commits: Mapping[Place, OffsetCommit], table: OffsetsTable | None
    ) -> list[Record]:
        """Commits as records for a transaction to write, stamped as by :meth:`commit`."""
        return commit_records(self.group, self._stamped(commits, self.fetch(table)))

    def _stamped(self, commits: Mapping[Place, OffsetCommit], known: Commits) -> Commits:
        now = time_ns() // 1_000_000
        stamped: Commits = {}
        for place, commit in commits.items():
            last = known.get(place)
            earliest = 0 if last is None else last.commit_timestamp + 1
            stamped[place] = commit._replace(commit_timestamp=max(now, earliest))
        return stamped

    def fold(self, table: OffsetsTable) -> int:
        """Move what the file has, and the log has not, into the log; returns how many commits."""
        with self.claims.guard():
            filed, logged = self._file.read(), table.group(self.group)
            newer = {
                place: commit
                for place, commit in filed.items()
                if place not in logged or commit.commit_timestamp > logged[place].commit_timestamp
            }
            table.append(self.group, newer)
            table.flush()
            self._file.remove()
        return len(newer)
