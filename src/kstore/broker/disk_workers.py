"""Threads for work that may block on a disk, in order for each key."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from kstore.broker.loop import Loop, Timer

_LOGGER = logging.getLogger("kstore.broker")
_PATIENCE = 0.05  # seconds in which no thread starts any work, after which one more thread starts
_MOST_OF_EACH = 8  # the maximum number of threads, as a multiple of ``count``

Work = Callable[[], Any]
Done = Callable[[Any, BaseException | None], object]


class DiskWorkers:
    """A thread pool that runs the work of one key, such as a partition, in submission order.

    Call ``submit`` and ``is_busy`` on the event loop's thread. Threads start on demand. If all of
    them block, on a slow disk or a lock, the pool starts more, up to eight times ``count``, so that
    work of other keys continues. While the system has no thread left and the pool has none, the
    loop's thread does the work: slow, but requests and the stop of the broker are not stuck.
    """

    def __init__(self, loop: Loop, count: int) -> None:
        self._loop = loop
        self._count = count
        self._begun = 0  # the number of work items started by any thread
        self._helper: Timer | None = None  # checks whether all threads are blocked
        self._lock = threading.Lock()  # guards the queues, one for each key that has work
        self._queues: dict[Hashable, deque[tuple[Work, Done]]] = {}
        self._unfinished: dict[Hashable, int] = {}  # loop's thread: until done() has returned
        self._keys: SimpleQueue[Hashable] = SimpleQueue()  # keys whose work a thread may start
        self._threads: list[threading.Thread] = []
        self._on_idle: Callable[[], object] | None = None
        self._closed = False

    def submit(self, key: Hashable, work: Work, done: Done) -> None:
        """Run ``work()`` on a worker after the key's earlier work, then call ``done(result,
        error)`` on the event loop's thread; after an error the result is None."""
        if self._closed:
            raise RuntimeError("the broker's disk workers are closed")
        self._unfinished[key] = self._unfinished.get(key, 0) + 1
        with self._lock:
            queue = self._queues.get(key)
            if queue is not None:
                queue.append((work, done))
                return
            self._queues[key] = deque([(work, done)])
            starting = len(self._queues) > len(self._threads) < self._count
        is_started = starting and self._start_thread()
        self._keys.put(key)
        if not is_started and self._helper is None and len(self._queues) > len(self._threads):
            self._look_later()

    def _look_later(self) -> None:
        self._helper = self._loop.call_later(_PATIENCE, self._help, self._begun)

    def _help(self, begun: int) -> None:
        """Start one more thread if a key waits and no thread has started any work for a while."""
        self._helper = None
        if self._closed or self._keys.empty():
            return
        if self._begun == begun:
            if len(self._threads) >= _MOST_OF_EACH * self._count:
                return  # the next submission checks again
            if not self._start_thread() and not self._threads:
                self._run_until_empty()
                return
        self._look_later()

    def _run_until_empty(self) -> None:
        with suppress(Empty):
            while True:
                key = self._keys.get_nowait()
                while self._run_one(key):
                    pass

    def is_busy(self, key: Hashable) -> bool:
        """Whether work of the key is unfinished, that is, its ``done`` has not returned."""
        return key in self._unfinished

    @property
    def busy_keys(self) -> dict[Hashable, int]:
        """The busy keys, with the number of unfinished calls of each; always the same dict."""
        return self._unfinished

    @property
    def unfinished(self) -> int:
        """How much work is not finished. From any thread."""
        return sum(list(self._unfinished.values()))

    @property
    def is_idle(self) -> bool:
        return not self._unfinished

    def __contains__(self, thread: object) -> bool:
        """Whether a thread is one of them; from any thread."""
        return thread in self._threads

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on the event loop's thread once no work is unfinished; now if idle."""
        if self.is_idle:
            callback()
        else:
            self._on_idle = callback

    def close(self) -> None:
        """Finish all submitted work and end the threads. Not on the event loop's thread."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._keys.put(_END)
        for thread in self._threads:
            thread.join()
        if not self._threads:  # none could be started
            self._run_until_empty()

    def _start_thread(self) -> bool:
        """Whether a thread could be started; the system may have none left."""
        name = f"kstore-broker-disk-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _LOGGER.error("a thread for disk work could not be started: %s", error)
            return False
        self._threads.append(thread)
        return True

    def _run(self) -> None:
        while (key := self._keys.get()) is not _END:
            while self._run_one(key):
                pass

    def _run_one(self, key: Hashable) -> bool:
        """Run the key's first work; True if this worker continues with the key's next work."""
        work, done = self._queues[key][0]
        # a race may lose one increment: harmless, since a change is enough to show progress
        self._begun += 1
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        self._loop.call_soon_threadsafe(self._finish, key, done, result, error)
        del work, done, result, error
        with self._lock:
            queue = self._queues[key]
            queue.popleft()
            if not queue:
                del self._queues[key]
                return False
            if self._closed or self._keys.empty():
                return True
            self._keys.put(key)  # after the other keys: no key monopolizes a worker
            return False

    def _finish(
        self, key: Hashable, done: Done, result: object, error: BaseException | None
    ) -> None:
        try:
            done(result, error)
        finally:
            left = self._unfinished[key] - 1
            if left:
                self._unfinished[key] = left
            else:
                del self._unfinished[key]
                if self._on_idle is not None and not self._unfinished:
                    self._on_idle()


_END = object()
