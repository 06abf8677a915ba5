"""Applies retention to all partitions of a store, then removes ``-delete`` folders.

The rules are in :mod:`kstore.log.retention`, their application in :mod:`kstore.log.writable_log`.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kstore.clock import now_ms
from kstore.config import LogConfig
from kstore.errors import ClosedError
from kstore.files.filenames import DELETE
from kstore.store.list_log_dirs import Retired

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager

_RETENTION = "retention"  # in reports of failures


class StoreRetention:
    """Applies retention to the partitions of one store.

    Owned by its manager, which it references strongly: neither outlives the other.
    """

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager
        self._deleted: list[tuple[int, Retired]] = []  # (when it may be removed in Unix ms, folder)

    def run(self) -> Iterator[tuple[tuple[str, int], Exception | int]]:
        """Apply retention to each partition; yields it with its error, or the segments dropped.

        Skips the error of a partition that was deleted or closed meanwhile.
        """
        manager = self._manager
        with manager.lock:
            due = {
                (name, partition)
                for name in manager.catalog.configured()
                if _is_limited(manager.catalog.config(name))
                for partition in manager.catalog.topics.get(name, ())
            }
            loaded = {(log.topic, log.partition) for log in manager.logs}
        for key in sorted(due | loaded):
            log = manager.logs.get(key)
            dropped = 0
            try:
                log_dir = manager.catalog.log_dir_of(*key)
                if log_dir.offline is None:
                    log = log or manager.log(*key)
                    if key in due:
                        dropped = manager.in_log_dir(log_dir, log.apply_retention) or 0
                    manager.in_log_dir(log_dir, log.remove_retired)
            except Exception as error:
                if not isinstance(error, ClosedError) and not manager.is_gone(key, log):
                    yield key, error
            else:
                yield key, dropped
        self._remove_deleted_folders()

    def run_in_background(self) -> None:
        """As :meth:`run`; reports each partition's failure."""
        for key, outcome in self.run():
            if isinstance(outcome, Exception):
                self._manager.background.report(_RETENTION, outcome, *key)
            else:
                self._manager.background.end(_RETENTION, *key)

    def find_deleted_folders(self) -> None:
        """Schedule the removal of ``-delete`` folders after ``file.delete.delay.ms``, as Kafka.

        Only for topics with settings of their own; a broker removes those of its topics.
        """
        now = now_ms()
        catalog = self._manager.catalog
        for retired in catalog.retired:
            if retired.name.state == DELETE and catalog.is_own(retired.name.topic):
                delay = catalog.config(retired.name.topic).file_delete_delay_ms
                self._deleted.append((now + delay, retired))

    def _remove_deleted_folders(self) -> None:
        manager = self._manager
        with manager.lock:
            now = now_ms()
            for due, retired in list(self._deleted):
                if due <= now:
                    self._deleted.remove((due, retired))
                    if retired.log_dir.offline is None:
                        remove = partial(manager.catalog.remove_retired, retired)
                        manager.in_log_dir(retired.log_dir, remove)


def _is_limited(config: LogConfig) -> bool:
    """Whether retention may delete something by age or size."""
    return config.retention_ms >= 0 or config.retention_bytes >= 0
