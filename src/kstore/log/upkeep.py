"""Background work of a store: flush.ms, retention and checkpoints, in one named thread."""

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple

_PAUSE_AFTER_ERROR = 1.0  # seconds
_LONGEST_PAUSE = 3600.0  # seconds; a wait of centuries overflows


class Chore(NamedTuple):
    """A piece of periodic work; ``name`` tells it from the others."""

    name: str
    period_ms: int
    work: Callable[[], object]


class Schedule:
    """When each chore was last begun. Used by one thread."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def run(self, chores: Iterable[Chore]) -> float:
        """Do what is due, each chore first a period from when it is first seen.

        Returns the seconds until something may be due again. One chore that fails does not keep
        the others from being done; the first error is raised after them.
        """
        pause = _LONGEST_PAUSE
        failure: Exception | None = None
        for chore in chores:
            now, period = monotonic(), chore.period_ms / 1000
            due = self._due.setdefault(chore.name, now + period)
            if now >= due:
                self._due[chore.name] = due = now + period
                try:
                    chore.work()
                except Exception as error:
                    failure = failure or error
            pause = min(pause, due - now)
        if failure is not None:
            raise failure
        return pause


class Upkeep:
    """Runs ``work`` again and again until stopped; ``work`` returns the seconds until next time.

    An error is kept, and ``raise_error`` raises it once, on the owner's next call; the work goes
    on after a pause. Start, stop and wake may be called from any thread. ``work`` returns None
    when there is nobody left to work for.
    """

    NAME = "kstore-upkeep"

    def __init__(self, work: Callable[[], float | None]) -> None:
        self._work = work
        self._wake = threading.Event()
        self._stopping = False
        self._error: BaseException | None = None
        # A daemon, lest a store that was left open keeps the interpreter from ending; the store
        # is closed at exit.
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Have the work done soon: something changed about when it is due."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the work at hand; again is harmless."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    @property
    def failed(self) -> bool:
        return self._error is not None

    def _run(self) -> None:
        try:
            while not self._stopping:
                started = monotonic()
                try:
                    pause = self._work()
                except Exception as error:  # handed to the next caller of the store
                    self._error, pause = error, _PAUSE_AFTER_ERROR
                if pause is None:
                    return
                self._wake.wait(min(max(0.0, started + pause - monotonic()), _LONGEST_PAUSE))
                self._wake.clear()
        except BaseException as error:  # handed to the next caller of the store
            self._error = error
