"""Syncs rolled segments of a store in a thread, so that recovery points follow the log ends.

Kafka's UnifiedLog.roll gives the task "flush-log" to its scheduler
(docs/decisions/0038-rolled-segments-are-synced.md).
"""

import threading
import weakref
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from kstore.errors import KStoreError
from kstore.log.log import Log

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager

_CHECKPOINT_PAUSE = 1.0  # seconds, at least, between two checkpoints


class RolledSegmentsFlusher:
    """A thread that flushes the rolled segments of logs, then writes the recovery points.

    The thread starts at the first request, and does not keep an unused store alive. Thread safe.
    Failures go to the manager's ``background``; after a failed sync the log refuses appends.
    """

    NAME = "kstore-flush-rolled"

    def __init__(self, manager: "LogManager") -> None:
        self._manager = weakref.ref(manager)
        self._stopping = not manager.config.background
        self._lock = threading.Lock()  # of the thread's start
        self._thread: threading.Thread | None = None
        # SimpleQueue.put takes no lock that a finalizer could interrupt. None: stop.
        self._requests: SimpleQueue[Log | None] = SimpleQueue()
        self._waiting: set[Log] = set()

    def request(self, log: Log) -> None:
        """Flush the rolled segments of a log soon. The caller may hold the log's lock.

        Nothing happens once the thread is asked to stop: closing a log flushes it.
        """
        if self._stopping or log in self._waiting:
            return
        self._waiting.add(log)
        self._requests.put(log)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._stopping:
                return
            # A daemon thread, as the scheduler's: an exit handler closes the store.
            thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: the next roll tries again
                return
            self._thread = thread

    def request_stop(self) -> None:
        """Stop the thread without waiting for it; takes no lock: a finalizer may call it."""
        self._stopping = True
        self._requests.put(None)

    def stop(self) -> None:
        """Stop the thread and wait for the sync that runs; what waits is left to the close."""
        self.request_stop()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        is_checkpoint_due, last = False, float("-inf")
        while not self._stopping:
            pause = last + _CHECKPOINT_PAUSE - monotonic() if is_checkpoint_due else None
            log = self._next(pause)
            if self._stopping:
                return
            if log is not None:
                self._waiting.discard(log)  # first: a later roll requests again
                self._flush(log)
                is_checkpoint_due = True
                del log  # a store that is not used any more is not kept alive
            if is_checkpoint_due and monotonic() >= last + _CHECKPOINT_PAUSE:
                self._checkpoint()
                is_checkpoint_due, last = False, monotonic()

    def _next(self, pause: float | None) -> Log | None:
        """The next request; None when the time is over."""
        try:
            return self._requests.get(timeout=None if pause is None else max(0.0, pause))
        except Empty:
            return None

    def _flush(self, log: Log) -> None:
        manager = self._manager()
        if manager is None:
            return
        try:
            flush = log._require_writer().flusher.flush_rolled
        except KStoreError:  # closed, or failed and reported before
            return
        work = partial(_flush_in_log_dir, manager, flush)
        manager.run("rolled segments", (log.topic, log.partition), work, log)

    def _checkpoint(self) -> None:
        manager = self._manager()
        if manager is None or manager.closed:
            return
        try:
            manager.checkpoints.write()
        except Exception as error:
            manager.background.report("checkpoint", error)
        else:
            manager.background.end("checkpoint")


def _flush_in_log_dir(manager: "LogManager", flush: Callable[[], None], log: Log) -> None:
    manager.in_log_dir(manager.catalog.log_dir_of(log.topic, log.partition), flush)
