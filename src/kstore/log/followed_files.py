"""Sets an event of an asyncio loop after changes of the files of another process's log."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from kstore.log.reader import LogReader


class FollowedFiles:
    """Calls ``changed`` on the loop after each change of a reader's files. Loop's thread only."""

    def __init__(
        self, reader: "LogReader", loop: "AbstractEventLoop", changed: Callable[[], object]
    ) -> None:
        self._reader = reader
        self._loop = loop
        self._changed = changed
        self._wait = reader.waits.begin()
        self._wait.clear()  # of an earlier caller
        self._fd = -1

    def watch(self) -> bool:
        """Watch the directories as they are now; whether the files must be read again, because
        they may have changed before."""
        is_new = self._wait.watch(self._reader.watched())
        if (fd := self._wait.fileno()) != self._fd:
            self._end()
            self._fd = self._watch_descriptor(fd)
        return is_new

    def _watch_descriptor(self, fd: int) -> int:
        if fd >= 0:
            try:
                self._loop.add_reader(fd, self._take)
            except RuntimeError:  # of a loop that knows no descriptors, among others
                self._wait.poll()
                return -1
        return fd

    def restart(self) -> None:
        """Records were found: where files are polled, more may follow soon."""
        self._wait.restart()

    def longest(self, seconds: float | None) -> float:
        """How long to wait for ``changed`` before the files are read again, at most ``seconds``."""
        return self._wait.next_pause(seconds)

    def _take(self) -> None:
        self._wait.clear()  # or the loop would call again at once
        self._changed()

    def _end(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Watch them no longer."""
        self._end()
        self._reader.waits.end(self._wait)
