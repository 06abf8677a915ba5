"""Group commit: appends continue during a sync, and one sync serves all that wait.

Several logs that sync together: :mod:`kstore.log.shared_committer`. Requests of a broker that wait
for a sync: :mod:`kstore.broker.durable_commits`.
"""

import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from kstore.errors import ClosedError, KStoreError
from kstore.integers import check_integer, check_seconds
from kstore.segment.segment import out_of_range

if TYPE_CHECKING:
    from kstore.integers import Seconds
    from kstore.log.log import Log


AHEAD = 1 << 19  # bytes worth a system call that starts writing them


class Committer:
    """Syncs one log from a thread of its own, as soon as there is something to sync.

    Appends that arrive during a sync are on disk after the next one. ``wait(offset)`` returns when
    everything below ``offset`` is durable; ``durable_offset`` is how far that is. A request for
    half a mebibyte or more starts the disk writing it while the previous sync still runs.
    Thread safe. An error of a sync ends the thread, and every later call raises it.
    """

    NAME = "kstore-committer"

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._changed = threading.Condition()
        self._wanted = 0
        self._error: BaseException | None = None
        self._begun = 0  # bytes of the active segment that the disk has begun to write
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
        self._thread.start()

    @property
    def durable_offset(self) -> int:
        """Everything below this offset survives a power cut."""
        return self._log.recovery_point

    def request(self) -> int:
        """Request a sync of everything appended so far; returns the offset to ``wait`` for."""
        end = self._log.end_offset
        if end != self._wanted:
            with self._changed:
                self._check()
                # A truncation lowers the end, and with it the offset that is wanted.
                self._wanted = min(max(self._wanted, end), self._log.end_offset)
                self._changed.notify_all()
            if not 0 <= self._log.segments.views[-1].size - self._begun < AHEAD:
                with suppress(KStoreError):  # optional: an error here fails the sync again
                    self._begun = self._log._require_writer().flusher.start_writing(AHEAD)
        return end

    def wait(self, offset: int | None = None, timeout: "Seconds" = None) -> bool:
        """Return True when everything below offset (None: the current log end) is on disk.

        False after timeout seconds. Raises the StorageError of a failed sync, and
        OffsetOutOfRangeError for an offset beyond the log end, which no record has yet.
        """
        seconds = check_seconds("timeout", timeout)
        target = end = self.request()
        if offset is not None:
            target = check_integer("offset", offset, 0)
        if target > end:
            raise out_of_range(self._log.path, self._log.segments, target)
        deadline = None if seconds is None else monotonic() + seconds
        with self._changed:
            while self.durable_offset < min(target, self._log.end_offset):
                self._check()
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self) -> None:
        """Sync what was requested and end the thread. A second call does nothing."""
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
