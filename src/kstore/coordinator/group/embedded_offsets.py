"""A group's committed offsets: a writer keeps them in a log, other processes in a file.

The process that has the store open for writing appends to ``__consumer_offsets``. Any other one
keeps ``kstore.offsets.<group>`` in the first of its log directories, which the next writer folds
into the log and removes. A reader uses, for each partition, the newest by commit timestamp of the
log and of the files in all its log directories.

Each commit's timestamp is later than the previous commit's, even if the clock stops or moves
backwards, so that "newer" never depends on a clock.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kstore.clock import now_ms
from kstore.coordinator.group.offset_records import (
    Commits,
    OffsetCommit,
    PartitionKey,
    newest_commits,
)
from kstore.coordinator.group.offsets_table import OffsetsTable, commit_records
from kstore.coordinator.group.partition_claims import Claims, LogDirs
from kstore.coordinator.group.reader_offsets_file import IsSameTopic, OffsetsFile, TopicIds
from kstore.errors import CorruptFileError
from kstore.files.files import Files
from kstore.integers import INT64_MAX
from kstore.record import Record


class EmbeddedOffsets:
    """A group's committed offsets, from log and file. Not thread-safe.

    ``is_same_topic`` checks the topic identities in the file.
    """

    def __init__(
        self, files: Files, log_dirs: LogDirs, group: str, is_same_topic: IsSameTopic
    ) -> None:
        self.group = group
        self.claims = Claims(files, log_dirs, group)
        self._files = files
        self._log_dirs = log_dirs
        self._is_same_topic = is_same_topic
        self._known: Commits | None = None  # used for their timestamps
        self.errors: dict[str, CorruptFileError] = {}  # by topic: why the last fetch skipped it

    def _group_files(self) -> list[OffsetsFile]:
        """The group's file of each log directory; commits go to the first."""
        return [OffsetsFile(self._files, path, self.group) for path in self._log_dirs()]

    def fetch(self, table: OffsetsTable | None) -> Commits:
        """All commits of the group: for each partition the newest in the log and files.

        ``table`` is the group's partition of ``__consumer_offsets``, None if there is none.
        Skips commits in a file of a topic whose identity cannot be read: see ``errors``.
        """
        # The files first, because a writer moves them to the log.
        filed = [file.read().split(self._is_same_topic) for file in self._group_files()]
        self.errors = {topic: error for each in filed for topic, error in each.errors.items()}
        logged = {} if table is None else table.group(self.group)
        found = newest_commits(logged, *(each.valid for each in filed))
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
            file = self._group_files()[0]
            with self.claims.guard(file.log_dir):
                filed = file.read()
                known_now = filed.split(
                    lambda topic, known: topic not in topic_ids or self._is_same_topic(topic, known)
                )
                kept = newest_commits(known_now.valid, known_now.undecided, stamped)
                file.write(kept, {**filed.topic_ids, **topic_ids})
        self._known = {**known, **stamped}

    def records(
        self, commits: Mapping[PartitionKey, OffsetCommit], table: OffsetsTable | None
    ) -> list[Record]:
        """Commits as records for a transaction, with timestamps as by :meth:`commit`."""
        self.fetch(table)
        return commit_records(self.group, self._stamped(commits, self._known or {}))

    def _stamped(self, commits: Mapping[PartitionKey, OffsetCommit], known: Commits) -> Commits:
        now = now_ms()
        stamped: Commits = {}
        for tp, commit in commits.items():
            last = known.get(tp)
            earliest = 0 if last is None else min(last.commit_timestamp + 1, INT64_MAX)
            stamped[tp] = commit._replace(commit_timestamp=max(now, earliest))
        return stamped

    def fold(self, table: OffsetsTable, exists: Callable[[str], bool]) -> "Folded":
        """Move the newer commits of the files into the log.

        Drops offsets of a topic that was recreated since. Those of a missing topic stay in the
        file, because its log directory may not be open, and so do those of a topic whose identity
        cannot be read.
        """
        total = Folded(0, {}, {})
        for file in self._group_files():
            with self.claims.guard(file.log_dir):
                filed, logged = file.read(), table.group(self.group)
                valid, others, undecided, errors = filed.split(self._is_same_topic)
                moved = _append_newer(table, self.group, valid, logged)
                left = {tp: each for tp, each in others.items() if not exists(tp[0])}
                file.write({**left, **undecided}, filed.topic_ids)
            dropped = {tp: each for tp, each in others.items() if tp not in left}
            total = Folded(
                total.moved + moved,
                {**total.dropped, **dropped},
                {**total.left, **left},
                (*total.errors, *errors.values()),
            )
        return total

    def delete(
        self, partitions: Collection[PartitionKey] | None, table: OffsetsTable | None
    ) -> None:
        """Delete the commits of these partitions (None: the group), in files and log.

        Moves newer commits from the files into the log first. After a crash either all commits
        exist or none; an older commit never reappears. On return the deletion is on disk. An error
        of a file is raised before a commit is deleted.
        """
        for file in self._group_files():
            with self.claims.guard(file.log_dir):
                filed = file.read()
                kept = filed.commits
                if table is not None:
                    valid, others, undecided, _ = filed.split(self._is_same_topic)
                    _append_newer(table, self.group, valid, table.readable_commits(self.group))
                    kept = {**others, **undecided}
                left = {
                    tp: each
                    for tp, each in kept.items()
                    if partitions is not None and tp not in partitions
                }
                file.write(left, filed.topic_ids)
        if table is not None:
            table.forget_group(self.group, partitions)

    def forget_topic(self, topic: str) -> int:
        """Remove all commits of a topic from the files; returns how many."""
        count = 0
        for file in self._group_files():
            with self.claims.guard(file.log_dir):
                filed = file.read()
                left = {tp: each for tp, each in filed.commits.items() if tp[0] != topic}
                if len(left) < len(filed.commits):
                    file.write(left, filed.topic_ids)
                    count += len(filed.commits) - len(left)
        return count


def _append_newer(table: OffsetsTable, group: str, filed: Commits, logged: Commits) -> int:
    """Append the commits that are newer than the log's, and flush; returns how many."""
    newer = {
        tp: commit
        for tp, commit in filed.items()
        if tp not in logged or commit.commit_timestamp > logged[tp].commit_timestamp
    }
    if filed:
        table.append(group, newer)
        table.flush()  # also older appends, which are newer than what the file has
    return len(newer)


class Folded(NamedTuple):
    """The result of folding a group's file."""

    moved: int
    dropped: Commits  # of topics that were deleted and recreated since
    left: Commits  # of missing topics
    errors: tuple[CorruptFileError, ...] = ()  # of topics whose identity cannot be read
