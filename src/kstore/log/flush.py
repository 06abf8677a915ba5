"""Flushing: what makes appends survive a power cut (docs/decisions/0004-durability.md)."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from time import monotonic

from kstore._native.read.segment_view import SegmentView
from kstore.errors import StorageError
from kstore.files import filenames
from kstore.files.descriptor_limit import lacks_descriptors
from kstore.files.files import Files
from kstore.log.active_segment import ActiveSegment
from kstore.log.writer_state import WriterState
from kstore.segment import header_checksums

_OPEN_AT_ONCE = 64  # files that are synced together


@dataclass(slots=True, eq=False)
class BegunFlush:
    """One file of a sync of many. ``flush_lock`` is held until :meth:`release`."""

    flusher: "Flusher"
    fd: int
    target: int  # everything below it is on disk after the sync
    error: BaseException | None = None  # of the sync
    seconds: float = 0.0  # that the sync took

    @property
    def files(self) -> Files:
        return self.flusher._state.files

    def note(self) -> bool:
        """Note that the file is on disk; False where ``lock`` is not free."""
        state = self.flusher._state
        if not state.lock.acquire(blocking=False):
            return False
        try:
            self.flusher._note_synced(self.target, [], state.directory_synced)
        finally:
            state.lock.release()
        return True

    def release(self) -> None:
        """Let other flushes begin; before that the log fails if its sync has. Waits for no lock.

        A second call does nothing.
        """
        state = self.flusher._state
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        try:
            if self.error is not None and not _lacks_descriptors(self.error):
                state.fail(self.error)
        finally:
            try:
                state.files.close(fd)
            finally:
                state.flush_lock.release()


class Flusher:
    """Syncs what was appended, rolled and renamed, and writes checksums of rolled segments.

    Thread safe. Lock order: ``flush_lock``, then ``lock``.
    """

    def __init__(self, state: WriterState, active: ActiveSegment) -> None:
        self._state = state
        self._active = active
        self._has_removed_stale_checksums = False  # those of segments that left the log
        self.on_synced: Callable[[float], None] | None = None  # called with the seconds it took
        self._begun = (-1, 0)  # base offset, and the size that the disk has begun to write
        state.appender.flush_due = self.flush

    def flush(self) -> None:
        """Return when everything appended before the call is on disk.

        Concurrent calls share one sync. After a failed sync the log refuses appends.
        """
        state, active = self._state, self._active
        if state.lock._is_owned() and not state.flush_lock._is_owned():
            self._flush_within_extend()
            return
        with state.flush_lock:
            with state.lock:
                active.check_in_place()
                state.check_usable()
                target = state.data_end
                rolled = list(state.unsynced_segments)
                changes = state.directory_changes
                dirty = changes != state.directory_synced or state.pending_truncation is not None
                if target <= state.recovery_point and not rolled and not dirty:
                    return
                state.appender.make_ready()
                opened = active.opened
                assert opened is not None
                changes = state.directory_changes
                # Appends continue during the sync, and a roll closes its own descriptor.
                fd = state.files.duplicate(opened.log_fd)
                base = opened.base_offset
            try:
                self.sync(
                    fd if target > base else -1, rolled, dirty or state.recovery_point <= base
                )
            finally:
                state.files.close(fd)
            self._write_checksums(rolled)
            self._note_synced(target, rolled, changes)

    def begin(self) -> "BegunFlush | None":
        """Begin a flush that syncs only the active segment's data, and hold ``flush_lock``.

        None, with no lock held, where the flush would have more to do, or nothing, or where a
        lock is not free: :meth:`flush` does that. Never waits and opens no file of the log, so one
        thread may hold several.
        """
        state, active = self._state, self._active
        if state.lock._is_owned() or not state.flush_lock.acquire(blocking=False):
            return None
        begun = None
        try:
            if not state.lock.acquire(blocking=False):
                return None
            try:
                active.check_in_place()
                state.check_usable()
                target, opened = state.data_end, active.opened
                if (
                    opened is None
                    or not state.appender.ready  # its files may have to be opened another way
                    or not opened.base_offset < state.recovery_point < target
                    or state.unsynced_segments
                    or state.producers.unsynced
                    or state.directory_changes != state.directory_synced
                    or state.pending_truncation is not None
                ):
                    return None
                begun = BegunFlush(self, state.files.duplicate(opened.log_fd), target)
            finally:
                state.lock.release()
            return begun
        finally:
            if begun is None:
                state.flush_lock.release()

    def _flush_within_extend(self) -> None:
        """Flush in the source of an extend, which holds the lock and must not wait for others.

        Another thread may sync the same rolled segments meanwhile: it, or the next flush, writes
        their checksums.
        """
        state, active = self._state, self._active
        active.check_in_place()
        state.check_usable()
        state.appender.make_ready()
        opened = active.opened
        assert opened is not None
        target, changes = state.data_end, state.directory_changes
        self.sync(opened.log_fd, list(state.unsynced_segments), directory=True)
        self._note_synced(target, [], changes)

    def flush_rolled(self) -> None:
        """Return when the segments that were rolled before the call are on disk.

        The recovery point is the active segment's base offset then, or beyond it. Kafka's
        "flush-log" of UnifiedLog.roll. Opens no file of the active segment. A failed sync fails
        the log.
        """
        state, active = self._state, self._active
        with state.flush_lock:
            with state.lock:
                if not state.unsynced_segments or state.pending_truncation is not None:
                    return  # the next flush finishes the truncation
                active.check_in_place()
                state.check_usable()
                target = min(state.active.base_offset, state.data_end)
                rolled = list(state.unsynced_segments)
                changes = state.directory_changes
            self.sync(-1, rolled, directory=True)
            self._write_checksums(rolled)
            self._note_synced(target, rolled, changes)

    def _note_synced(self, target: int, rolled: list[SegmentView], changes: int) -> None:
        """Everything below the target is on disk, and so many changes of names."""
        state = self._state
        with state.lock:
            if rolled:
                synced = frozenset(rolled)
                state.unsynced_segments = [
                    view for view in state.unsynced_segments if view not in synced
                ]
            state.directory_synced = max(state.directory_synced, changes)
            state.recovery_point = max(state.recovery_point, target)
            state.appender.flush_at = state.next_flush_offset()

    def start_writing(self, least: int) -> int:
        """Start writing the active segment's new bytes to disk, if there are at least ``least``.

        Returns the size up to which the disk has begun. Makes nothing durable, but shortens the
        next flush: the disk works while appends continue.
        """
        state = self._state
        with state.lock:
            opened, active = self._active.opened, state.active
            base, begun = self._begun
            if base != active.base_offset or begun > active.size:  # rolled or truncated
                base, begun = active.base_offset, 0
            size = active.size - begun
            if opened is None or opened.base_offset != base or size < least:
                return begun
            self._begun = base, active.size
            fd = state.files.duplicate(opened.log_fd)  # a roll closes its own
        try:
            state.files.start_writing(fd, begun, size)
        finally:
            state.files.close(fd)
        return begun + size

    # --- header checksums -------------------------------------------------------------------

    def _write_checksums(self, synced: list[SegmentView]) -> None:
        """Write header checksums of rolled segments that are on disk; appends continue."""
        state = self._state
        for view in synced:
            if not view.size:  # a power cut emptied it
                continue
            base, following = view.base_offset, self._following(view.base_offset)
            if not header_checksums.is_current(state.files, state.directory, base):
                header_checksums.write(state.files, state.directory, base, following)
            elif following is not None:
                header_checksums.name_following(state.files, state.directory, base, following)
        if not synced:
            return
        with state.lock:
            segments = state.segments
            if not self._has_removed_stale_checksums:  # of segments a broker deleted
                bases = [view.base_offset for view in segments.views]
                header_checksums.remove_others(state.files, state.directory, bases)
                self._has_removed_stale_checksums = True
                return
            for view in synced:  # retention may have dropped some meanwhile
                slot = segments.floor(view.base_offset)
                if slot < 0 or segments.views[slot].base_offset != view.base_offset:
                    header_checksums.remove_gone(state.files, state.directory, view.base_offset)

    def write_all_checksums(self) -> int:
        """Write header checksums of every rolled segment; returns how many have them then."""
        self.flush()
        state = self._state
        with state.flush_lock:
            rolled = [view.base_offset for view in state.segments.views[:-1]]
            return sum(
                header_checksums.write(state.files, state.directory, base, self._following(base))
                for base in rolled
            )

    def write_checksums_of(self, base: int) -> None:
        """Write header checksums of a segment that replaced others; appends continue."""
        header_checksums.write(self._state.files, self._state.directory, base)
        self.name_following([base])

    def name_following(self, bases: Iterable[int]) -> None:
        """Add to the header checksums of replaced segments which segment follows each.

        The lock keeps truncations away. The checksums themselves were written without it.
        """
        state = self._state
        for base in bases:
            with state.flush_lock:
                following = self._following(base)
                if following is not None:
                    header_checksums.name_following(state.files, state.directory, base, following)

    def _following(self, base: int) -> int | None:
        """Base offset of the segment behind a rolled one, whose name is on disk.

        None where the rolled one has left the log.
        """
        segments = self._state.segments
        slot = segments.floor(base)
        if slot < 0 or segments.views[slot].base_offset != base or slot + 1 == len(segments.views):
            return None
        return segments.views[slot + 1].base_offset

    # --- syncing ----------------------------------------------------------------------------

    def sync(self, active_fd: int, rolled: list[SegmentView], directory: bool) -> None:
        """Sync these files and the directory; only a failed sync makes the log fail.

        Opens few files at once, however many segments were rolled since the last sync, and fewer
        where the process runs out of descriptors.
        """
        state = self._state
        active = [active_fd] if active_fd >= 0 else []
        if not rolled and not state.producers.unsynced:  # most flushes
            self._sync_all(active, directory)
            return
        with state.lock:
            snapshots = list(state.producers.unsynced)
        opened: list[int] = []
        try:
            for open_next in chain(
                (partial(self._open_snapshot, offset) for offset in snapshots),
                (partial(self._open_rolled, each) for each in _files_of(rolled)),
            ):
                if len(opened) >= _OPEN_AT_ONCE:
                    self._sync_and_close(opened)
                fd = self._open_to_sync(open_next, opened)
                if fd >= 0:
                    opened.append(fd)
            try:
                self._sync_all([*opened, *active], directory)
            except OSError as error:
                if not opened or not lacks_descriptors(error):
                    raise
                self._sync_and_close(opened)  # the directory needs a descriptor, too
                self._sync_all(active, directory)
            with state.lock:
                state.producers.are_synced(snapshots)
        finally:
            for fd in opened:
                state.files.close(fd)

    def _open_to_sync(self, open_next: Callable[[], int], opened: list[int]) -> int:
        """Open one more file; where no descriptor is free, sync and close those that are open."""
        try:
            return open_next()
        except OSError as error:
            if not opened or not lacks_descriptors(error):
                raise
            self._sync_and_close(opened)
            return open_next()

    def _sync_and_close(self, opened: list[int]) -> None:
        self._sync_all(opened, directory=False)
        while opened:
            self._state.files.close(opened.pop())

    def _sync_all(self, fds: list[int], directory: bool) -> None:
        if self.on_synced is None:
            self._sync_files(fds, directory)
            return
        began = monotonic()
        self._sync_files(fds, directory)
        self.on_synced(monotonic() - began)

    def _sync_files(self, fds: list[int], directory: bool) -> None:
        state = self._state
        try:
            state.files.sync_all(fds, [state.directory] if directory else [], only_data=True)
        except OSError as error:
            # Without a free descriptor the disk was not asked to sync: a later flush can succeed.
            if not lacks_descriptors(error):
                state.fail(error)
            raise

    def _open_snapshot(self, offset: int) -> int:
        with self._state.lock:
            return self._state.producers.open_snapshot(offset)

    def _open_rolled(self, file: tuple[SegmentView, str]) -> int:
        """Open a file of a rolled segment; -1 where it does not exist, or retention dropped it."""
        view, kind = file
        state = self._state
        path = os.path.join(state.directory, filenames.file_name(view.base_offset, kind))
        try:
            return state.files.open(path) if state.files.kind(path) is not None else -1
        except StorageError:
            if view in state.segments.views:
                raise
            return -1  # retention renamed its files


def _files_of(rolled: list[SegmentView]) -> Iterator[tuple[SegmentView, str]]:
    """The kinds of files of rolled segments: all are synced, as recovery trusts everything below
    the recovery point, the indexes too."""
    return product(rolled, filenames.SEGMENT_KINDS)


def _lacks_descriptors(error: BaseException) -> bool:
    return isinstance(error, OSError) and lacks_descriptors(error)
