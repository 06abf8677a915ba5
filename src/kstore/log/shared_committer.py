"""One committer for many logs: their syncs are issued together, and the disk commits once."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kstore.background.scheduler import call_for_all
from kstore.errors import ClosedError

if TYPE_CHECKING:
    from kstore.log.log import Log

_THREADS = 16  # syncs that wait for the disk at once
OnSynced = Callable[[BaseException | None], None]


class SharedCommitter:
    """Syncs many logs, round after round. Thread safe.

    A round syncs every log that was requested before it began, at the same time: a file system
    commits its journal once for all of them. Requests that arrive meanwhile share the next round.
    An error concerns its log only.
    """

    NAME = "kstore-shared-committer"

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requested: dict[Log, list[OnSynced]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
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
        for log in dict.fromkeys(logs):
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
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(_THREADS, self.NAME) as pool:
            while True:
                with self._changed:
                    while not self._requested and not self._closed:
                        self._changed.wait()
                    requested, self._requested = self._requested, {}
                if not requested:
                    return
                if len(requested) == 1:  # needs no other thread
                    _sync(*requested.popitem())
                else:
                    call_for_all(pool, _THREADS, lambda item: _sync(*item), requested.items())

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
        on_synced(error)
