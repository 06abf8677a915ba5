"""Reads a partition that another process may be writing: kstore or a Kafka broker.

A reader cannot see the writer's published end. It takes the last complete, valid batch that a
walk from the last known one finds; an incomplete tail means *not yet*. An invalid batch below the
recovery point was once on disk: it is corrupt, and does not end the log. Files that their owner
may still truncate are read, never mapped: access to a mapped page beyond a file's end kills the
process. Rolled segments of kstore's own topics are never truncated (a new file is renamed over
the old one), so those are mapped.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore._native.files.owned_descriptor import OwnedDescriptor
from kstore._native.format import batch_fields
from kstore._native.read.segment_end import find_end
from kstore._native.read.segment_view import SegmentList, SegmentView, Slice, slice_of_bytes
from kstore._native.recovery.find_valid_batches import scan_valid_batches
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.errors import ClosedError, CorruptRecordError, StorageError, UnknownTopicIdError
from kstore.files import filenames
from kstore.files.descriptor_limit import loading
from kstore.files.files import Files
from kstore.files.map_budget import MapBudget
from kstore.files.modification_time import is_settled
from kstore.files.publish_barrier import PublishBarrier, read_barrier
from kstore.integers import INT32_MAX, INT64_MAX, check_integer
from kstore.log.followed_directory import FollowedDirectory
from kstore.log.list_rolled_segments import RolledSegments, find_live
from kstore.log.read_segment_file import LEAST_READ, read_segment_file
from kstore.recovery.lost_segments import LostRecords, LostRecordsFinder
from kstore.recovery.report import describe_hidden
from kstore.segment import segment as segments_on_disk

_LOGGER = logging.getLogger("kstore")
Result = TypeVar("Result")
_STEP = 8 << 20  # bytes read at a time while walking to the end
_HEADER = batch_fields.V2_HEADER_SIZE
_ATTEMPTS = 3  # to find a file that vanished or changed


class LogReader:
    """The segments of a partition of another process. Thread safe; takes no lock on disk.

    Parameters
    ----------
    own
        The topic is kstore's own, so that its rolled segments may be mapped.
    log_start_offset
        From the checkpoint file; a callable, because the owner may raise it.
    recovery_point
        Likewise; called only where the walk finds an invalid batch.
    condition
        Whether the log directory is "owned" by a writer, or was left "clean" or "unclean"; called
        only where the log ends below the recovery point.
    was_compacted
        Whether the log was compacted, by its policy or the cleaner's checkpoint; called only for
        empty segments.
    find_directory
        Returns the path after a move; called where the directory does not exist any more.
    """

    def __init__(
        self,
        directory: str,
        *,
        files: Files,
        maps: MapBudget,
        own: bool,
        log_start_offset: Callable[[], int] = lambda: 0,
        recovery_point: Callable[[], int] = lambda: 0,
        condition: Callable[[], str] = lambda: "owned",
        was_compacted: Callable[[], bool] = lambda: False,
        find_directory: Callable[[], str] | None = None,
    ) -> None:
        from kstore.files.directory_watch import FileWaits  # a writer has no use for it

        self._followed = FollowedDirectory(directory, files, find_directory)
        self._files = files
        self._maps = maps
        self._own = own
        self._log_start = log_start_offset
        self._recovery_point = recovery_point
        self._condition = condition
        self._warned = False  # of an end below the recovery point
        self._hidden_until = -1  # the log start beyond the end that was warned of
        self._durable: int | None = None  # the recovery point, once read since the last listing
        self._damage: CorruptRecordError | None = None  # after the last valid batch
        self._lock = ReentrantLock()
        self._segments: SegmentList | None = None
        self._sealed = RolledSegments(files, maps, self._map)
        self._lost_finder = LostRecordsFinder(files, condition, recovery_point, was_compacted)
        self.lost = LostRecords(directory)
        self._listed_at = (-1, -1)  # the directory's inode and modification time when listed
        self._fd = -1  # the active log file
        self._file = OwnedDescriptor()  # which closes it with the reader
        self._barrier: PublishBarrier | None = None  # where unpublished batches begin
        self._prewritten = False  # zeros followed the last batch at the last walk
        self._closed = False
        self._is_deleted = False  # the directory's topic was deleted
        self.waits = FileWaits(can_watch=files.native)
        self.on_deleted: Callable[[], None] | None = None
        self.on_open: Callable[[], None] | None = None  # called when a file is opened (store's LRU)

    def refresh(self) -> SegmentList:
        """The current segments; two system calls where nothing changed."""
        with self._lock:
            if self._closed:
                raise ClosedError("the log is closed", path=self.directory)
            if self._is_deleted:
                self._release()
                raise self._followed.deleted()
            changed = self._stamp()
            if self._segments is None or changed != self._listed_at or self._fd < 0:
                self._list()
                self._listed_at = changed if is_settled(changed[1]) else (-1, -1)
            elif self._files.size(self._fd) < self._segments.views[-1].size:
                self._list()  # truncated by its owner
            elif self._barrier is not None and not self._barrier.stands(self._files):
                self._list()
            while not self._walk():
                self._list()
            assert self._segments is not None
            if self._segments.end_offset < self._segments.start_offset:
                self._end_at_start(self._segments)
            return self._segments

    def _end_at_start(self, segments: SegmentList) -> None:
        """A log start beyond the last record is the end too, as for a writer.

        It is so for this call only: the names of segments were read before the checkpoint, and the
        owner may yet lower an entry of it. The next call reads both again.
        """
        if self._barrier is not None or self._damage is not None:
            return  # the rest of the log is not known
        self._listed_at = (-1, -1)
        first, end, active = segments.views[0].base_offset, segments.end_offset, segments.views[-1]
        is_new = first < end and self._hidden_until != segments.start_offset
        if is_new and self._has_all(segments):
            self._hidden_until = segments.start_offset
            sentence = describe_hidden(first, end, segments.start_offset)
            _LOGGER.warning("%s: %s", self.directory, sentence)
        active.publish(active.size, segments.start_offset)

    def _has_all(self, segments: SegmentList) -> bool:
        """Whether these segments are still the log's: a roll precedes a log start behind it. The
        directory's time does not show every change within a tick of the clock."""
        try:
            live = find_live(self._files, self.directory, self._followed.list_names())
        except StorageError:  # moved or deleted meanwhile
            return False
        return sorted(live) == [view.base_offset for view in segments.views]

    def _stamp(self) -> tuple[int, int]:
        """The directory's inode and modification time, also where it was moved."""
        try:
            return self._followed.stamp()
        except UnknownTopicIdError:
            self.mark_deleted()
            raise

    def locate(self) -> str:
        """The partition's current directory; UnknownTopicIdError after its topic was deleted."""
        with self._lock:
            self._stamp()
            return self.directory

    def epochs(self) -> LeaderEpochs:
        """The leader epochs as the owner last saved them; CorruptFileError for a malformed file."""
        path = os.path.join(self.locate(), filenames.LEADER_EPOCHS)
        return LeaderEpochs.load(self._files, path)

    @property
    def directory(self) -> str:
        return self._followed.path

    @property
    def topic_id(self) -> str | None:
        """The topic's id, where it has one."""
        return self._followed.topic_id

    @topic_id.setter
    def topic_id(self, topic_id: str | None) -> None:
        self._followed.topic_id = topic_id

    def mark_deleted(self) -> None:
        """Mark the topic as deleted: later reads raise UnknownTopicIdError.

        Waits for no lock.
        """
        self._is_deleted = True
        self.waits.close()
        if self.on_deleted is not None:
            self.on_deleted()

    def _list(self) -> None:
        """List the directory; repeat it where a file vanishes meanwhile."""
        for attempt in range(10):
            try:
                self._list_once()
                return
            except StorageError:
                gone = self._files.kind(self.directory) is None
                if attempt == 9 or (gone and not self._followed.follow()):
                    raise

    def _list_once(self) -> None:
        self._barrier = None
        while not self._list_before(self._barrier):
            pass

    def _list_before(self, barrier: PublishBarrier | None) -> bool:
        """List what lies before a barrier; False where the barrier has changed meanwhile.

        A writer puts the barrier up before it writes what the barrier hides. So the barrier is
        read last.
        """
        self._close_active()
        self._durable = self._damage = None
        self._prewritten = False
        names = self._followed.list_names()
        live = find_live(self._files, self.directory, names)
        bases = sorted(live)
        if barrier is not None:
            bases = [base for base in bases if base <= barrier.segment] or bases[:1]
        if not bases:
            self._sealed.forget()
            self._segments = SegmentList([SegmentView(0, self.directory)], 0)
            self._check_not_emptied()
            return True
        views = self._sealed.list(self.directory, bases, live)
        active = segments_on_disk.bare(self.directory, bases[-1])
        segments_on_disk.load_indexes(self._files, self.directory, active)
        if self.on_open is not None:
            self.on_open()
        self._fd = self._files.open(active.path)
        self._file.fd = self._fd
        start = max(self._log_start(), bases[0])
        size = self._files.size(self._fd)
        self._barrier = read_barrier(self._files, self.directory)
        if self._barrier != barrier:
            return False
        active.publish(active.last_indexed(self._in_front(active, size))[1], bases[-1])
        self.lost = self._lost_finder.find(
            self.directory, names, (*views, active), self._log_start()
        )
        self._segments = SegmentList((*views, active), start)
        return True

    def _check_not_emptied(self) -> None:
        """Report a directory that lost all its segments after it was closed cleanly."""
        assert self._segments is not None
        self._durable = self._recovery_point()
        if self._durable > self._log_start() and self._condition() == "clean":
            sentence = f"all segments below the recovery point, offset {self._durable}, are lost"
            self._note_damage(self._segments.views[0], sentence)

    def _in_front(self, active: SegmentView, size: int) -> int:
        """How many of the last segment's bytes lie before the barrier.

        All of them where the barrier is in a later segment, whose name a power cut lost.
        """
        barrier = self._barrier
        if barrier is None or barrier.segment > active.base_offset:
            return size
        return min(size, barrier.position)

    def _walk(self) -> bool:
        """Move the end over complete batches that were written since the last walk.

        False, with no new batch shown, where a barrier came up meanwhile. The barrier is read
        after the bytes: where zeros are written ahead, hidden batches may appear within the size
        that was read.
        """
        assert self._segments is not None
        active = self._segments.views[-1]
        step = LEAST_READ if self._prewritten else _STEP
        while self._fd >= 0:
            left = self._files.size(self._fd) - active.size
            if self._barrier is not None:
                left = self._in_front(active, left + active.size) - active.size
            if left <= 0 and self._durable is None:
                self._durable = self._recovery_point()  # first: all below it is in the file now
                continue
            if left <= 0:
                if self._barrier is None:  # else the batches behind it do not count
                    self._check_end(active)
                return True
            data = self._files.pread(self._fd, min(left, step), active.size)
            size, following, largest, offset = find_end(data, 0, active.next_offset, True)
            wanted = batch_fields.declared_size(data)
            if size == 0 and len(data) < wanted <= left:  # one batch larger than a step
                data = self._files.pread(self._fd, wanted, active.size)
                size, following, largest, offset = find_end(data, 0, active.next_offset, True)
            at_entry = active.size > 0 and active.next_offset == active.base_offset
            indexed = active.last_indexed(active.size + left)[0] if at_entry else -1
            if at_entry and (size == 0 or following <= indexed):
                active.publish(0, active.base_offset)  # the index is wrong: walk the log
                continue
            if size == 0 and self._durable is None:
                self._durable = self._recovery_point()  # and read the bytes after it once more
                continue
            if size == 0:
                self._prewritten = not any(data[:_HEADER])
                if self._prewritten and self._ends_in_zeros(active, left):
                    return True
                if step < _STEP:
                    step = _STEP
                    continue
                size, following = self._behind_damage(active, data, left)
                largest, offset = -1, following
                if size == 0:
                    self._note_damage(
                        active,
                        "no valid batch begins here, below the recovery point (offset "
                        f"{self._durable}): the log is corrupt; `kstore repair` saves its valid "
                        "batches",
                    )
                    return True
            if self._barrier is None and read_barrier(self._files, self.directory) is not None:
                return False
            rest = data[size : size + _HEADER]
            step = LEAST_READ if rest and not any(rest) else _STEP
            active.note_position(active.next_offset, active.size)
            active.note_timestamp(largest, offset)
            active.publish(active.size + size, following)
        return True

    def _ends_in_zeros(self, active: SegmentView, left: int) -> bool:
        """Whether these zeros are a writer's preallocated ones, so that the log ends here.

        Above the recovery point they are. Below it only a writer that is just truncating the log
        leaves nothing but zeros.
        """
        assert self._durable is not None
        if active.next_offset >= self._durable:
            return True
        return self._condition() == "owned" and self._files.only_zeros(
            self._fd, active.size, active.size + left
        )

    def _check_end(self, active: SegmentView) -> None:
        """Report a log that ends below its recovery point, up to which it was once on disk.

        A running owner may change either; after a move or a roll another segment follows. An
        owner that was killed may have been truncating the log: that is only a warning.
        """
        assert self._segments is not None
        end = max(active.next_offset, self._segments.start_offset)
        if self._durable is None or end >= self._durable:
            return
        condition = self._condition()
        if condition == "owned":
            return
        self._durable = self._recovery_point()  # now it does not change any more
        if end >= self._durable or not self._is_last(active):
            return
        sentence = (
            f"the log ends here, below the recovery point (offset {self._durable}): the records "
            "between are lost"
        )
        if condition == "clean":
            self._note_damage(active, sentence)
        elif not self._warned:
            self._warned = True
            _LOGGER.warning(
                "%s: %s, unless its writer was killed during a truncation (offset %d)",
                active.path,
                sentence,
                end,
            )

    def _is_last(self, active: SegmentView) -> bool:
        names = self._followed.list_names()
        return max(find_live(self._files, self.directory, names)) == active.base_offset

    def _behind_damage(self, active: SegmentView, data: bytes, left: int) -> tuple[int, int]:
        """Size of the corrupt bytes after the last batch, and the offset that follows; size 0 if
        they are an append in progress. Below the recovery point everything was on disk once.

        A corrupt header is trusted only if it is the last one.
        """
        assert self._durable is not None
        first = active.next_offset
        if first >= self._durable:
            return 0, first
        with loading("cannot look for batches after corrupt bytes"):
            from kstore.segment.find_next_batch import find_next  # rarely needed

        size = scan_valid_batches(data, 0).stop_size
        high = active.base_offset + INT32_MAX
        position = find_next(data, 0, size, first - 1, high)
        if position == len(data) < left:
            data = self._files.pread(self._fd, left, active.size)
            position = find_next(data, 0, size, first - 1, high)
        if position < len(data):
            following = batch_fields.base_offset(data, position)
            return (position, following) if following > first else (0, first)
        following = find_end(data, 0, first, False)[1] if size == len(data) else first
        return (size, min(following, self._durable)) if following > first else (0, first)

    def _note_damage(self, active: SegmentView, sentence: str) -> None:
        """Extend the log to the recovery point, over corrupt bytes after the last batch."""
        if self._durable is not None and active.next_offset < self._durable:
            self._damage = CorruptRecordError(
                sentence,
                path=active.path,
                position=active.size,
                offset=active.next_offset,
            )
            active.publish(active.size, self._durable)

    def check_lost(self, start: int, stop: int | None, ms: int) -> None:
        """Raise CorruptRecordError if lost records in [start, stop) may be at or after ms."""
        damage = self._damage
        if stop is None and damage is not None:
            raise damage
        self.lost.check_time(start, stop, ms)

    def read(
        self, offset: int, max_bytes: int, up_to: int | None = None, min_one_batch: bool = True
    ) -> Slice | None:
        """As SegmentList.read; LookupError outside the log."""
        offset = check_integer("offset", offset)
        max_bytes = check_integer("max_bytes", max_bytes)
        stop = INT64_MAX if up_to is None else check_integer("up_to", up_to)

        def use(segments: SegmentList) -> Slice | None:
            if not segments.start_offset <= offset <= segments.end_offset:
                raise LookupError(offset)
            if offset == segments.end_offset or offset >= stop:
                return None
            found = None if self._fd < 0 else self._read_in(segments, offset, max_bytes)
            if found is None and self._damage is not None:
                raise self._damage
            return None if found is None else found.limit(max_bytes, stop, min_one_batch)

        return self.on_current_segments(use)

    def on_current_segments(self, use: Callable[[SegmentList], Result]) -> Result:
        """Call a function with the segments; repeat it if it fails while the owner changes them.

        The owner may have removed or replaced a file since the listing, and a compaction does so
        many times. An error is raised if it repeats at the same file and nothing was replaced.
        """
        failed, before, left = None, None, _ATTEMPTS
        while True:
            segments = self.refresh()
            try:
                return use(segments)
            except (StorageError, CorruptRecordError) as error:
                with self._lock:
                    now = error.path, self._sealed.stamps
                    left = left - 1 if now == (failed, before) else _ATTEMPTS - 1
                    failed, before = now
                    if left == 0:
                        raise
                    self._sealed.forget()
                    self._listed_at = (-1, -1)  # the next refresh lists the directory

    def read_whole(self, view: SegmentView) -> Slice:
        """All of a segment, including corrupt bytes at the end that no batch follows."""
        if view.sealed and self._own:
            return view.all_published()
        fd = segments_on_disk.open_log(self._files, view)
        try:
            beyond = self._damage is not None and self._barrier is None and not view.sealed
            size = self._files.size(fd) if beyond else view.size
            return slice_of_bytes(view, self._files.pread(fd, size, 0), 0)
        finally:
            self._files.close(fd)

    def _read_in(self, segments: SegmentList, offset: int, max_bytes: int) -> Slice | None:
        for view in segments.views[max(segments.floor(offset), 0) :]:
            found = self.read_segment(view, offset, max_bytes)
            if found is not None:
                return found
        return None

    def load_entries(self, view: SegmentView) -> None:
        """Load the index entries of a segment; StorageError where it was replaced."""
        if view.sealed and view.index_count == view.time_index_count == 0:
            # Before the indexes: while the log has its name, they have theirs.
            fd = segments_on_disk.open_log(self._files, view)
            try:
                segments_on_disk.load_indexes(self._files, self.directory, view)
            finally:
                self._files.close(fd)
            self._maps.add(view)

    def learn_times(self, view: SegmentView) -> None:
        """Find a segment's largest timestamp; StorageError where it was replaced."""
        if not view.is_largest_known:
            opened = segments_on_disk.open_times(self._files, self.directory, view)
            segments_on_disk.learn_times(self._files, view, *opened)

    def read_segment(self, view: SegmentView, offset: int, max_bytes: int) -> Slice | None:
        """As SegmentList.read, within one segment; StorageError where it was replaced."""
        if view.sealed and self._own:
            return SegmentList((view,), view.base_offset).read(
                max(view.base_offset, min(offset, view.next_offset)), max_bytes
            )
        if view.sealed and view.index_count == 0:
            segments_on_disk.load_indexes(self._files, self.directory, view)
            last = segments_on_disk.last_bytes(self._files, view)
            segments_on_disk.leave_out_zeros(self._files, view, last)
            self._maps.add(view)
        view.touched = True
        return read_segment_file(self._files, view, offset, max_bytes)

    def _map(self, view: SegmentView) -> None:
        if view.index_count == 0:
            segments_on_disk.load_indexes(self._files, self.directory, view)
        segments_on_disk.map_log(self._files, view, 0)
        self._maps.add(view)

    @property
    def closed(self) -> bool:
        return self._closed

    def wait_beyond(self, offset: int, timeout: float | None, *, once: bool = False) -> bool:
        """Wait until the end lies beyond offset; False when the time is over, the log closes, or
        its end is lowered. With ``once`` also after a change of the files, unless they are polled:
        a truncated log may have grown to that offset again."""
        until = None if timeout is None else time.monotonic() + timeout
        highest, is_woken = 0, False
        wait = self.waits.begin()
        try:
            while True:
                wait.clear()
                if self._closed:
                    return False
                end = self.refresh().end_offset
                if end > offset or end < highest or is_woken:
                    return end > offset
                highest = end
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                if not wait.watch(self.watched()):
                    wait.wait(left)
                    is_woken = once and not wait.must_poll
        finally:
            self.waits.end(wait)

    def watched(self) -> list[str]:
        """The directories whose changes may move the end."""
        barrier = self._barrier  # until it falls, the end is at most there
        manifests = [] if barrier is None else [os.path.dirname(barrier.manifest)]
        return [self.directory, *manifests]

    def _close_active(self) -> None:
        fd, self._fd = self._file.take(), -1
        if fd >= 0:
            self._files.close(fd)

    def _release(self) -> None:
        self._close_active()
        self._sealed.forget()
        self.waits.release()

    def park(self) -> bool:
        """Release the descriptor and mappings; the next use lists the directory again.

        False where the reader is busy: the caller may hold another reader's lock.
        """
        with self._lock.attempt() as idle:
            if idle:
                self._release()
                self._listed_at = (-1, -1)
        return idle

    def close(self) -> None:
        with self._lock:
            self._release()
            self._closed = True
        self.waits.close()
