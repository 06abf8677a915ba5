"""Finds partitions without a folder, according to their log directory.

The recovery-point checkpoint of a directory names the partitions that were in it. ``kstore.topics``
is the same in every directory of a store and has a topic's partitions, not their
directories: a partition that only this file names may be in a directory that was not given.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import sleep

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.offset_checkpoint import read_offsets
from kstore.checkpoint.topics_file import LIVE, TopicsFile
from kstore.errors import CorruptFileError, KStoreError
from kstore.files import filenames
from kstore.files.filenames import TOPICS_FILE
from kstore.files.files import Files
from kstore.verify.losses import MISSING
from kstore.verify.partition import Finding, VerifyReport

# A writer that deletes a partition renames its folder just before it changes ``kstore.topics``.
_LOOKS = 3
_PAUSE = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class MissingFolder:
    """A partition without a folder. Where ``is_certain`` is False it may have been removed."""

    topic: str
    partition: int
    path: str
    recovery_point: int | None  # None: no checkpoint has the partition
    is_certain: bool

    @property
    def sentence(self) -> str:
        if self.recovery_point is None:
            return (
                f"there is no such folder, though {TOPICS_FILE} has the partition: it is lost, or "
                "in a log directory that was not given"
            )
        so_many = f"the recovery point is {self.recovery_point}"
        if self.is_certain:
            return (
                f"the folder is missing: {TOPICS_FILE} has the partition, {so_many}, and the "
                "directory was closed cleanly"
            )
        return f"there is no such folder, and {so_many}: it may have been removed on purpose"

    @property
    def report(self) -> VerifyReport:
        """The audit report of the partition."""
        report = VerifyReport()
        if self.is_certain:
            report.add(MISSING, self.path, None, None, self.sentence)
        else:
            report.warn(Finding(MISSING, self.path, None, None, self.sentence))
        return report


def find_missing_folders(files: Files, directories: Sequence[str]) -> list[MissingFolder]:
    """The partitions that log directories name, and that are in none of them.

    Certain where ``kstore.topics`` and a checkpoint have the partition and the directory was
    closed cleanly; possible with a recovery point above 0, or with ``kstore.topics`` alone.
    Of a directory that another process has open, what ``kstore.topics`` still lists after a while
    is possible, since its writer may be deleting or moving a partition. A directory that cannot
    be read is skipped. A partition that is being deleted, moved or quarantined is not missing.
    """
    missing, is_open = _find(files, directories)
    for _ in range(_LOOKS if is_open else 0):
        if not missing:
            break
        sleep(_PAUSE)
        again, _ = _find(files, directories)
        missing = [each for each in missing if each in again]
    return missing


def _find(files: Files, directories: Sequence[str]) -> tuple[list[MissingFolder], bool]:
    """The missing partitions at one time, and whether a process has one of the directories open."""
    known: dict[str, dict[tuple[str, int], int]] = {}
    topics: TopicsFile | None = None
    existing: set[tuple[str, int]] = set()
    is_open = False
    for root in directories:  # checkpoints are read before the folders are listed
        if files.kind(root) != "directory":
            return [], is_open  # offline: it may have the partitions that are missing elsewhere
        if files.probe(os.path.join(root, filenames.LOCK)):
            is_open = True
            continue
        try:
            known[root] = read_offsets(files, os.path.join(root, filenames.RECOVERY_POINTS))
        except CorruptFileError:  # the audits of its partitions report it
            continue
    try:
        topics = TopicsFile([LogDir(files, root, writable=False) for root in directories])
        topics.load()
    except KStoreError:  # opening the store reports the error
        topics = None
    for root in directories:
        for name in files.list_directories(root):
            parsed = filenames.parse_partition_directory(name)
            if parsed is not None:
                existing.add((parsed.topic, parsed.partition))
    missing = []
    for root, points in known.items():
        is_clean = files.exists(os.path.join(root, filenames.CLEAN_SHUTDOWN))
        for key, point in sorted(points.items()):
            if key in existing or key[0] == filenames.CLUSTER_METADATA.rpartition("-")[0]:
                continue
            state = _state_of(topics, *key)
            is_certain = is_clean and state == LIVE
            if is_certain or (point > 0 and state in (LIVE, None)):
                path = os.path.join(root, filenames.partition_directory(*key))
                missing.append(MissingFolder(*key, path, point, is_certain))
    if topics is not None:
        named = existing.union(*known.values())
        for key in _partitions_of(topics):
            if key not in named:
                path = os.path.join(directories[0], filenames.partition_directory(*key))
                missing.append(MissingFolder(*key, path, None, False))
    return missing, is_open


def _partitions_of(topics: TopicsFile) -> Iterator[tuple[str, int]]:
    """The partitions of the topics that are neither being created nor being deleted."""
    for topic in sorted(topics.names()):
        try:
            entry = topics.get(topic)
        except CorruptFileError:  # opening the store reports the error
            continue
        if entry is not None and entry.state == LIVE:
            yield from ((topic, partition) for partition in entry.numbers)


def _state_of(topics: TopicsFile | None, topic: str, partition: int) -> str | None:
    """The state of a partition's topic in ``kstore.topics``; None where it lacks the partition."""
    try:
        entry = None if topics is None else topics.get(topic)
    except CorruptFileError:
        return None
    return entry.state if entry is not None and partition in entry.numbers else None
