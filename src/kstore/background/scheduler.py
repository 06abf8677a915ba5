"""Background work of a store: flush.ms, retention and checkpoints, in one named thread."""

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple

_PAUSE_AFTER_ERROR = 1.0  # seconds
_LONGEST_PAUSE = 3600.0  # seconds; a wait of centuries overflows


class ScheduledTask(NamedTuple):
    """A piece of periodic work; ``name`` tells it from the others."""

    name: str
    period_ms: int
    work: Callable[[], object]


class Schedule:
    """When each task was last begun. Used by one thread."""

    def __init__(
        self, on_error: Callable[[str, Exception], object], on_success: Callable[[str], object]
    ) -> None:
        self._due: dict[str, float] = {}
        self._on_error = on_error
        self._on_success = on_success

    def run(self, tasks: Iterable[ScheduledTask]) -> float:
        """Do what is due, each task first a period from when it is first seen.

        Returns the seconds until something may be due again. One task that fails does not keep
        the others from being done: its error goes to ``on_error(name, error)``.
        ``on_success(name)`` is called after each task that did not fail.
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
    """Runs ``work`` again and again until stopped; ``work`` returns the seconds until next time.

    An error goes to ``on_error``; the work goes on after a pause. Start, stop and wake may be
    called from any thread. ``work`` returns None when there is nobody left to work for.
    """

    NAME = "kstore-upkeep"

    def __init__(
        self, work: Callable[[], float | None], on_error: Callable[[Exception], object]
    ) -> None:
        self._work = work
        self._on_error = on_error
        # Of all that wakes a thread only this may be put into by a finalizer, which may interrupt
        # whoever holds the lock of an Event.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        # A daemon, lest a store that was left open keeps the interpreter from ending; the store
        # is closed at exit.
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Have the work done soon: something changed about when it is due."""
        self._wakes.put(None)

    def let_go(self) -> None:
        """End the thread without waiting for it; takes no lock, so that a finalizer may call it."""
        self._stopping = True
        self._wakes.put(None)

    def stop(self) -> None:
        """End the thread after the work at hand; again is harmless."""
        self.let_go()
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
        """Wait for a wake; several that came meanwhile are one."""
        try:
            self._wakes.get(timeout=seconds)
            while True:
                self._wakes.get_nowait()
        except Empty:
            return
