"""The logs that a store has loaded, and which of them hold files open."""

import threading
from collections import OrderedDict
from collections.abc import Iterator

from kstore.log.log import Log

PartitionKey = tuple[str, int]


class OpenLogs:
    """Loaded logs by partition; beyond ``limit`` the least recently used ones close their files.

    A parked log stays loaded and reopens its files at its next use, which it reports by calling
    ``handles_opened``. Safe to share between threads: the lock is a leaf, no other lock is taken
    while it is held, and busy logs are skipped (``Log.park`` returns False).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._logs: dict[PartitionKey, Log] = {}
        self._awake: OrderedDict[PartitionKey, Log] = OrderedDict()
        self._lock = threading.Lock()
        self.get = self._logs.get

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def of_topic(self, topic: str, partition: int | None = None) -> list[Log]:
        """The logs of a topic, or of one of its partitions."""
        return [log for log in self if log.topic == topic and partition in (None, log.partition)]

    def awake(self) -> list[Log]:
        """The logs that hold files open."""
        with self._lock:
            return list(self._awake.values())

    def add(self, log: Log) -> None:
        self._logs[log.topic, log.partition] = log

    def remove(self, log: Log) -> None:
        key = (log.topic, log.partition)
        with self._lock:
            if self._logs.get(key) is log:
                del self._logs[key]
            if self._awake.get(key) is log:
                del self._awake[key]

    def handles_opened(self, log: Log) -> None:
        """A log is about to use its files: other logs may have to close theirs."""
        key = (log.topic, log.partition)
        with self._lock:
            self._awake[key] = log
            self._awake.move_to_end(key)
            candidates = len(self._awake)
        while candidates > 0:
            candidates -= 1
            # Removed before it is parked: a log that reopens its files meanwhile adds itself again.
            with self._lock:
                if len(self._awake) <= self._limit:
                    return
                oldest = next(iter(self._awake))
                idle = self._awake.pop(oldest)
            if idle is log or not idle.park():
                with self._lock:
                    self._awake.setdefault(oldest, idle)
