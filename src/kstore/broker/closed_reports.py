"""Logs why connections were closed, without a line for each where a client floods the broker."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.broker.loop import Loop, Timer

_LOGGER = logging.getLogger("kstore.broker")
_SECONDS = 10.0  # a window of reports
_LINES = 10  # of a window, before the rest of it is only counted


class ClosedReports:
    """The first reports of a window of ten seconds are lines of the log, the rest one line.

    Loop's thread only. The window begins with a report, so that an idle broker has no timer.
    """

    def __init__(self, loop: "Loop") -> None:
        self._loop = loop
        self._timer: Timer | None = None
        self._count = 0  # in the window
        self._last = ""  # of those that have no line

    def report(self, peer: object, reason: str) -> None:
        """A connection is closed for a reason that its client or its administrator should know."""
        if self._timer is None:
            self._timer = self._loop.call_later(_SECONDS, self.end_window)
        self._count += 1
        if self._count <= _LINES:
            _LOGGER.warning("%s: closed, %s", peer, reason)
        else:
            self._last = f"{peer}: {reason}"

    def end_window(self) -> None:
        """Log how many had no line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        more, self._count = self._count - _LINES, 0
        if more > 0:
            _LOGGER.warning(
                "%d more connections were closed within %d s, the last one %s",
                more, _SECONDS, self._last,
            )  # fmt: skip
