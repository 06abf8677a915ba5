"""Moves partitions between log directories for AlterReplicaLogDirs requests."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.compaction.throttler import NO_LIMIT, Throttler
from kstore.errors import ClosedError, KStoreError
from kstore.files.filenames import FUTURE

if TYPE_CHECKING:
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore.broker")
PartitionKey = tuple[str, int]


class AlterReplicaLogDirs:
    """Runs queued moves on its own threads, since a move may take hours (Kafka's
    ReplicaAlterLogDirsManager). At most one move per log directory runs at a time.

    A new target for a partition that is being moved replaces that move; the partition's current
    directory as target cancels it. All moves together copy at most the bytes a second of
    ``set_rate``. Thread safe. Closing the store ends running moves.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._lock = threading.Lock()
        self._targets: dict[PartitionKey, str] = {}  # of queued and running moves
        self._queue: deque[PartitionKey] = deque()
        self._threads = 0
        self._throttle = Throttler(NO_LIMIT)

    def set_rate(self, bytes_per_second: int) -> None:
        """Limit moves, those that are running too. At 0 they copy next to nothing: a byte."""
        self._throttle.set_rate(max(1, bytes_per_second))

    def request(self, topic: str, partition: int, path: str) -> None:
        """Queue the move of a partition to a log directory of the store.

        Raises KStoreError, with nothing queued, where the system has no thread left for it.
        """
        key = (topic, partition)
        with self._lock:
            is_new = key not in self._targets
            self._targets[key] = path
            if not is_new:
                return  # the running move notices its new target
            self._queue.append(key)
            if self._threads < max(1, len(self._store.paths)):
                self._start_thread(key)

    def resume(self) -> None:
        """Continue the moves that a stop or a crash interrupted, as Kafka's broker does: those of
        the unfinished copies in the store's directories."""
        catalog = self._store._manager.catalog
        for each in list(catalog.retired):
            key, path = (each.name.topic, each.name.partition), each.log_dir.path
            is_copy = each.name.state == FUTURE and each.log_dir.offline is None
            if is_copy and key[1] in catalog.topics.get(key[0], {}):
                _LOGGER.info("continuing the move of %s-%d to %s", *key, path)
                try:
                    self.request(*key, path)
                except KStoreError as error:
                    _LOGGER.error("the move of %s-%d does not continue: %s", *key, error)

    def _start_thread(self, key: PartitionKey) -> None:
        thread = threading.Thread(target=self._run, name="kstore-replica-move", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if self._threads:
                return  # another thread takes it from the queue
            self._queue.remove(key)
            del self._targets[key]
            raise KStoreError(f"no thread can be started for a move: {error}") from error
        self._threads += 1  # the thread waits for the lock

    def targets(self) -> dict[PartitionKey, str]:
        """The target directory of each queued or running move."""
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
        """Move a partition; restart the move whenever its target changes."""
        while True:
            path = self.targets()[key]

            def stop_if_changed(*_: int, path: str = path) -> None:
                if self._targets.get(key) != path:
                    raise _TargetChangedError(f"{key[0]}-{key[1]} has a new target")

            try:
                pace = _PaceOfMove(self._throttle, stop_if_changed)
                moved = self._store._manager.move(*key, path, pace, stop_if_changed)
                _LOGGER.info("moved %s-%d from %s to %s", *key, moved.source, moved.target)
            except _TargetChangedError:
                pass
            except ClosedError:
                _LOGGER.info("the move of %s-%d to %s continues at the next start", *key, path)
            except KStoreError as error:
                _LOGGER.error("%s-%d was not moved to %s: %s", *key, path, error)
            except Exception:
                _LOGGER.exception("%s-%d was not moved to %s", *key, path)
            with self._lock:
                if self._targets[key] == path:
                    del self._targets[key]
                    return


class _PaceOfMove:
    """The limit of all moves, for one of them: a new target ends its sleep, which may be long."""

    def __init__(self, throttle: Throttler, stop_if_changed: Callable[[], None]) -> None:
        self._throttle = throttle
        self._stop_if_changed = stop_if_changed

    def passed(self, size: int, check: Callable[[], None]) -> None:
        def check_both() -> None:
            check()
            self._stop_if_changed()

        self._throttle.passed(size, check_both)


class _TargetChangedError(Exception):
    """Ends a copy whose target is no longer wanted."""
