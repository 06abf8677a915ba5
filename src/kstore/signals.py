"""Ends a tool cleanly on a signal, with the shell's exit status for it.

A service manager sends SIGTERM, a terminal that is closed SIGHUP, Ctrl-C SIGINT. A signal that is
ignored when the tool starts (nohup, a shell's background job) stays ignored.

The first signal decides. One of another kind that follows is ignored, so that nothing interrupts
what the first one began: systemd with ``SendSIGHUP=yes`` sends SIGTERM and SIGHUP, a wrapper that
passes Ctrl-C on sends SIGINT and SIGTERM. A second one of the same kind has its default effect.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_Handler = Callable[[int, FrameType | None], object]
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Terminated(KeyboardInterrupt):
    """A signal ends the tool; raised where it arrives, as Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def status_of(interrupt: KeyboardInterrupt) -> int:
    """The exit status that a shell reports: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + int(getattr(interrupt, "number", signal.SIGINT))


@contextmanager
def raising_terminated() -> Iterator[None]:
    """SIGTERM and SIGHUP raise :class:`Terminated` within, Ctrl-C KeyboardInterrupt.

    Once only: after the first signal the other kinds are ignored. A second SIGTERM or SIGHUP of
    the same kind ends the process at once, a second Ctrl-C raises KeyboardInterrupt again. In the
    main thread only, where alone Python runs handlers.
    """
    with _handled(_raise_once):
        yield


def _raise_once(number: int, frame: FrameType | None) -> None:
    _decide(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def _decide(number: int) -> None:
    """Ignore the other kinds from now on; another one of this kind has its default effect."""
    for other in _ENDINGS:
        if other != number and signal.getsignal(other) is not signal.SIG_IGN:
            # No SIG_IGN, which a process that is started meanwhile would inherit.
            signal.signal(other, _ignore)
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, default)


def _ignore(number: int, frame: FrameType | None) -> None:
    """The handler of the second signals of a kind."""


class StopRequest:
    """SIGTERM, SIGHUP and SIGINT as a request that a loop checks, once ``defer`` was called.

    Before that they raise, as under :func:`raising_terminated`. Afterwards nothing is interrupted:
    ``number`` is the signal's, and ``fileno`` becomes readable, so that a wait for input ends. A
    second signal of the same kind has its default effect, one of another kind none. Used as a
    context manager, in the main thread; in another one no signal is seen.

    The byte that makes ``fileno`` readable comes from the process's signal handler in C
    (``signal.set_wakeup_fd``): a handler in Python runs only after the system call that the
    main thread is about to begin, which would wait forever if the signal comes just before it.
    """

    def __init__(self) -> None:
        self.number = 0
        self._is_deferred = False
        self._usual_wakeup: int | None = None

    def defer(self) -> None:
        """From now on a signal is a request."""
        self._is_deferred = True

    def fileno(self) -> int:
        return self._read_end

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a signal that ends the tool, or for timeout seconds; whether one has come."""
        if not self.number and select.select([self], [], [], timeout)[0] and not self.number:
            self.clear()
        return self.number != 0

    def clear(self) -> None:
        """Forget that a signal came that does not end the tool: it made ``fileno`` readable."""
        with suppress(BlockingIOError):
            os.read(self._read_end, 4096)

    def __enter__(self) -> "StopRequest":
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers = _handled(self._on_signal)
        self._handlers.__enter__()
        if threading.current_thread() is threading.main_thread():
            self._usual_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._usual_wakeup is not None:
                signal.set_wakeup_fd(-1)  # the next call fails if that descriptor was closed
                signal.set_wakeup_fd(self._usual_wakeup)
        finally:
            self._handlers.__exit__(None, None, None)
            os.close(self._read_end)
            os.close(self._write_end)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_deferred:
            _raise_once(number, frame)
        _decide(number)
        self.number = number


@contextmanager
def _handled(handler: _Handler) -> Iterator[None]:
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _ENDINGS:
            if signal.getsignal(number) not in (signal.SIG_IGN, _ignore):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, usual in before.items():
            # Not after a decision: the enclosing block's handler would raise a second time.
            if usual is not _raise_once or signal.getsignal(number) is handler:
                signal.signal(number, usual)
