"""Topics whose creation was interrupted: by a full disk, or a crash.

Until the creation is finished no log of the topic is in use.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from os.path import basename

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.topics_file import TopicEntry
from kstore.errors import TopicExistsError
from kstore.files.filenames import (
    PARTITION_METADATA,
    TEMPORARY_SUFFIX,
    TOPICS_FILE,
    partition_directory,
)
from kstore.store.remove_tree import remove_tree

_LOGGER = logging.getLogger("kstore")


_MADE = frozenset((PARTITION_METADATA, PARTITION_METADATA + TEMPORARY_SUFFIX))


def find_half_made(
    log_dirs: Iterable[LogDir], topic: str, entry: TopicEntry, *, but: Collection[int] = ()
) -> list[tuple[LogDir, str]]:
    """The directories of a topic's partitions that an unfinished creation has made.

    ``but``: the partitions that existed before. Raises StorageError, and TopicExistsError if one of
    them has files that no creation makes: someone put it there while the store was open.
    """
    numbers = sorted(set(range(entry.partitions)) - set(but))
    found = [
        (log_dir, path)
        for log_dir in log_dirs
        for path in (log_dir.join(partition_directory(topic, number)) for number in numbers)
        if log_dir.files.kind(path) is not None
    ]
    for log_dir, path in found:
        is_directory = log_dir.files.kind(path) == "directory"
        if not is_directory or not _MADE.issuperset(log_dir.files.listdir(path)):
            what = "has files that kstore did not make" if is_directory else "is not a directory"
            raise TopicExistsError(
                f"topic {topic!r} cannot have a new partition at {basename(path)}, which {what}: "
                "move it away, or open the store again to use what it has",
                path=path,
            )
    return found


def remove_half_made(
    log_dirs: Collection[LogDir], topic: str, entry: TopicEntry, *, but: Collection[int] = ()
) -> None:
    """Remove what :func:`find_half_made` finds; nothing if it raises."""
    for log_dir, path in find_half_made(log_dirs, topic, entry, but=but):
        remove_tree(log_dir.files, path)
        log_dir.partition_count -= 1
    for log_dir in log_dirs:
        log_dir.files.sync_directory(log_dir.path)


def with_found_id(topic: str, entry: TopicEntry, found: str | None) -> TopicEntry:
    """The entry with the topic id of the directories: it does not change once it is written."""
    if found is None or entry.topic_id in (None, found):
        return entry
    _LOGGER.warning(
        "topic %s: its directories have the id %s, and %s has %s; the former counts",
        topic, found, TOPICS_FILE, entry.topic_id,
    )  # fmt: skip
    return replace(entry, topic_id=found)
