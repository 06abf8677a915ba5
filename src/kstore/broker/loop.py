"""The broker's event loop: epoll, timers and callbacks, on one thread that owns all state."""

import logging
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
HANG_UP = select.EPOLLHUP | select.EPOLLERR  # always reported
PEER_CLOSED = select.EPOLLRDHUP

_LOGGER = logging.getLogger("kstore.broker")
_MOST_EVENTS = 256  # per wait, so that timers and callbacks get their turn
_MANY_CANCELLED = 1024  # cancelled timers, above which the heap is rebuilt without them


class Timer:
    """A call in the future; ``cancel`` prevents it. Loop's thread only."""

    __slots__ = ("_arguments", "_function", "_loop", "when")

    def __init__(
        self, loop: "Loop", when: float, function: Callable[..., object], arguments: tuple[Any, ...]
    ) -> None:
        self._loop = loop
        self.when = when
        self._function: Callable[..., object] | None = function
        self._arguments = arguments

    def cancel(self) -> None:
        """Prevent the call; no effect after the call."""
        if self._function is not None:
            self._function, self._arguments = None, ()
            self._loop._timer_cancelled()

    def _run(self) -> None:
        function, arguments = self._function, self._arguments
        self._function, self._arguments = None, ()
        if function is not None:
            function(*arguments)


class Loop:
    """Waits for socket events and timers, and runs callbacks. Call ``run`` on one thread.

    Other threads may use only ``call_soon_threadsafe``, ``stop`` and ``time``. An exception in a
    callback is logged, and the loop continues.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], object]] = {}
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._order = count()
        self._running = True
        self._thread_id: int | None = None
        self._closed = False
        self._wake_lock = threading.Lock()
        self._is_waiting = False
        self._wake_end, self._write_end = socket.socketpair()
        self._wake_end.setblocking(False)
        self._write_end.setblocking(False)
        self._epoll.register(self._wake_end.fileno(), READABLE)
        self._callbacks[self._wake_end.fileno()] = self._drain

    time = staticmethod(monotonic)

    # --- callbacks ------------------------------------------------------------------------

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call in the next turn, in order. Loop's thread only."""
        self._ready.append((function, arguments))

    def call_soon_threadsafe(self, function: Callable[..., object], *arguments: Any) -> None:
        """Like ``call_soon``, from any thread. No effect once the loop is closed."""
        self._ready.append((function, arguments))
        if self._is_waiting:
            self._wake()

    def call_later(self, seconds: float, function: Callable[..., object], *arguments: Any) -> Timer:
        """Call after some seconds. Loop's thread only."""
        timer = Timer(self, monotonic() + seconds, function, arguments)
        heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    def _timer_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _MANY_CANCELLED and 2 * self._cancelled > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2]._function is not None]
            heapify(self._timers)
            self._cancelled = 0

    # --- descriptors ----------------------------------------------------------------------

    def register(self, fd: int, events: int, callback: Callable[[int], object]) -> None:
        """Call ``callback(events)`` whenever the descriptor is ready, level-triggered."""
        self._epoll.register(fd, events)
        self._callbacks[fd] = callback

    def modify(self, fd: int, events: int) -> None:
        """Change the events of a registered descriptor."""
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """Unregister a descriptor. Call it before closing, since a forked child may share it."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    # --- the loop -------------------------------------------------------------------------

    @property
    def is_own_thread(self) -> bool:
        """Whether the calling thread runs the loop, and must not wait for it."""
        return threading.get_ident() == self._thread_id

    def run(self) -> None:
        """Run until ``stop``. The calling thread owns the loop."""
        self._thread_id = threading.get_ident()
        while self._running:
            self._turn()

    def stop(self) -> None:
        """Make ``run`` return after its current turn. Thread safe."""
        self._running = False
        self._wake()

    def close(self) -> None:
        """Close the loop's own descriptors, after ``run``."""
        with self._wake_lock:
            self._closed = True
            self._epoll.close()
            self._wake_end.close()
            self._write_end.close()

    def abandon(self) -> None:
        """In a forked child: close its copies of the descriptors. It does not take the lock, which
        a thread of the parent may hold."""
        self._epoll.close()
        self._wake_end.close()
        self._write_end.close()

    def _turn(self) -> None:
        # A callback added before this line sets the timeout to 0; one added after it wakes the
        # wait.
        self._is_waiting = True
        timers = self._timers
        if self._ready or not self._running:
            timeout = 0.0
        elif timers:
            timeout = timers[0][0] - monotonic()
            if timeout < 0:
                timeout = 0.0
        else:
            timeout = -1.0
        ready = self._epoll.poll(timeout, _MOST_EVENTS)
        self._is_waiting = False
        callbacks = self._callbacks
        for fd, events in ready:
            callback = callbacks.get(fd)  # None: unregistered in this turn
            if callback is not None:
                try:
                    callback(events)
                except Exception:
                    _LOGGER.exception("a callback of the broker's loop failed")
        if self._timers and self._timers[0][0] <= monotonic():
            self._run_timers()
        for _ in range(len(self._ready)):
            function, arguments = self._ready.popleft()
            try:
                function(*arguments)
            except Exception:
                _LOGGER.exception("a callback of the broker's loop failed")

    def _run_timers(self) -> None:
        now = monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heappop(self._timers)[2]
            if timer._function is None:
                self._cancelled -= 1
                continue
            try:
                timer._run()
            except Exception:
                _LOGGER.exception("a timer of the broker's loop failed")

    def _wake(self) -> None:
        with self._wake_lock:
            if not self._closed:
                with suppress(BlockingIOError):  # the socket buffer is full: the loop wakes anyway
                    self._write_end.send(b"\0")

    def _drain(self, events: int) -> None:
        with suppress(BlockingIOError):
            while len(self._wake_end.recv(4096)) == 4096:
                pass
