"""Topics whose creation was interrupted: by a full disk, or a crash.

Until the creation is finished no log of the topic is in use.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.topics_file import TopicEntry
from kstore.files.filenames import TOPICS_FILE, partition_directory
from kstore.store.remove_tree import remove_tree

_LOGGER = logging.getLogger("kstore")


def remove_half_made(log_dirs: Iterable[LogDir], topic: str, entry: TopicEntry) -> None:
    """Remove the directories that an unfinished creation has made. Raises StorageError."""
    for log_dir in log_dirs:
        for partition in range(entry.partitions):
            path = log_dir.join(partition_directory(topic, partition))
            if log_dir.files.kind(path) is not None:
                remove_tree(log_dir.files, path)
                log_dir.partition_count -= 1
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
