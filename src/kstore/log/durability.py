"""Flushing: what makes appends survive a power cut (docs/decisions/0004-durability.md)."""

import errno

from kstore._native.locate import SegmentView
from kstore.errors import (
    StorageError,
)
from kstore.log import seal
from kstore.log import segment as segments_on_disk
from kstore.log.writer_base import WriterBase


class DurableWriter(WriterBase):
    """Adds what it takes to have appends on disk. Lock order: ``_flush_lock``, then ``lock``."""

    def flush(self) -> None:
        """Return when everything appended before the call is on disk.

        Concurrent calls share one sync. After a failed sync the log takes no more appends.
        """
        with self._flush_lock:
            self._flush_locked()

    def _flush_locked(self) -> None:
        with self.lock:
            self.check_usable()
            target = self._data_end()
            sealed = list(self._unsynced)
            changes = self._directory_changes
            dirty = changes != self._directory_synced or self._cut is not None
            if target <= self.recovery_point and not sealed and not dirty:
                return
            self.appender.make_ready()
            assert self._files is not None
            changes = self._directory_changes
            # Appends go on meanwhile, and a roll closes its own descriptor.
            fd = self.files.duplicate(self._files.log_fd)
            base = self._files.base_offset
        try:
            self._sync(fd if target > base else -1, sealed, dirty or self.recovery_point <= base)
        finally:
            self.files.close(fd)
        self._seal(sealed)
        with self.lock:
            self._unsynced = [view for view in self._unsynced if view not in sealed]
            self._directory_synced = max(self._directory_synced, changes)
            self.recovery_point = max(self.recovery_point, target)
            self.appender.flush_at = self._flush_at()

    def start_writing(self, least: int) -> int:
        """Have the disk begin with what the active segment gained, if that is at least so much.

        Returns the size up to which it was told to. Nothing is durable by it, but the next flush
        finds less to do: the disk works while appends go on.
        """
        with self.lock:
            opened, active = self._files, self.active
            base, begun = self._begun
            if base != active.base_offset or begun > active.size:  # rolled, or cut
                base, begun = active.base_offset, 0
            size = active.size - begun
            if opened is None or opened.base_offset != base or size < least:
                return begun
            self._begun = base, active.size
            fd = self.files.duplicate(opened.log_fd)  # a roll closes its own
        try:
            self.files.start_writing(fd, begun, size)
        finally:
            self.files.close(fd)
        return begun + size

    def _data_end(self) -> int:
        """The offset after the last batch, which truncating and deleting may leave below the end.

        A recovery point beyond it would make the torn append of a kill look like lost data.
        """
        data_end, end = self._gap
        now = self.segments.end_offset
        return data_end if now == end else now

    def _seal(self, synced: list[SegmentView]) -> None:
        """Guard the headers of segments that are rolled and on disk; appends go on meanwhile."""
        for view in synced:
            seal.write(self.files, self.directory, view.base_offset)
        if synced:
            with self.lock:  # retention may have dropped some of them while they were read
                bases = [view.base_offset for view in self.segments.views]
                seal.remove_others(self.files, self.directory, bases)

    def seal_all(self) -> int:
        """Seal every segment but the active one; returns how many there are then with a seal."""
        self.flush()
        with self._flush_lock:
            rolled = self.segments.views[:-1]
            return sum(seal.write(self.files, self.directory, v.base_offset) for v in rolled)

    def _sync(self, active_fd: int, sealed: list[SegmentView], directory: bool) -> None:
        """Sync these files and the directory; only a failed sync makes the log fail."""
        with self.lock:
            snapshots, opened = self.producers.open_snapshots()
        try:
            for view in sealed:
                try:
                    opened += segments_on_disk.open_for_sync(self.files, self.directory, view)
                except StorageError:
                    if view in self.segments.views:
                        raise  # else retention dropped it meanwhile: its files have other names
            try:
                fds = [fd for fd in (*opened, active_fd) if fd >= 0]
                self.files.sync_all(fds, [self.directory] if directory else [], only_data=True)
                with self.lock:
                    self.producers.are_synced(snapshots)
            except OSError as error:
                # Without a free descriptor nothing was asked of the disk: try again later.
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    with self.lock:
                        self._fail(error)
                raise
        finally:
            for fd in opened:
                self.files.close(fd)
