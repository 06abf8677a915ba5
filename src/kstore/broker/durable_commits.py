"""Acknowledgements that mean *on disk*: one sync serves every request that waits for it.

While one sync runs, requests append and wait; the next sync takes all of them. Syncs of several
partitions run at the same time, because a file system's journal commits once for all of them.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.services import Services
    from kstore.log.log import Log

Done = Callable[[BaseException | None], object]
_SYNCS = 8  # logs that are synced at the same time
_KEY = "durable commits"


def durable_commits(services: "Services") -> "DurableCommits":
    """The broker's committer, one for all: requests of every kind share its syncs."""
    if services.commits is None:
        services.commits = DurableCommits(services.workers)
    return services.commits


class DurableCommits:
    """The committer of a broker's logs. Loop's thread only; it syncs on a disk worker."""

    def __init__(self, workers: "DiskWorkers") -> None:
        self._workers = workers
        self._waiting: dict[Log, list[tuple[int, Done]]] = {}
        self._is_running = False

    def wait(self, log: "Log", offset: int, done: Done) -> None:
        """Call ``done(None)`` when everything below offset is on disk, or with the sync's error."""
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
        """A sync has ended: answer those below the recovery point; the others take the next."""
        self._is_running = False
        waiting, self._waiting = self._waiting, {}
        for log, requests in waiting.items():
            failure = error if errors is None else errors.get(log)
            left = []
            for offset, done in requests:
                if failure is not None:
                    done(failure)
                elif offset <= log.recovery_point or offset > log.end_offset:
                    done(None)  # beyond the end: truncated meanwhile, there is nothing to sync
                else:
                    left.append((offset, done))
            if left:
                self._waiting.setdefault(log, []).extend(left)
        if self._waiting and not self._is_running:
            self._start()


def sync_logs(logs: list["Log"]) -> "dict[Log, BaseException]":
    """Flush these logs, several at a time; the errors of those that failed. Blocks."""
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
            list(pool.map(flush, logs))
    return errors
