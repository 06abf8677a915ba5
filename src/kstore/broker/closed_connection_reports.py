"""Logs the reasons for closed connections, with a limit on the number of lines."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.broker.loop import Loop, Timer

_LOGGER = logging.getLogger("kstore.broker")
_SECONDS = 10.0  # a window of reports
_LINES = 10  # of a window, after which reports are only counted


class ClosedReports:
    """Logs the first reports of a ten-second window, and summarizes the rest in one line.

    Loop's thread only. The window begins with a report, so that an idle broker has no timer.
    """

    def __init__(self, loop: "Loop") -> None:
        self._loop = loop
        self._timer: Timer | None = None
        self._count = 0  # in the window
        self._last = ""  # the last report without a line

    def report(self, peer: object, reason: str) -> None:
        """Report the reason for closing a connection, for the client's administrator."""
        if self._timer is None:
            self._timer = self._loop.call_later(_SECONDS, self.end_window)
        self._count += 1
        if self._count <= _LINES:
            _LOGGER.warning("%s: closed, %s", peer, reason)
        else:
            self._last = f"{peer}: {reason}"

    def end_window(self) -> None:
        """Log the number of reports without a line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        more, self._count = self._count - _LINES, 0
        if more > 0:
            _LOGGER.warning(
                "%d more connections were closed within %d s, the last one %s",
                more, _SECONDS, self._last,
            )  # fmt: skip
