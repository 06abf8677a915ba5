"""Runs the periodic tasks of a store in one thread."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

_PAUSE_AFTER_ERROR = 1.0  # seconds
Item = TypeVar("Item")
_LONGEST_PAUSE = 3600.0  # seconds; an extremely long wait would overflow


class ScheduledTask(NamedTuple):
    """A periodic task; its ``name`` is unique in the schedule."""

    name: str
    period_ms: int
    work: Callable[[], object]


class Schedule:
    """The due times of tasks. For use by one thread."""

    def __init__(
        self, on_error: Callable[[str, Exception], object], on_success: Callable[[str], object]
    ) -> None:
        self._due: dict[str, float] = {}
        self._on_error = on_error
        self._on_success = on_success

    def run(self, tasks: Iterable[ScheduledTask]) -> float:
        """Run the tasks that are due; a new task is first due after one period.

        Returns the seconds until the next task is due. The others run even if a task fails: its
        error goes to ``on_error(name, error)``. Calls ``on_success(name)`` after each task that
        did not fail.
        """
        pause = _LONGEST_PAUSE
        for task in tasks:
            now, period = monotonic(), task.period_ms / 1000
            due = self._due.setdefault(task.name, now + period)
            if now >= due:
                self._due[task.name] = due = now + period
                try:
                    task.work()
                except Exception as error:
                    self._on_error(task.name, error)
                else:
                    self._on_success(task.name)
            pause = min(pause, due - now)
        return pause


class Scheduler:
    """A thread that calls ``work`` repeatedly; ``work`` returns the seconds until the next call.

    ``work`` returns None to end the thread. An error goes to ``on_error``, and the next call
    follows after a pause. Start, stop and wake may be called from any thread.
    """

    NAME = "kstore-upkeep"

    def __init__(
        self, work: Callable[[], float | None], on_error: Callable[[Exception], object]
    ) -> None:
        self._work = work
        self._on_error = on_error
        # Not an Event: a finalizer may wake the thread, and may interrupt code that holds the
        # Event's lock. SimpleQueue.put is reentrant.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        # A daemon thread, so that a store left open does not keep the interpreter from ending;
        # an exit handler closes the store.
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Make the thread call ``work`` soon, because due times may have changed."""
        self._wakes.put(None)

    def request_stop(self) -> None:
        """Stop the thread without waiting for it. Takes no lock, so that a finalizer may call
        it."""
        self._stopping = True
        self._wakes.put(None)

    def stop(self) -> None:
        """Stop the thread and wait for a running call. Idempotent."""
        self.request_stop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            started = monotonic()
            try:
                pause = self._work()
            except Exception as error:
                self._on_error(error)
                pause = _PAUSE_AFTER_ERROR
            if pause is None:
                return
            self._rest(min(max(0.0, started + pause - monotonic()), _LONGEST_PAUSE))

    def _rest(self, seconds: float) -> None:
        """Wait for a wake-up; several pending wake-ups count as one."""
        try:
            self._wakes.get(timeout=seconds)
            while True:
                self._wakes.get_nowait()
        except Empty:
            return


def call_for_all(
    pool: "Executor", threads: int, function: Callable[[Item], object], items: Iterable[Item]
) -> None:
    """Call a function for every item, on so many threads, or as many as the system has left.

    The caller's thread is one of them.
    """
    left = deque(items)

    def work() -> None:
        while left:
            try:
                item = left.popleft()
            except IndexError:  # another thread was faster
                return
            function(item)

    helpers = []
    with suppress(RuntimeError):  # no thread can be started
        for _ in range(min(threads, len(left)) - 1):
            helpers.append(pool.submit(work))
    work()
    for helper in helpers:
        helper.result()
