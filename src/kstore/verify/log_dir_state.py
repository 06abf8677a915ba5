"""The state of a partition in its log directory, for an audit of the partition's files.

The marker of a clean stop and the checkpoints bound what the files must hold. They are read
before the files are listed: a writer raises the recovery point only after the records are on
disk, so an older one is never beyond the end of a valid log.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.offset_checkpoint import Partition, read_offsets
from kstore.checkpoint.topics_file import TopicsFile
from kstore.errors import CorruptFileError, KStoreError, StorageError
from kstore.files import filenames
from kstore.files.filenames import TOPICS_FILE
from kstore.files.files import Files
from kstore.files.modification_time import is_settled
from kstore.files.stable_listing import list_stable

# A directory with none of these is no log directory, only a folder that contains partitions.
_SIGNS = (
    filenames.LOCK,
    filenames.CLEAN_SHUTDOWN,
    filenames.RECOVERY_POINTS,
    filenames.META_PROPERTIES,
    TOPICS_FILE,
)
_CHECKPOINTS = (filenames.RECOVERY_POINTS, filenames.LOG_STARTS, filenames.CLEANER_OFFSETS)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The values of checkpoints and settings for a partition; 0 without an entry."""

    directory: str  # the log directory
    is_clean: bool  # by its marker every log was closed completely
    recovery_point: int  # every record below it was on disk
    log_start: int
    first_dirty: int  # compaction has worked on the offsets below it
    is_compacted: bool  # by the topic's settings, where kstore keeps them
    unreadable: tuple[tuple[str, str], ...] = ()  # checkpoints that do not parse: path and reason

    @property
    def was_compacted(self) -> bool:
        """Whether the topic's policy or the cleaner's checkpoint says so."""
        return self.is_compacted or self.first_dirty > 0


class StateReader:
    """Reads the states of partitions; a checkpoint is parsed again only when its file changed.

    Not thread-safe. One reader for all partitions of a store keeps an audit linear in them.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._offsets: dict[str, tuple[tuple[int, int, int], dict[Partition, int], str]] = {}
        self._topics: dict[str, tuple[tuple[int, int, int], TopicsFile]] = {}
        self._listing: tuple[str, tuple[int, int, int], list[str]] | None = None  # the last one

    def read(self, partition: Path) -> PartitionState | None:
        """The state of the partition in a folder; None outside of a log directory."""
        name = filenames.parse_partition_directory(os.path.abspath(partition).rpartition("/")[2])
        root = os.path.dirname(os.path.abspath(partition))
        if name is None or name.state:
            return None
        if not any(self._files.exists(os.path.join(root, sign)) for sign in _SIGNS):
            return None
        key = (name.topic, name.partition)
        found = {each: self._read(os.path.join(root, each)) for each in _CHECKPOINTS}
        points, starts, cleaned = (found[each][0].get(key, 0) for each in _CHECKPOINTS)
        return PartitionState(
            directory=root,
            is_clean=self._files.exists(os.path.join(root, filenames.CLEAN_SHUTDOWN)),
            recovery_point=points,
            log_start=starts,
            first_dirty=cleaned,
            is_compacted=self._is_compacted(root, name.topic),
            unreadable=tuple(
                (os.path.join(root, each), reason) for each, (_, reason) in found.items() if reason
            ),
        )

    def list_names(self, partition: Path) -> list[str]:
        """The names in a partition's folder; listed again only after a change.

        The ranges of a partition that one reader audits in sequence share a listing.
        """
        directory = str(partition)
        stamp = self._stamp(directory)
        if self._listing is not None and self._listing[:2] == (directory, stamp):
            return self._listing[2]
        names = list_stable(self._files, directory)
        self._listing = (directory, stamp, names) if is_settled(stamp[1]) else None
        return names

    def is_open(self, state: PartitionState | None) -> bool:
        """Whether a writer, kstore or a Kafka broker, has the log directory open now."""
        if state is None:
            return False
        return self._files.probe(os.path.join(state.directory, filenames.LOCK))

    def _stamp(self, path: str) -> tuple[int, int, int]:
        try:
            about = self._files.about(path)
        except StorageError:  # it does not exist; other errors occur again when it is read
            return (0, 0, 0)
        return about.st_ino, about.st_mtime_ns, about.st_size

    def _read(self, path: str) -> tuple[dict[Partition, int], str]:
        stamp = self._stamp(path)
        known = self._offsets.get(path)
        if known is None or known[0] != stamp:
            try:
                known = stamp, read_offsets(self._files, path), ""
            except CorruptFileError as error:
                known = stamp, {}, error.reason
            self._offsets[path] = known
        return known[1], known[2]

    def _is_compacted(self, root: str, topic: str) -> bool:
        path = os.path.join(root, TOPICS_FILE)
        stamp = self._stamp(path)
        known = self._topics.get(root)
        try:
            if known is None or known[0] != stamp:
                topics = TopicsFile([LogDir(self._files, root, writable=False)])
                topics.load()
                known = self._topics[root] = stamp, topics
            entry = known[1].get(topic)
        except KStoreError:  # opening the store reports the error
            return False
        return entry is not None and "compact" in entry.log_config().cleanup_policy
