"""The writing half of a log, whole: what happens around the append kernel.

Here is how it gives its files back and how it closes; the layers below are named in
:mod:`kstore.log.writer_base`.
"""

from kstore.log.adoption import AdoptingWriter


class LogWriter(AdoptingWriter):
    """One partition, open for writing. Thread safe: ``lock`` guards every change.

    Lock order: ``_flush_lock`` before ``lock``. Readers take neither.
    """

    def park(self) -> bool:
        """Give descriptors and mappings back until the next append or read.

        False where the log is busy: whoever asks may hold another log's lock and must not wait.
        """
        with self._flush_lock.attempt() as unflushed, self.lock.attempt() as unused:
            idle = unflushed and unused
            if idle and not self._closed and not self._forked:
                self._finish_cut()
                self._close_files()
                for view in self.segments.views:
                    self._maps.forget(view)
            return idle

    def close(self) -> bool:
        """Flush, trim and close. Returns whether all is on disk, so that it is a clean stop."""
        self.closing = True  # a compaction under way ends soon
        with self.cleaning, self._flush_lock:
            if self._closed:
                return self._clean
            if self._forked:
                self._closed = True
                return False
            clean = False
            try:
                if self._failure is None and not self.appender.broken:
                    with self.lock:
                        self._finish_cut()
                        self._discard_unfinished()
                    self._flush_locked()
                    with self.lock:
                        self._save_producers()
                        self._close_files()
                        dirty = self._directory_changes != self._directory_synced
                        self._sync(-1, [self.active], dirty)
                    clean = True
            finally:
                with self.lock:
                    self._closed = True
                    self._drop_files()
                    for view in self.segments.views:
                        self._maps.forget(view)
                    self._wake()
            self._clean = clean and self._failure is None and not self.appender.broken
            return self._clean

    def _save_producers(self) -> None:
        """Write the state of producers down, so that who opens the log need not replay it."""
        self.producers.refresh(self.segments, self.now_ms())
        end = self.segments.end_offset
        self._directory_changes += self.producers.take_snapshot(end)
