"""Calls the callbacks that watch a log after each change of it, on the thread that made the change.

A change notes its event while it holds the log's lock; the lock's release calls the callbacks. So
appends do nothing for a log that no one watches.
"""

import logging
from collections.abc import Callable
from enum import IntFlag
from typing import TYPE_CHECKING

from kstore._native.append.reentrant_lock import ReentrantLock

if TYPE_CHECKING:
    from kstore._native.append.record_appender import RecordAppender
    from kstore.log.log import Log

_LOGGER = logging.getLogger("kstore")


class LogEvents(IntFlag):
    """What has changed in a log since a callback's last call."""

    END = 1
    LAST_STABLE_OFFSET = 2
    HIGH_WATERMARK = 4
    TRUNCATED = 8
    START = 16
    ROLLED = 32
    CLOSED = 64


Callback = Callable[["Log", LogEvents], object]


class Watch:
    """One callback that watches a log, until :meth:`close`. Thread safe."""

    def __init__(self, watchers: "Watchers", log: "Log", callback: Callback) -> None:
        self._watchers = watchers
        self._log = log
        self._callback = callback
        self.is_ended = False

    def close(self) -> None:
        """Do not call the callback any more; a second call does nothing.

        A call that another thread has begun may still run.
        """
        self._watchers.remove(self)

    def close_soon(self) -> None:
        """Close it without waiting for another thread that has the log's lock."""
        self._watchers.remove_soon(self)

    def deliver(self, events: LogEvents) -> None:
        """Call the callback; what it raises goes to the log of the program."""
        try:
            self._callback(self._log, events)
        except Exception:
            _LOGGER.exception("%s: a callback that watches the log failed", self._log.path)

    @property
    def last_stable_offset(self) -> int:
        return self._log.last_stable_offset


class Watchers:
    """The callbacks of one log. Thread safe."""

    def __init__(self, lock: ReentrantLock, appender: "RecordAppender") -> None:
        self._lock = lock
        self._appender = appender
        self._watches: tuple[Watch, ...] = ()
        self._noted = LogEvents(0)
        self._stable = -1  # the last stable offset at the last call

    def add(self, log: "Log", callback: Callback) -> Watch:
        """Call ``callback(log, events)`` after each change from now on."""
        if not callable(callback):
            raise TypeError(
                f"watch() calls callback(log, events) after each change, not {callback!r}"
            )
        watch = Watch(self, log, callback)
        with self._lock:
            if not self._watches:
                self._stable = log.last_stable_offset
            self._watches += (watch,)
            self._appender.waiters += 1  # so that appends note their event
        return watch

    def remove(self, watch: Watch) -> None:
        with self._lock:
            if watch in self._watches:
                self._watches = tuple(each for each in self._watches if each is not watch)
                self._appender.waiters -= 1

    def remove_soon(self, watch: Watch) -> None:
        """Remove it now or, if another thread has the log's lock, at a later event."""
        watch.is_ended = True
        if self._lock.acquire(False):
            try:
                self.remove(watch)
            finally:
                self._lock.release()

    def note(self, events: LogEvents) -> None:
        """Call the callbacks once the caller has released the log's lock."""
        if self._watches:
            self._noted |= events
            self._lock.on_release = self._deliver

    def _deliver(self) -> None:
        events, self._noted = self._noted, LogEvents(0)
        watches = self._watches
        if not watches or not events:
            return
        stable = watches[0].last_stable_offset
        if stable != self._stable:
            self._stable = stable
            events |= LogEvents.LAST_STABLE_OFFSET
        for watch in watches:
            if watch.is_ended:
                self.remove_soon(watch)
            else:
                watch.deliver(events)
