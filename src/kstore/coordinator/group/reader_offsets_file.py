"""``kstore.offsets.<group>``: the commits of a process that may not write the store's logs.

JSON with a format version, replaced atomically. The file identifies the topics of its offsets by
topic id (or creation stamp): offsets of a topic that was deleted since are ignored.
"""

import errno
import json
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from os.path import basename, join
from typing import NamedTuple, NoReturn

from kstore.coordinator.group.offset_records import Commits, OffsetCommit, PartitionKey
from kstore.errors import CorruptFileError, NewerFormatError, StorageError
from kstore.files.filenames import OFFSETS_PREFIX, TEMPORARY_SUFFIX
from kstore.files.files import Files

FORMAT = 2  # format 1 has no topic ids
MAX_GROUP_FILE_SIZE = 1 << 26

_NAME_LIMIT = 200
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

TopicIds = dict[str, str | None]  # by name: the id or creation stamp, None for neither
IsSameTopic = Callable[[str, str | None], bool]  # whether the topic of that name has that identity


class FiledOffsets(NamedTuple):
    """The content of a ``kstore.offsets.*`` file; a topic of format 1 is not in ``topic_ids``."""

    group: str
    commits: Commits
    topic_ids: TopicIds

    def split(self, is_same: IsSameTopic) -> "SplitOffsets":
        """Split the commits by whether their topic still has the same identity."""
        same: dict[str, bool] = {}
        errors: dict[str, CorruptFileError] = {}
        for topic in {topic for topic, _ in self.commits}:
            try:
                is_known = topic in self.topic_ids
                same[topic] = not is_known or is_same(topic, self.topic_ids[topic])
            except CorruptFileError as error:  # concerns only this topic
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
    others: Commits  # whose topic was recreated with another identity
    undecided: Commits  # of topics whose identity cannot be read
    errors: dict[str, CorruptFileError]  # by such a topic


def group_file_name(group: str, prefix: str = OFFSETS_PREFIX) -> str:
    """The name of a group's file: plain characters unchanged, others as ``%`` and two digits.

    A dot is not plain, so that no group's file has the name of another's ``.tmp`` file.
    """
    plain = "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in group.encode())
    if len(plain) > _NAME_LIMIT:
        plain = "~" + sha256(group.encode()).hexdigest()  # the file contains the group's name
    return prefix + plain


def group_of_file_name(name: str, prefix: str = OFFSETS_PREFIX) -> str | None:
    """The group whose file has this name; None for a hashed name, or that of another file."""
    if not name.startswith(prefix) or name.startswith("~", len(prefix)):
        return None
    plain = name[len(prefix) :].encode("ascii", "replace")
    try:
        group = re.sub(rb"%(..)", lambda byte: bytes.fromhex(byte[1].decode()), plain).decode()
    except ValueError:
        return None
    return group if group_file_name(group, prefix) == name else None


class OffsetsFile:
    """``kstore.offsets.<group>``: the commits of a process that may not write the store's logs.

    Its user holds the guard of the group's :class:`Claims` while it changes the file.
    """

    def __init__(self, files: Files, log_dir: str, group: str) -> None:
        self._files = files
        self._group = group
        self.log_dir = log_dir
        self.path = join(log_dir, group_file_name(group))

    def read(self) -> FiledOffsets:
        """The contents of the file, empty if there is none.

        Raises CorruptFileError if it does not parse, NewerFormatError for a later format.
        """
        filed = read_group_file(self._files, self.path)
        if filed is None:
            return FiledOffsets(self._group, {}, {})
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
        """Remove the file, if it exists, durably."""
        if self._files.exists(self.path):
            self._files.remove(self.path)
            self._files.sync_directory(self.log_dir)


def is_offsets_file(path: str) -> bool:
    return basename(path).startswith(OFFSETS_PREFIX) and not path.endswith(TEMPORARY_SUFFIX)


def group_files(files: Files, log_dirs: Iterable[str]) -> list[str]:
    """The paths of all groups' files in log directories."""
    return [
        join(path, name)
        for path in log_dirs
        for name in sorted(files.scan(path)[1])
        if is_offsets_file(name)
    ]


def read_group_file(files: Files, path: str) -> FiledOffsets | None:
    """The content of a group's file, None if it does not exist (a writer may remove it).

    Raises CorruptFileError if it does not parse, NewerFormatError for a later format.
    """
    try:
        data = files.read(path, MAX_GROUP_FILE_SIZE)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return parse_group_file(data, path)


def parse_group_file(data: bytes, path: str) -> FiledOffsets:
    """The content of a ``kstore.offsets.*`` file."""

    def bad(what: str) -> NoReturn:
        raise CorruptFileError(f"not a file of committed offsets: {what}", path=path)

    def integer(value: object, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            bad(f"{value!r} is not a number from {low} to {high}")
        return value

    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        bad(str(error))
    if not isinstance(document, dict):
        bad("not a JSON object")
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
