"""Turns a staged file of record batches into a segment by renaming it.

A batch's base offset and leader epoch lie outside its checksum, so 16 bytes of each batch are
rewritten and its data is not. Everything is on disk before the file gets its name: a loader never
finds a segment whose batches have other offsets.
"""

import errno
import os

from kstore._native.format import batch_fields
from kstore._native.format.status import reason
from kstore._native.read.segment_view import SegmentView
from kstore.config import LogConfig
from kstore.errors import CorruptRecordError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.integers import INT32_MAX
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.active_segment import ActiveSegment
from kstore.log.writer_state import WriterState
from kstore.segment import segment as segments_on_disk
from kstore.segment.index_entry import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from kstore.segment.scan import scan_segment

_LARGE = 32 << 20  # bytes of a file that becomes a segment whatever segment.bytes is
_HEAD = batch_fields.V2_PRODUCER_EPOCH_POSITION  # bytes of a header up to its producer id
_NO_PRODUCER = -1
# Attributes of transactional batches and of control batches.
_OF_TRANSACTIONS = batch_fields.TRANSACTIONAL_BIT | batch_fields.CONTROL_BIT


def least_size(config: LogConfig) -> int:
    """Size from which a file of batches becomes a segment instead of being copied into one."""
    return min(_LARGE, config.segment_bytes // 4)


@lazy_dataclass(frozen=True)
class ImportableFile:
    """A file whose batches have their final offsets; it is checked and on disk."""

    path: str
    base_offset: int
    size: int
    next_offset: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    index: bytes
    time_index: bytes

    def fits(self, config: LogConfig) -> bool:
        """Whether the file is within the topic's limits of a segment (of Kafka's shouldRoll)."""
        roll_ms = config.segment_ms - config.segment_jitter_ms
        if "compact" in config.cleanup_policy:
            roll_ms = min(roll_ms, config.max_compaction_lag_ms)
        return (
            0 < self.size <= config.segment_bytes
            and self.next_offset - 1 - self.base_offset <= INT32_MAX
            and len(self.index) + OFFSET_ENTRY_SIZE <= config.segment_index_bytes
            and len(self.time_index) + 2 * TIME_ENTRY_SIZE <= config.segment_index_bytes
            and self.max_timestamp - self.first_timestamp <= roll_ms
        )


def can_stand_beside(files: Files, path: str, other: str) -> bool:
    """Whether a file may become a segment beside another one, as if the same program wrote both.

    It has the same file system, owner, group and permissions, so access to the log does not
    change, and no second name through which it could be changed later.
    """
    own, beside = files.about(path), files.about(other)
    return own.st_nlink == 1 and all(
        getattr(own, name) == getattr(beside, name)
        for name in ("st_dev", "st_uid", "st_gid", "st_mode")
    )


def assign_file_offsets(
    files: Files, path: str, base_offset: int, leader_epoch: int, config: LogConfig
) -> ImportableFile:
    """Give all batches of a file their offsets, from base_offset on, and sync the file.

    Can be repeated. Compares every checksum. Raises CorruptRecordError for bytes that are not
    complete record batches v2, for control batches, and for batches of a producer id, whose state
    the log would have to track; StorageError.
    """
    with OpenFile(files, path, os.O_RDWR) as fd:
        _stamp(files, fd, path, base_offset, leader_epoch)
        files.fdatasync(fd)
    scan = scan_segment(files, path, base_offset, config, mapped=False)  # not kstore's own file
    if scan.status != 0 or scan.valid_size != scan.file_size:
        raise CorruptRecordError(
            f"cannot import the file as a segment: {reason(scan.status)}",
            path=path,
            position=scan.valid_size,
            offset=scan.next_offset,
        )
    return ImportableFile(
        path,
        base_offset,
        scan.file_size,
        scan.next_offset,
        scan.first_timestamp,
        scan.max_timestamp,
        scan.max_timestamp_offset,
        scan.index,
        scan.time_index,
    )


def _stamp(files: Files, fd: int, path: str, offset: int, leader_epoch: int) -> None:
    position, end = 0, files.size(fd)
    while position < end:
        head = files.pread(fd, _HEAD, position)
        size = batch_fields.declared_size(head)
        is_v2 = len(head) == _HEAD and batch_fields.magic(head) == 2
        if not is_v2 or not _HEAD < size <= end - position:
            raise CorruptRecordError(
                "cannot import the file as a segment: no record batch v2 at this position",
                path=path,
                position=position,
            )
        of_transaction = batch_fields.attributes(head) & _OF_TRANSACTIONS
        if of_transaction or batch_fields.producer_id(head) != _NO_PRODUCER:
            raise CorruptRecordError(
                "cannot import the file as a segment: it has a transactional, control or "
                "idempotent batch",
                path=path,
                position=position,
            )
        stamped = bytearray(head[: batch_fields.V2_PREFIX_SIZE])
        batch_fields.stamp(stamped, 0, offset, leader_epoch)
        if not head.startswith(stamped):
            files.pwrite(fd, bytes(stamped), position)
        offset += batch_fields.last_offset_delta(head) + 1
        position += size


class SegmentImporter:
    """Adds complete files as segments."""

    def __init__(self, state: WriterState, active: ActiveSegment) -> None:
        self._state = state
        self._active = active

    def import_file(self, placed: ImportableFile) -> bool:
        """Make a placed file the active segment, directly behind the log end, and publish it.

        Returns False and changes nothing where the log end is another offset, the active segment
        is empty (it has that name already), or the file is in another file system.
        """
        state, active = self._state, self._active
        with state.lock:
            state.appender.make_ready()
            base = placed.base_offset
            if state.appender.next_offset != base or state.active.size == 0:
                return False
            try:
                active.begin(base, lambda: self._take(placed))
            except StorageError as error:
                if error.errno == errno.EXDEV:
                    return False
                raise
            state.appender.rolling_timestamp = placed.first_timestamp
            assert active.opened is not None
            # Now, not with the next append: readers of other processes use the index files.
            segments_on_disk.write_entries(state.files, state.active, active.opened)
            state.wake()
            return True

    def _take(self, placed: ImportableFile) -> SegmentView:
        """Rename the file to a segment's name; returns the segment."""
        state, base = self._state, placed.base_offset
        segments_on_disk.remove_files(state.files, state.directory, base)
        path = os.path.join(state.directory, filenames.log_name(base))
        state.files.rename(placed.path, path)
        view = SegmentView(base, path, size=placed.size, next_offset=placed.next_offset)
        view.load_entries(placed.index, placed.time_index)
        view.mark_entries_written(0, 0)  # no file has them yet
        view.note_timestamp(placed.max_timestamp, placed.max_timestamp_offset)
        view.is_largest_known = True
        return view
