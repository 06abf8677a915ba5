"""Sizes and offsets of partitions whose logs are not open, from reading their files once."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kstore.errors import KStoreError
from kstore.files.filenames import LOG, partition_directory
from kstore.store.partition_factory import peek_if_certain

if TYPE_CHECKING:
    from kstore.checkpoint.log_dir import LogDir
    from kstore.cluster.image import TopicImage
    from kstore.store.store import Store

PartitionKey = tuple[str, int]


class PartitionSize(NamedTuple):
    """Sizes and offsets of a partition. Offsets are -1 if only its open log would know them."""

    size: int
    segments: int
    start_offset: int
    end_offset: int


class IdlePartitions:
    """Measures partitions without an open log, and caches the results, since only an open log can
    change them. For one thread."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._found: dict[PartitionKey, tuple[bytes, PartitionSize]] = {}

    def get(self, key: PartitionKey, topic_id: bytes) -> PartitionSize | None:
        """The sizes of a partition; None if it is unreadable now, or is being recovered."""
        manager = self._store._manager
        log_dir = manager.catalog.topics.get(key[0], {}).get(key[1])
        if log_dir is None:
            self.forget(key)
            return None
        known = self._found.get(key)
        if known is not None and known[0] == topic_id:
            return known[1]
        if manager.recoveries.is_waiting(key) or log_dir.offline is not None:
            return None
        try:
            found = _measure(log_dir, key)
        except (KStoreError, OSError):  # deleted or moved meanwhile: the next scrape reads it
            return None
        if manager.logs.get(key) is not None:
            return None  # opened meanwhile: the values may be inconsistent
        self._found[key] = topic_id, found
        return found

    def forget(self, key: PartitionKey) -> None:
        """Remove a partition whose log is open from the cache."""
        self._found.pop(key, None)

    def forget_deleted(self, topics: "Mapping[str, TopicImage]", count: int) -> None:
        """Remove partitions that these topics do not have from the cache, if it has more than
        ``count``, their number."""
        if len(self._found) <= count:
            return
        for topic, partition in list(self._found):
            image = topics.get(topic)
            if image is None or partition not in image.partitions:
                del self._found[topic, partition]


def _measure(log_dir: "LogDir", key: PartitionKey) -> PartitionSize:
    folder = log_dir.join(partition_directory(*key))
    names = [name for name in log_dir.files.listdir(folder) if name.endswith(f".{LOG}")]
    size = sum(log_dir.files.size_of(os.path.join(folder, name)) for name in names)
    end = peek_if_certain(log_dir, key, writable=True)
    first = min((int(name.partition(".")[0]) for name in names if name[:20].isdecimal()), default=0)
    return PartitionSize(
        size, len(names), max(first, log_dir.offsets.log_start(key)), -1 if end is None else end
    )
