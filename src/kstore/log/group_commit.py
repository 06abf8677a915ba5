"""Group commit: appends go on while a sync runs, and one sync answers all who wait."""

import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from kstore.errors import ClosedError, KStoreError
from kstore.integers import check_integer

if TYPE_CHECKING:
    from kstore.log.log import Log


AHEAD = 1 << 19  # bytes, not yet on their way to the disk, that are worth a system call


class Committer:
    """Syncs one log from a thread of its own, again as soon as there is more to sync.

    An append is on disk at most one sync after it was made: while a sync runs the appends of
    that time gather, and the next sync takes them all. ``wait(offset)`` returns when everything
    below ``offset`` is durable, ``durable_offset`` tells how far that is. Whoever asks for a sync
    of half a mebibyte or more has the disk begin with it, while the sync before still runs. Safe to
    share between threads. An error of a sync ends the thread and is raised by every later call.
    """

    NAME = "kstore-committer"

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._changed = threading.Condition()
        self._wanted = 0
        self._error: BaseException | None = None
        self._begun = 0  # bytes of the active segment that the disk was told to begin with
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
        self._thread.start()

    @property
    def durable_offset(self) -> int:
        """Everything below this offset survives a power cut."""
        return self._log.recovery_point

    def request(self) -> int:
        """Have what is appended by now synced soon; returns the offset to ``wait`` for."""
        end = self._log.end_offset
        if end != self._wanted:
            with self._changed:
                self._check()
                # A truncation takes the end back, and with it what is wanted.
                self._wanted = min(max(self._wanted, end), self._log.end_offset)
                self._changed.notify_all()
            if not 0 <= self._log.segments.views[-1].size - self._begun < AHEAD:
                with suppress(KStoreError):  # advice: what fails here fails again in the sync
                    self._begun = self._log._require_writer().flusher.start_writing(AHEAD)
        return end

    def wait(self, offset: int | None = None, timeout: float | None = None) -> bool:
        """Return True when everything below offset (None: the log end now) is on disk.

        False when timeout seconds were not enough. Raises the StorageError of a failed sync.
        """
        target = self.request()
        if offset is not None:
            target = min(check_integer("offset", offset), target)
        deadline = None if timeout is None else monotonic() + timeout
        with self._changed:
            while self.durable_offset < min(target, self._log.end_offset):
                self._check()
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self) -> None:
        """Sync what was asked for, and end the thread. Again is harmless."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ClosedError("the committer is closed", path=self._log.path)

    def _is_due(self) -> bool:
        return min(self._wanted, self._log.end_offset) > self._log.recovery_point

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._is_due() and not self._closed:
                        self._changed.wait()
                    if not self._is_due():
                        return
                self._log.flush()
                with self._changed:
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def __enter__(self) -> "Committer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
