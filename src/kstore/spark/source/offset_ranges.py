"""From offsets to tasks: which bytes of which files, cut at batches, each task about one size.

The truth of a plan are offsets. Where their bytes stand (file, inode, position) is a hint that a
task confirms before it trusts it: between planning and reading a compaction may have put another
file in a segment's place, or retention removed it. Only headers and single index entries are
read here, so that a log of ten thousand segments is planned in the time of its listing.
"""

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kstore.errors import (
    CorruptFileError,
    CorruptRecordError,
    InvalidConfigError,
    OffsetOutOfRangeError,
    StorageError,
)
from kstore.log.log import Log
from kstore.partition_files import (
    DISK,
    OFFSET_ENTRY_SIZE,
    Files,
    SegmentView,
    TopicIdentity,
    batch_fields,
    filenames,
    offset_entry,
    read_meta_properties,
)
from kstore.spark.source.options import MAX_TASKS

# Of a batch: offset, size, epoch, magic and CRC, which tell it from any other.
HEAD_SIZE = batch_fields.V2_CRC_START
_V2_HEADER = batch_fields.V2_HEADER_SIZE
_OPENING = 32 << 10  # what a piece costs beside its bytes, in bytes that are read meanwhile
_LEAST_TASK = 32 << 20
_WAVES = 2  # tasks a core, so that a slow one does not keep the others waiting long


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets of one segment, and the bytes where they were when this was planned.

    Without a ``path`` the bytes were not found (damage, or a file that just went): whoever reads
    it searches. ``head`` is how the batch at ``position`` begins: an inode and a size alone may be
    another file's, as file systems give a freed inode to the next.
    """

    start: int
    stop: int
    path: str
    inode: int
    position: int
    end_position: int
    next_offset: int  # the segment's batches end below it
    head: bytes = b""

    @property
    def size(self) -> int:
        return self.end_position - self.position


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, stop) of one partition, in pieces that follow one another."""

    topic: str
    partition: int
    start: int
    stop: int
    pieces: tuple[Piece, ...]
    identity: TopicIdentity | None = None  # that a task has to find as well; None: any
    node: str | None = None  # whose replica it is: the same

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a load reads: tasks, and beside them how much was left out by offsets and times."""

    tasks: tuple[tuple[OffsetRange, ...], ...]
    segments: int  # that are read
    all_segments: int
    all_bytes: int

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return sum(part.size for task in self.tasks for part in task)

    @property
    def offsets(self) -> int:
        """How many offsets are covered: at least as many as there are records."""
        return sum(part.stop - part.start for task in self.tasks for part in task)

    def __str__(self) -> str:
        largest = max((sum(part.size for part in task) for task in self.tasks), default=0)
        return (
            f"{len(self.tasks)} tasks read {self.size:,} of {self.all_bytes:,} bytes "
            f"({self.segments:,} of {self.all_segments:,} segments, {self.offsets:,} offsets); "
            f"the largest task has {largest:,} bytes"
        )


def target_size(total: int, parallelism: int, most: int, min_tasks: int) -> int:
    """Bytes that a task should have: some for each core, none too small to be worth starting."""
    target = min(max(total // (_WAVES * max(parallelism, 1)), _LEAST_TASK), most)
    if min_tasks:
        target = min(target, -(-total // min_tasks))
    return max(target, 1)


def plan_ranges(
    logs: Iterable[tuple[Log, int, int]],
    *,
    parallelism: int,
    most: int,
    min_tasks: int = 0,
    most_offsets: int | None = None,
    identities: Mapping[str, TopicIdentity] | None = None,
    files: Files = DISK,
) -> Plan:
    """Tasks for offsets [start, stop) of each log; where nothing is to be read there are none.

    Raises InvalidConfigError where ``most_offsets`` a task make more tasks than a driver bears.
    """
    nodes: dict[str, str | None] = {}
    ranges, segments, all_segments, all_bytes = [], 0, 0, 0
    for log, start, stop in logs:
        views = log.segments.views
        all_segments += len(views)
        all_bytes += sum(view.size for view in views)
        if start < stop:
            parts = tuple(_pieces(files, log, start, stop))
            place = os.path.dirname(log.path)
            if place not in nodes:
                nodes[place] = node_of(files, place)
            whose = (identities or {}).get(log.topic), nodes[place]
            found = OffsetRange(log.topic, log.partition, start, stop, parts, *whose)
            segments += len(found.pieces)
            ranges.append(found)
    cost = sum(_cost(piece) for each in ranges for piece in each.pieces)
    target = target_size(cost, parallelism, most, min_tasks)
    tasks = _pack(files, ranges, target)
    if most_offsets is not None:
        tasks = _cut_to(files, tasks, most_offsets)
    tasks = _halve_largest(files, tasks, min_tasks)
    return Plan(tuple(tuple(task) for task in tasks), segments, all_segments, all_bytes)


def node_of(files: Files, directory: str) -> str | None:
    """Whose replicas a log directory has, as its ``meta.properties`` says; None: it does not."""
    try:
        meta = read_meta_properties(files, directory)
    except (CorruptFileError, StorageError):
        return None
    if meta is None or meta.node_id is None:
        return None
    return f"node {meta.node_id} of cluster {meta.cluster_id}"


def _cost(piece: Piece) -> int:
    return piece.size + _OPENING


# --- where offsets stand ----------------------------------------------------------------------


def _pieces(files: Files, log: Log, start: int, stop: int) -> Iterator[Piece]:
    """The segments that hold the offsets, the first and the last cut to their batches."""
    segments = log.segments
    views = segments.views
    first = max(segments.floor(start), 0)
    for view in views[first:]:
        if view.base_offset >= stop:
            return
        if view.next_offset <= start:
            continue
        low, high = max(start, view.base_offset), min(stop, view.next_offset)
        try:
            piece = _piece(files, log, view, low, high)
        except (CorruptRecordError, StorageError, OffsetOutOfRangeError):
            # Whoever reads it meets what is wrong, and says so or goes on, as told.
            piece = Piece(low, high, "", 0, 0, 0, view.next_offset)
        if piece.size or not piece.path:
            yield piece


def _piece(files: Files, log: Log, view: SegmentView, start: int, stop: int) -> Piece:
    inode, head = _stamp(files, view.path)
    position = 0
    if start > view.base_offset:
        position, head, _ = _locate(log, view, start)
    end = view.size
    if stop < view.next_offset:
        end, head_of_end, size = _locate(log, view, stop)
        if head_of_end and _first_offset(head_of_end) < stop:
            end += size  # the wanted offsets reach into this batch
    return Piece(
        start, stop, view.path, inode, position, max(end, position), view.next_offset, head
    )


def _locate(log: Log, view: SegmentView, offset: int) -> tuple[int, bytes, int]:
    """Position, beginning and size of the first batch that reaches offset; else the end."""
    found = log.read(offset, 1)
    if found is None or found.segment.base_offset != view.base_offset:
        return view.size, b"", 0
    memory = found.memory()
    return found.position, bytes(memory[:HEAD_SIZE]), batch_fields.frame_size(memory)


def _stamp(files: Files, path: str) -> tuple[int, bytes]:
    """A file's inode, and how its first batch begins."""
    fd = files.open(path)
    try:
        return files.stamp(fd)[0], files.pread(fd, HEAD_SIZE, 0)
    finally:
        files.close(fd)


def _first_offset(head: bytes) -> int:
    """The first offset of a batch as far as its header tells: of a wrapper v0 or v1, none does."""
    return batch_fields.base_offset(head) if batch_fields.magic(head) >= 2 else -1


# --- cutting ----------------------------------------------------------------------------------


def cut_piece(files: Files, piece: Piece, count: int) -> list[Piece]:
    """About count parts of about the same size, cut behind batches that the index knows.

    Fewer where the index has fewer entries, or says what the log does not.
    """
    if count < 2 or not piece.path:
        return [piece]
    parts = [piece]
    try:
        log_fd = files.open(piece.path)
        try:
            index_fd = files.open(_index_path(piece.path))
            try:
                for n in range(1, count):
                    wanted = piece.position + piece.size * n // count
                    at = _entry_position(files, index_fd, wanted)
                    cut = _cut_behind(files, log_fd, parts[-1], at)
                    if cut is not None:
                        parts[-1:] = cut
            finally:
                files.close(index_fd)
        finally:
            files.close(log_fd)
    except StorageError:  # gone, or never there: the parts so far are right
        pass
    return parts


def _index_path(log_path: str) -> str:
    """The index of a log file, whatever a compaction's swap has put behind its name."""
    stem, suffix, rest = log_path.rpartition(filenames.LOG)
    return stem + filenames.INDEX + rest if suffix else log_path


def _entry_position(files: Files, fd: int, wanted: int) -> int:
    """Position of the last entry at or below wanted; 0 where there is none.

    An active segment's index may end in zeros that were put there before they were needed.
    """
    low, high = 0, files.size(fd) // OFFSET_ENTRY_SIZE  # low: entries known to be at or below
    found = 0
    while low < high:
        middle = (low + high) // 2
        entry = files.pread(fd, OFFSET_ENTRY_SIZE, middle * OFFSET_ENTRY_SIZE)
        is_entry = len(entry) == OFFSET_ENTRY_SIZE and any(entry)
        position = offset_entry(entry)[1] if is_entry else 0
        if not is_entry or position > wanted:
            high = middle
        else:
            found, low = position, middle + 1
    return found


def _cut_behind(files: Files, fd: int, piece: Piece, at: int) -> list[Piece] | None:
    """Two parts, the second from behind the batch at a position on; None where none may be."""
    if not piece.position <= at < piece.end_position:
        return None
    head = files.pread(fd, _V2_HEADER, at)
    if len(head) < _V2_HEADER:
        return None
    end, offset = at + batch_fields.frame_size(head), batch_fields.last_offset(head) + 1
    if not (at < end < piece.end_position and piece.start < offset < piece.stop):
        return None
    following = files.pread(fd, _V2_HEADER, end)
    if len(following) < _V2_HEADER or batch_fields.last_offset(following) < offset:
        return None
    if -1 < _first_offset(following) < offset:  # no batch that may stand there
        return None
    return [
        replace(piece, stop=offset, end_position=end),
        replace(piece, start=offset, position=end, head=following[:HEAD_SIZE]),
    ]


def _pack(files: Files, ranges: Sequence[OffsetRange], target: int) -> list[list[OffsetRange]]:
    """Large pieces cut, small ones put together, of several partitions too."""
    tasks: list[list[OffsetRange]] = []
    task: list[OffsetRange] = []
    size = 0
    for each in ranges:
        for piece in each.pieces:
            for part in cut_piece(files, piece, -(-piece.size // target)):
                if task and size + _cost(part) > target + target // 4:
                    tasks.append(task)
                    task, size = [], 0
                _add(task, each, part)
                size += _cost(part)
    return [*tasks, task] if task else tasks


def _add(task: list[OffsetRange], of: OffsetRange, piece: Piece) -> None:
    """Put a piece at the end of a task, into the range before it where they belong together."""
    last = task[-1] if task else None
    if last is not None and (last.topic, last.partition) == (of.topic, of.partition):
        task[-1] = replace(last, stop=piece.stop, pieces=(*last.pieces, piece))
    else:
        task.append(replace(of, start=piece.start, stop=piece.stop, pieces=(piece,)))


def _offsets_in(task: Sequence[OffsetRange]) -> int:
    return sum(part.stop - part.start for part in task)


def _cut_to(files: Files, tasks: Sequence[list[OffsetRange]], most: int) -> list[list[OffsetRange]]:
    """The same, each task with at most so many offsets."""
    wanted = sum(-(-_offsets_in(task) // most) for task in tasks)
    if wanted > MAX_TASKS:
        raise InvalidConfigError(
            f"maxRecordsPerPartition of {most} makes {wanted:,} tasks, and a query has at most "
            f"{MAX_TASKS:,}: raise it, or read fewer offsets at a time"
        )
    done: list[list[OffsetRange]] = []
    left = list(reversed(tasks))
    while left:
        task = left.pop()
        halves = _halves(files, task) if _offsets_in(task) > most else None
        if halves is None:
            done.append(task)
        else:
            left += reversed(halves)
    return done


def _halve_largest(
    files: Files, tasks: Sequence[list[OffsetRange]], least: int
) -> list[list[OffsetRange]]:
    """The same in order, the largest cut in two until there are enough, or no offsets to part."""
    found = list(tasks)
    following = list(range(1, len(found) + 1))  # by index; the last one's is never followed
    heap = [(*_rank(task), n) for n, task in enumerate(found)] if len(found) < least else []
    heapq.heapify(heap)
    while heap and len(found) < least:
        n = heapq.heappop(heap)[-1]
        halves = _halves(files, found[n])
        if halves is None:
            continue
        found[n], new = halves[0], len(found)
        found.append(halves[1])
        following.append(following[n])
        following[n] = new
        for each in (n, new):
            heapq.heappush(heap, (*_rank(found[each]), each))
    return [found[n] for n in _row(following)] if found else []


def _row(following: Sequence[int]) -> Iterator[int]:
    """Indexes in the order in which they follow one another, from the first."""
    n = 0
    for _ in following:
        yield n
        n = following[n]


def _rank(task: Sequence[OffsetRange]) -> tuple[int, int]:
    """Less for larger ones."""
    return -sum(part.size for part in task), -_offsets_in(task)


def _halves(files: Files, task: list[OffsetRange]) -> list[list[OffsetRange]] | None:
    pieces: list[tuple[OffsetRange, Piece]] = [
        (each, piece) for each in task for piece in each.pieces
    ]
    if len(pieces) == 1:
        of, piece = pieces[0]
        parts = cut_piece(files, piece, 2)
        if len(parts) == 1:  # within a batch: both tasks read it, each keeps its offsets
            middle = (piece.start + piece.stop) // 2
            if middle == piece.start:
                return None
            parts = [replace(piece, stop=middle), replace(piece, start=middle)]
        pieces = [(of, part) for part in parts]
    half = sum(_cost(piece) for _, piece in pieces) / 2
    found: list[list[OffsetRange]] = [[], []]
    size = 0.0
    for n, (of, piece) in enumerate(pieces):
        second = n > 0 and (size + _cost(piece) / 2 > half or n == len(pieces) - 1)
        _add(found[1 if second or found[1] else 0], of, piece)
        size += _cost(piece)
    return found
