"""Plans tasks for offset ranges: byte ranges of segments, split at batches, about equal in size.

A plan is exact in offsets only. The bytes (file, inode, position) are a hint that a task checks
before it reads them: between planning and reading, a compaction may have replaced a segment's
file, or retention may have removed it. Planning reads only batch headers and single index entries,
so that it takes about as long as listing the segments, even for ten thousand of them.
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
    OpenFile,
    SegmentView,
    TopicIdentity,
    batch_fields,
    count_of,
    filenames,
    offset_entry,
    read_meta_properties,
)
from kstore.spark.source.options import MAX_TASKS

# The beginning of a batch: offset, size, epoch, magic and CRC, which identify it.
HEAD_SIZE = batch_fields.V2_CRC_START
_V2_HEADER = batch_fields.V2_HEADER_SIZE
_OPENING = 32 << 10  # the cost of opening a file, in bytes that are read in the same time
_MIN_TASK_SIZE = 32 << 20
_WAVES = 2  # tasks for each core, so that the others wait less for a slow one


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """Offsets of one segment, and the position of their bytes at the time of planning.

    Without a ``path`` planning did not find the bytes (corruption, or a file removed meanwhile),
    and the task searches the log. ``head`` is the beginning of the batch at ``position``: inode and
    size alone do not identify a file, because file systems reuse a freed inode.
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
    """Offsets [start, stop) of one partition, as consecutive spans of its segments."""

    topic: str
    partition: int
    start: int
    stop: int
    spans: tuple[SegmentSpan, ...]
    identity: TopicIdentity | None = None  # of the planned topic, for tasks to check; None: any
    node: str | None = None  # of the planned replica, for tasks to check; None: any

    @property
    def size(self) -> int:
        return sum(span.size for span in self.spans)


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a load, and how much of the logs they read."""

    tasks: tuple[tuple[OffsetRange, ...], ...]
    segments: int  # that the tasks read
    all_segments: int
    all_bytes: int

    @property
    def size(self) -> int:
        """The number of bytes that the tasks read."""
        return sum(planned.size for task in self.tasks for planned in task)

    @property
    def offsets(self) -> int:
        """The number of offsets of the tasks, which is at least that of their records."""
        return sum(planned.stop - planned.start for task in self.tasks for planned in task)

    def __str__(self) -> str:
        sizes = (sum(planned.size for planned in task) for task in self.tasks)
        largest = max(sizes, default=0)
        return (
            f"{count_of(len(self.tasks), 'task')} read {self.size:,} of {self.all_bytes:,} bytes "
            f"({self.segments:,} of {count_of(self.all_segments, 'segment', form=',')}, "
            f"{count_of(self.offsets, 'offset', form=',')}); "
            f"the largest task has {largest:,} bytes"
        )


def target_size(total: int, parallelism: int, max_bytes: int, min_tasks: int) -> int:
    """The size of a task: two tasks for each core, but none below 32 MiB unless ``min_tasks``."""
    target = min(max(total // (_WAVES * max(parallelism, 1)), _MIN_TASK_SIZE), max_bytes)
    if min_tasks:
        target = min(target, -(-total // min_tasks))
    return max(target, 1)


def plan_ranges(
    logs: Iterable[tuple[Log, int, int]],
    *,
    parallelism: int,
    max_bytes: int,
    min_tasks: int = 0,
    max_offsets: int | None = None,
    identities: Mapping[str, TopicIdentity] | None = None,
    files: Files = DISK,
) -> Plan:
    """Plan tasks for offsets [start, stop) of each log; an empty range gets no task.

    ``max_bytes`` and ``max_offsets`` are limits of a task. Raises InvalidConfigError if
    ``max_offsets`` results in more tasks than a driver can handle.
    """
    nodes: dict[str, str | None] = {}
    ranges, segments, all_segments, all_bytes = [], 0, 0, 0
    for log, start, stop in logs:
        views = log.segments.views
        all_segments += len(views)
        all_bytes += sum(view.size for view in views)
        if start < stop:
            spans = tuple(_spans(files, log, start, stop))
            directory = os.path.dirname(log.path)
            if directory not in nodes:
                nodes[directory] = node_of(files, directory)
            identity, node = (identities or {}).get(log.topic), nodes[directory]
            offset_range = OffsetRange(log.topic, log.partition, start, stop, spans, identity, node)
            segments += len(offset_range.spans)
            ranges.append(offset_range)
    cost = sum(_cost(span) for offset_range in ranges for span in offset_range.spans)
    target = target_size(cost, parallelism, max_bytes, min_tasks)
    tasks = _pack(files, ranges, target)
    if max_offsets is not None:
        tasks = _limit_offsets(files, tasks, max_offsets)
    tasks = _split_largest(files, tasks, min_tasks)
    return Plan(tuple(tuple(task) for task in tasks), segments, all_segments, all_bytes)


def node_of(files: Files, directory: str) -> str | None:
    """The node and cluster of a log directory, by its ``meta.properties``; None if unknown."""
    try:
        meta = read_meta_properties(files, directory)
    except (CorruptFileError, StorageError):
        return None
    if meta is None or meta.node_id is None:
        return None
    return f"node {meta.node_id} of cluster {meta.cluster_id}"


def _cost(span: SegmentSpan) -> int:
    return span.size + _OPENING


# --- positions of offsets ---------------------------------------------------------------------


def _spans(files: Files, log: Log, start: int, stop: int) -> Iterator[SegmentSpan]:
    """The spans of the segments that contain the offsets, the first and last cut at batches."""
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
            span = _span(files, log, view, low, high)
        except (CorruptRecordError, StorageError, OffsetOutOfRangeError):
            # The task that reads it meets the same error, and reports or skips it.
            span = SegmentSpan(low, high, "", 0, 0, 0, view.next_offset)
        if span.size or not span.path:
            yield span


def _span(files: Files, log: Log, view: SegmentView, start: int, stop: int) -> SegmentSpan:
    inode, head = _stamp(files, view.path)
    position = 0
    if start > view.base_offset:
        position, head, _ = _locate(log, view, start)
    end = view.size
    if stop < view.next_offset:
        end, head_of_end, size = _locate(log, view, stop)
        if head_of_end and _first_offset(head_of_end) < stop:
            end += size  # the range ends within this batch
    return SegmentSpan(
        start, stop, view.path, inode, position, max(end, position), view.next_offset, head
    )


def _locate(log: Log, view: SegmentView, offset: int) -> tuple[int, bytes, int]:
    """Position, head and size of the first batch that reaches the offset, else the segment's end.

    The size is 0 and the head empty at the end.
    """
    found = log.read(offset, 1)
    if found is None or found.segment.base_offset != view.base_offset:
        return view.size, b"", 0
    memory = found.memory()
    return found.position, bytes(memory[:HEAD_SIZE]), batch_fields.frame_size(memory)


def _stamp(files: Files, path: str) -> tuple[int, bytes]:
    """A file's inode, and the head of its first batch."""
    with OpenFile(files, path) as fd:
        return files.stamp(fd)[0], files.pread(fd, HEAD_SIZE, 0)


def _first_offset(head: bytes) -> int:
    """The first offset of a batch; -1 for messages v0 and v1, whose header does not have it."""
    return batch_fields.base_offset(head) if batch_fields.magic(head) >= 2 else -1


# --- splitting --------------------------------------------------------------------------------


def split_span(files: Files, span: SegmentSpan, count: int) -> list[SegmentSpan]:
    """Split a span into about ``count`` spans of similar size, after batches with an index entry.

    The result has fewer spans if the index has fewer entries, or contradicts the log.
    """
    if count < 2 or not span.path:
        return [span]
    spans = [span]
    try:
        with (
            OpenFile(files, span.path) as log_fd,
            OpenFile(files, _index_path(span.path)) as index_fd,
        ):
            for n in range(1, count):
                target = span.position + span.size * n // count
                position = _entry_position(files, index_fd, target)
                halves = _split_at(files, log_fd, spans[-1], position)
                if halves is not None:
                    spans[-1:] = halves
    except StorageError:  # the index is missing: the spans so far are valid
        pass
    return spans


def _index_path(log_path: str) -> str:
    """The index of a log file, which may have the suffix of a compaction's swap."""
    stem, suffix, rest = log_path.rpartition(filenames.LOG)
    return stem + filenames.INDEX + rest if suffix else log_path


def _entry_position(files: Files, fd: int, target: int) -> int:
    """Position of the last index entry at or below the target; 0 without such an entry.

    The index of an active segment may end in preallocated zeros.
    """
    low, high = 0, files.size(fd) // OFFSET_ENTRY_SIZE  # all entries before low are at or below
    found = 0
    while low < high:
        middle = (low + high) // 2
        entry = files.pread(fd, OFFSET_ENTRY_SIZE, middle * OFFSET_ENTRY_SIZE)
        is_entry = len(entry) == OFFSET_ENTRY_SIZE and any(entry)
        position = offset_entry(entry)[1] if is_entry else 0
        if not is_entry or position > target:
            high = middle
        else:
            found, low = position, middle + 1
    return found


def _split_at(files: Files, fd: int, span: SegmentSpan, position: int) -> list[SegmentSpan] | None:
    """Split a span after the batch at a position; None if the span cannot be split there."""
    if not span.position <= position < span.end_position:
        return None
    head = files.pread(fd, _V2_HEADER, position)
    if len(head) < _V2_HEADER:
        return None
    end, offset = position + batch_fields.frame_size(head), batch_fields.last_offset(head) + 1
    if not (position < end < span.end_position and span.start < offset < span.stop):
        return None
    following = files.pread(fd, _V2_HEADER, end)
    if len(following) < _V2_HEADER or batch_fields.last_offset(following) < offset:
        return None
    if -1 < _first_offset(following) < offset:  # not a batch that may follow
        return None
    return [
        replace(span, stop=offset, end_position=end),
        replace(span, start=offset, position=end, head=following[:HEAD_SIZE]),
    ]


def _pack(files: Files, ranges: Sequence[OffsetRange], target: int) -> list[list[OffsetRange]]:
    """Assign spans to tasks of the target size: splits large spans and combines small ones."""
    tasks: list[list[OffsetRange]] = []
    task: list[OffsetRange] = []
    size = 0
    for offset_range in ranges:
        for span in offset_range.spans:
            for fragment in split_span(files, span, -(-span.size // target)):
                if task and size + _cost(fragment) > target + target // 4:
                    tasks.append(task)
                    task, size = [], 0
                _add(task, offset_range, fragment)
                size += _cost(fragment)
    return [*tasks, task] if task else tasks


def _add(task: list[OffsetRange], offset_range: OffsetRange, span: SegmentSpan) -> None:
    """Append a span to a task, and to its last range if that is of the same partition."""
    last = task[-1] if task else None
    partition = offset_range.topic, offset_range.partition
    if last is not None and (last.topic, last.partition) == partition:
        task[-1] = replace(last, stop=span.stop, spans=(*last.spans, span))
    else:
        task.append(replace(offset_range, start=span.start, stop=span.stop, spans=(span,)))


def _offsets_in(task: Sequence[OffsetRange]) -> int:
    return sum(offset_range.stop - offset_range.start for offset_range in task)


def _limit_offsets(
    files: Files, tasks: Sequence[list[OffsetRange]], limit: int
) -> list[list[OffsetRange]]:
    """Split tasks until each has at most ``limit`` offsets."""
    count = sum(-(-_offsets_in(task) // limit) for task in tasks)
    if count > MAX_TASKS:
        raise InvalidConfigError(
            f"maxRecordsPerPartition of {limit} results in {count:,} tasks, and a query has at "
            f"most {MAX_TASKS:,}: raise it, or read fewer offsets at a time"
        )
    within_limit: list[list[OffsetRange]] = []
    remaining = list(reversed(tasks))
    while remaining:
        task = remaining.pop()
        halves = _halves(files, task) if _offsets_in(task) > limit else None
        if halves is None:
            within_limit.append(task)
        else:
            remaining += reversed(halves)
    return within_limit


def _split_largest(
    files: Files, tasks: Sequence[list[OffsetRange]], min_tasks: int
) -> list[list[OffsetRange]]:
    """Split the largest task repeatedly until there are ``min_tasks``; keeps the order of offsets.

    Ends early if no task can be split.
    """
    split = list(tasks)
    if len(split) >= min_tasks:
        return split
    following = list(range(1, len(split) + 1))  # by index, the index of the next task in order
    heap = [(*_rank(task), index) for index, task in enumerate(split)]
    heapq.heapify(heap)
    while heap and len(split) < min_tasks:
        index = heapq.heappop(heap)[-1]
        halves = _halves(files, split[index])
        if halves is None:
            continue
        split[index], number = halves[0], len(split)
        split.append(halves[1])
        following.append(following[index])
        following[index] = number
        for changed in (index, number):
            heapq.heappush(heap, (*_rank(split[changed]), changed))
    return [split[index] for index in _in_order(following)] if split else []


def _in_order(following: Sequence[int]) -> Iterator[int]:
    """The indexes 0, following[0], following[following[0]] and so on."""
    index = 0
    for _ in following:
        yield index
        index = following[index]


def _rank(task: Sequence[OffsetRange]) -> tuple[int, int]:
    """A sort key: the largest task is first."""
    return -sum(offset_range.size for offset_range in task), -_offsets_in(task)


def _halves(files: Files, task: list[OffsetRange]) -> list[list[OffsetRange]] | None:
    """Split a task into two of similar size; None for a task of one offset."""
    spans: list[tuple[OffsetRange, SegmentSpan]] = [
        (offset_range, span) for offset_range in task for span in offset_range.spans
    ]
    if len(spans) == 1:
        offset_range, span = spans[0]
        fragments = split_span(files, span, 2)
        if len(fragments) == 1:  # a single batch: both tasks read it, and each keeps its offsets
            middle = (span.start + span.stop) // 2
            if middle == span.start:
                return None
            fragments = [replace(span, stop=middle), replace(span, start=middle)]
        spans = [(offset_range, fragment) for fragment in fragments]
    half = sum(_cost(span) for _, span in spans) / 2
    halves: list[list[OffsetRange]] = [[], []]
    size = 0.0
    for index, (offset_range, span) in enumerate(spans):
        is_second = index > 0 and (size + _cost(span) / 2 > half or index == len(spans) - 1)
        _add(halves[1 if is_second or halves[1] else 0], offset_range, span)
        size += _cost(span)
    return halves
