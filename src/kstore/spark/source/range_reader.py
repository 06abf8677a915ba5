"""The task's side: the columns of an offset range, straight from the planned bytes of its files.

A piece whose file and first batch are still what planning saw is read from there, in buffers of
about a megabyte that are used again and again: nothing is mapped, so that a file which its owner
cuts, or which another machine serves, is an error at worst. Whatever is not as planned (replaced
by a compaction, removed, cut, damaged) is left to the engine's own reader from that offset on,
which finds the records where they are now, or says what is wrong and where.
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
    DISK,
    AbortedRanges,
    Files,
    Outcomes,
    TopicIdentity,
    batch_fields,
    check_isolation,
    filenames,
    read_topic_id,
)
from kstore.record.columns import Columns, ColumnScan
from kstore.spark.source.data_loss import LostOffsets, report_data_loss
from kstore.spark.source.offset_ranges import HEAD_SIZE, OffsetRange, Piece, node_of
from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

CHUNK = 1 << 20  # bytes read at a time: they are still in a core's cache when they are decoded
_ROWS = 1 << 14  # of one run of columns
_LARGEST_BATCH = (1 << 31) + 11
_UNMAPPED = StoreConfig(background=False, max_mapped_segments=0)
_STORES = 4  # kept open by a worker, which Spark uses for one task after another


@dataclass(slots=True)
class Damage:
    """A batch that was left out."""

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

    ``found`` takes what was left out as damaged, where ``skip_damage`` says to go on, ``lost`` the
    offsets that were gone where ``fail_on_data_loss`` is false. One thread at a time. Memory: the
    buffer, and the decompressed bytes of about 8 MiB or one batch.
    """

    paths: tuple[str, ...]
    isolation: str
    fail_on_data_loss: bool
    skip_damage: bool
    files: Files = DISK
    found: list[Damage] = field(default_factory=list)
    lost: list[LostOffsets] = field(default_factory=list)
    _buffer: bytearray = field(default_factory=bytearray)
    _confirmed: OffsetRange | None = None  # its directory was looked at

    def read(self, ranges: Sequence[OffsetRange]) -> Iterator[tuple[OffsetRange, Columns]]:
        """The columns of each range in order; control records never show.

        Columns are good until the next are asked for: the buffer behind them is used again.
        """
        keep_imports_out_of_collections()
        check_visible(self.files, self.paths)
        for each in ranges:
            for piece in each.pieces:
                for columns in self._read_piece(each, piece):
                    if len(columns):
                        yield each, columns

    def _read_piece(self, of: OffsetRange, piece: Piece) -> Iterator[Columns]:
        at = piece.start
        fd = self._confirm(of, piece)
        if fd is not None:
            try:
                scan = _PieceScan(self, of, piece, fd)
                yield from scan.run()
                at = scan.at
            finally:
                self.files.close(fd)
        if at < piece.stop:
            yield from self._search(of, at, piece.stop)

    def _confirm(self, of: OffsetRange, piece: Piece) -> int | None:
        """The file of a piece, opened, if it is the one that was planned; else None."""
        if not piece.path:
            return None
        try:
            fd = self.files.open(piece.path)
        except StorageError:
            return None
        try:
            inode, _, size = self.files.stamp(fd)
            same = inode == piece.inode and size >= piece.end_position
            same = same and self.files.pread(fd, len(piece.head), piece.position) == piece.head
            # Behind the opening: of a directory that is made again later, this file is the old.
            if same and (self._confirmed is of or self._is_planned(of, piece)):
                self._confirmed = of
                return fd
        except (StorageError, CorruptFileError):
            pass
        self.files.close(fd)
        return None

    def _is_planned(self, of: OffsetRange, piece: Piece) -> bool:
        """Whether the directory says of itself what it said when it was planned, if it did."""
        directory = os.path.dirname(piece.path)
        if of.identity is not None:
            found = read_topic_id(self.files, directory)
            is_known_by_id = found is not None and found == of.identity.topic_id
            if not is_known_by_id and not _is_topic(open_store(self.paths), of.topic, of.identity):
                return False
        here = None if of.node is None else node_of(self.files, os.path.dirname(directory))
        return here is None or here == of.node

    # --- where the plan does not hold any more --------------------------------------------------

    def _search(self, of: OffsetRange, start: int, stop: int) -> Iterator[Columns]:
        """The records of [start, stop) where they are now, by the log's own reader."""
        at = start
        while at < stop:
            log = self._open(of, at, stop)
            if log is None:
                return
            at = self._within(of, log, at, stop)
            notes: list[tuple[str, int, int, int, str]] = []
            # From the batch in front on: it contradicts one whose base offset was damaged.
            view = log.view(max(at - 1, log.start_offset), stop, isolation=self.isolation)
            try:
                for columns in view.scan(
                    on_damage="skip" if self.skip_damage else "raise", skipped=notes
                ):
                    wanted = columns if columns.offsets[0] >= at else columns[columns.offsets >= at]
                    at = max(at, int(columns.offsets[-1]) + 1)
                    yield wanted
                at = stop
            except OffsetOutOfRangeError as error:  # retention was here meanwhile
                if log.start_offset <= at:
                    raise
                self._lose(error)
            finally:
                self._note(of, notes)

    def _within(self, of: OffsetRange, log: Log, start: int, stop: int) -> int:
        """Where to begin in a log as it is now; what is gone is an error, or told and passed."""
        low, high = log.start_offset, log.end_offset
        if start < low or stop > high:
            self._lose(
                OffsetOutOfRangeError(
                    f"offsets {start} to {stop} of {of.topic}-{of.partition} were planned, but now "
                    f"the log has {low} to {high}: retention, a deletion or a truncation was "
                    "faster",
                    path=log.path,
                    offset=start if start < low else high,
                )
            )
            self._note_lost(of, start, min(low, stop))
            self._note_lost(of, max(high, start), stop)
        return max(start, min(low, stop))

    def _open(self, of: OffsetRange, start: int, stop: int) -> Log | None:
        try:
            log = self._find_log(of)
            here = node_of(self.files, os.path.dirname(log.path))
            if of.node is not None and here is not None and here != of.node:
                raise StorageError(
                    f"host {socket.gethostname()} has {of.topic}-{of.partition} of {here} here, "
                    f"and that of {of.node} was planned: this host has a directory of its own "
                    "under the path instead of the shared one; mount that",
                    path=log.path,
                )
            return log
        except UnknownTopicOrPartitionError as error:
            self._lose(
                UnknownTopicOrPartitionError(
                    f"{of.topic}-{of.partition} was deleted after its offsets {start} to {stop} "
                    "were planned",
                    path=error.path,
                )
            )
            self._note_lost(of, start, stop)
            return None

    def _find_log(self, of: OffsetRange) -> Log:
        """The partition's log; StorageError for another topic than the planned one."""
        store = open_store(self.paths)
        topic = store[of.topic]
        if of.identity is not None and not _is_topic(store, of.topic, of.identity):
            raise StorageError(
                f"host {socket.gethostname()} has another topic {of.topic!r} here than the one "
                f"that was planned ({of.identity.text or 'without an id'}): it was made again "
                "meanwhile, or this host has a directory of its own under the path instead of "
                "the shared one",
                path=self.paths[0],
            )
        return topic[of.partition]

    def _lose(self, error: KStoreError) -> None:
        report_data_loss(error, self.fail_on_data_loss)

    def _note_lost(self, of: OffsetRange, start: int, stop: int) -> None:
        if start < stop:
            self.lost.append(LostOffsets(of.topic, of.partition, start, stop))

    def _note(self, of: OffsetRange, notes: list[tuple[str, int, int, int, str]]) -> None:
        for note in notes:
            self.found.append(Damage(of.topic, of.partition, *note))
            _LOGGER.warning("a damaged batch was left out: %s", self.found[-1])

    # --- for the pieces -------------------------------------------------------------------------

    def buffer(self, size: int, kept: int = 0) -> bytearray:
        """At least size bytes, the same as long as they do; the first ``kept`` stay."""
        if len(self._buffer) < size:
            larger = bytearray(size)
            larger[:kept] = memoryview(self._buffer)[:kept]
            self._buffer = larger
        return self._buffer

    def find_aborted(self, of: OffsetRange, piece: Piece) -> Callable[[], AbortedRanges] | None:
        """What a scan calls when it meets a transaction; None where all records are shown."""
        if not check_isolation(self.isolation):
            return None
        return partial(self._aborted, of, piece)

    def _aborted(self, of: OffsetRange, piece: Piece) -> AbortedRanges:
        return Outcomes(self._find_log(of)).aborted_within(piece.start, piece.stop)


class _PieceScan:
    """Reads a confirmed piece; ends early, with ``at`` behind what it gave, where it is damaged."""

    def __init__(self, reader: RangeReader, of: OffsetRange, piece: Piece, fd: int) -> None:
        self.at = piece.start
        self._reader = reader
        self._piece = piece
        self._fd = fd
        self._find_aborted = reader.find_aborted(of, piece)

    def run(self) -> Iterator[Columns]:
        """Columns of the piece's offsets; ``at`` is the piece's stop where all of it was read."""
        piece, files = self._piece, self._reader.files
        position, wanted, seen = piece.position, CHUNK, _before(piece)
        kept = 0  # bytes of a cut batch that are in the buffer already: none is read twice
        while position < piece.end_position:
            size = min(wanted, piece.end_position - position)
            buffer = self._reader.buffer(size, kept)
            with memoryview(buffer) as view, view[kept:size] as part:
                size = kept + files.preadv_into(self._fd, part, position + kept)
            if size == kept:
                return  # the file was cut: the engine's reader tells
            scan = ColumnScan(
                buffer,
                0,
                size,
                start_offset=self.at,
                stop_offset=piece.stop,
                next_offset=piece.next_offset,
                seen_offset=seen,
                path=piece.path,
                position_base=position,
                row_target=_ROWS,
                find_aborted=self._find_aborted,
            )
            with suppress(CorruptRecordError):
                for columns in scan:
                    yield columns
                    self.at = int(columns.offsets[-1]) + 1
                if scan.position == 0:
                    wanted = self._larger(bytes(buffer[:HEAD_SIZE]), size, position)
                    if wanted:
                        kept = size
                        continue
                else:
                    wanted = CHUNK
                    position += scan.position
                    kept = size - scan.position
                    with memoryview(buffer) as view:
                        view[:kept] = bytes(view[scan.position : size])
                    seen = scan.seen_offset
                    if seen < piece.stop - 1:
                        continue
                    position = piece.end_position
                    break
            return  # damage: the engine's reader tells
        self.at = piece.stop

    def _larger(self, head: bytes, size: int, position: int) -> int:
        """Bytes to read for a batch that is larger than a chunk; 0 if there is no such batch."""
        wanted = batch_fields.frame_size(head)
        fits = size < wanted <= self._piece.end_position - position
        return wanted if fits and wanted <= _LARGEST_BATCH else 0


def _is_topic(store: Store, topic: str, planned: TopicIdentity) -> bool:
    """Whether a topic is the planned one, by its topic id or its creation stamp."""
    return topic in store and store._manager.identities.is_same(topic, planned.text)


def _before(piece: Piece) -> int:
    """The last offset in front of a piece: known where it begins a segment, by the file's name."""
    name = filenames.parse(os.path.basename(piece.path))
    return name.base_offset - 1 if name is not None and piece.position == 0 else -(2**63)


# --- what a worker keeps between tasks ------------------------------------------------------------

_open_stores: dict[tuple[str, ...], Store] = {}
_settled = False


def open_store(paths: tuple[str, ...]) -> Store:
    """A store for reading, kept for the next task of this process.

    Raises StorageError where the directories cannot be seen from here.
    """
    store = _open_stores.pop(paths, None)
    if store is None or store.closed:
        check_visible(DISK, paths)
        store = Store(paths, "r", config=_UNMAPPED)
    _open_stores[paths] = store
    while len(_open_stores) > _STORES:
        _open_stores.pop(next(iter(_open_stores))).close()
    return store


def check_visible(files: Files, paths: tuple[str, ...]) -> None:
    """StorageError that names this host and what to do, where a log directory is not here.

    Never taken for deleted data: an executor without the mount would count as an empty store.
    """
    for path in paths:
        if files.kind(path) != "directory":
            raise StorageError(
                f"host {socket.gethostname()} (process {os.getpid()}) sees no such log directory: "
                "the driver and every executor have to see it under this path; mount it there",
                path=path,
            )


def keep_imports_out_of_collections() -> None:
    """Spark's worker collects garbage between tasks: not what pyarrow and others brought."""
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
