"""What a consumer waits for: records in its logs, and changes of its topics, group and positions.

Nothing is polled, except the files of another process, and what another transaction is about to
commit for the group.
"""

from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from kstore.errors import ClosedError, KStoreError

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.watch import Watch

_PAUSE_MIN = 0.0005  # seconds between checks of what cannot be watched, doubled up to:
_PAUSE_MAX = 0.02
_LONGEST = 1e6  # seconds; the system's waits have a limit


class ConsumerWaits:
    """The waits of one consumer's callers. Thread safe, without a lock: finalizers may wake it."""

    def __init__(self) -> None:
        self._waits: list[ConsumerWait] = []

    def wake(self) -> None:
        """Let all callers look again."""
        for wait in tuple(self._waits):
            wait.wake()

    def begin(self, on_wake: Callable[[], object] | None = None) -> "ConsumerWait":
        """A wait of one caller, for a with statement; ``on_wake`` is called from any thread."""
        return ConsumerWait(self._waits, on_wake)


class ConsumerWait:
    """One caller waits, in turns: clear, read, watch what was read, wait."""

    def __init__(
        self, waits: "list[ConsumerWait]", on_wake: Callable[[], object] | None = None
    ) -> None:
        self._waits = waits
        self._on_wake = on_wake
        self._signals: SimpleQueue[None] = SimpleQueue()  # reentrant, unlike an Event
        self._watches: dict[int, tuple[Log, Watch]] = {}  # by the log's id
        self._is_incomplete = False  # whether a log could not be watched just now
        self._pause = _PAUSE_MIN
        self.is_waiting = False

    def __enter__(self) -> "ConsumerWait":
        self._waits.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._waits.remove(self)
        for found in self._watches.values():
            found[1].close_soon()

    def wake(self, *_: object) -> None:
        """End the wait, or the next one. Any thread, which may hold any lock."""
        if self._signals.empty():
            self._signals.put(None)
            if self._on_wake is not None:
                self._on_wake()

    def clear(self) -> None:
        """Forget what has happened so far: the caller looks now."""
        try:
            while True:
                self._signals.get_nowait()
        except Empty:
            return

    def watch(self, logs: Iterable["Log"]) -> bool:
        """Watch these logs and no others; whether one was not watched before.

        The caller looks again then, because records may have come in between.
        """
        wanted = {id(log): log for log in logs}
        for key in [key for key in self._watches if key not in wanted]:
            self._watches.pop(key)[1].close_soon()
        self._is_incomplete = False
        new = [key for key in wanted if key not in self._watches]
        for key in new:
            self._add(wanted[key])
        return not self._is_incomplete and any(key in self._watches for key in new)

    def _add(self, log: "Log") -> None:
        """Watch a log, unless another thread has its lock: a caller of poll must not wait for it,
        and may hold the lock of a log that the other thread wants."""
        try:
            lock = log._require_writer().state.lock
            if not lock.acquire(False):
                self._is_incomplete = True
                return
            try:
                self._watches[id(log)] = log, log.watch(self.wake)
            finally:
                lock.release()
        except ClosedError:  # just now: the next look finds out why
            self._is_incomplete = True
        except KStoreError:  # of a log that has failed, which does not change any more
            return

    def longest(self, seconds: float | None, *, must_poll: bool) -> float | None:
        """How long to wait: until the time is over, or to the next look at what is not watched."""
        if not (must_poll or self._is_incomplete):
            self._pause = _PAUSE_MIN
            return seconds
        pause, self._pause = self._pause, min(2 * self._pause, _PAUSE_MAX)
        return pause if seconds is None else min(pause, seconds)

    def wait(self, seconds: float | None) -> None:
        """Wait until something has happened, at most this long."""
        self.is_waiting = self._signals.empty()
        try:
            self._signals.get(timeout=None if seconds is None else min(seconds, _LONGEST))
        except Empty:
            return
        finally:
            self.is_waiting = False
