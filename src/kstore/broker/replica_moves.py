"""Moves of partitions between log directories that clients asked for (AlterReplicaLogDirs)."""

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore.broker")
PartitionKey = tuple[str, int]


class ReplicaMoves:
    """Kafka's ReplicaAlterLogDirsManager: moves wait in a queue and run on threads of their own,
    because one may take hours. At most as many run at a time as there are log directories.

    Another directory for a partition that is being moved ends that move; its own directory cancels
    it. Thread safe. The store ends a move that runs when it is closed.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._lock = threading.Lock()
        self._targets: dict[PartitionKey, str] = {}  # of moves that wait or run
        self._queue: deque[PartitionKey] = deque()
        self._threads = 0

    def request(self, topic: str, partition: int, path: str) -> None:
        """Move a partition to a log directory of the store, some time."""
        key = (topic, partition)
        with self._lock:
            is_new = key not in self._targets
            self._targets[key] = path
            if not is_new:
                return  # the move that runs sees its new target
            self._queue.append(key)
            if self._threads < max(1, len(self._store.paths)):
                self._threads += 1
                threading.Thread(target=self._run, name="kstore-replica-move", daemon=True).start()

    def targets(self) -> dict[PartitionKey, str]:
        """The directory of each move that waits or runs."""
        with self._lock:
            return dict(self._targets)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                key = self._queue.popleft()
            self._move(key)

    def _move(self, key: PartitionKey) -> None:
        """Move a partition, to another directory if the client changes its mind meanwhile."""
        while True:
            path = self.targets()[key]

            def stop_if_changed(done: int, size: int, path: str = path) -> None:
                if self._targets.get(key) != path:
                    raise _TargetChangedError(f"{key[0]}-{key[1]} goes elsewhere")

            try:
                moved = self._store.move(*key, path, progress=stop_if_changed)
                _LOGGER.info("moved %s-%d from %s to %s", *key, moved.source, moved.target)
            except _TargetChangedError:
                pass
            except KStoreError as error:
                _LOGGER.error("%s-%d was not moved to %s: %s", *key, path, error)
            except Exception:
                _LOGGER.exception("%s-%d was not moved to %s", *key, path)
            with self._lock:
                if self._targets[key] == path:
                    del self._targets[key]
                    return


class _TargetChangedError(Exception):
    """Ends a copy whose target is no longer wanted."""
