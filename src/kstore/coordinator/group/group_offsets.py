"""A group's committed offsets: a writer keeps them in a log, other processes in a file.

The process that has the store open for writing appends to ``__consumer_offsets``. Any other one
keeps ``kstore.offsets.<group>`` in the log directory, which the next writer folds into the log and
removes. A reader uses, for each partition, the newer of the two by commit timestamp.

A commit's timestamp is later than that of the previous commit, even if the clock stood still or
went back: so "newer" never depends on a clock.
"""

from collections.abc import Callable, Collection, Mapping
from time import time_ns
from typing import NamedTuple

from kstore.coordinator.group.claims import Claims
from kstore.coordinator.group.offset_records import (
    Commits,
    OffsetCommit,
    PartitionKey,
    newest_commits,
)
from kstore.coordinator.group.offsets_table import OffsetsTable, commit_records
from kstore.coordinator.group.reader_offsets_file import IsSameTopic, OffsetsFile, TopicIds
from kstore.errors import CorruptFileError
from kstore.files.files import Files
from kstore.record import Record


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
        self.errors: dict[str, CorruptFileError] = {}  # by topic: why the last fetch skipped it

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
        return self._forget(lambda tp: tp[0] == topic)

    def forget(self, partitions: Collection[PartitionKey] | None) -> int:
        """Remove the commits of these partitions (None: all) from the file; returns how many."""
        return self._forget(lambda tp: partitions is None or tp in partitions)

    def _forget(self, is_forgotten: Callable[[PartitionKey], bool]) -> int:
        with self.claims.guard():
            filed = self._file.read()
            left = {tp: each for tp, each in filed.commits.items() if not is_forgotten(tp)}
            if len(left) < len(filed.commits):
                self._file.write(left, filed.topic_ids)
        return len(filed.commits) - len(left)


class Folded(NamedTuple):
    """The result of folding a group's file."""

    moved: int
    dropped: Commits  # of topics that were deleted and recreated since
    left: Commits  # of missing topics
    errors: tuple[CorruptFileError, ...] = ()  # of topics whose identity cannot be read
