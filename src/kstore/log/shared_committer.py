"""One committer for many logs: their syncs are issued together, and the disk commits once.

For programs: each log is flushed on a thread, with all that it has to sync, and its callbacks need
not wait for the other logs. A broker's rounds are :mod:`kstore.log.flush_together`.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kstore.errors import ClosedError

if TYPE_CHECKING:
    from kstore.log.log import Log

_LOGGER = logging.getLogger("kstore")
_THREADS = 16  # syncs that wait for the disk at once
OnSynced = Callable[[BaseException | None], None]


class SharedCommitter:
    """Syncs many logs at the same time. Thread safe.

    A file system commits its journal once for them. Requests for a log that arrive during its sync
    share the next one. An error concerns its log only, and so does a lock: the source of an
    ``extend``, whose log is locked, may wait for another log.
    """

    NAME = "kstore-shared-committer"

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requested: dict[Log, list[OnSynced]] = {}
        self._running: set[Log] = set()
        self._due: deque[tuple[Log, list[OnSynced]]] = deque()  # of those, not begun
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
        self._threads = {self._thread}  # and those that sync
        self._thread.start()

    def request(self, log: "Log", on_synced: OnSynced) -> None:
        """Call on_synced when everything that was appended to the log so far is on disk.

        It is called once, on a thread of the committer, with None or the error of the sync; it
        must not block or raise. Raises ClosedError after :meth:`close`.
        """
        with self._changed:
            if self._closed:
                raise ClosedError("the committer is closed")
            self._requested.setdefault(log, []).append(on_synced)
            self._changed.notify_all()

    def flush(self, logs: Iterable["Log"]) -> None:
        """Return when everything appended to these logs before the call is on disk.

        Raises the first StorageError when all are done.
        """
        errors: list[BaseException] = []
        left = threading.Semaphore(0)

        def note(error: BaseException | None) -> None:
            if error is not None:
                errors.append(error)
            left.release()

        count = 0
        wanted = dict.fromkeys(logs)
        with self._changed:  # so that their syncs begin together
            for log in wanted:
                self.request(log, note)
                count += 1
        for _ in range(count):
            left.acquire()
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Finish what was requested and end the threads. A second call does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if threading.current_thread() not in self._threads:
            self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(_THREADS, self.NAME) as pool:
            while (count := self._take_requests()) > 0:
                try:
                    for _ in range(min(count, _THREADS)):
                        pool.submit(self._sync_some)
                except RuntimeError:  # no thread can be started
                    self._sync_some()

    def _take_requests(self) -> int:
        """Wait for requests of logs that no thread syncs, and count them; 0 after ``close``."""
        with self._changed:
            while True:
                due = [log for log in self._requested if log not in self._running]
                if due or (self._closed and not self._requested):
                    break
                self._changed.wait()
            self._running.update(due)
            self._due += [(log, self._requested.pop(log)) for log in due]
        return len(due)

    def _sync_some(self) -> None:
        """Sync logs that are due, until none is: a locked one holds one thread only."""
        self._threads.add(threading.current_thread())
        while self._due:
            try:
                log, waiting = self._due.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                _sync(log, waiting)
            finally:
                with self._changed:
                    self._running.discard(log)
                    if log in self._requested:
                        self._changed.notify_all()

    def __enter__(self) -> "SharedCommitter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sync(log: "Log", waiting: list[OnSynced]) -> None:
    error: BaseException | None = None
    try:
        log.flush()
    except BaseException as raised:
        error = raised
    for on_synced in waiting:
        try:
            on_synced(error)
        except Exception:  # the other requests do not depend on it
            _LOGGER.exception("%s: a callback of a sync failed", log.path)
