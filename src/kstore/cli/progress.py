"""A progress bar on standard error, if that is a terminal."""

import sys
import time
from collections.abc import Callable

OnProgress = Callable[[int, int], None]  # bytes done, total bytes

_WIDTH = 30
_INTERVAL = 0.1  # seconds


class Progress:
    """Redraws one line periodically, and clears it at the end of ``with``. Silent without a
    terminal."""

    def __init__(self, unit: str = "MB/s", scale: float = 1e6) -> None:
        self._unit, self._scale = unit, scale
        self._shown = sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = 0.0
        self._length = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show(self, done: int, total: int, name: str) -> None:
        """Show the bytes done, the total, and the name of the current task."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _INTERVAL
        part = min(done / max(total, 1), 1.0)
        seconds = max(now - self._started, 1e-9)
        filled = round(part * _WIDTH)
        line = (
            f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {part:4.0%} "
            f"{done / seconds / self._scale:6.0f} {self._unit} {name}"
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
