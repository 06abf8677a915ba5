"""Durable acknowledgements: one fsync serves every request that waits for it (group commit).

Requests that append while their log's fsync runs share the next one. Logs sync in rounds, because
the file system's journal commits once for all logs of a round; two rounds of a log directory, of
different logs, overlap, so that a disk is never idle while a log waits. A log that is locked, or
has more to sync than one file, is skipped by its round and synced alone. Without a broker, the
appends of one log share an fsync through :mod:`kstore.log.group_commit`.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kstore.log.flush_together import SkippedError, flush_together

if TYPE_CHECKING:
    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.loop import Loop
    from kstore.broker.services import Services
    from kstore.log.log import Log

_LOGGER = logging.getLogger("kstore.broker")

Done = Callable[[BaseException | None], object]
_ROUNDS = 2  # of one log directory at a time


def durable_commits(services: "Services") -> "DurableCommits":
    """The broker's committer; requests of all kinds share it and its syncs."""
    if services.commits is None:
        services.commits = DurableCommits(services.loop, services.workers)
    return services.commits


class DurableCommits:
    """Syncs a broker's logs, on disk workers. Loop's thread only."""

    def __init__(self, loop: "Loop", workers: "DiskWorkers") -> None:
        self._loop = loop
        self._workers = workers
        self._waiting: dict[Log, list[tuple[int, Done]]] = {}
        # The logs of the next round and the free rounds, by log directory.
        self._next: dict[str, list[Log]] = {}
        self._starting: set[str] = set()  # directories whose next round begins in this turn
        self._free: dict[str, list[int]] = {}

    def wait(self, log: "Log", offset: int, done: Done) -> None:
        """Call ``done(None)`` once all records below ``offset`` are on disk, or ``done(error)``."""
        requests = self._waiting.get(log)
        if requests is not None:  # its sync runs, or is in the next round
            requests.append((offset, done))
            return
        self._waiting[log] = [(offset, done)]
        self._queue(log)

    def finish(self, until: float, then: Callable[[], object]) -> None:
        """Call ``then()`` once no request waits for a sync, and none of those that a complete one
        makes, such as an ending transaction; at the latest at the loop's time ``until``."""
        if self._waiting and self._loop.time() < until:
            # a round that begins in this turn is disk work from then on
            self._loop.call_soon(self._workers.when_idle, partial(self.finish, until, then))
        else:
            then()

    def _queue(self, log: "Log") -> None:
        directory = log.path.rpartition("/")[0]
        self._next.setdefault(directory, []).append(log)
        self._start_soon(directory)

    def _start_soon(self, directory: str) -> None:
        """Begin a round once the loop has handled what is ready: its requests share the round."""
        if directory not in self._starting:
            self._starting.add(directory)
            self._loop.call_soon(self._start, directory)

    def _start(self, directory: str) -> None:
        """Sync the logs that wait, unless enough rounds run."""
        self._starting.discard(directory)
        free = self._free.setdefault(directory, list(range(_ROUNDS)))
        if not free or not self._next.get(directory):
            return
        number, logs = free.pop(), self._next.pop(directory)
        self._workers.submit(
            ("durable commits", directory, number),
            partial(flush_together, logs),
            partial(self._synced, directory, number, logs),
        )

    def _synced(
        self,
        directory: str,
        number: int,
        logs: "list[Log]",
        errors: "dict[Log, BaseException] | None",
        error: BaseException | None,
    ) -> None:
        """After a round, complete its requests, and sync the logs that it skipped alone."""
        self._free[directory].append(number)
        self._complete({log: error if errors is None else errors.get(log) for log in logs})
        self._start_soon(directory)

    def _complete(self, synced: "Mapping[Log, BaseException | None]") -> None:
        """Complete the requests below the recovery point, and sync for the rest."""
        # All of them first: a request that is complete may wait for any log again.
        requests = {log: self._waiting.pop(log) for log in synced}
        for log, waiting in requests.items():
            failure = synced[log]
            is_skipped = isinstance(failure, SkippedError)
            left = []
            for offset, done in waiting:
                if offset <= log.recovery_point:  # even if the log is closed or failed by now
                    _call(done, None)
                elif failure is not None and not is_skipped:
                    _call(done, failure)
                elif log.recovery_point >= log._data_end or offset > log.end_offset:
                    # no batch is left to sync: the log ends with a gap, or was truncated meanwhile
                    _call(done, None)
                else:
                    left.append((offset, done))
            if left and log in self._waiting:
                self._waiting[log].extend(left)
            elif left:
                self._waiting[log] = left
                if is_skipped:
                    self._sync_alone(log)
                else:
                    self._queue(log)

    def _sync_alone(self, log: "Log") -> None:
        """Sync a log that may be locked for long: the rounds of the others do not wait for it."""

        def synced(_: object, error: BaseException | None) -> None:
            self._complete({log: error})

        self._workers.submit(("durable commit", log), log.flush, synced)


def _call(done: Done, error: BaseException | None) -> None:
    """An error of one request does not concern the others of its round."""
    try:
        done(error)
    except Exception:
        _LOGGER.exception("a callback of a durable append failed")
