"""Statistics of a log: sizes, keys, codecs, offsets and times, of ranges that add up.

A range is some adjacent segments. A native kernel (:mod:`kstore._native.spark.log_statistics`)
walks each once; the small results add up to those of one walk of the log, wherever the ranges were
walked. The statistics are of the files, not of a reader's window: records below the log start
offset count while they exist.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path

from kstore._native.spark.log_statistics import Survey
from kstore._native.spark.tally import Tally
from kstore.errors import CorruptRecordError, KStoreError, StorageError
from kstore.files import filenames
from kstore.files.files import DISK, Files
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.log import Log
from kstore.log.skip_corrupt import DAMAGE
from kstore.maintenance.reindex import SegmentDamage
from kstore.maintenance.rewrite import damage_of
from kstore.record.codec import NAMES, decompress
from kstore.segment.find_next_batch import known_boundaries
from kstore.segment.index_sanity import used_size

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WIDTHS = (HOUR_MS, *(DAY_MS * 32**n for n in range(6)))  # of a window; the last holds all times
MOST_WINDOWS = 1 << 10  # of a partition: a Spark driver holds all of them, some 200 KB each
MOST_DAMAGES = 1000  # kept of one partition; all are counted
WINDOW = 1 << 20  # bytes read at a time
REGISTERS = 1 << 14
STANDARD_ERROR = 1.04 / math.sqrt(REGISTERS)  # of the number of keys
_NO_LIMIT = 2**63 - 1
_INDEXES = (  # and the size of an entry, of those that are preallocated
    (filenames.index_name, 8),
    (filenames.time_index_name, 12),
    (filenames.transaction_index_name, 0),
)
_TALLIED = struct.Struct("<q")

Registers = bytes


@lazy_dataclass(frozen=True)
class PlannedSegment:
    """A segment as it was when the walk was planned."""

    base_offset: int
    size: int
    next_offset: int
    last: bool  # it may grow
    inode: int | None = None  # of its log file, where it is known


def segments_of(log: Log, files: Files = DISK) -> list[PlannedSegment]:
    """A log's segments as its readers see them now.

    A partition that lost all its log files has none.
    """
    views = log.segments.views
    found = []
    for view in views:
        identity = files.identity_of(Path(log.path) / filenames.log_name(view.base_offset))
        if identity is None and len(views) == 1 and view.size == 0:
            continue  # an empty directory
        inode = None if identity is None else identity[0]
        last = view is views[-1]
        found.append(PlannedSegment(view.base_offset, view.size, view.next_offset, last, inode))
    return found


def was_replaced(planned: Sequence[PlannedSegment], directory: str, files: Files = DISK) -> bool:
    """Whether a walk by this plan may have read a segment's records twice, or not at all.

    That is so where a segment's name belongs to another file (compaction merged the next ones
    into it), or where a segment is gone that follows an existing one. Retention does not count:
    it removes the first ones.
    """
    exists = False
    for segment in planned:
        path = Path(directory) / filenames.log_name(segment.base_offset)
        found = files.identity_of(path)
        if found is None:
            if exists:
                return True
            continue
        exists = True
        if not _is_planned(segment, *found):
            return True
    return False


def _is_planned(segment: PlannedSegment, inode: int, size: int) -> bool:
    if segment.inode is not None and inode != segment.inode:
        return False
    return size >= segment.size if segment.last else size == segment.size


@lazy_dataclass()
class Spread:
    """A distribution of sizes, exact up to the power of two.

    ``buckets[n]`` counts sizes of n bits: 0, 1, 2 to 3, 4 to 7, and so on.
    """

    total: int = 0
    least: int | None = None
    most: int | None = None
    buckets: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(self.buckets)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def at_most(self, share: float) -> int | None:
        """A size that this share of all sizes does not exceed: the upper end of a bucket.

        It is less than twice the exact percentile.
        """
        wanted, seen = math.ceil(share * self.count), 0
        for bits, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                assert self.most is not None
                return min((1 << bits) - 1, self.most)
        return None

    def add(self, other: "Spread") -> None:
        self.total += other.total
        self.least = _least(self.least, other.least)
        self.most = _most(self.most, other.most)
        longer = max(len(self.buckets), len(other.buckets))
        self.buckets += [0] * (longer - len(self.buckets))
        for bits, count in enumerate(other.buckets):
            self.buckets[bits] += count


@lazy_dataclass()
class BatchKind:
    """Batches of one codec or format, control batches too; sizes in bytes."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    bytes_uncompressed: int = 0

    @property
    def ratio(self) -> float | None:
        """Uncompressed bytes for each stored byte."""
        return self.bytes_uncompressed / self.bytes if self.bytes else None

    def add(self, other: "BatchKind") -> None:
        self.batches += other.batches
        self.records += other.records
        self.bytes += other.bytes
        self.bytes_uncompressed += other.bytes_uncompressed


@lazy_dataclass()
class Rates:
    """Records, and bytes of their keys and values, by window of their timestamps.

    A window is an hour. Where that makes more than ``MOST_WINDOWS``, it is a day, 32 days and so
    on: the narrowest that fits, for ranges as for the log.
    """

    width: int = HOUR_MS
    windows: dict[int, tuple[int, int]] = field(default_factory=dict)  # number: records, bytes

    def put(self, window: int, records: int, size: int) -> None:
        before = self.windows.get(window, (0, 0))
        self.windows[window] = (before[0] + records, before[1] + size)

    def add(self, other: "Rates") -> None:
        width = max(self.width, other.width)
        self.widen(width)
        for window, (records, size) in other.windows.items():
            self.put(window * other.width // width, records, size)
        self.fit()

    def fit(self) -> None:
        while len(self.windows) > MOST_WINDOWS:
            self.widen(WIDTHS[WIDTHS.index(self.width) + 1])

    def widen(self, width: int) -> None:
        if width != self.width:
            found, self.windows = self.windows, {}
            for window, (records, size) in found.items():
                self.put(window * self.width // width, records, size)
            self.width = width

    def rows(self, width: int | None = None) -> list[tuple[int, int, int]]:
        """(start in ms, records, bytes) of each window, in order; of wider windows on request."""
        shown = Rates(self.width, dict(self.windows))
        shown.widen(max(width or 0, self.width))
        return [(w * shown.width, *found) for w, found in sorted(shown.windows.items())]


@lazy_dataclass()
class Stats:
    """Statistics of a log or of a range of it. Records are those of clients if not stated."""

    segments: int = 0
    segments_gone: int = 0  # retention or compaction removed them before the walk
    segments_changed: int = 0  # the name belongs to another file than when it was planned
    bytes: int = 0  # of log files
    index_bytes: int = 0  # used bytes of offset, time and transaction indexes
    batches: int = 0
    empty_batches: int = 0  # compaction keeps them for the producer state
    control_batches: int = 0
    transactional_batches: int = 0  # of clients
    idempotent_batches: int = 0  # of clients, transactional ones too
    log_append_time_batches: int = 0
    records: int = 0
    control_records: int = 0
    commit_markers: int = 0
    abort_markers: int = 0
    transactional_records: int = 0
    null_keys: int = 0
    null_values: int = 0
    tombstones: int = 0  # with a key, and null for a value
    records_with_headers: int = 0
    headers: int = 0
    header_bytes: int = 0  # of names and values
    without_timestamp: int = 0
    missing_offsets: int = 0  # between the first and the last record, control records too
    gaps: int = 0  # ranges of missing offsets
    damage_count: int = 0
    damaged_bytes: int = 0  # of what was skipped
    first_offset: int | None = None  # of the first batch
    end_offset: int | None = None  # after the last batch
    first_record: int | None = None  # offsets, of control records too
    last_record: int | None = None
    min_timestamp: int | None = None  # ms
    max_timestamp: int | None = None
    formats: dict[str, BatchKind] = field(default_factory=dict)  # by magic
    codecs: dict[str, BatchKind] = field(default_factory=dict)
    batch_sizes: Spread = field(default_factory=Spread)  # bytes as stored
    batch_records: Spread = field(default_factory=Spread)
    record_sizes: Spread = field(default_factory=Spread)  # bytes of key, value and headers
    key_sizes: Spread = field(default_factory=Spread)  # of keys that are not null
    value_sizes: Spread = field(default_factory=Spread)
    rates: Rates = field(default_factory=Rates)
    key_registers: Registers = b""  # HyperLogLog
    damages: list[SegmentDamage] = field(default_factory=list)  # at most MOST_DAMAGES of them

    @property
    def ok(self) -> bool:
        return self.damage_count == 0

    @property
    def distinct_keys(self) -> int:
        """An estimate of the number of keys that are not null; see STANDARD_ERROR."""
        return round(estimate(self.key_registers))

    def add(self, other: "Stats") -> None:
        """Add the next range of the same log; see :meth:`overlaps`."""
        if self.last_record is not None and other.first_record is not None:
            between = other.first_record - self.last_record - 1
            self.missing_offsets += max(between, 0)
            self.gaps += between > 0
        self.add_log(other)
        self.first_offset = _least(self.first_offset, other.first_offset)
        self.end_offset = _most(self.end_offset, other.end_offset)
        self.first_record = _least(self.first_record, other.first_record)
        self.last_record = _most(self.last_record, other.last_record)

    def overlaps(self, other: "Stats") -> bool:
        """Whether another range of the log begins before this one ends: they do not add up."""
        if self.end_offset is None or other.first_offset is None:
            return False
        return other.first_offset < self.end_offset

    def add_log(self, other: "Stats") -> None:
        """Add another log, whose offsets are separate."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.min_timestamp = _least(self.min_timestamp, other.min_timestamp)
        self.max_timestamp = _most(self.max_timestamp, other.max_timestamp)
        for mine, theirs in ((self.formats, other.formats), (self.codecs, other.codecs)):
            for name, kind in theirs.items():
                mine.setdefault(name, BatchKind()).add(kind)
        for name in SPREADS:
            getattr(self, name).add(getattr(other, name))
        self.rates.add(other.rates)
        self.key_registers = _larger(self.key_registers, other.key_registers)
        self.damages.extend(other.damages[: MOST_DAMAGES - len(self.damages)])


SPREADS = ("batch_sizes", "batch_records", "record_sizes", "key_sizes", "value_sizes")
_NAMES = tuple(Stats.__dataclass_fields__)
_COUNTS = _NAMES[: _NAMES.index("first_offset")]
_SURVEYED = tuple(name for name in _COUNTS if hasattr(Survey, name))


def _least(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)


def _most(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else max(a, b)


def _larger(a: bytes, b: bytes) -> bytes:
    if a and b and len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} registers do not add up")
    return bytes(map(max, a, b)) if a and b else a or b


def estimate(registers: bytes) -> float:
    """How many distinct keys these HyperLogLog registers stand for.

    Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017): the
    same formula for few and for many keys, without tables.
    """
    many = len(registers)
    if not any(registers):
        return 0.0
    longest = 64 - (many.bit_length() - 1) + 1
    counts = [registers.count(rank) for rank in range(longest + 1)]
    found = many * _tau(1 - counts[longest] / many)
    for rank in range(longest - 1, 0, -1):
        found = (found + counts[rank]) / 2
    found += many * _sigma(counts[0] / many)
    return many * many / (2 * math.log(2)) / found if found else 2.0**64


def _sigma(x: float) -> float:
    factor, total = 1.0, x
    while True:
        x *= x
        before, total = total, total + x * factor
        factor *= 2
        if total == before:
            return total


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    factor, total = 1.0, 1 - x
    while True:
        x = math.sqrt(x)
        factor /= 2
        before, total = total, total - (1 - x) ** 2 * factor
        if total == before:
            return total / 3


def survey_segments(
    files: Files,
    directory: str,
    segments: Iterable[PlannedSegment],
) -> Stats:
    """Walk adjacent segments up to the sizes that were planned.

    Checks every checksum and reads every record. Skips, counts and reports corrupt batches, and
    continues at the next batch, else at the next position where an index or the header checksums
    say that a batch begins. Counts segments that are gone.

    Raises StorageError where a disk fails. Memory: WINDOW, or one batch where it is larger, and 52
    bytes for each of its records. Changes nothing.
    """
    return _Walk(files, directory).run(segments)


class _Walk:
    def __init__(self, files: Files, directory: str) -> None:
        self.files = files
        self.directory = Path(directory)
        self.stats = Stats()
        self.tally = Tally(bytes(16), HOUR_MS)  # without keys, so no hash flooding
        self.survey = Survey(self.tally, decompress)
        self.buffer = memoryview(bytearray(WINDOW))
        self.boundaries: list[int] | None = None  # of the segment, once they were needed

    def run(self, segments: Iterable[PlannedSegment]) -> Stats:
        for segment in segments:
            path = self.directory / filenames.log_name(segment.base_offset)
            try:
                fd = self.files.open(path)
            except StorageError:
                if self.files.exists(path):
                    raise
                self.stats.segments_gone += 1
                continue
            try:
                self._segment(path, fd, segment)
            finally:
                self.survey.detach()
                self.files.close(fd)
        self._take_rates()
        self._take_counts()
        return self.stats

    def _segment(self, path: Path, fd: int, segment: PlannedSegment) -> None:
        inode, _, size = self.files.stamp(fd)
        limit = segment.next_offset
        if not _is_planned(segment, inode, size):  # compaction replaced the file
            self.stats.segments_changed += 1
            limit = _NO_LIMIT
        elif segment.last:
            size = segment.size
        self.stats.segments += 1
        self.stats.bytes += size
        self.stats.index_bytes += self._index_bytes(segment)
        self.survey.begin_segment(str(path), segment.base_offset, limit)
        self.boundaries = None
        position = 0
        while position < size:
            got = min(len(self.buffer), size - position)
            got = self.files.preadv_into(fd, self.buffer[:got], position)
            if got == 0:
                return  # truncated meanwhile
            self.survey.attach(self.buffer[:got], position)
            ahead = self._through(path, position, got, size)
            self._pass(ahead - position)
            position = ahead

    def _index_bytes(self, segment: PlannedSegment) -> int:
        """Bytes of a segment's indexes; of the last segment only the entries.

        While a segment is written, its offset and time index are files of segment.index.bytes
        each, with zeros after the last entry.
        """
        total = 0
        for name, entry_size in _INDEXES:
            path = self.directory / name(segment.base_offset)
            if not self.files.exists(path):
                continue
            if segment.last and entry_size:
                total += used_size(self.files, path, entry_size)
            else:
                total += self.files.size_of(path)
        return total

    def _through(self, path: Path, position: int, got: int, size: int) -> int:
        """Walk the buffer; returns where to continue."""
        while True:
            try:
                self.survey.run()
            except DAMAGE as error:
                at = position + self.survey.consumed
                ahead = self._behind(path, at, at + self.survey.declared_size, size)
                self._note(error, ahead - at)
                if not self.survey.resume_at(ahead):
                    return ahead
                continue
            if self.survey.consumed:
                return position + self.survey.consumed
            wanted = self.survey.wanted
            if got < wanted <= size - position and got == len(self.buffer):
                self.buffer = memoryview(bytearray(wanted))
                return position
            ahead = self._behind(path, position, position, size)
            reason = "an incomplete batch, or bytes that are no batch"
            error_here = CorruptRecordError(reason, path=str(path), position=position)
            self._note(error_here, ahead - position)
            return ahead

    def _behind(self, path: Path, position: int, end: int, size: int) -> int:
        """Where to continue behind corruption: at the end that its header claims, or before.

        The claim is not trusted: a boundary before it that an index or the header checksums name
        is used first.
        """
        if self.boundaries is None:
            base = int(path.stem)
            self.boundaries = known_boundaries(self.files, path, base)
        following = bisect_right(self.boundaries, position)
        ahead = (*self.boundaries[following : following + 1], size)[0]
        return min(ahead, end if end > position else size, size)

    def _note(self, error: KStoreError, size: int) -> None:
        self.stats.damage_count += 1
        self.stats.damaged_bytes += size
        if len(self.stats.damages) < MOST_DAMAGES:
            self.stats.damages.append(damage_of(error, str(self.directory)))

    def _pass(self, size: int) -> None:
        if len(self.tally) > MOST_WINDOWS:
            self._take_rates()

    def _take_rates(self) -> None:
        """Move the tally's counts into the statistics."""
        stats, layout = self.stats, self.tally.layout
        wanted = ("window", "count", "key_bytes", "value_bytes", "min_timestamp", "max_timestamp")
        with memoryview(self.tally) as groups:
            for start in range(0, len(groups), self.tally.stride):
                window, count, keys, values, low, high = (
                    _TALLIED.unpack_from(groups, start + layout[name][1])[0] for name in wanted
                )
                if window < 0:
                    stats.without_timestamp += count
                    continue
                stats.min_timestamp = _least(stats.min_timestamp, low)
                stats.max_timestamp = _most(stats.max_timestamp, high)
                stats.rates.put(window * HOUR_MS // stats.rates.width, count, keys + values)
        stats.rates.fit()
        self.tally.clear()

    def _take_counts(self) -> None:
        stats, survey = self.stats, self.survey
        for name in _SURVEYED:
            setattr(stats, name, getattr(survey, name))
        stats.missing_offsets = survey.missing
        if survey.first_offset >= 0:
            stats.first_offset, stats.end_offset = survey.first_offset, survey.end_offset
        if survey.first_record >= 0:
            stats.first_record, stats.last_record = survey.first_record, survey.last_record
        for name, (total, least, most, counts) in survey.spreads.items():
            used = max((bits for bits, count in enumerate(counts) if count), default=-1) + 1
            if used:
                setattr(stats, name, Spread(total, least, most, counts[:used]))
        stats.batches = stats.batch_sizes.count
        stats.formats = _kinds(("0", "1", "2"), survey.by_format)
        stats.codecs = _kinds(NAMES, survey.by_codec)
        if stats.key_sizes.count:
            stats.key_registers = survey.key_registers


def _kinds(
    names: Sequence[str], found: Sequence[tuple[int, int, int, int]]
) -> dict[str, BatchKind]:
    return {name: BatchKind(*kind) for name, kind in zip(names, found, strict=True) if kind[0]}
