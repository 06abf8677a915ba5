"""A progress bar on standard error, if that is a terminal."""

import sys
import time

_WIDTH = 30
_INTERVAL = 0.1  # seconds


class Progress:
    """Redraws one line periodically; does nothing without a terminal."""

    def __init__(self, total: int, unit: str = "MB/s", scale: float = 1e6) -> None:
        self.total = max(total, 1)
        self._unit, self._scale = unit, scale
        self.base = 0  # bytes of the tasks finished before
        self._shown = sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = 0.0
        self._length = 0

    def update(self, done: int, name: str) -> None:
        """Show that so many bytes of the current task are done."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _INTERVAL
        part = min((self.base + done) / self.total, 1.0)
        seconds = max(now - self._started, 1e-9)
        filled = round(part * _WIDTH)
        line = (
            f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {part:4.0%} "
            f"{(self.base + done) / seconds / self._scale:6.0f} {self._unit} {name}"
        )
        self._draw(line[:100])

    def clear(self) -> None:
        """Clear the line."""
        if self._length:
            self._draw("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _draw(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._length))
        sys.stderr.flush()
        self._length = len(line)
