"""Durable acknowledgements: one fsync serves every request that waits for it (group commit).

Requests that append while an fsync runs share the next one. Several partitions sync concurrently,
because the file system's journal commits once for all of them. Without a broker, the appends of one
log share an fsync through :mod:`kstore.log.group_commit`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from kstore.background.scheduler import call_for_all
from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.services import Services
    from kstore.log.log import Log

Done = Callable[[BaseException | None], object]
_SYNCS = 8  # logs that sync concurrently
_KEY = "durable commits"


def durable_commits(services: "Services") -> "DurableCommits":
    """The broker's committer; requests of all kinds share it and its syncs."""
    if services.commits is None:
        services.commits = DurableCommits(services.workers)
    return services.commits


class DurableCommits:
    """Syncs a broker's logs, on a disk worker. Loop's thread only."""

    def __init__(self, workers: "DiskWorkers") -> None:
        self._workers = workers
        self._waiting: dict[Log, list[tuple[int, Done]]] = {}
        self._is_running = False

    def wait(self, log: "Log", offset: int, done: Done) -> None:
        """Call ``done(None)`` once all records below ``offset`` are on disk, or ``done(error)``."""
        self._waiting.setdefault(log, []).append((offset, done))
        if not self._is_running:
            self._start()

    def _start(self) -> None:
        self._is_running = True
        logs = list(self._waiting)
        self._workers.submit(_KEY, partial(sync_logs, logs), self._synced)

    def _synced(
        self, errors: "dict[Log, BaseException] | None", error: BaseException | None
    ) -> None:
        """After a sync, complete the requests below the recovery point, and sync for the rest."""
        self._is_running = False
        waiting, self._waiting = self._waiting, {}
        for log, requests in waiting.items():
            failure = error if errors is None else errors.get(log)
            left = []
            for offset, done in requests:
                if failure is not None:
                    done(failure)
                elif offset <= log.recovery_point or offset > log.end_offset:
                    # beyond the log end: truncated meanwhile, so nothing is left to sync
                    done(None)
                else:
                    left.append((offset, done))
            if left:
                self._waiting.setdefault(log, []).extend(left)
        if self._waiting and not self._is_running:
            self._start()


def sync_logs(logs: list["Log"]) -> "dict[Log, BaseException]":
    """Flush these logs concurrently; return the errors of those that fail. Blocks."""
    errors: dict[Log, BaseException] = {}

    def flush(log: "Log") -> None:
        try:
            log.flush()
        except (KStoreError, OSError) as error:
            errors[log] = error

    if len(logs) == 1:
        flush(logs[0])
    else:
        with ThreadPoolExecutor(min(len(logs), _SYNCS)) as pool:
            call_for_all(pool, _SYNCS, flush, logs)
    return errors
