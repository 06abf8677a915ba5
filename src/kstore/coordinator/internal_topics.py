"""Lists the partitions in use of Kafka's internal topics, which have many empty ones."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kstore.files.filenames import partition_directory
from kstore.recovery.loader import is_empty
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.store.store import Store


def filled_partitions(store: "Store", topic: str) -> Iterator[TopicPartition]:
    """The non-empty partitions of a topic, without opening any.

    Includes corrupt ones, whose error is raised when they are read. Skips partitions of an
    offline directory.
    """
    with store._lock:
        log_dirs = sorted(store._catalog.topics.get(topic, {}).items())
    for partition, log_dir in log_dirs:
        path = log_dir.join(partition_directory(topic, partition))
        if log_dir.offline is None and not is_empty(log_dir.files, path):
            yield TopicPartition(topic, partition)
