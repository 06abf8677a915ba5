"""What embedded consumers of a group commit, in ``__consumer_offsets`` or in files beside it."""

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from os.path import dirname
from typing import TYPE_CHECKING

from kstore.config import LogConfig
from kstore.coordinator.group.embedded_offsets import EmbeddedOffsets, Folded
from kstore.coordinator.group.offset_records import Commits, OffsetCommit
from kstore.coordinator.group.offsets_table import (
    OFFSETS_PARTITIONS,
    OFFSETS_PROPERTIES,
    OFFSETS_TOPIC,
    OffsetsTable,
)
from kstore.coordinator.group.partition_claims import LogDirs
from kstore.coordinator.group.reader_offsets_file import (
    TopicIds,
    is_offsets_file,
    read_group_file,
)
from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    GroupConflictError,
    InvalidGroupError,
    KStoreError,
    NewerFormatError,
    OffsetOutOfRangeError,
    RecoveryNeededError,
    StoreLockedError,
    UnknownTopicIdError,
)
from kstore.integers import check_integer
from kstore.protocol.fields import partition_for_name, utf8_size

if TYPE_CHECKING:
    from kstore.record import Record
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")


def check_offset(offset: object) -> int:
    """Check an offset to commit; raises TypeError, InvalidConfigError, OffsetOutOfRangeError."""
    number = check_integer("offset", offset)
    if number < 0:
        raise OffsetOutOfRangeError(f"a committed offset is at least 0, not {number}")
    return number


class StoreGroup:
    """A group's committed offsets: in ``__consumer_offsets`` for a writer, otherwise in a file.

    Not thread-safe: each consumer has its own.
    """

    def __init__(self, store: "Store", group: str, log_dirs: LogDirs | None = None) -> None:
        if not isinstance(group, str) or not 0 < utf8_size(group) <= 0x7FFF:
            raise InvalidGroupError(f"a group name is 1 to 32767 bytes of text, not {group!r}")
        self.name = group
        self._store = store
        self._offsets = EmbeddedOffsets(
            store._files,
            log_dirs or live_log_dirs(store),
            group,
            store._manager.identities.is_same,
        )
        self.claims = self._offsets.claims

    def check_members(self, kind: type[KStoreError] = GroupConflictError) -> None:
        """Raise this error if consumers share the group through a broker of this process.

        Those members own its partitions and offsets, and only the broker knows them.
        """
        has_members = self._store._has_group_members
        if has_members is not None and has_members(self.name):
            raise kind(
                f"group {self.name!r} has members that consume through the broker of this process, "
                "which owns the group while it has some: use another group, or a client of the "
                "broker",
                path=self._store.paths[0],
            )

    def fetch(self, partition: tuple[str, int]) -> OffsetCommit | None:
        """The last commit of a partition; CorruptFileError if its topic's id cannot be read."""
        with self._store._offsets_lock:
            found = self._offsets.fetch(self._find_table()).get(partition)
        if partition[0] in self._offsets.errors:
            raise self._offsets.errors[partition[0]]
        return found

    def is_unstable(self, partition: tuple[str, int]) -> bool:
        """Whether an open transaction may commit an offset of a partition."""
        with self._store._offsets_lock:
            table = self._find_table()
            return table is not None and partition in table.pending(self.name)

    def commit(self, commits: Mapping[tuple[str, int], OffsetCommit], topic_ids: TopicIds) -> None:
        """Commit offsets, for topics with these identities.

        Raises UnknownTopicIdError if one was deleted since, and GroupConflictError as
        :meth:`check_members` does; then nothing is committed.
        """
        with self._store._offsets_lock:  # no topic is deleted meanwhile
            self.check_members()
            self._store._follow_writer()
            check_topic_ids(self._store, topic_ids, {topic for topic, _ in commits})
            if self._store.writable:
                self.make_topic()
            table = self._find_table()
            self._offsets.commit(commits, table, topic_ids, to_log=self._store.writable)

    def delete(self, partitions: Collection[tuple[str, int]] | None) -> None:
        """Delete the commits of these partitions, or (None) the group, in log and files."""
        with self._store._offsets_lock:  # no commit comes between log and files
            self._offsets.delete(partitions, self._table_to_fold_into())

    def flush(self) -> None:
        """Sync the group's commits in the log; those in a file are on disk already."""
        with self._store._offsets_lock:
            table = self._find_table()
        if table is not None and self._store.writable:
            table.flush()

    def fold(self) -> Folded | None:
        """Move the group's files into ``__consumer_offsets``; None if that is not possible here."""
        with self._store._offsets_lock:
            table = self._table_to_fold_into()
            if table is not None:
                return self._offsets.fold(table, self._store.__contains__)
        return None if OFFSETS_TOPIC not in self._store else Folded(0, {}, {})

    def _table_to_fold_into(self) -> OffsetsTable | None:
        """The group's partition of ``__consumer_offsets``, which is created if it is missing.

        None if the topic has an entry but is in no open log directory: creating it here would
        duplicate the partitions of directories that are not open.
        """
        if OFFSETS_TOPIC not in self._store and self._store._catalog.is_own(OFFSETS_TOPIC):
            return None
        self.make_topic()
        return self._find_table()

    def transactional_records(
        self, offsets: Iterable[tuple[tuple[str, int], int]]
    ) -> list["Record"]:
        """The records by which a transaction commits offsets; the caller has checked the group."""
        with self._store._offsets_lock:
            return self._offsets.records(
                {tp: OffsetCommit(offset, -1) for tp, offset in offsets},
                self._find_table(),
            )

    def make_topic(self) -> int:
        """Create ``__consumer_offsets`` if it is missing; returns the group's partition of it."""
        if OFFSETS_TOPIC not in self._store:
            self._store.create_topic(
                OFFSETS_TOPIC,
                OFFSETS_PARTITIONS,
                config=LogConfig.from_properties(OFFSETS_PROPERTIES),
                exist_ok=True,
            )
        return partition_for_name(self.name, len(self._store.topic(OFFSETS_TOPIC)))

    def _find_table(self) -> OffsetsTable | None:
        """The table of the group's partition; None if the store lacks ``__consumer_offsets`` or
        it."""
        if OFFSETS_TOPIC not in self._store:
            return None
        count = len(self._store.topic(OFFSETS_TOPIC))
        return find_table(self._store, partition_for_name(self.name, count))


def live_log_dirs(store: "Store") -> LogDirs:
    """A function that returns the paths of the store's online directories.

    The first directory if all are offline, so that its use raises the disk's error.
    """
    catalog, paths = store._catalog, sorted(store.paths)
    return lambda: sorted(catalog.live_paths) or paths[:1]


def find_table(store: "Store", partition: int) -> OffsetsTable | None:
    """The table of a partition of ``__consumer_offsets``, None if the store does not have it.

    The caller holds the store's offsets lock.
    """
    table = store._offsets_tables.get(partition)
    if table is None or table.is_closed:
        if OFFSETS_TOPIC not in store:
            return None
        topic = store.topic(OFFSETS_TOPIC)
        if partition not in topic.partitions:
            return None
        table = store._offsets_tables[partition] = OffsetsTable(topic[partition])
    return table


def check_topic_ids(store: "Store", topic_ids: TopicIds, topics: Iterable[str]) -> None:
    """Raise UnknownTopicIdError if one of the topics has another identity."""
    for topic in topics:
        if not store._manager.identities.is_same(topic, topic_ids.get(topic)):
            raise UnknownTopicIdError(
                f"topic {topic!r} was deleted since its records were read: nothing is committed. "
                "A new topic has its name, and the next poll reads that topic "
                "according to auto_offset_reset",
                path=store.paths[0],
            )


def fold_files(store: "Store", paths: Iterable[str]) -> None:
    """Move files of committed offsets into ``__consumer_offsets``.

    Warns of a file that fails, and leaves it. Drops offsets of topics that were deleted and
    recreated since, with a warning that names them.
    """
    for path in paths:
        if not is_offsets_file(path):
            continue
        try:
            filed = read_group_file(store._files, path)
            if filed is None:
                continue
            group = filed.group
            folded = StoreGroup(store, group, partial(_only, dirname(path))).fold()
        except (
            CorruptFileError,
            CorruptRecordError,  # in the group's partition of the log, like the next error
            RecoveryNeededError,
            NewerFormatError,
            StoreLockedError,
        ) as error:
            _LOGGER.warning("committed offsets remain in their file: %s", error)
            continue
        if folded is None:
            _LOGGER.warning(
                "group %s: committed offsets remain in their file, because no open log "
            "directory contains %s: %s", group, OFFSETS_TOPIC, path,
            )  # fmt: skip
            continue
        _LOGGER.info("group %s: %d committed offsets moved from %s", group, folded.moved, path)
        for unreadable in folded.errors:
            _LOGGER.warning(
                "group %s: committed offsets remain in their file: %s", group, unreadable
            )
        if folded.dropped:
            _report(
                "group %s: committed offsets dropped, because their topic was deleted and "
                "recreated since: %s (%s)", group, folded.dropped, path,
            )  # fmt: skip
        if folded.left:
            _report(
                "group %s: committed offsets remain in their file, because their topic does "
                "not exist: %s (%s)", group, folded.left, path,
            )  # fmt: skip


def _report(sentence: str, group: str, commits: Commits, path: str) -> None:
    offsets = ", ".join(f"{t}-{n} {each.offset}" for (t, n), each in sorted(commits.items()))
    _LOGGER.warning(sentence, group, offsets, path)


def _only(log_dir: str) -> tuple[str]:
    return (log_dir,)
