"""The logs that a store has loaded, and which of them hold files open."""

import threading
from collections import OrderedDict
from collections.abc import Iterator

from kstore.log.log import Log

PartitionKey = tuple[str, int]


class OpenLogs:
    """Loaded logs by partition; beyond ``limit`` the ones idle longest give their files back.

    A log that is parked stays loaded and opens its files again when it is used, which it tells
    by calling ``woken``. Safe to share between threads: the lock here is a leaf, nothing else is
    locked while it is held, and a log that is busy is not waited for (``Log.park`` says False).
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

    @property
    def awake_count(self) -> int:
        return len(self._awake)

    def of_topic(self, topic: str) -> list[Log]:
        return [log for log in self if log.topic == topic]

    def add(self, log: Log) -> None:
        self._logs[log.topic, log.partition] = log

    def remove(self, log: Log) -> None:
        key = (log.topic, log.partition)
        with self._lock:
            if self._logs.get(key) is log:
                del self._logs[key]
            if self._awake.get(key) is log:
                del self._awake[key]

    def woken(self, log: Log) -> None:
        """A log is about to use its files: others may have to give theirs back."""
        key = (log.topic, log.partition)
        with self._lock:
            self._awake[key] = log
            self._awake.move_to_end(key)
            candidates = len(self._awake)
        while candidates > 0:
            candidates -= 1
            # Out of the list before it is parked: a log that wakes meanwhile lists itself again.
            with self._lock:
                if len(self._awake) <= self._limit:
                    return
                oldest = next(iter(self._awake))
                idle = self._awake.pop(oldest)
            if idle is log or not idle.park():
                with self._lock:
                    self._awake.setdefault(oldest, idle)
