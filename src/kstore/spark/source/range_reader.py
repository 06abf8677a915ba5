"""Reads offset ranges as columns in a task, from the planned byte ranges of the segments.

If the file and the first batch of a span are the planned ones, the span is read into a reused
buffer of about a megabyte. Files are not mapped: reading a file that another process truncates, or
that another machine serves, fails with an error instead of a SIGBUS. If a span is not as planned
(replaced by a compaction, removed, truncated, corrupt), the log's own reader continues at that
offset: it finds the records at their current position, or reports the corruption.
"""

import gc
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from kstore.config import StoreConfig
from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    KStoreError,
    OffsetOutOfRangeError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from kstore.log.log import Log
from kstore.partition_files import (
    AbortedRanges,
    Files,
    TransactionOutcomes,
    batch_fields,
    check_isolation,
    filenames,
    read_topic_id,
)
from kstore.record.columns import Columns, ColumnScan
from kstore.spark.local_disk import local_disk
from kstore.spark.source.data_loss import LostOffsets, report_data_loss
from kstore.spark.source.offset_ranges import HEAD_SIZE, OffsetRange, SegmentSpan, node_of
from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

CHUNK = 1 << 20  # bytes read at a time: decoding finds them in the CPU's cache
_ROWS = 1 << 14  # of the columns that are returned at a time
_LARGEST_BATCH = (1 << 31) + 11
_UNMAPPED = StoreConfig(background=False, max_mapped_segments=0)
_STORES = 4  # that a worker process keeps open between its tasks


@dataclass(slots=True)
class Damage:
    """A corrupt batch that was skipped."""

    topic: str
    partition: int
    path: str
    position: int
    size: int
    offset: int
    reason: str


@dataclass(slots=True)
class RangeReader:
    """Reads offset ranges of a store as columns.

    ``found`` collects the corrupt batches that ``skip_damage`` lets it skip, ``lost`` the lost
    offsets that it skips if ``fail_on_data_loss`` is false. One thread at a time. Memory: the
    buffer, and about 8 MiB or one batch of decompressed bytes.
    """

    paths: tuple[str, ...]
    isolation: str
    fail_on_data_loss: bool
    skip_damage: bool
    files: Files = field(default_factory=local_disk)
    found: list[Damage] = field(default_factory=list)
    lost: list[LostOffsets] = field(default_factory=list)
    _buffer: bytearray = field(default_factory=bytearray)
    _confirmed: OffsetRange | None = None  # the last range whose directory was checked

    def read(self, ranges: Sequence[OffsetRange]) -> Iterator[tuple[OffsetRange, Columns]]:
        """The columns of each range in order, without control records.

        Columns are valid until the next ones are requested, because they share a buffer.
        """
        freeze_imports()
        check_visible(self.files, self.paths)
        for planned in ranges:
            for span in planned.spans:
                for columns in self._read_span(planned, span):
                    if len(columns):
                        yield planned, columns

    def _read_span(self, planned: OffsetRange, span: SegmentSpan) -> Iterator[Columns]:
        offset = span.start
        fd = self._confirm(planned, span)
        if fd is not None:
            try:
                scan = _SpanScan(self, planned, span, fd)
                yield from scan.run()
                offset = scan.offset
            finally:
                self.files.close(fd)
        if offset < span.stop:
            yield from self._search(planned, offset, span.stop)

    def _confirm(self, planned: OffsetRange, span: SegmentSpan) -> int | None:
        """Open the file of a span if it is the planned one, else return None."""
        if not span.path:
            return None
        try:
            fd = self.files.open(span.path)
        except StorageError:
            return None
        try:
            inode, _, size = self.files.stamp(fd)
            is_same = inode == span.inode and size >= span.end_position
            is_same = is_same and self.files.pread(fd, len(span.head), span.position) == span.head
            # Checked after opening: if the directory is recreated later, the open file is the old.
            if is_same and (self._confirmed is planned or self._is_planned(planned, span)):
                self._confirmed = planned
                return fd
        except (StorageError, CorruptFileError):
            pass
        self.files.close(fd)
        return None

    def _is_planned(self, planned: OffsetRange, span: SegmentSpan) -> bool:
        """Whether the directory's topic and node, as far as known, are the planned ones."""
        directory = os.path.dirname(span.path)
        if planned.identity is not None:
            topic_id = read_topic_id(self.files, directory)
            is_same_id = topic_id is not None and topic_id == planned.identity.topic_id
            if not is_same_id and not self._has_planned_topic(planned):
                return False
        current_node = (
            None if planned.node is None else node_of(self.files, os.path.dirname(directory))
        )
        return current_node is None or current_node == planned.node

    # --- where the files are not as planned -----------------------------------------------------

    def _search(self, planned: OffsetRange, start: int, stop: int) -> Iterator[Columns]:
        """The records of [start, stop), found by the log's own reader."""
        offset = start
        while offset < stop:
            log = self._open(planned, offset, stop)
            if log is None:
                return
            offset = self._clip(planned, log, offset, stop)
            notes: list[tuple[str, int, int, int, str]] = []
            # From the preceding batch on, which contradicts a batch with a corrupt base offset.
            view = log.view(max(offset - 1, log.start_offset), stop, isolation=self.isolation)
            try:
                for columns in view.scan(
                    on_damage="skip" if self.skip_damage else "raise", skipped=notes
                ):
                    selected = columns
                    if columns.offsets[0] < offset:
                        selected = columns[columns.offsets >= offset]
                    offset = max(offset, int(columns.offsets[-1]) + 1)
                    yield selected
                offset = stop
            except OffsetOutOfRangeError as error:  # retention deleted segments meanwhile
                if log.start_offset <= offset:
                    raise
                self._lose(error)
            finally:
                self._note(planned, notes)

    def _clip(self, planned: OffsetRange, log: Log, start: int, stop: int) -> int:
        """The first offset to read of the range that the log still has; reports lost offsets."""
        low, high = log.start_offset, log.end_offset
        if start < low or stop > high:
            self._lose(
                OffsetOutOfRangeError(
                    f"offsets {start} to {stop} of {planned.topic}-{planned.partition} were "
                    f"planned, but now the log has {low} to {high}: retention, a deletion or a "
                    "truncation removed records meanwhile",
                    path=log.path,
                    offset=start if start < low else high,
                )
            )
            self._note_lost(planned, start, min(low, stop))
            self._note_lost(planned, max(high, start), stop)
        return max(start, min(low, stop))

    def _open(self, planned: OffsetRange, start: int, stop: int) -> Log | None:
        try:
            log = self._find_log(planned)
            current_node = node_of(self.files, os.path.dirname(log.path))
            if (
                planned.node is not None
                and current_node is not None
                and current_node != planned.node
            ):
                raise StorageError(
                    f"host {socket.gethostname()} has {planned.topic}-{planned.partition} of "
                    f"{current_node}, but that of {planned.node} was planned: this host has a "
                    "directory of its own under the path instead of the shared one; mount the "
                    "shared one",
                    path=log.path,
                )
            return log
        except UnknownTopicOrPartitionError as error:
            self._lose(
                UnknownTopicOrPartitionError(
                    f"{planned.topic}-{planned.partition} was deleted after its offsets {start} "
                    f"to {stop} were planned",
                    path=error.path,
                )
            )
            self._note_lost(planned, start, stop)
            return None

    def _find_log(self, planned: OffsetRange) -> Log:
        """The partition's log; StorageError for another topic than the planned one."""
        store = open_store(self.paths)
        topic = store[planned.topic]
        if planned.identity is not None and not self._has_planned_topic(planned):
            raise StorageError(
                f"host {socket.gethostname()} has another topic {planned.topic!r} than the "
                f"planned one ({planned.identity.text or 'without an id'}): it was recreated "
                "meanwhile, or this host has a directory of its own under the path instead of "
                "the shared one",
                path=self.paths[0],
            )
        return topic[planned.partition]

    def _has_planned_topic(self, planned: OffsetRange) -> bool:
        """Whether the topic exists with the planned topic id or creation stamp."""
        store, identity = open_store(self.paths), planned.identity
        assert identity is not None
        is_same = store._manager.identities.is_same
        return planned.topic in store and is_same(planned.topic, identity.text)

    def _lose(self, error: KStoreError) -> None:
        report_data_loss(error, self.fail_on_data_loss)

    def _note_lost(self, planned: OffsetRange, start: int, stop: int) -> None:
        if start < stop:
            self.lost.append(LostOffsets(planned.topic, planned.partition, start, stop))

    def _note(self, planned: OffsetRange, notes: list[tuple[str, int, int, int, str]]) -> None:
        for note in notes:
            self.found.append(Damage(planned.topic, planned.partition, *note))
            _LOGGER.warning("a corrupt batch was skipped: %s", self.found[-1])

    # --- for the spans --------------------------------------------------------------------------

    def buffer(self, size: int, keep: int = 0) -> bytearray:
        """The buffer, enlarged to ``size`` bytes if needed; its first ``keep`` bytes stay."""
        if len(self._buffer) < size:
            larger = bytearray(size)
            larger[:keep] = memoryview(self._buffer)[:keep]
            self._buffer = larger
        return self._buffer

    def find_aborted(
        self, planned: OffsetRange, span: SegmentSpan
    ) -> Callable[[], AbortedRanges] | None:
        """The callback of a scan that meets a transaction; None with read_uncommitted."""
        if not check_isolation(self.isolation):
            return None
        return partial(self._aborted, planned, span)

    def _aborted(self, planned: OffsetRange, span: SegmentSpan) -> AbortedRanges:
        found = TransactionOutcomes(self._find_log(planned)).aborted_within(span.start, span.stop)
        # The log has the markers for a file's transactions while it has that file.
        with suppress(StorageError):
            if self.files.about(span.path).st_ino == span.inode:
                return found
        raise _ReplacedError


class _ReplacedError(Exception):
    """The log has another file than the one that is read, or none."""


class _SpanScan:
    """Reads a confirmed span. At corruption, and where the outcomes of its transactions are not
    known any more, it ends early: ``offset`` is the next one to read."""

    def __init__(
        self, reader: RangeReader, planned: OffsetRange, span: SegmentSpan, fd: int
    ) -> None:
        self.offset = span.start
        self._reader = reader
        self._span = span
        self._fd = fd
        self._find_aborted = reader.find_aborted(planned, span)

    def run(self) -> Iterator[Columns]:
        """The columns of the span's offsets; then ``offset`` is its stop if it was complete."""
        span, files = self._span, self._reader.files
        position, wanted, seen = span.position, CHUNK, _offset_before(span)
        buffered = 0  # bytes of an incomplete batch in the buffer, so that none is read twice
        while position < span.end_position:
            size = min(wanted, span.end_position - position)
            buffer = self._reader.buffer(size, buffered)
            with memoryview(buffer) as view, view[buffered:size] as free:
                size = buffered + files.preadv_into(self._fd, free, position + buffered)
            if size == buffered:
                return  # the file was truncated: the log's reader reports it
            scan = ColumnScan(
                buffer,
                0,
                size,
                start_offset=self.offset,
                stop_offset=span.stop,
                next_offset=span.next_offset,
                seen_offset=seen,
                path=span.path,
                position_base=position,
                row_target=_ROWS,
                find_aborted=self._find_aborted,
            )
            with suppress(CorruptRecordError, _ReplacedError):
                for columns in scan:
                    yield columns
                    self.offset = int(columns.offsets[-1]) + 1
                if scan.position == 0:
                    wanted = self._larger(bytes(buffer[:HEAD_SIZE]), size, position)
                    if wanted:
                        buffered = size
                        continue
                else:
                    wanted = CHUNK
                    position += scan.position
                    buffered = size - scan.position
                    with memoryview(buffer) as view:
                        view[:buffered] = bytes(view[scan.position : size])
                    seen = scan.seen_offset
                    if seen < span.stop - 1:
                        continue
                    position = span.end_position
                    break
            return  # the log's reader reports corruption, and finds the file that replaced this
        self.offset = span.stop

    def _larger(self, head: bytes, size: int, position: int) -> int:
        """The size of a batch that is larger than the chunk; 0 if the bytes are no such batch."""
        wanted = batch_fields.frame_size(head)
        fits = size < wanted <= self._span.end_position - position
        return wanted if fits and wanted <= _LARGEST_BATCH else 0


def _offset_before(span: SegmentSpan) -> int:
    """The offset before a span at the beginning of a segment; for others the least int64."""
    name = filenames.parse(os.path.basename(span.path))
    return name.base_offset - 1 if name is not None and span.position == 0 else -(2**63)


# --- stores that a worker keeps open between tasks ------------------------------------------------

_open_stores: dict[tuple[str, ...], Store] = {}
_imports_frozen = False


def open_store(paths: tuple[str, ...]) -> Store:
    """A store for reading, cached for the next task of this process.

    Raises StorageError if this host does not see the directories.
    """
    store = _open_stores.pop(paths, None)
    if store is None or store.closed:
        files = local_disk()
        check_visible(files, paths)
        store = Store(paths, "r", config=_UNMAPPED, files=files)
    _open_stores[paths] = store
    while len(_open_stores) > _STORES:
        _open_stores.pop(next(iter(_open_stores))).close()
    return store


def check_visible(files: Files, paths: tuple[str, ...]) -> None:
    """Raise StorageError, with this host's name, if a log directory is missing.

    Without this check an executor without the mount would read an empty store.
    """
    for path in paths:
        if files.kind(path) != "directory":
            raise StorageError(
                f"host {socket.gethostname()} (process {os.getpid()}) sees no such log directory: "
                "the driver and every executor have to see it under this path; mount it there",
                path=path,
            )


def freeze_imports() -> None:
    """Exclude the objects of imported modules from the garbage collections between tasks."""
    global _imports_frozen
    if not _imports_frozen:
        _imports_frozen = True
        gc.collect()
        gc.freeze()
