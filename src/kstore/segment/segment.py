"""The files of one segment: creates, opens, trims, maps, renames and removes them.

A segment in memory is a :class:`kstore._native.read.segment_view.SegmentView`; this module
connects it to the disk. Functions get the ``Files`` to use and hold no state of their own.
"""

import logging
import os
from bisect import bisect_left
from contextlib import suppress
from errno import ESTALE
from functools import partial

from kstore._native.files.file_map import FileMap
from kstore._native.files.owned_descriptor import OwnedDescriptor
from kstore._native.format import batch_fields
from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore._native.read.segment_end import find_end, first_batch_timestamp
from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.config import LogConfig
from kstore.errors import CorruptRecordError, OffsetOutOfRangeError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.lazy_dataclass import lazy_dataclass
from kstore.segment import header_checksums
from kstore.segment.index_entry import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    offset_entry,
    time_entry,
)
from kstore.segment.index_sanity import read_entries
from kstore.segment.largest_timestamp import ReadAt, learn_largest_time

_LOGGER = logging.getLogger("kstore")

_HEADER = batch_fields.V2_HEADER_SIZE  # the longest of all formats
_STEP = 1 << 20  # bytes read at a time while walking to the end


class WritableFiles:
    """Descriptors of the active segment.

    ``prewritten``: its file is longer than the log, with zeros; appends write at positions.
    After ``own``, descriptors that were not closed are closed with the object.
    """

    def __init__(self, base_offset: int, prewritten: bool = False) -> None:
        self.base_offset = base_offset
        self.prewritten = prewritten
        self.inode = -1  # of the log file, once it was read
        self.log_fd = self.index_fd = self.time_fd = -1
        self._owned: dict[str, OwnedDescriptor] = {}

    def own(self) -> "WritableFiles":
        """Close the descriptors with this object; called once all are open."""
        names = ("log_fd", "index_fd", "time_fd")
        self._owned = {name: OwnedDescriptor(getattr(self, name)) for name in names}
        return self

    def close(self, files: Files) -> None:
        for name in ("index_fd", "time_fd", "log_fd"):
            self._close(name, files)

    def _close(self, name: str, files: Files) -> None:
        fd: int = getattr(self, name)
        setattr(self, name, -1)
        owned = self._owned.pop(name, None)
        if owned is not None:
            owned.take()
        if fd >= 0:
            files.close(fd)


def create(files: Files, directory: str, base_offset: int) -> SegmentView:
    """Create an empty segment's log file; first remove old files with the same base offset.

    The producer snapshot of that offset is kept: a broker that stopped there left it (Kafka's
    roll).
    """
    remove_files(files, directory, base_offset)
    path = os.path.join(directory, filenames.log_name(base_offset))
    fd = files.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
    files.close(fd)
    view = SegmentView(base_offset, path)
    view.is_largest_known = True
    return view


def open_for_append(
    files: Files, directory: str, view: SegmentView, config: LogConfig
) -> WritableFiles:
    """Open the active segment; its indexes are extended to ``segment.index.bytes``, sparse."""
    base = view.base_offset
    opened = WritableFiles(base, config.preallocate)
    try:
        # With O_APPEND a write at a position would still go to the file's end.
        flags = os.O_WRONLY if config.preallocate else os.O_WRONLY | os.O_APPEND
        opened.log_fd = files.open(view.path, flags)
        for name, attribute, entry in (
            (filenames.index_name(base), "index_fd", OFFSET_ENTRY_SIZE),
            (filenames.time_index_name(base), "time_fd", TIME_ENTRY_SIZE),
        ):
            fd = files.open(os.path.join(directory, name), os.O_RDWR | os.O_CREAT)
            setattr(opened, attribute, fd)
            full = config.segment_index_bytes // entry * entry
            if files.size(fd) < full:
                files.truncate(fd, full)
    except BaseException:
        opened.close(files)
        raise
    return opened.own()


def write_entries(files: Files, view: SegmentView, opened: WritableFiles) -> None:
    """Write the entries of both indexes that are only in memory; StorageError leaves them there."""
    first, entries = view.pending_entries()
    if entries:
        files.pwrite(opened.index_fd, entries, first * OFFSET_ENTRY_SIZE)
    first_time, times = view.pending_times()
    if times:
        files.pwrite(opened.time_fd, times, first_time * TIME_ENTRY_SIZE)
    view.mark_entries_written(view.index_count, view.time_index_count)


def trim_indexes(files: Files, view: SegmentView, opened: WritableFiles) -> None:
    """Write pending entries and truncate both indexes to their used size.

    Raises StorageError; the entries stay in memory then, and the call can be repeated.
    """
    write_entries(files, view, opened)
    files.truncate(opened.index_fd, view.index_count * OFFSET_ENTRY_SIZE)
    files.truncate(opened.time_fd, view.time_index_count * TIME_ENTRY_SIZE)


def rolling_timestamp(files: Files, view: SegmentView) -> int:
    """Largest timestamp of a segment's first batch, where rolling by time starts; else -1."""
    if view.size == 0:
        return -1
    with OpenFile(files, view.path) as fd:
        return first_batch_timestamp(files.pread(fd, 61, 0))


@lazy_dataclass(frozen=True)
class Truncation:
    """A truncation: the new last segment, and the changes to files that are due.

    ``copy`` is the file to rename over the view's, None where that one stays (or where the log
    becomes empty).
    """

    view: SegmentView
    gone: tuple[SegmentView, ...]
    copy: str | None


def beginning(view: SegmentView, end: Slice) -> SegmentView:
    """A segment's beginning, up to a batch: its entries are in memory, none in its files."""
    base, size = view.base_offset, end.position
    view.mark_entries_written(0, 0)  # so that all of them are returned
    _, entries = view.pending_entries()
    _, times = view.pending_times()
    offset = batch_fields.base_offset(end.memory())
    entry_count = bisect_left(
        range(len(entries) // OFFSET_ENTRY_SIZE), size, key=lambda n: offset_entry(entries, n)[1]
    )
    time_count = bisect_left(
        range(len(times) // TIME_ENTRY_SIZE),
        offset,
        key=lambda n: base + time_entry(times, n)[1],
    )
    kept = SegmentView(base, view.path, size=size)
    kept.load_entries(
        entries[: entry_count * OFFSET_ENTRY_SIZE], times[: time_count * TIME_ENTRY_SIZE]
    )
    kept.mark_entries_written(0, 0)
    _, start = kept.last_indexed(size)
    data = view.all_published().memory()[:size]
    kept.publish(size, find_end(data[start:], 0, base, False)[1])
    learn_active_times(kept, lambda position, count: data[position : position + count])
    return kept


def copy_beginning(files: Files, view: SegmentView, reserve: int) -> str:
    """Copy the beginning of a segment's file, of the view's size, and map the copy for the view.

    The copy has the suffix ``.cleaned``, which every loader removes as unfinished, and is synced.
    """
    copy = view.path + filenames.CLEANED_SUFFIX
    files.copy(view.path, copy, view.size)
    map_log(files, view, reserve, path=copy)
    return copy


def finish_truncation(files: Files, directory: str, cut: Truncation) -> None:
    """Apply a truncation to the files, without truncating one that readers may map.

    Newest segments first, each on disk before the next, so that a crash leaves no hole. The copy
    is renamed over the segment after its indexes are removed: they are rebuilt where they are
    missing. Can be repeated. No header checksums on disk name the removed segments any more.
    """
    for view in reversed(cut.gone):
        remove(files, directory, view.base_offset)
        files.sync_directory(directory)
    for name in files.listdir(directory):  # a broker's snapshots, of records that are gone
        found = filenames.parse(name)
        if found is None or found.kind != filenames.SNAPSHOT or found.suffix:
            continue
        if found.base_offset > cut.view.next_offset:
            files.remove(os.path.join(directory, name))
    base = cut.view.base_offset
    if cut.copy is not None and files.kind(cut.copy) is not None:
        for name in (filenames.index_name(base), filenames.time_index_name(base)):
            path = os.path.join(directory, name)
            if files.kind(path) is not None:
                files.remove(path)
        header_checksums.remove(files, directory, base)
        files.rename(cut.copy, cut.view.path)
    elif files.kind(cut.view.path) is None:
        create(files, directory, base)


def sealed(
    files: Files, directory: str, base_offset: int, next_base: int, suffix: str = ""
) -> SegmentView:
    """A segment that is not the last: its size is the file's, its entries are read on demand."""
    name = filenames.file_name(base_offset, filenames.LOG, suffix)
    path = os.path.join(directory, name)
    view = SegmentView(base_offset, path, size=files.size_of(path), next_offset=next_base)
    view.sealed = True
    return view


def bare(directory: str, base_offset: int) -> SegmentView:
    """A segment of which no batch is published yet."""
    return SegmentView(base_offset, os.path.join(directory, filenames.log_name(base_offset)))


def empty(directory: str, base_offset: int) -> SegmentView:
    """An empty segment whose file is not created yet."""
    view = bare(directory, base_offset)
    view.is_largest_known = True
    return view


def load_indexes(files: Files, directory: str, view: SegmentView) -> bool:
    """Read both index files into the view; False if the offset index is missing or odd-sized.

    Entries from the first zero one on are the preallocated tail of an unclean stop. Of entries
    out of order those before the first wrong one count; walking the log finds the rest.
    """
    base = view.base_offset
    suffix = filenames.SWAP_SUFFIX if view.path.endswith(filenames.SWAP_SUFFIX) else ""
    index_path = os.path.join(directory, filenames.file_name(base, filenames.INDEX, suffix))
    time_path = os.path.join(directory, filenames.file_name(base, filenames.TIME_INDEX, suffix))
    if files.kind(index_path) is None:
        return False
    entries, size = read_entries(files, index_path, OFFSET_ENTRY_SIZE)
    times = read_entries(files, time_path, TIME_ENTRY_SIZE)[0] if files.kind(time_path) else b""
    if size % OFFSET_ENTRY_SIZE:
        return False
    offset_count = _valid_entries(OffsetIndex(entries, base), OFFSET_ENTRY_SIZE, index_path)
    time_index = TimeIndex(times[: len(times) // TIME_ENTRY_SIZE * TIME_ENTRY_SIZE], base)
    time_count = _valid_entries(time_index, TIME_ENTRY_SIZE, time_path)
    view.load_entries(
        entries[: offset_count * OFFSET_ENTRY_SIZE], times[: time_count * TIME_ENTRY_SIZE]
    )
    return True


def walk_end(files: Files, view: SegmentView, size: int, *, check: bool = False) -> tuple[int, int]:
    """Walk from the last index entry within the file to its last complete batch.

    ``check``: stop at the first wrong checksum. Needed beside a writer: where it writes over
    zeros, a batch seems complete before all of it is written.

    Returns (position after it, offset after it). An entry whose offset the walk does not reach
    is wrong: for example, a power cut left an old block there. Then the view drops its
    entries and is walked from its start.
    """
    indexed, position = view.last_indexed(size)
    end, step = view.base_offset, _STEP
    with OpenFile(files, view.path) as fd:
        while position < size:
            data = files.pread(fd, min(step, size - position), position)
            walked, end, _, _ = find_end(data, 0, end, check)
            position += walked
            # A batch may be larger than a step, as its header declares; other bytes end the walk.
            if walked:
                step = _STEP
                continue
            step = batch_fields.declared_size(data)
            if not len(data) < step <= size - position:
                break
    if end <= indexed:
        view.load_entries(b"", b"")
        return walk_end(files, view, size, check=check)
    return position, end


def learn_active_times(view: SegmentView, read_at: ReadAt) -> None:
    """Find the largest timestamp of the active segment, whose entries are loaded.

    Drops the entries of a wrong time index: later ones, and the closing one, replace them.
    """
    learn_largest_time(view, view, read_at)
    if view.is_time_index_wrong:
        view.clear_time_index()
        view.is_time_index_wrong = False


def open_times(files: Files, directory: str, view: SegmentView) -> tuple[int, SegmentView]:
    """The arguments of :func:`learn_times`: the log's descriptor, and a view with index entries.

    The entries of a rolled segment that is not in use are loaded into a separate view, which
    saves memory. Raises StorageError as :func:`open_log`.
    """
    fd = open_log(files, view)
    try:
        indexed = view
        if view.sealed and view.index_count == view.time_index_count == 0:
            indexed = SegmentView(view.base_offset, view.path, size=view.size)
            load_indexes(files, directory, indexed)
    except BaseException:
        files.close(fd)
        raise
    return fd, indexed


def learn_times(files: Files, view: SegmentView, fd: int, indexed: SegmentView) -> None:
    """Find a segment's largest timestamp in its log, using its time index.

    Closes the descriptor. Headers are read once in a process, unless corruption hides some.
    """
    try:
        learn_largest_time(
            view,
            indexed,
            lambda position, size: files.pread(fd, size, position),
            lambda start, end: files.only_zeros(fd, start, end),
        )
    finally:
        files.close(fd)


def open_log(files: Files, view: SegmentView) -> int:
    """Open a segment's log for reading; StorageError where it is gone, or was replaced."""
    fd = files.open(view.path)
    if view.inode is None:
        return fd
    try:
        if files.stamp(fd)[0] == view.inode:
            return fd
    except BaseException:
        files.close(fd)
        raise
    files.close(fd)
    raise StorageError("the segment was replaced meanwhile", errno=ESTALE, path=view.path)


def _valid_entries(index: OffsetIndex | TimeIndex, entry_size: int, path: str) -> int:
    """The number of entries before the first fault, which is logged."""
    fault = index.find_fault()
    if fault is None:
        return index.count
    sentence, position, _ = fault
    _LOGGER.warning(
        "%s: %s (position %d); entries from there on are not used. `kstore reindex` rebuilds it",
        path,
        sentence,
        position,
    )
    return position // entry_size


def map_log(files: Files, view: SegmentView, reserve: int, *, path: str | None = None) -> None:
    """Map the log file, the active one with space to grow. Only for files that are not truncated.

    Raises CorruptRecordError where the file is shorter than what was published: access to a
    mapped page beyond its end would kill the process.
    """
    fd = open_log(files, view) if path is None else files.open(path)
    try:
        published = view.size  # first: appends continue meanwhile
        inode, _, size = files.stamp(fd)
        if size < published:
            raise CorruptRecordError(
                f"the file was truncated: it has {size} bytes, and had {published}",
                path=view.path,
                position=size,
            )
        again = partial(_reopen, files, path or view.path, inode)
        try:
            view.attach_log(FileMap(fd, max(reserve, view.size, 1), again))
        except OSError as error:
            raise StorageError(
                "cannot map: " + str(error.strerror), errno=error.errno, path=view.path
            ) from error
    finally:
        files.close(fd)
    if view.sealed and path is None and view.size:
        leave_out_zeros(files, view, view.all_published().memory()[-_HEADER:])


def _reopen(files: Files, path: str, inode: int) -> int:
    """A descriptor of the file that has, or had, this name; -1 if the name is not its own now."""
    with suppress(StorageError):  # the name is gone, or no descriptor is free
        opened = OwnedDescriptor(files.open(path.removesuffix(filenames.CLEANED_SUFFIX)))
        if files.stamp(opened.fd)[0] == inode:
            return opened.take()
    return -1


def leave_out_zeros(files: Files, view: SegmentView, last: bytes | memoryview) -> None:
    """Exclude zeros behind a rolled segment's last batch; its indexes are loaded.

    ``last``: the file's last bytes, as many as a header has. A broker that preallocates leaves
    zeros if it is killed during a roll, when all offsets below the next segment's base are
    written. A batch may end in many zeros, too, so the log is walked. If offsets are missing, the
    zeros replaced batches: they stay, and reads report corruption.
    """
    if any(last):
        return
    end, next_offset = walk_end(files, view, view.size)
    if next_offset != view.next_offset:
        return
    with OpenFile(files, view.path) as fd:
        if end < view.size and files.only_zeros(fd, end, view.size):
            view.publish(end, view.next_offset)


def last_bytes(files: Files, view: SegmentView) -> bytes:
    """A file's last bytes, as many as a header has."""
    with OpenFile(files, view.path) as fd:
        return files.pread(fd, _HEADER, max(0, view.size - _HEADER))


def out_of_range(path: str, segments: SegmentList, offset: int) -> OffsetOutOfRangeError:
    """The error for an offset that the log does not hold."""
    return OffsetOutOfRangeError(
        f"offset {offset} is outside the log, which begins at {segments.start_offset} and ends "
        f"before {segments.end_offset}",
        path=path,
        offset=offset,
    )


def remove(files: Files, directory: str, base_offset: int, suffix: str = "") -> None:
    """Remove every file of a segment that exists, its producer snapshot too."""
    remove_files(files, directory, base_offset, suffix)
    path = os.path.join(directory, filenames.snapshot_name(base_offset, suffix))
    if files.kind(path) is not None:
        files.remove(path)


def remove_files(files: Files, directory: str, base_offset: int, suffix: str = "") -> None:
    """Remove the log, indexes and header checksums of a segment, where they exist.

    The log last: side files without their log are a sign of corruption.
    """
    if not suffix:
        header_checksums.remove(files, directory, base_offset)
    for kind in reversed(filenames.SEGMENT_KINDS):
        path = os.path.join(directory, filenames.file_name(base_offset, kind, suffix))
        if files.kind(path) is not None:
            files.remove(path)


def retire(files: Files, directory: str, base_offset: int, *, keep_snapshot: bool = False) -> None:
    """Rename a segment's files to ``.deleted``: a loader ignores them, readers can finish."""
    header_checksums.remove(files, directory, base_offset)
    names = [filenames.file_name(base_offset, kind) for kind in filenames.SEGMENT_KINDS]
    if not keep_snapshot:
        names.append(filenames.snapshot_name(base_offset))
    for name in names:
        path = os.path.join(directory, name)
        if files.kind(path) is not None:
            files.rename(path, path + filenames.DELETED_SUFFIX)
